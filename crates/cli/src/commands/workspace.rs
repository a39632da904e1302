//! `sandkeep workspace list|get|delete`.

use clap::{Args, Subcommand};
use sandkeep_proto::v1::{ListWorkspacesRequest, WorkspaceRef};

use super::Context;
use crate::args::{Format, Output};
use crate::client::{Client, Gateway};
use crate::error::{Failure, exit};
use crate::many::{each, report};
use crate::render;

/// What can be done with workspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List workspaces
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Show workspaces in full
    Get(GetArguments),
    /// Remove workspaces and the files in them
    #[command(visible_alias = "rm")]
    Delete(DeleteArguments),
}

/// What `list` accepts.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    output: Output,
}

/// What `get` accepts.
#[derive(Debug, Args)]
pub(crate) struct GetArguments {
    /// Names or ids
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// What `delete` accepts.
#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    /// Names or ids
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// It is no failure when there is none of that name
    #[arg(long)]
    ignore_missing: bool,
    #[command(flatten)]
    output: Output,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, verb: Verb) -> Result<u8, Failure> {
    let gateway = context.connector.connect().await?;
    match verb {
        Verb::List(arguments) => list(gateway, arguments).await,
        Verb::Get(arguments) => get(gateway, arguments).await,
        Verb::Delete(arguments) => delete(gateway, arguments).await,
    }
}

async fn list(mut gateway: Gateway, arguments: ListArguments) -> Result<u8, Failure> {
    let list = gateway
        .call("the workspaces were not listed", |mut client| async move {
            client.list_workspaces(ListWorkspacesRequest {}).await
        })
        .await?;
    render::workspace::list(list.workspaces, arguments.output.format)?;
    Ok(0)
}

async fn get(gateway: Gateway, arguments: GetArguments) -> Result<u8, Failure> {
    let results = each(&arguments.names, |name| {
        let mut gateway = gateway.clone();
        async move {
            let what = format!("workspace \"{name}\" was not shown");
            let request = |mut client: Client| {
                let request = WorkspaceRef { name: name.clone() };
                async move { client.get_workspace(request).await }
            };
            gateway.call(&what, request).await
        }
    })
    .await;
    let (workspaces, code) = report(results);
    let single = arguments.names.len() == 1;
    if !workspaces.is_empty() || !single {
        render::workspace::pages(workspaces, single, arguments.output.format)?;
    }
    Ok(code)
}

async fn delete(gateway: Gateway, arguments: DeleteArguments) -> Result<u8, Failure> {
    let results = each(&arguments.names, |name| {
        let mut gateway = gateway.clone();
        async move {
            let what = format!("workspace \"{name}\" was not removed");
            let request = |mut client: Client| {
                let request = WorkspaceRef { name: name.clone() };
                async move { client.delete_workspace(request).await }
            };
            gateway.call(&what, request).await
        }
    })
    .await;
    let counted = results.into_iter().filter(|result| match result {
        Err(failure) => !(arguments.ignore_missing && failure.exit == exit::NOT_FOUND),
        Ok(_) => true,
    });
    let (workspaces, code) = report(counted.collect());
    match arguments.output.format {
        Format::Table => render::result(&render::workspace::words(&workspaces, "deleted"))?,
        other => {
            let single = arguments.names.len() == 1 && !workspaces.is_empty();
            render::workspace::pages(workspaces, single, other)?;
        }
    }
    Ok(code)
}
