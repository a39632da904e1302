//! `sandkeep explain`.

use sandkeep_proto::v1::SandboxRef;

use super::Context;
use crate::args::TextOutput;
use crate::error::Failure;
use crate::render;

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id
    name: String,
    #[command(flatten)]
    output: TextOutput,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let what = format!("sandbox \"{}\" was not explained", arguments.name);
    let explanation = gateway
        .call(&what, |mut client| {
            let request = SandboxRef { name: arguments.name.clone() };
            async move { client.explain(request).await }
        })
        .await?;
    render::explanation::page(explanation, arguments.output.format)?;
    Ok(0)
}
