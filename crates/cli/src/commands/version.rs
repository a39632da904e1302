//! `sandkeep version`: of this program, and of the gateway when one is running.

use sandkeep_proto::v1::GatewayStatusRequest;
use serde::Serialize;

use super::Context;
use crate::args::{TextFormat, TextOutput};
use crate::error::Failure;
use crate::render;

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Do not ask the gateway
    #[arg(long)]
    client: bool,
    #[command(flatten)]
    output: TextOutput,
}

/// The document.
#[derive(Debug, Serialize)]
struct Versions {
    version: &'static str,
    gateway: Option<GatewayVersion>,
}

#[derive(Debug, Serialize)]
struct GatewayVersion {
    version: String,
    pid: u32,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let gateway = if arguments.client { None } else { running(&context).await };
    let version = env!("CARGO_PKG_VERSION");
    match arguments.output.format {
        TextFormat::Json => render::document(&Versions { version, gateway })?,
        TextFormat::Text => {
            let mut text = format!("sandkeep {version}\n");
            if let Some(gateway) = gateway.filter(|gateway| gateway.version != version) {
                let theirs = render::escape::line(&gateway.version);
                text += &format!("gateway  {theirs} (pid {})\n", gateway.pid);
            }
            render::result(&text)?;
        }
    }
    Ok(0)
}

/// The gateway's, if it answers; a version is never worth a failure.
async fn running(context: &Context) -> Option<GatewayVersion> {
    let gateway = context.connector.connect_if_running().await.ok()??;
    let status = gateway.client().gateway_status(GatewayStatusRequest {}).await.ok()?.into_inner();
    Some(GatewayVersion { version: status.version, pid: status.pid })
}
