//! `sandkeep events`: the timeline, of one sandbox or of all.

use sandkeep_proto::v1::EventsRequest;
use tokio::time::Instant;

use super::Context;
use crate::args::TextOutput;
use crate::error::Failure;
use crate::render;
use crate::wait::{DEFAULT_TIMEOUT, reconnect_until};

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: all sandboxes]
    name: Option<String>,
    /// Go on as things happen
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    output: TextOutput,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let what = "the events were not shown";
    let mut newest_shown = 0;
    loop {
        let request = EventsRequest {
            name: arguments.name.clone().unwrap_or_default(),
            follow: arguments.follow,
        };
        let broken = match gateway.client().events(request).await {
            Err(status) => status,
            Ok(response) => {
                let mut stream = response.into_inner();
                loop {
                    match stream.message().await {
                        Ok(Some(event)) if event.sequence > newest_shown || event.sequence == 0 => {
                            newest_shown = event.sequence.max(newest_shown);
                            render::event::line(event, arguments.output.format)?;
                        }
                        Ok(Some(_shown_before)) => {}
                        Ok(None) => return Ok(0),
                        Err(status) => break status,
                    }
                }
            }
        };
        let failure = Failure::of_status(what, &broken);
        if !failure.transport || !arguments.follow {
            return Err(failure);
        }
        // The timeline survives the gateway: go on where it broke.
        reconnect_until(&mut gateway, Instant::now() + DEFAULT_TIMEOUT, failure).await?;
    }
}
