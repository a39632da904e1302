//! The main command: argv, environment, user, working directory.

use super::{quoted, refuse};
use crate::refusal::Refusal;
use crate::verbs::wishes::Wishes;

/// Linux takes no single argument or variable that is longer (`MAX_ARG_STRLEN`, with its NUL), and
/// a record has to stay small: so it is the bound for all of them together.
pub(crate) const COMMAND_MAX_BYTES: usize = 128 * 1024;

/// Arguments and variables cost a pointer each besides their bytes.
pub(crate) const COMMAND_MAX_PARTS: usize = 4096;

/// `PATH_MAX` of Linux, with its NUL.
pub(crate) const PATH_MAX_BYTES: usize = 4095;

pub(super) fn check(wishes: &Wishes) -> Result<(), Refusal> {
    argv(&wishes.command)?;
    let variables = wishes.env.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in variables {
        variable(key, value)?;
    }
    let env_bytes = wishes.env.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
    size(&wishes.command, env_bytes, wishes.env.len())?;
    if let Some(user) = &wishes.user {
        self::user(user)?;
    }
    if let Some(workdir) = &wishes.workdir {
        self::workdir(workdir)?;
    }
    Ok(())
}

/// What is run by an exec; `env` as `K=V`.
pub(crate) fn exec(
    argv: &[String],
    env: &[String],
    user: &str,
    workdir: &str,
) -> Result<(), Refusal> {
    if argv.is_empty() {
        return Err(refuse("InvalidCommand", "no command is given", "give a command after --"));
    }
    self::argv(argv)?;
    for pair in env {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            refuse(
                "InvalidEnv",
                format!("{} is not of the form KEY=VALUE", quoted(pair)),
                "write it as KEY=VALUE",
            )
        })?;
        variable(key, value)?;
    }
    size(argv, env.iter().map(|pair| pair.len() + 1).sum(), env.len())?;
    if !user.is_empty() {
        self::user(user)?;
    }
    if !workdir.is_empty() {
        self::workdir(workdir)?;
    }
    Ok(())
}

fn argv(argv: &[String]) -> Result<(), Refusal> {
    if argv.first().is_some_and(String::is_empty) {
        return Err(refuse(
            "InvalidCommand",
            "the name of the command is empty",
            "give the program to run as the first word after --",
        ));
    }
    match argv.iter().find(|argument| argument.contains('\0')) {
        None => Ok(()),
        Some(argument) => Err(refuse(
            "InvalidCommand",
            format!("the argument {} holds a NUL byte", quoted(argument)),
            "hand binary data over through stdin or a file in /workspace",
        )),
    }
}

fn variable(key: &str, value: &str) -> Result<(), Refusal> {
    if key.is_empty() || key.contains(['=', '\0']) {
        return Err(refuse(
            "InvalidEnv",
            format!("{} cannot be the name of a variable", quoted(key)),
            "a name is not empty and holds neither = nor a NUL byte",
        ));
    }
    if value.contains('\0') {
        return Err(refuse(
            "InvalidEnv",
            format!("the value of {} holds a NUL byte", quoted(key)),
            "hand binary data over through stdin or a file in /workspace",
        ));
    }
    Ok(())
}

fn size(argv: &[String], env_bytes: usize, variables: usize) -> Result<(), Refusal> {
    let bytes = argv.iter().map(|argument| argument.len() + 1).sum::<usize>() + env_bytes;
    let parts = argv.len() + variables;
    if bytes <= COMMAND_MAX_BYTES && parts <= COMMAND_MAX_PARTS {
        return Ok(());
    }
    Err(refuse(
        "CommandTooLong",
        format!(
            "command and environment have {bytes} bytes in {parts} parts; at most \
             {COMMAND_MAX_BYTES} bytes in {COMMAND_MAX_PARTS} parts are allowed"
        ),
        "put long text into a file in /workspace",
    ))
}

fn user(user: &str) -> Result<(), Refusal> {
    let (name, group) = match user.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (user, None),
    };
    if account(name) && group.is_none_or(account) {
        return Ok(());
    }
    Err(refuse(
        "InvalidUser",
        format!("{} is not a user", quoted(user)),
        "write NAME or UID, with :GROUP or :GID where needed",
    ))
}

/// A name as `useradd` makes them, or a number below the one that means "no user".
fn account(text: &str) -> bool {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<u32>().is_ok_and(|id| id != u32::MAX);
    }
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let rest = |b: u8| first(b) || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'$');
    text.len() <= 32 && text.bytes().next().is_some_and(first) && text.bytes().all(rest)
}

fn workdir(workdir: &str) -> Result<(), Refusal> {
    let sound =
        workdir.starts_with('/') && !workdir.contains('\0') && workdir.len() <= PATH_MAX_BYTES;
    if sound {
        return Ok(());
    }
    Err(refuse(
        "InvalidWorkdir",
        format!("{} is not an absolute path", quoted(workdir)),
        "give an absolute path inside the sandbox, such as /workspace",
    ))
}
