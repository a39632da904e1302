//! Connections of clients: so many at once, and each can be ended by a gateway that stops.
//!
//! HTTP/2 ends a connection politely only when the client takes part; a client that is asleep, or
//! that waits for the gateway's end over that very connection, must not hold the gateway up.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::{Connected, UdsConnectInfo};

/// The system has no file or memory left for a connection: that passes, and asking at once again
/// would only burn a core.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Takes connections from one listener.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    permits: Arc<Semaphore>,
    cut: CancellationToken,
}

impl Door {
    /// At most `at_once` connections; more wait in the listener's own queue. All end when `cut` is
    /// cancelled.
    pub(crate) fn new(at_once: usize, cut: CancellationToken) -> Self {
        Self { permits: Arc::new(Semaphore::new(at_once)), cut }
    }

    /// The next connection; never fails, for a listener outlives every lack of files.
    pub(crate) async fn next<S, F>(&self, accept: impl Fn() -> F) -> Connection<S>
    where
        F: Future<Output = io::Result<S>>,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        loop {
            match accept().await {
                Ok(stream) => {
                    let cut = Box::pin(self.cut.clone().cancelled_owned());
                    return Connection { stream, cut, _permit: permit };
                }
                Err(error) => {
                    tracing::warn!(%error, "a client could not be let in");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
    }
}

/// A stream that counts as long as it lives, and fails once its door's `cut` is cancelled.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: S,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// `None` only if the semaphore were closed, which nobody does.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connected for Connection<UnixStream> {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    /// A connection always waits for something to read, so that is where it hears of its end.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::sync::Mutex;
    use tokio::sync::mpsc::{self, UnboundedSender};

    type Dial = UnboundedSender<io::Result<DuplexStream>>;

    /// A listener, and what dials it.
    fn listener() -> (Dial, Arc<Mutex<mpsc::UnboundedReceiver<io::Result<DuplexStream>>>>) {
        let (dial, dialled) = mpsc::unbounded_channel();
        (dial, Arc::new(Mutex::new(dialled)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_lack_of_files_is_outlived_and_the_number_of_connections_bounded() {
        let (dial, dialled) = listener();
        let accept = || async { dialled.lock().await.recv().await.unwrap() };
        let door = Door::new(1, CancellationToken::new());
        dial.send(Err(io::Error::from_raw_os_error(24))).unwrap();
        let (_first_peer, first) = tokio::io::duplex(64);
        dial.send(Ok(first)).unwrap();
        let first = door.next(accept).await;
        let (_second_peer, second) = tokio::io::duplex(64);
        dial.send(Ok(second)).unwrap();
        let waiting = door.next(accept);
        tokio::pin!(waiting);
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, &mut waiting).await.is_err());
        drop(first);
        waiting.await;
    }

    #[tokio::test]
    async fn a_connection_ends_when_it_is_cut_and_works_until_then() {
        let (dial, dialled) = listener();
        let accept = || async { dialled.lock().await.recv().await.unwrap() };
        let cut = CancellationToken::new();
        let door = Door::new(8, cut.clone());
        let (mut peer, stream) = tokio::io::duplex(64);
        dial.send(Ok(stream)).unwrap();
        let mut connection = door.next(accept).await;
        peer.write_all(b"a").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'a');
        connection.write_all(b"b").await.unwrap();
        assert_eq!(peer.read_u8().await.unwrap(), b'b');
        let reading = tokio::spawn(async move { connection.read_u8().await });
        cut.cancel();
        assert!(reading.await.unwrap().is_err());
    }
}
