//! Logs: the gateway's own copy of what commands wrote, read in every phase.

use futures::StreamExt;
use sandkeep_core::{Backing, Session, Timestamp, WaitsFor, Want};
use sandkeep_frames::log_entry::LogEntry;
use sandkeep_proto::v1;
use tonic::Status;

use crate::gateway::{Gateway, Snapshot};
use crate::grpc::stream::Answers;
use crate::grpc::{parse, status};
use crate::refusal::{Refusal, RefusalKind};
use crate::session::{LogError, LogQuery, Prospects, SessionHub};

/// Answers a request for a log.
pub(crate) async fn logs(
    gateway: &Gateway,
    hub: &SessionHub,
    request: v1::LogsRequest,
) -> Result<Answers<v1::LogChunk>, Refusal> {
    let name = parse::name("the sandbox", &request.name)?;
    let source = parse::optional("the source", &request.source)?.map(parse::exec_id).transpose()?;
    let snapshot = gateway.get(name)?;
    let query = LogQuery {
        source,
        tail_lines: Some(request.tail).filter(|lines| *lines > 0),
        since: Some(request.since_ms).filter(|since| *since > 0).map(Timestamp::from_millis),
    };
    let shown = snapshot.record.name.to_string();
    let id = &snapshot.record.id;
    let entries = if request.follow {
        let sandbox = gateway.watch(id.as_str())?;
        let coming = sandbox.filter_map(|now| std::future::ready(now.as_ref().map(prospects)));
        hub.logs().follow(id, query, coming.boxed()).await
    } else {
        hub.logs().read(id, query).await
    };
    let entries = entries.map_err(|error| refusal(&shown, &error))?;
    Ok(Box::pin(entries.map(move |entry| match entry {
        Ok(entry) => Ok(chunk(entry)),
        Err(error) => Err::<_, Status>(status::of(&refusal(&shown, &error))),
    })))
}

/// What the record and the facts in memory say of those who write logs.
fn prospects(now: &Snapshot) -> Prospects {
    let Snapshot { record, live, view, .. } = now;
    let backing = &record.observed.backing;
    let connected = matches!(live.session, Session::Connected { .. });
    Prospects {
        run: record.intent.run,
        settled: record.intent.want != Want::Running || view.waits_for == Some(WaitsFor::User),
        down: live.looked && !connected && (backing.is_down() || *backing == Backing::Absent),
    }
}

fn chunk(entry: LogEntry) -> v1::LogChunk {
    v1::LogChunk { at_ms: entry.time_ms, fd: u32::from(entry.fd), data: entry.bytes }
}

fn refusal(name: &str, error: &LogError) -> Refusal {
    let what = format!("the log of sandbox \"{name}\" cannot be shown");
    match error {
        LogError::NotFound(_) => Refusal::new(
            RefusalKind::NotFound,
            "LogNotFound",
            what,
            error.to_string(),
            "name main-RUN or the id of an exec whose output was kept",
        ),
        LogError::Io(cause) => Refusal::new(
            RefusalKind::Failed,
            "LogUnreadable",
            what,
            cause.to_string(),
            "look at the disk of the gateway's home",
        ),
    }
}
