//! `sandkeep exec`: a command in a sandbox, with its streams and its exit code.

use std::collections::HashMap;
use std::path::PathBuf;

use sandkeep_proto::v1::{ExecOpen, Exit};

use super::Context;
use crate::attach::{self, Attachment, Ending, Target};
use crate::client::Gateway;
use crate::error::{Failure, exit};
use crate::{render, spec, terminal};

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id
    name: String,
    /// Forward stdin
    #[arg(long, short = 'i', visible_alias = "stdin")]
    interactive: bool,
    /// Give the command a terminal. With -i every key goes to the command: Ctrl-C never leaves it
    #[arg(long, short = 't')]
    tty: bool,
    /// Do not wait for the command; its output is kept: see logs --source
    #[arg(long, short = 'd', visible_alias = "detached", conflicts_with_all = ["interactive", "tty"])]
    detach: bool,
    /// Environment: K=V, or K to pass on your own; may be repeated
    #[arg(long, short = 'e', value_name = "K[=V]")]
    env: Vec<String>,
    /// File with a K=V or a K on each line; may be repeated
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
    /// Working directory inside [default: the sandbox's]
    #[arg(long, short = 'w')]
    workdir: Option<String>,
    /// User inside [default: the sandbox's]
    #[arg(long, short = 'u')]
    user: Option<String>,
    /// The command, as it is run: no shell in between
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Does it; gives the command's exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    attached(context, arguments).await.map_err(|failure| {
        // On a stopped sandbox it is the user's turn, which is no failure of Sandkeep.
        let keep = failure.reason == "Stopped" || failure.exit == exit::USAGE;
        let code = match failure.exit {
            code @ (exit::INTERRUPTED | 126 | 127) => code,
            code if keep => code,
            _ => exit::SANDKEEP,
        };
        failure.with_exit(code)
    })
}

async fn attached(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let Arguments { name, interactive, tty, detach, .. } = arguments;
    let size = if tty { terminal::size() } else { None };
    let env: HashMap<_, _> = spec::environment(&arguments.env, &arguments.env_file)?;
    let exec_id = spec::request_id()?;
    let open = ExecOpen {
        sandbox: name.clone(),
        exec_id: exec_id.clone(),
        argv: arguments.command,
        env: env.into_iter().map(|(key, value)| format!("{key}={value}")).collect(),
        workdir: arguments.workdir.unwrap_or_default(),
        user: arguments.user.unwrap_or_default(),
        tty,
        stdin: interactive,
        rows: size.map_or(0, |size| size.rows),
        columns: size.map_or(0, |size| size.columns),
        detached: detach,
    };
    let mut gateway = context.connector.connect().await?;
    if detach {
        begin(&mut gateway, open).await?;
        render::result(&format!("{exec_id}\n"))?;
        return Ok(0);
    }
    if interactive && tty && !terminal::stdin_is_terminal() {
        render::message("stdin is no terminal; the command has one all the same");
    }
    let attachment = Attachment {
        target: Target::Exec(open),
        stdin: interactive,
        tty,
        quiet: context.quiet,
        start_timeout: None,
        lifeline: None,
    };
    match attachment.stay(&mut gateway).await? {
        Ending::Exited(exit) => Ok(exit_code(&exit)),
        Ending::Detached => {
            render::message(&format!(
                "the command goes on in sandbox \"{name}\"; to end it: sandkeep restart {name}"
            ));
            Ok(exit::INTERRUPTED)
        }
        Ending::NotBegun => Err(not_waited_for(&name)),
        Ending::HungUp => Ok(129),
    }
}

/// Starts it and lets it go on by itself.
async fn begin(gateway: &mut Gateway, open: ExecOpen) -> Result<(), Failure> {
    let what = format!("the command was not run in sandbox \"{}\"", open.sandbox);
    match attach::begin(gateway, &open).await? {
        Some(exit) if !exit.spawn_error.is_empty() => {
            let why = without_number(&exit.spawn_error);
            Err(Failure::new(exit_code_alone(&exit), what, why, cure(&exit)))
        }
        _ => Ok(()),
    }
}

fn not_waited_for(name: &str) -> Failure {
    Failure::new(
        exit::INTERRUPTED,
        format!("the command was not run in sandbox \"{name}\""),
        "Ctrl-C ended the waiting for the sandbox",
        format!("see how it is: sandkeep explain {name}"),
    )
}

/// The system's words without the number behind them.
fn without_number(why: &str) -> &str {
    why.split(" (os error").next().unwrap_or(why)
}

/// The command's own code, as a shell would give it; why it was not started is told.
pub(crate) fn exit_code(exit: &Exit) -> u8 {
    if !exit.spawn_error.is_empty() {
        let why = without_number(&exit.spawn_error);
        render::failure(&Failure::new(0, "the command was not started", why, cure(exit)));
    } else if exit.oom {
        render::message("the command was killed: it ran out of memory");
    }
    exit_code_alone(exit)
}

/// What helps against a command that could not be started. The words are a hint: they come from
/// inside the sandbox, whose supervisor may be of another version.
fn cure(exit: &Exit) -> &'static str {
    let why = exit.spawn_error.as_str();
    if why.starts_with("working directory") {
        "name a directory that is there: --workdir DIRECTORY"
    } else if why.starts_with("there is no user") || why.starts_with("there is no group") {
        "name a user that is there, or a number: --user USER"
    } else if exit.code == 127 {
        "name a program that is there, or make it be there"
    } else {
        "make it executable, or name another"
    }
}

fn exit_code_alone(exit: &Exit) -> u8 {
    u8::try_from(exit.code.rem_euclid(256)).unwrap_or(exit::FAILED)
}
