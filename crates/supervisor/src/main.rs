//! The program: reads its command line, puts the guards up, runs the loop.

use std::process::ExitCode;

use sandkeep_supervisor::options::Task;
use sandkeep_supervisor::start;

fn main() -> ExitCode {
    let outcome = match Task::read(std::env::args().skip(1)) {
        Ok(Task::Init(options)) => start::run(&options).map_err(|error| (1, error.to_string())),
        Ok(Task::Version) => {
            say(&format!("sandkeep-supervisor {}", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
        Err(sentence) => Err((2, sentence)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, sentence)) => {
            complain(&sentence);
            ExitCode::from(code)
        }
    }
}

#[allow(clippy::print_stdout, reason = "the version is what was asked for")]
fn say(sentence: &str) {
    println!("{sentence}");
}

#[allow(clippy::print_stderr, reason = "before a session there is nobody else to tell")]
fn complain(sentence: &str) {
    eprintln!("sandkeep-supervisor: {sentence}");
}
