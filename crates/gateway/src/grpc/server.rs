//! The server around the service: its socket, its limits, its end.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::time::Duration;

use sandkeep_proto::v1::sandkeep_server::SandkeepServer;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::grpc::Api;

/// One stream's bytes under way; measured best at 1 MiB (more is slower and holds memory).
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// All streams of a connection together.
const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;
/// A chunk of an exec's stream in one frame.
const MAX_FRAME_BYTES: u32 = 256 << 10;
/// A client that watches a thousand sandboxes over one connection is served; one that never ends
/// asking is held back.
const MAX_STREAMS: u32 = 2048;
/// The largest request is a spec of bounded size; a chunk of stdin is a quarter of this.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// What is under way when the gateway stops is durable or refused long before; a client that does
/// not read its answer is not waited for.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until `api.stopping` is cancelled: then accepts nothing more, ends all streams, answers
/// what is under way, and returns.
pub async fn serve(api: Api, listener: StdListener) -> io::Result<()> {
    let stopping = api.stopping.clone();
    let service = SandkeepServer::new(api)
        .max_decoding_message_size(MAX_REQUEST_BYTES)
        .max_encoding_message_size(usize::MAX);
    let incoming = UnixListenerStream::new(UnixListener::from_std(listener)?);
    let serving = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_concurrent_streams(MAX_STREAMS)
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, stopping.clone().cancelled_owned());
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended.map_err(io::Error::other),
        () = stopping.cancelled() => {}
    }
    match tokio::time::timeout(DRAIN, serving).await {
        Ok(ended) => ended.map_err(io::Error::other),
        Err(_elapsed) => {
            tracing::warn!("some clients did not read their answers; they are not waited for");
            Ok(())
        }
    }
}
