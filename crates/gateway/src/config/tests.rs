//! Where settings come from, and what is refused.

use super::*;

fn load(file: &str, flags: Flags, env: &[(&str, &str)]) -> Result<Config, Refusal> {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("config.toml");
    std::fs::write(&path, file).unwrap();
    let look_up =
        |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Config::load(&path, &flags, look_up)
}

#[test]
fn without_anything_the_defaults_hold() {
    let config =
        Config::load(Path::new("/nowhere/config.toml"), &Flags::default(), |_| None).unwrap();
    assert_eq!(config.drivers.value, ["local"]);
    assert_eq!(config.log_format.value, LogFormat::Text);
    assert_eq!(config.metrics_listen.value, None);
    assert!(config.shown().iter().all(|line| line.origin == Origin::Default));
    let keys: Vec<_> = config.shown().iter().map(|line| line.key).collect();
    assert_eq!(keys, KEYS.map(|key| key.name));
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let file = "driver = [\"docker\", \"local\"]\nlog_format = \"json\"\nlog = \"debug\"";
    let env = [("SANDKEEP_DRIVER", "podman, local"), ("SANDKEEP_METRICS_LISTEN", "[::1]:1")];
    let config = load(file, Flags::default(), &env).unwrap();
    assert_eq!(config.drivers.value, ["podman", "local"]);
    assert_eq!(config.drivers.origin, Origin::Environment("SANDKEEP_DRIVER"));
    assert_eq!(config.log_format.value, LogFormat::Json);
    assert!(matches!(config.log_format.origin, Origin::File(_)));
    assert_eq!(config.log.value, "debug");
    assert_eq!(config.metrics_listen.value, Some("[::1]:1".parse().unwrap()));
    let flags = Flags { drivers: vec!["local".to_owned()], ..Flags::default() };
    let config = load(file, flags, &env).unwrap();
    assert_eq!(config.drivers.value, ["local"]);
    assert_eq!(config.drivers.origin, Origin::Flag("--driver"));
}

#[test]
fn an_empty_variable_is_none() {
    let config = load("", Flags::default(), &[("SANDKEEP_DRIVER", "")]).unwrap();
    assert_eq!(config.drivers.origin, Origin::Default);
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_right_one() {
    let refused = load("drivers = \"local\"", Flags::default(), &[]).unwrap_err();
    assert_eq!(refused.kind.exit_code(), 2);
    assert!(refused.why.contains("\"drivers\""), "{}", refused.why);
    assert_eq!(refused.next, "write driver");
    let refused = load("[rootfs]\nx = 1", Flags::default(), &[]).unwrap_err();
    assert!(refused.next.contains("metrics_listen"), "{}", refused.next);
}

#[test]
fn wrong_values_are_refused_with_their_origin() {
    for (file, part) in [
        ("driver = []", "0 drivers"),
        ("driver = [\"local\", \"local\"]", "twice"),
        ("driver = \"Local!\"", "\"Local!\""),
        ("driver = 1", "of type integer"),
        ("driver = [1]", "of type array"),
        ("log_format = \"xml\"", "\"xml\""),
        ("log = [\"a\", \"b\"]", "2 values"),
        ("metrics_listen = \"localhost\"", "\"localhost\""),
        ("metrics_listen = \"127.0.0.1:99999\"", "99999"),
        ("driver = ", "line 1"),
        ("\n\ndriver = \"a\"\ndriver = \"b\"", "line 4"),
        ("\u{0}", "line 1"),
    ] {
        let refused = load(file, Flags::default(), &[]).unwrap_err();
        assert!(refused.why.contains(part), "{file:?}: {}", refused.why);
        assert!(refused.what.contains("config.toml"), "{file:?}: {}", refused.what);
        assert!(!refused.next.is_empty());
    }
    let flags = Flags { log_format: Some("yaml".to_owned()), ..Flags::default() };
    let refused = load("", flags, &[]).unwrap_err();
    assert_eq!(refused.what, "--log-format cannot be used");
}

#[test]
fn what_is_no_text_file_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let none = |_: &str| None;
    let directory = Config::load(scratch.path(), &Flags::default(), none).unwrap_err();
    assert!(directory.why.contains("not a file"), "{}", directory.why);
    let path = scratch.path().join("config.toml");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(Config::load(&path, &Flags::default(), none).is_err());
    std::fs::write(&path, vec![b' '; 2 << 20]).unwrap();
    assert!(Config::load(&path, &Flags::default(), none).is_err());
}
