//! Refuses wishes that can never come true, before anything is stored: each with what, why and
//! what to do instead.
//!
//! Looks at the host only to see through symbolic links of mounts. A driver may refuse more, later
//! (an image that is not there); that shows in the sandbox's conditions.

mod command;
mod label;
mod limit;
mod path;

use std::path::Path;

use sandkeep_core::{Name, RestartPolicy};
use sandkeep_driver::Capabilities;

use crate::refusal::{Refusal, RefusalKind};
use crate::verbs::wishes::Wishes;

pub(crate) use command::exec as exec_command;

/// Longest grace: a stop must come to an end while somebody still remembers it.
pub const GRACE_MAX_MS: u64 = 60 * 60 * 1000;

/// Checks everything but the sandbox's own name. `home` is the gateway's own, never to be shown
/// inside a sandbox.
pub fn check(wishes: &Wishes, capabilities: &Capabilities, home: &Path) -> Result<(), Refusal> {
    command::check(wishes)?;
    label::check(&wishes.labels)?;
    limit::check(&wishes.limits, capabilities, wishes.unenforced)?;
    path::check(wishes, capabilities, home)?;
    grace(wishes.stop_grace_ms)?;
    repeated_privileges(wishes)?;
    removal(wishes)
}

/// The name of a sandbox or workspace. `what`: `the sandbox`, `the workspace`.
pub fn name(what: &str, text: &str) -> Result<Name, Refusal> {
    text.parse().map_err(|error| {
        Refusal::new(
            RefusalKind::Invalid,
            "InvalidName",
            format!("{what} cannot be called {}", quoted(text)),
            format!("{error}"),
            "use 1 to 63 of a-z, 0-9 and -, with no - at either end",
        )
    })
}

/// What a user wrote, quoted, control characters escaped, cut at a length that fits into a line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// A refusal of the whole request.
fn refuse(reason: &'static str, why: impl Into<String>, next: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Invalid, reason, "the sandbox was not made", why, next)
}

fn grace(grace_ms: u64) -> Result<(), Refusal> {
    if grace_ms <= GRACE_MAX_MS {
        return Ok(());
    }
    Err(refuse(
        "InvalidGrace",
        format!("a grace of {grace_ms} ms on stop is longer than an hour"),
        "give at most 3600 s",
    ))
}

fn repeated_privileges(wishes: &Wishes) -> Result<(), Refusal> {
    for (i, privilege) in wishes.privileges.iter().enumerate() {
        if wishes.privileges[..i].contains(privilege) {
            return Err(refuse(
                "InvalidPrivileges",
                "a privilege is given twice",
                "give each privilege once",
            ));
        }
    }
    Ok(())
}

/// `--rm` waits for the result of the command, so there has to be one some day.
fn removal(wishes: &Wishes) -> Result<(), Refusal> {
    if !wishes.remove_when_done {
        return Ok(());
    }
    if wishes.command.is_empty() {
        return Err(refuse(
            "NothingToWaitFor",
            "--rm removes a sandbox when its command has ended, and no command is given",
            "give a command after --, or leave out --rm",
        ));
    }
    if wishes.restart == RestartPolicy::Always {
        return Err(refuse(
            "NothingToWaitFor",
            "--rm removes a sandbox when its command has ended, and with --restart always it is \
             run again for ever",
            "leave out --rm, or use --restart never or on-failure",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
