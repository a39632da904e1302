//! `cargo xtask NAME`: every command of the project by name. CI calls the same names.
//!
//! Nothing has to be installed for it; what a suite needs, it says or gets by itself.

mod build;
mod changelog;
mod check;
mod environment;
mod guest;
mod process;
mod suites;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask NAME

  check               format, lints, tidy; with CI=true also licences and sources
  test                everything: unit, model, simulation, conformance, end to end
  sim [SEED]          the simulation: one seed again, or the usual number of seeds
  sim --seeds N       that many seeds, optimised
  conformance local   the local driver under the suite of all drivers (root, Linux)
  e2e [FILTER]        end to end, against the real binary (root, Linux)
  guest test [FILTER] driver and end to end on a Debian 12 guest (root, Debian 12)
  guest boot          the guest alone; then guest run COMMAND | reset WAY | stop
  bench               measures, and writes docs/benchmarks.md
  golden              rewrites the golden stories; read the difference before you commit it
  tidy                import direction, module docs, lengths, links
  deny                licences, sources, advisories (installs cargo-deny below target/)
  mutants             cargo-mutants on the core (installs it below target/)
  changelog           prints what the fragments in changelog.d say
  dist                the published binary, under target/dist";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    std::env::set_current_dir(root()).context("enter the repository")?;
    match words {
        ["check"] => check::all(),
        ["test"] => suites::all(),
        ["sim", rest @ ..] => suites::simulation(rest),
        ["conformance", "local"] => suites::local_driver(),
        ["conformance", other] => bail!("there is no driver {other:?} here; there is: local"),
        ["e2e", filter @ ..] => suites::end_to_end(filter),
        ["guest", "test", filter @ ..] => suites::in_guest(filter),
        ["guest", rest @ ..] => guest::command(rest),
        ["bench", rest @ ..] => suites::bench(rest),
        ["golden"] => suites::golden(),
        ["tidy"] => tidy::report(root()),
        ["deny"] => tools::deny(true),
        ["mutants", rest @ ..] => tools::mutants(rest),
        ["changelog"] => changelog::print(root()),
        ["dist"] => suites::dist(),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        other => bail!("unknown: {}\n\n{HELP}", other.join(" ")),
    }
}

/// The repository's top directory.
fn root() -> &'static Path {
    static ROOT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    ROOT.get_or_init(|| {
        // Set by cargo at run time too, so a built xtask may be moved with its repository.
        let own = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
    })
}
