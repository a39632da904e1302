//! The API: the `sandkeep.v1` service on the gateway's Unix socket.
//!
//! Converts, bounds, and hands on; every decision is the gateway's. A verb is answered once it is
//! durable; waiting is a client's own business, except for an exec, which needs a sandbox that is
//! up.

mod caller;
mod convert;
mod exec;
mod explain;
mod logs;
mod parse;
mod reach;
mod server;
mod status;
mod stream;
mod to_the_end;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sandkeep_core::{GatewayId, Timestamp};
use sandkeep_proto::v1;
use sandkeep_proto::v1::sandkeep_server::Sandkeep;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::{Request, Response, Status, Streaming};

pub(crate) use convert::by_phase;
pub use server::serve;
pub use status::ERROR_DETAIL_KEY;

use crate::gateway::Gateway;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::session::SessionHub;
use stream::{Answers, until_stopping};
use to_the_end::to_the_end;

/// What a gateway says about itself.
#[derive(Debug, Clone)]
pub struct About {
    /// Its home.
    pub home: PathBuf,
    /// Its version.
    pub version: String,
    /// When it started.
    pub started_at: Timestamp,
    /// Carried by everything that it makes.
    pub gateway: GatewayId,
}

/// The service.
#[derive(Debug, Clone)]
pub struct Api {
    /// Verbs and questions.
    pub gateway: Arc<Gateway>,
    /// Execs and logs.
    pub hub: Arc<SessionHub>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What `gateway status` shows.
    pub about: Arc<About>,
    /// Cancelled once the gateway stops: every stream ends then.
    pub stopping: CancellationToken,
    /// Calls that are not answered yet.
    pub under_way: TaskTracker,
}

/// Who calls; the call counts as under way as long as this lives.
struct Caller {
    by: String,
    _under_way: TaskTrackerToken,
}

impl Api {
    /// Counts the call and tells who makes it.
    fn enter<T>(&self, method: &'static str, request: &Request<T>) -> Result<Caller, Status> {
        self.metrics.api_calls.increment(method);
        let by = caller::of(request)?;
        Ok(Caller { by, _under_way: self.under_way.token() })
    }

    /// Counts a refusal and puts it on the wire.
    fn refused(&self, refusal: &Refusal) -> Status {
        self.metrics.api_refusals.increment(refusal.reason);
        status::of(refusal)
    }

    fn answer<T>(&self, result: Result<T, Refusal>) -> Result<Response<T>, Status> {
        result.map(Response::new).map_err(|refusal| self.refused(&refusal))
    }
}

/// When to answer so that the client hears it in time, from gRPC's own header: a tenth of the time
/// before the transport cuts the call off, so that the reason arrives and not a bare timeout.
fn deadline<T>(request: &Request<T>) -> Option<Instant> {
    let text = request.metadata().get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    let duration = match unit {
        "H" => Duration::from_secs(count.saturating_mul(3600)),
        "M" => Duration::from_secs(count.saturating_mul(60)),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    };
    Some(Instant::now() + duration.mul_f64(0.9))
}

#[tonic::async_trait]
impl Sandkeep for Api {
    async fn create(
        &self,
        request: Request<v1::CreateRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let caller = self.enter("Create", &request)?;
        let request =
            parse::create(request.into_inner()).map_err(|refusal| self.refused(&refusal))?;
        let (gateway, by) = (Arc::clone(&self.gateway), caller.by.clone());
        let made = to_the_end(caller, async move { gateway.create(request, &by).await }).await;
        self.answer(made.map(convert::sandbox))
    }

    async fn get(&self, request: Request<v1::SandboxRef>) -> Result<Response<v1::Sandbox>, Status> {
        self.enter("Get", &request)?;
        let found = parse::name("the sandbox", &request.get_ref().name)
            .and_then(|name| self.gateway.get(name));
        self.answer(found.map(convert::sandbox))
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        self.enter("List", &request)?;
        let v1::ListRequest { selector, brief } = request.into_inner();
        let convert = if brief { convert::brief } else { convert::sandbox };
        let found = parse::selector(selector);
        let found = found.map(|selector| self.gateway.list_as(&selector, convert));
        self.answer(found.map(|sandboxes| v1::ListResponse { sandboxes }))
    }

    async fn set_intent(
        &self,
        request: Request<v1::SetIntentRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let caller = self.enter("SetIntent", &request)?;
        let request = request.into_inner();
        let asked = parse::name("the sandbox", &request.name)
            .and_then(|name| Ok((name, parse::verb(&request.verb)?)));
        let done = match asked {
            Ok((name, verb)) => {
                let (gateway, by) = (Arc::clone(&self.gateway), caller.by.clone());
                let name = name.to_owned();
                to_the_end(caller, async move { gateway.set_intent(&name, verb, &by).await }).await
            }
            Err(refusal) => Err(refusal),
        };
        self.answer(done.map(convert::sandbox))
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let caller = self.enter("Delete", &request)?;
        let request = request.into_inner();
        let done = match parse::name("the sandbox", &request.name) {
            Ok(name) => {
                let (discard, forget) = (request.discard_workspace, request.forget);
                let (gateway, by) = (Arc::clone(&self.gateway), caller.by.clone());
                let name = name.to_owned();
                let verb = async move { gateway.delete(&name, discard, forget, &by).await };
                to_the_end(caller, verb).await
            }
            Err(refusal) => Err(refusal),
        };
        self.answer(done.map(convert::sandbox))
    }

    type WatchStream = Answers<v1::WatchEvent>;

