//! `sandkeep gateway …`: the process that keeps the sandboxes.

mod background;
mod hold;
mod lifecycle;
mod log_queue;
pub(crate) mod run;
mod status;

use clap::Subcommand;

use super::Context;
use crate::args::TextOutput;
use crate::autostart::Autostart;
use crate::error::{Failure, exit};

/// What can be done with a gateway.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one value in the whole life of the process")]
pub(crate) enum Verb {
    /// Run a gateway here, in the foreground
    Run(run::Arguments),
    /// Start a gateway in the background
    Start(run::Options),
    /// Stop the gateway; its sandboxes go on
    Stop(lifecycle::StopArguments),
    /// Stop the gateway and start it again with the same drivers; its sandboxes go on
    Restart(lifecycle::StopArguments),
    /// Show how the gateway is
    Status(TextOutput),
    /// End a hold: take over what was found on the backends
    Adopt(TextOutput),
    /// End a hold: leave alone what was found on the backends
    Disown(TextOutput),
}

/// Does it; gives the exit code. `run` is no business of this: it needs a runtime of its own.
pub(crate) async fn carry_out(mut context: Context, verb: Verb) -> Result<u8, Failure> {
    if !matches!(verb, Verb::Adopt(_) | Verb::Disown(_)) {
        // These are about the gateway that is there, or its absence.
        context.connector.autostart = Autostart::Forbidden;
    }
    match verb {
        Verb::Run(_) => Err(Failure::new(
            exit::FAILED,
            "the gateway was not started",
            "it has to have the process to itself",
            "sandkeep gateway run",
        )),
        Verb::Start(options) => lifecycle::start(context, options).await,
        Verb::Stop(arguments) => lifecycle::stop(context, arguments).await,
        Verb::Restart(arguments) => lifecycle::restart(context, arguments).await,
        Verb::Status(output) => status::carry_out(context, output).await,
        Verb::Adopt(output) => hold::adopt(context, output).await,
        Verb::Disown(output) => hold::disown(context, output).await,
    }
}
