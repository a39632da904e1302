//! The helper: a process of one thread that builds a sandbox's root file system in a mount
//! namespace of its own, has libcontainer make PID 1 in it, and ends.
//!
//! libcontainer forks without `exec` and changes the working directory and the dumpable flag of
//! its caller, so it never runs in the gateway. One question as JSON on stdin, one answer as JSON
//! on stdout. PID 1 inherits neither.

mod ask;
mod assemble;
mod clear;
mod idmap;
mod launch;
mod mounts;
mod oci;
mod own;
mod remount;
mod root;

use std::io::{self, Read, Write};

pub(crate) use ask::{Answer, Ask, Clear, Enforced, Failure, Launch, Remount};

/// First argument by which a program knows that it is to call [`helper_main`].
pub const HELPER_ARG: &str = "__local-helper";

/// Path of the control group in which the helper of the sandbox with group `group` works.
pub(crate) fn helper_group(group: &str) -> String {
    format!("{group}.helper")
}

/// Answers one question and returns the exit code. To be called while the process has one thread,
/// before any runtime is started. `args` (what follows [`HELPER_ARG`]) is not used yet.
pub fn helper_main(args: &[String]) -> i32 {
    if args.iter().any(|arg| arg != HELPER_ARG) {
        return answer(&Answer::Failed(Failure::internal("helper", "unknown arguments")));
    }
    let mut text = String::new();
    let asked = io::stdin().read_to_string(&mut text);
    let ask: Result<Ask, String> = match asked {
        Ok(_) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    answer(&match ask {
        Ok(Ask::Launch(launch)) => launch::launch(&launch),
        Ok(Ask::Remount(remount)) => remount::remount(&remount),
        Ok(Ask::Clear(clear)) => clear::clear(&clear),
        Err(message) => Answer::Failed(Failure::internal("helper", message)),
    })
}

fn answer(answer: &Answer) -> i32 {
    let mut out = io::stdout().lock();
    let sent = serde_json::to_vec(answer)
        .map_err(io::Error::from)
        .and_then(|bytes| out.write_all(&bytes))
        .and_then(|()| out.flush());
    i32::from(sent.is_err())
}
