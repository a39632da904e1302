//! Streams of answers that a stopping gateway ends, so that it never waits for its readers.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::grpc::status;

/// What tonic sends.
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// `stream`, ended by a status once `stopping` is cancelled; clients ask the next gateway then.
pub(crate) fn until_stopping<T: Send + 'static>(
    stream: impl Stream<Item = Result<T, Status>> + Send + 'static,
    stopping: CancellationToken,
) -> Answers<T> {
    let both = (Box::pin(stream), Box::pin(stopping.cancelled_owned()));
    Box::pin(futures::stream::unfold(Some(both), |both| async move {
        let (mut stream, mut stopped) = both?;
        tokio::select! {
            item = stream.next() => Some((item?, Some((stream, stopped)))),
            () = &mut stopped => Some((Err(status::stopping()), None)),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_endless_stream_ends_when_the_gateway_stops() {
        let stopping = CancellationToken::new();
        let endless = futures::stream::iter([Ok(1)]).chain(futures::stream::pending());
        let mut answers = until_stopping(endless, stopping.clone());
        assert_eq!(answers.next().await.unwrap().unwrap(), 1);
        stopping.cancel();
        let status = answers.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable);
        assert!(answers.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_ends_by_itself_is_passed_on_whole() {
        let numbers = futures::stream::iter((0..100).map(Ok));
        let answers = until_stopping(numbers, CancellationToken::new());
        let all: Vec<i32> = answers.map(Result::unwrap).collect().await;
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
}
