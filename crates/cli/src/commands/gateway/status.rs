//! `sandkeep gateway status`.

use sandkeep_proto::v1::GatewayStatusRequest;

use crate::args::TextOutput;
use crate::commands::Context;
use crate::error::Failure;
use crate::render;

/// Does it; gives the exit code.
pub(super) async fn carry_out(context: Context, output: TextOutput) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let status = gateway
        .call("the gateway's state was not shown", |mut client| async move {
            client.gateway_status(GatewayStatusRequest {}).await
        })
        .await?;
    render::gateway::status(status, output.format)?;
    Ok(0)
}
