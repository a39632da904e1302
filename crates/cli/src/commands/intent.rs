//! What `start`, `stop` and `restart` share: ask, wait for the result, report each.

use std::time::Duration;

use clap::Args;
use sandkeep_proto::v1::{Sandbox, SetIntentRequest};

use super::Context;
use crate::args::{Format, Output};
use crate::client::Gateway;
use crate::error::Failure;
use crate::many::{Targets, each, report};
use crate::progress::Progress;
use crate::render;
use crate::size;
use crate::wait::{DEFAULT_TIMEOUT, Goal, Reached, Subject, wait_for};

/// Whether and how long to wait for the result.
#[derive(Debug, Clone, Args)]
pub(crate) struct Waiting {
    /// Wait for the result (the default)
    #[arg(long, overrides_with = "no_wait", hide = true)]
    wait: bool,
    /// Return as soon as the gateway has it in writing
    #[arg(long, overrides_with = "wait")]
    no_wait: bool,
    /// Longest time to wait [default: 10m]; the work goes on afterwards
    #[arg(long, value_parser = size::duration, value_name = "TIME")]
    timeout: Option<Duration>,
}

impl Waiting {
    /// The longest time to wait; `None`: do not wait.
    pub(crate) fn patience(&self) -> Option<Duration> {
        (!self.no_wait).then(|| self.timeout.unwrap_or(DEFAULT_TIMEOUT))
    }
}

/// One of the three verbs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verb {
    /// As the gateway knows it.
    pub(crate) name: &'static str,
    /// As in "was not …".
    pub(crate) done: &'static str,
    /// What it leads to.
    pub(crate) goal: fn() -> Goal,
}

/// What all three accept.
#[derive(Debug, Clone, Args)]
pub(crate) struct IntentArguments {
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    output: Output,
}

/// Asks for it on each target and waits for the results.
pub(crate) async fn carry_out(
    context: Context,
    verb: Verb,
    arguments: IntentArguments,
) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let names = arguments.targets.resolve(&mut gateway).await?;
    let patience = arguments.waiting.patience();
    let results = each(&names, |name| {
        let (gateway, quiet) = (gateway.clone(), context.quiet);
        async move { one(gateway, verb, name, patience, quiet).await }
    })
    .await;
    let (sandboxes, code) = report(results);
    match arguments.output.format {
        Format::Table => render::result(&render::sandbox::outcomes(&sandboxes))?,
        Format::Json => render::sandbox::one_or_many(sandboxes, arguments.targets.is_single())?,
        Format::Name => render::result(&render::sandbox::names(&sandboxes))?,
    }
    Ok(code)
}

async fn one(
    mut gateway: Gateway,
    verb: Verb,
    name: String,
    patience: Option<Duration>,
    quiet: bool,
) -> Result<Sandbox, Failure> {
    let what = format!("sandbox \"{name}\" was not {}", verb.done);
    let asked = gateway
        .call(&what, |mut client| {
            let request = SetIntentRequest { name: name.clone(), verb: verb.name.to_owned() };
            async move { client.set_intent(request).await }
        })
        .await?;
    let Some(patience) = patience else { return Ok(asked) };
    let mut progress = Progress::new(quiet);
    let goal = (verb.goal)();
    match wait_for(&mut gateway, &Subject::of(&asked), &goal, patience, &mut progress).await? {
        Reached::Sandbox(sandbox) => Ok(*sandbox),
        Reached::Gone => Ok(asked),
    }
}
