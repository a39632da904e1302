//! `sandkeep restart`.

use super::Context;
use super::intent::{self, IntentArguments, Verb};
use crate::error::Failure;
use crate::wait::Goal;

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    intent: IntentArguments,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let verb = Verb { name: "restart", done: "restarted", goal: || Goal::Up };
    intent::carry_out(context, verb, arguments.intent).await
}
