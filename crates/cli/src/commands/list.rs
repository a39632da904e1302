//! `sandkeep list`.

use std::collections::HashMap;

use sandkeep_proto::v1::ListRequest;

use super::Context;
use crate::args::{Format, Output, pair};
use crate::error::Failure;
use crate::render;

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only those with this label; may be repeated, all have to match
    #[arg(long, short = 'l', value_name = "K=V", value_parser = pair)]
    selector: Vec<(String, String)>,
    #[command(flatten)]
    output: Output,
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    // A document tells everything.
    let brief = arguments.output.format != Format::Json;
    let selector: HashMap<_, _> = arguments.selector.into_iter().collect();
    let list = gateway
        .call("the sandboxes were not listed", |mut client| {
            let request = ListRequest { selector: selector.clone(), brief };
            async move { client.list(request).await }
        })
        .await?;
    render::sandbox::list(list.sandboxes, arguments.output.format)?;
    Ok(0)
}
