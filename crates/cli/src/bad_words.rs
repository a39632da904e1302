//! Words that no option takes: every command line is a verb or an error that says so with the right
//! exit code, and amounts mean what they say.

use std::time::Duration;

use clap::Parser as _;
use proptest::prelude::*;

use crate::args::Cli;
use crate::render::escape;
use crate::size;
use crate::spec::environment;

/// Options with a value that is more than a plain text.
const VALUED: &[(&str, &[&str])] = &[
    ("--memory", &["create"]),
    ("--disk", &["create"]),
    ("--cpus", &["create"]),
    ("--pids", &["create"]),
    ("--stop-grace", &["create"]),
    ("--label", &["create"]),
    ("--mount", &["create"]),
    ("--privileges", &["create"]),
    ("--restart", &["create"]),
    ("--label", &["list"]),
    ("--output", &["list"]),
    ("--for", &["wait", "x"]),
    ("--timeout", &["wait", "x"]),
    ("--tail", &["logs", "x"]),
    ("--since", &["logs", "x"]),
    ("--log-format", &["gateway", "run"]),
];

/// Nearly right, or far from it.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9.]{0,25}[a-zA-Z]{0,4}",
        "[-+]?[0-9]{1,30}(\\.[0-9]{0,30})?[kmgtdhs]?[ib]{0,2}",
        "[a-z0-9=:,/ -]{0,40}",
        "(/[a-z.]{0,5}){0,4}:(/[a-z.]{0,5}){0,4}(:r[ow]?)?",
        "condition(=[A-Za-z=]{0,20}){0,3}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{0,12}Z?",
        Just("9".repeat(5000)),
        Just("=".repeat(5000)),
    ]
}

fn read(words: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("sandkeep").chain(words.iter().copied()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_value_of_any_option_is_taken_or_refused_by_name(
        value in word(), at in any::<prop::sample::Index>()
    ) {
        let (option, verb) = VALUED[at.index(VALUED.len())];
        let assigned = format!("{option}={value}");
        let mut words = verb.to_vec();
        words.push(&assigned);
        if let Err(refused) = read(&words) {
            prop_assert_eq!(refused.exit_code(), 2);
            prop_assert!(refused.to_string().contains(option), "{refused}");
        }
    }

    #[test]
    fn any_words_are_a_verb_or_an_error(words in prop::collection::vec(prop_oneof![
        4 => word(),
        4 => prop::sample::select(vec![
            "run", "create", "list", "get", "start", "stop", "delete", "exec", "logs", "wait",
            "workspace", "gateway", "--", "-it", "-e", "--name", "x", "--rm", "--all", "-o", "json",
        ]).prop_map(str::to_owned),
    ], 0..8)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let Err(refused) = read(&words) {
            prop_assert!(matches!(refused.exit_code(), 0 | 2), "{refused}");
        }
    }

    #[test]
    fn amounts_mean_what_they_say(number in any::<u32>(), fraction in 0..1000u64) {
        let number = u64::from(number);
        for (unit, factor) in [("", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1_u64 << 30)] {
            prop_assert_eq!(size::bytes(&format!("{number}{unit}")), Ok(number * factor));
            let parts = size::bytes(&format!("{number}.{fraction:03}{unit}"));
            prop_assert_eq!(parts, Ok(number * factor + fraction * factor / 1000));
        }
        let cores = number + fraction;
        prop_assert_eq!(size::cpu_millis(&format!("{number}.{fraction:03}")),
            Ok(number * 1000 + fraction));
        prop_assert_eq!(size::cpu_millis(&format!("{cores}m")), Ok(cores));
        let span = format!("{number}h{fraction}m{fraction}ms");
        let millis = number * 3_600_000 + fraction * 60_000 + fraction;
        prop_assert_eq!(size::duration(&span), Ok(Duration::from_millis(millis)));
    }

    #[test]
    fn amounts_that_are_too_large_are_refused_and_never_wrapped(
        digits in "[1-9][0-9]{19,40}", unit in "[kmgt]?"
    ) {
        // 20 digits with a unit, or more: above 2^64 unless the number alone still fits.
        let exact: Option<u128> = digits.parse().ok();
        let factor: u128 = match unit.as_str() {
            "k" => 1 << 10, "m" => 1 << 20, "g" => 1 << 30, "t" => 1 << 40, _ => 1,
        };
        let expected = exact
            .and_then(|exact| exact.checked_mul(factor))
            .and_then(|bytes| u64::try_from(bytes).ok());
        prop_assert_eq!(size::bytes(&format!("{digits}{unit}")).ok(), expected);
    }

    #[test]
    fn any_environment_is_taken_or_refused(item in word()) {
        match environment(std::slice::from_ref(&item), &[]) {
            Err(refused) => prop_assert_eq!(refused.exit, crate::error::exit::USAGE),
            Ok(env) => prop_assert!(env.keys().all(|key| !key.is_empty() && !key.contains('='))),
        }
    }

    #[test]
    fn nothing_that_is_shown_drives_a_terminal(text in any::<String>()) {
        let shown = escape::line(&text);
        prop_assert!(!shown.contains(char::is_control), "{shown:?}");
    }
}
