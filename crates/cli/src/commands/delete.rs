//! `sandkeep delete`: the sandbox goes, its workspace stays unless it is discarded by name.

use std::time::Duration;

use sandkeep_proto::v1::{DeleteRequest, Sandbox};

use super::Context;
use super::intent::Waiting;
use crate::args::{Format, Output};
use crate::client::Gateway;
use crate::error::{Failure, exit};
use crate::many::{Targets, each, report};
use crate::progress::Progress;
use crate::render;
use crate::wait::{Goal, Reached, Subject, wait_for};

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    targets: Targets,
    /// Remove the workspace, too
    #[arg(long)]
    discard_workspace: bool,
    /// Give up on an engine that is gone: the record goes without its word
    #[arg(long)]
    forget: bool,
    /// It is no failure when there is none of that name
    #[arg(long)]
    ignore_missing: bool,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    output: Output,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let names = arguments.targets.resolve(&mut gateway).await?;
    let patience = arguments.waiting.patience();
    let results = each(&names, |name| {
        let (gateway, quiet) = (gateway.clone(), context.quiet);
        let request = DeleteRequest {
            name,
            discard_workspace: arguments.discard_workspace,
            forget: arguments.forget,
        };
        async move { one(gateway, request, patience, quiet).await }
    })
    .await;
    let kept_going = results.into_iter().filter(|result| match result {
        Err(failure) => !(arguments.ignore_missing && failure.exit == exit::NOT_FOUND),
        Ok(_) => true,
    });
    let (sandboxes, code) = report(kept_going.collect());
    match arguments.output.format {
        Format::Table => {
            let word = if patience.is_some() { "deleted" } else { "being deleted" };
            render::result(&render::sandbox::words(&sandboxes, word))?;
        }
        Format::Json => {
            let single = arguments.targets.is_single() && !sandboxes.is_empty();
            render::sandbox::one_or_many(sandboxes.clone(), single)?;
        }
        Format::Name => render::result(&render::sandbox::names(&sandboxes))?,
    }
    if !context.quiet && !arguments.discard_workspace {
        sandboxes.iter().for_each(tell_kept_workspace);
    }
    Ok(code)
}

async fn one(
    mut gateway: Gateway,
    request: DeleteRequest,
    patience: Option<Duration>,
    quiet: bool,
) -> Result<Sandbox, Failure> {
    let what = format!("sandbox \"{}\" was not deleted", request.name);
    let asked = gateway
        .call(&what, |mut client| {
            let request = request.clone();
            async move { client.delete(request).await }
        })
        .await?;
    if let Some(patience) = patience {
        let mut progress = Progress::new(quiet);
        let subject = Subject::of(&asked);
        match wait_for(&mut gateway, &subject, &Goal::Deleted, patience, &mut progress).await? {
            Reached::Gone | Reached::Sandbox(_) => {}
        }
    }
    Ok(asked)
}

fn tell_kept_workspace(sandbox: &Sandbox) {
    let Some(workspace) = &sandbox.workspace else { return };
    let name = &workspace.name;
    if name.is_empty() || matches!(workspace.state.as_str(), "Missing" | "Discarding") {
        return;
    }
    render::message(&format!(
        "workspace \"{name}\" is kept; use it: sandkeep create --workspace {name}; remove it: \
         sandkeep workspace delete {name}"
    ));
}
