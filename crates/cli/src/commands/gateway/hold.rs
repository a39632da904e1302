//! `sandkeep gateway adopt|disown`: the two ways out of a hold.

use sandkeep_proto::v1::{AdoptRequest, DisownRequest};
use serde::Serialize;

use crate::args::{TextFormat, TextOutput};
use crate::commands::Context;
use crate::error::Failure;
use crate::render;

/// The document of `adopt`.
#[derive(Debug, Serialize)]
struct Adopted {
    adopted: Vec<String>,
}

/// The document of `disown`.
#[derive(Debug, Serialize)]
struct Disowned {
    disowned: Vec<String>,
}

/// Takes over what was found.
pub(super) async fn adopt(context: Context, output: TextOutput) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let adopted = gateway
        .call(
            "nothing was adopted",
            |mut client| async move { client.adopt(AdoptRequest {}).await },
        )
        .await?
        .adopted;
    match output.format {
        TextFormat::Json => render::document(&Adopted { adopted })?,
        TextFormat::Text => lines("adopted", &adopted)?,
    }
    Ok(0)
}

/// Leaves alone what was found.
pub(super) async fn disown(context: Context, output: TextOutput) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let disowned = gateway
        .call(
            "nothing was disowned",
            |mut client| async move { client.disown(DisownRequest {}).await },
        )
        .await?
        .disowned;
    match output.format {
        TextFormat::Json => render::document(&Disowned { disowned })?,
        TextFormat::Text => lines("left alone", &disowned)?,
    }
    Ok(0)
}

fn lines(word: &str, items: &[String]) -> Result<(), Failure> {
    let text: String =
        items.iter().map(|item| format!("{}: {word}\n", render::escape::line(item))).collect();
    render::result(&text)
}