    async fn watch(
        &self,
        request: Request<v1::SandboxRef>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.enter("Watch", &request)?;
        let snapshots = parse::name("the sandbox", &request.get_ref().name)
            .and_then(|name| self.gateway.watch(name));
        self.answer(snapshots.map(|snapshots| {
            let events = snapshots.map(|snapshot| {
                let gone = snapshot.is_none();
                Ok(v1::WatchEvent { sandbox: snapshot.map(convert::sandbox), gone })
            });
            until_stopping(events, self.stopping.clone())
        }))
    }

    async fn explain(
        &self,
        request: Request<v1::SandboxRef>,
    ) -> Result<Response<v1::Explanation>, Status> {
        self.enter("Explain", &request)?;
        let explained = match parse::name("the sandbox", &request.get_ref().name) {
            Ok(name) => explain::explain(&self.gateway, name).await,
            Err(refusal) => Err(refusal),
        };
        self.answer(explained)
    }

    type EventsStream = Answers<v1::Event>;

    async fn events(
        &self,
        request: Request<v1::EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        self.enter("Events", &request)?;
        let request = request.into_inner();
        let events = parse::optional("the sandbox", &request.name)
            .and_then(|name| self.gateway.events(name, request.follow));
        self.answer(events.map(|events| {
            let events = events.map(|event| match event {
                Ok(event) => Ok(convert::event(&event)),
                Err(refusal) => Err(status::of(&refusal)),
            });
            until_stopping(events, self.stopping.clone())
        }))
    }

    type ExecStream = ReceiverStream<Result<v1::ExecOut, Status>>;

    async fn exec(
        &self,
        request: Request<Streaming<v1::ExecIn>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        self.enter("Exec", &request)?;
        let deadline = deadline(&request);
        let execs = exec::Execs {
            gateway: Arc::clone(&self.gateway),
            hub: Arc::clone(&self.hub),
            stopping: self.stopping.clone(),
        };
        execs.run(request.into_inner(), deadline).await.map(Response::new)
    }

    type LogsStream = Answers<v1::LogChunk>;

    async fn logs(
        &self,
        request: Request<v1::LogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        self.enter("Logs", &request)?;
        let chunks = logs::logs(&self.gateway, &self.hub, request.into_inner()).await;
        self.answer(chunks.map(|chunks| until_stopping(chunks, self.stopping.clone())))
    }

    async fn list_workspaces(
        &self,
        request: Request<v1::ListWorkspacesRequest>,
    ) -> Result<Response<v1::ListWorkspacesResponse>, Status> {
        self.enter("ListWorkspaces", &request)?;
        let workspaces = self.gateway.workspaces().into_iter().map(convert::workspace).collect();
        Ok(Response::new(v1::ListWorkspacesResponse { workspaces }))
    }

    async fn get_workspace(
        &self,
        request: Request<v1::WorkspaceRef>,
    ) -> Result<Response<v1::Workspace>, Status> {
        self.enter("GetWorkspace", &request)?;
        let found = parse::name("the workspace", &request.get_ref().name)
            .and_then(|name| self.gateway.workspace(name));
        self.answer(found.map(convert::workspace))
    }

    async fn delete_workspace(
        &self,
        request: Request<v1::WorkspaceRef>,
    ) -> Result<Response<v1::Workspace>, Status> {
        let caller = self.enter("DeleteWorkspace", &request)?;
        let done = match parse::name("the workspace", &request.get_ref().name) {
            Ok(name) => {
                let (gateway, by) = (Arc::clone(&self.gateway), caller.by.clone());
                let name = name.to_owned();
                to_the_end(caller, async move { gateway.delete_workspace(&name, &by).await }).await
            }
            Err(refusal) => Err(refusal),
        };
        self.answer(done.map(convert::workspace))
    }

    async fn gateway_status(
        &self,
        request: Request<v1::GatewayStatusRequest>,
    ) -> Result<Response<v1::GatewayStatusResponse>, Status> {
        self.enter("GatewayStatus", &request)?;
        let snapshots = self.gateway.list(&std::collections::BTreeMap::new());
        let phases = by_phase(&snapshots);
        Ok(Response::new(v1::GatewayStatusResponse {
            pid: std::process::id(),
            home: self.about.home.display().to_string(),
            version: self.about.version.clone(),
            drivers: self.gateway.drivers().into_iter().map(convert::driver).collect(),
            sandboxes: phases.into_iter().map(|(phase, n)| (phase.to_string(), n)).collect(),
            hold: self.gateway.hold().map(convert::hold),
            started_at_ms: self.about.started_at.as_millis(),
            gateway_id: self.about.gateway.to_string(),
        }))
    }

    async fn adopt(
        &self,
        request: Request<v1::AdoptRequest>,
    ) -> Result<Response<v1::AdoptResponse>, Status> {
        let caller = self.enter("Adopt", &request)?;
        let (gateway, by) = (Arc::clone(&self.gateway), caller.by.clone());
        let adopted = to_the_end(caller, async move { gateway.adopt(&by).await }).await;
        self.answer(adopted.map(|adopted| v1::AdoptResponse { adopted }))
    }

    async fn disown(
        &self,
        request: Request<v1::DisownRequest>,
    ) -> Result<Response<v1::DisownResponse>, Status> {
        let caller = self.enter("Disown", &request)?;
        let (gateway, by) = (Arc::clone(&self.gateway), caller.by.clone());
        let disowned = to_the_end(caller, async move { gateway.disown(&by).await }).await;
        self.answer(disowned.map(|disowned| v1::DisownResponse { disowned }))
    }
}
