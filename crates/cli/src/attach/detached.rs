//! An exec that nobody attaches to: started, then left to itself.

use sandkeep_proto::v1::exec_in::Message as In;
use sandkeep_proto::v1::exec_out::Message as Out;
use sandkeep_proto::v1::{ExecAttach, ExecIn, ExecOpen, Exit};
use tonic::Status;

use crate::client::{Client, Gateway};
use crate::error::Failure;

/// Starts the process and gives its end, if that came at once (it could not be started).
pub(crate) async fn begin(gateway: &mut Gateway, open: &ExecOpen) -> Result<Option<Exit>, Failure> {
    let what = format!("the command was not run in sandbox \"{}\"", open.sandbox);
    let first = match answer(gateway.client(), open).await {
        Ok(end) => return Ok(end),
        Err(status) => Failure::of_status(&what, &status),
    };
    if !first.transport {
        return Err(first);
    }
    // Opening an exec that was opened starts nothing twice: its id was chosen here.
    gateway.reconnect(&first).await?;
    answer(gateway.client(), open).await.map_err(|status| Failure::of_status(&what, &status))
}

async fn answer(mut client: Client, open: &ExecOpen) -> Result<Option<Exit>, Status> {
    let first = ExecIn { message: Some(In::Open(open.clone())) };
    let mut stream = client.exec(tokio_stream::iter([first])).await?.into_inner();
    while let Some(message) = stream.message().await? {
        match message.message {
            // A process that runs: it is on its own from here on.
            Some(Out::Attached(at)) if at.pid != 0 => return Ok(None),
            // It has ended already, or was never started.
            Some(Out::Attached(_)) => break,
            Some(Out::Exited(exit)) => return Ok(Some(exit)),
            _ => {}
        }
    }
    end_of(client, open).await
}

/// How it ended.
async fn end_of(mut client: Client, open: &ExecOpen) -> Result<Option<Exit>, Status> {
    let attach = ExecAttach {
        sandbox: open.sandbox.clone(),
        exec_id: open.exec_id.clone(),
        ..ExecAttach::default()
    };
    let first = ExecIn { message: Some(In::Attach(attach)) };
    let mut stream = client.exec(tokio_stream::iter([first])).await?.into_inner();
    while let Some(message) = stream.message().await? {
        if let Some(Out::Exited(exit)) = message.message {
            return Ok(Some(exit));
        }
    }
    Ok(None)
}
