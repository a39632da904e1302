//! A gateway that serves on a socket of its own, and a client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use prost::Message;
use sandkeep_core::{GatewayId, Timestamp};
use sandkeep_driver::Driver;
use sandkeep_driver::simulated::{Pace, SimulatedDriver, World};
use sandkeep_gateway::grpc::{About, Api, ERROR_DETAIL_KEY, serve};
use sandkeep_gateway::home::{Listening, listen};
use sandkeep_gateway::reconcile::queue::{Key, Queue};
use sandkeep_gateway::session::SessionHub;
use sandkeep_gateway::{
    Clock, Gateway, GatewayParts, Metrics, Sessions, SystemClock, SystemEntropy,
};
use sandkeep_proto::v1;
use sandkeep_proto::v1::sandkeep_client::SandkeepClient;
use sandkeep_store::MemoryStore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::driver::TalkingDriver;

/// Longer than anything here takes on a busy machine; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) api: Api,
    pub(crate) store: MemoryStore,
    pub(crate) driver: Arc<TalkingDriver>,
    pub(crate) client: SandkeepClient<Channel>,
    pub(crate) served: JoinHandle<std::io::Result<()>>,
    pub(crate) socket: PathBuf,
    _listening: Listening,
    _home: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let id = GatewayId::from_random([7; 8]);
        let world = World::new(1, Pace::STEADY, false);
        world.add_driver("sim", "engine");
        let driver = Arc::new(TalkingDriver::new(SimulatedDriver::new("sim", world, id.clone())));
        let store = MemoryStore::new();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let queue = Queue::new();
        let wake = queue.clone();
        let hub = SessionHub::new(
            home.path().join("logs"),
            Arc::clone(&clock),
            Arc::new(move |id| wake.wake(Key::Sandbox(id.clone()))),
        );
        let meta = Gateway::identify(&store, id.clone(), "machine").await.unwrap();
        let metrics = Arc::new(Metrics::default());
        let gateway = Gateway::open(GatewayParts {
            store: Arc::new(store.clone()),
            drivers: vec![Arc::clone(&driver) as Arc<dyn Driver>],
            sessions: Arc::clone(&hub) as Arc<dyn Sessions>,
            queue,
            clock,
            entropy: Arc::new(SystemEntropy),
            metrics: Arc::clone(&metrics),
            home: home.path().to_owned(),
            meta,
            machine: "machine".to_owned(),
            directory: None,
        })
        .await
        .unwrap();
        let about = About {
            home: home.path().to_owned(),
            version: "0.0.0-test".to_owned(),
            started_at: Timestamp::from_millis(1),
            gateway: id,
        };
        let stopping = CancellationToken::new();
        let api = Api {
            gateway,
            hub,
            metrics,
            about: Arc::new(about),
            stopping,
            under_way: TaskTracker::new(),
        };
        let socket = home.path().join("gateway.sock");
        let listening = listen(&socket).unwrap();
        let served = tokio::spawn(serve(api.clone(), listening.listener().unwrap()));
        let running = Arc::clone(&api.gateway);
        tokio::spawn(async move { running.run().await });
        let client = connect(&socket).await;
        Self { api, store, driver, client, served, socket, _listening: listening, _home: home }
    }

    pub(crate) async fn create(&mut self, name: &str) -> v1::Sandbox {
        let request = request(name);
        self.client.create(request).await.unwrap().into_inner()
    }

    /// Watches until the sandbox is in this phase.
    pub(crate) async fn until(&mut self, name: &str, phase: &str) -> v1::Sandbox {
        let asked = v1::SandboxRef { name: name.to_owned() };
        let mut events = self.client.watch(asked).await.unwrap().into_inner();
        let mut last = None;
        let wait = async {
            while let Some(event) = events.next().await {
                last = event.unwrap().sandbox;
                if last.as_ref().is_some_and(|sandbox| sandbox.phase == phase) {
                    return true;
                }
            }
            false
        };
        let met = tokio::time::timeout(PATIENCE, wait).await;
        assert_eq!(met, Ok(true), "{phase} never came: {last:?}");
        last.unwrap()
    }

    pub(crate) async fn set_intent(&mut self, name: &str, verb: &str) -> v1::Sandbox {
        let request = v1::SetIntentRequest { name: name.to_owned(), verb: verb.to_owned() };
        self.client.set_intent(request).await.unwrap().into_inner()
    }

    pub(crate) async fn delete(&mut self, name: &str) -> v1::Sandbox {
        let request = v1::DeleteRequest { name: name.to_owned(), ..Default::default() };
        self.client.delete(request).await.unwrap().into_inner()
    }
}

pub(crate) async fn connect(socket: &std::path::Path) -> SandkeepClient<Channel> {
    let channel = Endpoint::from_shared(format!("unix:{}", socket.display()))
        .unwrap()
        .max_frame_size(256 << 10)
        .connect()
        .await
        .unwrap();
    SandkeepClient::new(channel).max_encoding_message_size(usize::MAX)
}

pub(crate) fn request(name: &str) -> v1::CreateRequest {
    v1::CreateRequest {
        name: name.to_owned(),
        spec: Some(v1::Spec { image: "host".to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

/// The three parts of a refusal; every status of ours has them.
#[track_caller]
pub(crate) fn detail(status: &Status) -> v1::ErrorDetail {
    let bytes = status.metadata().get_bin(ERROR_DETAIL_KEY);
    let bytes = bytes.unwrap_or_else(|| panic!("no detail: {status:?}")).to_bytes().unwrap();
    let detail = v1::ErrorDetail::decode(bytes).unwrap();
    assert!(!detail.what.is_empty() && !detail.why.is_empty(), "{detail:?}");
    assert!(!detail.reason.is_empty() && detail.exit_code != 0, "{detail:?}");
    detail
}
