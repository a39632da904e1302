//! A verb is carried out to its end, also when its caller goes away in the middle: a client that is
//! killed, or a connection that breaks, drops the call's future wherever it stands. Between the
//! write and the wake that would leave a wish that is stored and that nobody looks at.

use std::future::Future;

use super::Caller;
use crate::refusal::{Refusal, RefusalKind};

/// Runs `verb` as a task of its own and waits for it. The call counts as under way until the verb
/// has ended, not until its caller has gone, so a gateway that stops waits for it.
pub(super) async fn to_the_end<T: Send + 'static>(
    caller: Caller,
    verb: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let task = tokio::spawn(async move {
        let _under_way = caller;
        verb.await
    });
    match task.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_ended) => Err(Refusal::new(
                RefusalKind::Unreachable,
                "GatewayStopping",
                "the call was not answered",
                "the gateway ends at this moment",
                "try again",
            )),
        },
    }
}
