//! `sandkeep get`.

use sandkeep_proto::v1::SandboxRef;

use super::Context;
use crate::args::Output;
use crate::error::Failure;
use crate::many::{Targets, each, report};
use crate::render;

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    output: Output,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let names = arguments.targets.resolve(&mut gateway).await?;
    let results = each(&names, |name| {
        let mut gateway = gateway.clone();
        async move {
            let what = format!("sandbox \"{name}\" was not shown");
            let request = |mut client: crate::client::Client| {
                let request = SandboxRef { name: name.clone() };
                async move { client.get(request).await }
            };
            gateway.call(&what, request).await
        }
    })
    .await;
    let (sandboxes, code) = report(results);
    if !sandboxes.is_empty() || !arguments.targets.is_single() {
        render::sandbox::pages(sandboxes, arguments.targets.is_single(), arguments.output.format)?;
    }
    Ok(code)
}
