//! `sandkeep run`: makes a sandbox, runs a command in it, streams, exits with the command's code.

use std::time::Duration;

use sandkeep_proto::v1::{Sandbox, SetIntentRequest};

use super::Context;
use super::create::create;
use super::exec::exit_code;
use crate::attach::{Attachment, Ending, Lifeline, Target};
use crate::client::Gateway;
use crate::error::{Failure, exit};
use crate::render;
use crate::size;
use crate::spec::{Restart, SpecArguments};
use crate::terminal;
use crate::wait::Subject;

/// How to go away, for the help.
const LEAVING: &str = "\
Leaving:
  Ctrl-C goes to the command. A second one within a second leaves it: the command goes on, and how to
  come back is said. With -it the keys Ctrl-P Ctrl-Q leave at once.
  A command whose output is not taken for a minute goes on without us; what was missed is counted,
  and is in the log: sandkeep logs.";

/// What it accepts.
#[derive(Debug, clap::Args)]
#[command(after_help = LEAVING)]
pub(crate) struct Arguments {
    #[command(flatten)]
    spec: SpecArguments,
    /// Forward stdin
    #[arg(long, short = 'i', visible_alias = "stdin")]
    interactive: bool,
    /// Give the command a terminal
    #[arg(long, short = 't')]
    tty: bool,
    /// Do not wait for the command
    #[arg(long, short = 'd', conflicts_with = "interactive")]
    detach: bool,
    /// Longest time to wait until the command has started [default: no limit]
    #[arg(long, value_parser = size::duration, value_name = "TIME", conflicts_with = "detach")]
    timeout: Option<Duration>,
    /// The command, as it is run: no shell in between
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["detach", "reuse"])]
    command: Vec<String>,
}

/// Does it; gives the command's exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    attached(context, arguments).await.map_err(|failure| {
        let code = match failure.exit {
            // What the user asked for cannot be: not a failure of Sandkeep, and nothing was run.
            own @ (exit::USAGE | exit::CONFLICT | exit::INTERRUPTED) => own,
            _ => exit::SANDKEEP,
        };
        failure.with_exit(code)
    })
}

async fn attached(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let Arguments { mut spec, interactive, tty, detach, timeout, command } = arguments;
    if spec.name.is_none() && !spec.keep {
        spec.rm = true;
    }
    let wished = command.clone();
    let mut request = spec.request(command, Restart::Never)?;
    if let Some(spec) = &mut request.spec {
        spec.tty = tty;
        spec.stdin = interactive;
        spec.attach = !detach;
    }
    let mut gateway = context.connector.connect().await?;
    let reuse = request.reuse;
    let mut sandbox = create(&mut gateway, request).await?;
    if reuse {
        check_command(&sandbox, &wished)?;
        sandbox = started(&mut gateway, sandbox).await?;
    }
    if detach {
        render::result(&render::sandbox::names(&[sandbox]))?;
        return Ok(0);
    }
    let lifeline = Lifeline::start(&gateway, Subject::of(&sandbox), sandbox.run);
    let (stdin, tty) = match sandbox.spec.as_ref().filter(|_| reuse) {
        // An existing one has what it was made with.
        Some(spec) => (spec.stdin && interactive, spec.tty),
        None => (interactive, tty),
    };
    if stdin && tty && !terminal::stdin_is_terminal() {
        render::message("stdin is no terminal; the command has one all the same");
    }
    let attachment = Attachment {
        target: Target::Main { sandbox: sandbox.id.clone(), run: sandbox.run, restart: 0 },
        stdin,
        tty,
        quiet: context.quiet,
        start_timeout: timeout,
        lifeline: Some(lifeline),
    };
    let ending = attachment.stay(&mut gateway).await?;
    Ok(finish(&sandbox, &ending))
}

/// A sandbox that was there may be down: running its command is what was asked for.
async fn started(gateway: &mut Gateway, sandbox: Sandbox) -> Result<Sandbox, Failure> {
    if sandbox.want == "Running" {
        return Ok(sandbox);
    }
    let what = format!("sandbox \"{}\" was not started", sandbox.name);
    gateway
        .call(&what, |mut client| {
            let request = SetIntentRequest { name: sandbox.id.clone(), verb: "start".to_owned() };
            async move { client.set_intent(request).await }
        })
        .await
}

/// An existing sandbox has its own command, or none.
fn check_command(sandbox: &Sandbox, wished: &[String]) -> Result<(), Failure> {
    let name = &sandbox.name;
    let own = sandbox.spec.as_ref().map(|spec| spec.command.as_slice()).unwrap_or_default();
    if own.is_empty() {
        return Err(Failure::new(
            exit::CONFLICT,
            format!("nothing was run in sandbox \"{name}\""),
            "it exists, and was made without a command of its own",
            format!("run a command in it: sandkeep exec {name} -- COMMAND"),
        ));
    }
    if !wished.is_empty() && own != wished {
        let own = render::sandbox::shell_words(own);
        render::message(&format!("sandbox \"{name}\" exists with its own command: {own}"));
    }
    Ok(())
}

fn finish(sandbox: &Sandbox, ending: &Ending) -> u8 {
    let name = &sandbox.name;
    match ending {
        Ending::Exited(exit) => exit_code(exit),
        Ending::Detached => {
            let flags = match sandbox.spec.as_ref() {
                Some(spec) if spec.tty && spec.stdin => " -it",
                Some(spec) if spec.stdin => " -i",
                Some(spec) if spec.tty => " -t",
                _ => "",
            };
            render::message(&format!(
                "detached; the command goes on in sandbox \"{name}\"; come back: sandkeep run \
                 --reuse{flags} --name {name}; its output: sandkeep logs --follow {name}; end it: \
                 sandkeep delete {name}"
            ));
            exit::INTERRUPTED
        }
        Ending::NotBegun => {
            render::message(&format!(
                "not waited for; the work goes on in sandbox \"{name}\"; come back: sandkeep run \
                 --reuse --name {name}; end it: sandkeep delete {name}"
            ));
            exit::INTERRUPTED
        }
        Ending::HungUp => 129,
    }
}
