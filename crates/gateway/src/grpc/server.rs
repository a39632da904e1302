//! The server around the service: its socket, its limits, its end.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::time::Duration;

use sandkeep_proto::v1::sandkeep_server::SandkeepServer;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::connection::Door;
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
/// Clients at once; each is one file, and files are needed for sessions and logs too.
const CONNECTIONS_MAX: usize = 1024;
/// The largest request is a spec of bounded size; a chunk of stdin is a quarter of this.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Verbs are durable or refused long before this.
const ANSWERS_DRAIN: Duration = Duration::from_secs(5);
/// For the last answers to reach clients that read them, once all are given.
const FLUSH: Duration = Duration::from_millis(200);

/// Serves until `api.stopping` is cancelled: then accepts nothing more, ends all streams, answers
/// the verbs under way, ends all connections, and returns.
pub async fn serve(api: Api, listener: StdListener) -> io::Result<()> {
    let (stopping, under_way) = (api.stopping.clone(), api.under_way.clone());
    let service = SandkeepServer::new(api)
        .max_decoding_message_size(MAX_REQUEST_BYTES)
        .max_encoding_message_size(usize::MAX);
    let cut = CancellationToken::new();
    let door = Door::new(CONNECTIONS_MAX, cut.clone());
    let listener = UnixListener::from_std(listener)?;
    let incoming = futures::stream::unfold((door, listener), |(door, listener)| async move {
        let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
        let connection = door.next(accept).await;
        Some((Ok::<_, io::Error>(connection), (door, listener)))
    });
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
    under_way.close();
    let answered = async {
        if tokio::time::timeout(ANSWERS_DRAIN, under_way.wait()).await.is_err() {
            tracing::warn!("verbs under way are cut off; each holds as a whole or not at all");
        }
        tokio::time::sleep(FLUSH).await;
    };
    tokio::select! {
        ended = &mut serving => return ended.map_err(io::Error::other),
        () = answered => cut.cancel(),
    }
    serving.await.map_err(io::Error::other)
}
