//! `sandkeep create`: makes a sandbox that stays.

use super::Context;
use super::intent::Waiting;
use crate::args::{Format, Output};
use crate::client::Gateway;
use crate::error::Failure;
use crate::progress::Progress;
use crate::render;
use crate::spec::{Restart, SpecArguments};
use crate::wait::{Goal, Reached, Subject, wait_for};
use sandkeep_proto::v1::{CreateRequest, Sandbox};

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    spec: SpecArguments,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    output: Output,
    /// The command that it is for [default: none; the sandbox just stays up]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let patience = arguments.waiting.patience();
    let request = arguments.spec.request(arguments.command, Restart::OnFailure)?;
    let mut gateway = context.connector.connect().await?;
    let mut sandbox = create(&mut gateway, request).await?;
    if let Some(patience) = patience {
        let mut progress = Progress::new(context.quiet);
        let subject = Subject::of(&sandbox);
        let reached = wait_for(&mut gateway, &subject, &Goal::Up, patience, &mut progress).await?;
        if let Reached::Sandbox(seen) = reached {
            sandbox = *seen;
        }
    }
    match arguments.output.format {
        Format::Table | Format::Name => render::result(&render::sandbox::names(&[sandbox]))?,
        Format::Json => render::sandbox::one_or_many(vec![sandbox], true)?,
    }
    Ok(0)
}

/// Asks for the sandbox; answered once the gateway has it in writing.
pub(crate) async fn create(
    gateway: &mut Gateway,
    request: CreateRequest,
) -> Result<Sandbox, Failure> {
    let what = match request.name.as_str() {
        "" => "the sandbox was not made".to_owned(),
        name => format!("sandbox \"{name}\" was not made"),
    };
    gateway
        .call(&what, |mut client| {
            let request = request.clone();
            async move { client.create(request).await }
        })
        .await
}
