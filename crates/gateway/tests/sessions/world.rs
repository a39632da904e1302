//! A hub, one sandbox, and a driver that hands over whatever stream the test dials with.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sandkeep_core::{
    BackingReport, Go, RestartPolicy, SandboxId, Session, SessionNotes, Spec, Timestamp,
    WorkspaceId,
};
use sandkeep_driver::{
    Capabilities, CreateRequest, Driver, DriverError, ErrorKind, FoundBacking, FoundWorkspace,
    SessionPeer, SessionStream, WatchEvent, WorkspaceReport, WorkspaceRequest,
};
use tokio::io::duplex;
use tokio::sync::{Mutex, Notify, mpsc};

use super::peer::{Peer, hello};
use sandkeep_gateway::clock::{Clock, SystemClock};
use sandkeep_gateway::session::SessionHub;
use sandkeep_gateway::sessions::{GoOrder, SessionTarget, Sessions};

/// Bytes under way in the pipe between the two sides.
const PIPE_BYTES: usize = 64 * 1024;

/// Longer than anything here takes on a busy machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct World {
    pub(super) hub: Arc<SessionHub>,
    pub(super) id: SandboxId,
    driver: Arc<Dialled>,
    woken: Arc<Notify>,
    _home: tempfile::TempDir,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    pub(super) fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let woken = Arc::new(Notify::new());
        let wake = Arc::clone(&woken);
        let hub = SessionHub::new(
            home.path().join("logs"),
            clock,
            Arc::new(move |_id| wake.notify_one()),
        );
        let id = SandboxId::from_random(*b"sandbox1");
        Self { hub, id, driver: Arc::new(Dialled::new()), woken, _home: home }
    }

    pub(super) fn want(&self, incarnation: u64) {
        self.hub.want(SessionTarget {
            id: self.id.clone(),
            driver: Arc::clone(&self.driver) as Arc<dyn Driver>,
            backing_run: format!("run-{incarnation}"),
            incarnation,
        });
    }

    /// A supervisor of this incarnation dials.
    pub(super) fn dial(&self, incarnation: u64) -> Peer {
        let (ours, theirs) = duplex(PIPE_BYTES);
        self.driver.hand_over(incarnation, theirs);
        Peer::new(ours)
    }

    /// A stream of this incarnation's supervisor that somebody else opened.
    pub(super) fn hand_over(&self, incarnation: u64, stream: impl SessionStream + 'static) {
        self.driver.hand_over(incarnation, stream);
    }

    /// Another sandbox of the same hub.
    pub(super) fn beside(&self, number: u64) -> Self {
        Self {
            hub: Arc::clone(&self.hub),
            id: SandboxId::from_random(number.to_le_bytes()),
            driver: Arc::new(Dialled::new()),
            woken: Arc::clone(&self.woken),
            _home: tempfile::tempdir().unwrap(),
        }
    }

    /// A wanted session with a supervisor that has greeted.
    pub(super) async fn connected(&self, incarnation: u64) -> Peer {
        self.want(incarnation);
        let mut peer = self.dial(incarnation);
        peer.greet(&hello()).await;
        self.until(|session| matches!(session, Session::Connected { .. })).await;
        peer
    }

    /// Waits until the reconciler would see such a session.
    pub(super) async fn until(&self, fits: impl Fn(&Session) -> bool) -> Session {
        self.until_within(PATIENCE, fits).await
    }

    pub(super) async fn until_within(
        &self,
        patience: Duration,
        fits: impl Fn(&Session) -> bool,
    ) -> Session {
        let wait = async {
            loop {
                let session = self.hub.session(&self.id);
                if fits(&session) {
                    return session;
                }
                self.woken.notified().await;
            }
        };
        let Ok(session) = tokio::time::timeout(patience, wait).await else {
            panic!("waited in vain; the session is {:?}", self.hub.session(&self.id));
        };
        session
    }

    /// Waits until the reconciler would see such notes.
    pub(super) async fn until_noted(&self, fit: impl Fn(&SessionNotes) -> bool) -> SessionNotes {
        let wait = async {
            loop {
                let notes = self.hub.notes(&self.id);
                if fit(&notes) {
                    return notes;
                }
                self.woken.notified().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("waited in vain for notes")
    }

    /// Whether something wakes the reconciler in this time.
    pub(super) async fn is_woken_within(&self, patience: Duration) -> bool {
        tokio::time::timeout(patience, self.woken.notified()).await.is_ok()
    }

    pub(super) fn order(&self, run: u64, incarnation: u64) -> GoOrder {
        let at = Timestamp::from_millis(1);
        GoOrder { go: Go { run, incarnation, restart: 0, at }, spec: spec() }
    }
}

pub(super) fn spec() -> Spec {
    let workspace = WorkspaceId::from_random(*b"worksp01");
    Spec {
        command: vec!["make".to_owned(), "all".to_owned()],
        env: [("A", "1"), ("B", "2")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        user: Some("1000".to_owned()),
        workdir: Some("/workspace/code".to_owned()),
        restart: RestartPolicy::Never,
        attach: true,
        ..Spec::bare(workspace, "lab".parse().unwrap())
    }
}

/// A driver that can do one thing only.
struct Dialled {
    dial: mpsc::UnboundedSender<(String, Box<dyn SessionStream>)>,
    dialled: Mutex<mpsc::UnboundedReceiver<(String, Box<dyn SessionStream>)>>,
}

impl std::fmt::Debug for Dialled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dialled")
    }
}

impl Dialled {
    fn hand_over(&self, incarnation: u64, stream: impl SessionStream + 'static) {
        self.dial.send((format!("run-{incarnation}"), Box::new(stream))).unwrap();
    }

    fn new() -> Self {
        let (dial, dialled) = mpsc::unbounded_channel();
        Self { dial, dialled: Mutex::new(dialled) }
    }
}

fn not_here<T>() -> Result<T, DriverError> {
    Err(DriverError::new(ErrorKind::Internal, "test", "NotHere", "not in this test"))
}

#[async_trait]
impl Driver for Dialled {
    fn name(&self) -> &str {
        "dialled"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            freeze: false,
            keeps_rootfs: false,
            cpu_limit: false,
            memory_limit: false,
            pids_limit: false,
            disk_limit: false,
            host_image: false,
            directory_image: false,
            oci_image: false,
            tells_oom: false,
        }
    }

    async fn identity(&self) -> Result<String, DriverError> {
        not_here()
    }

    async fn list(&self) -> Result<Vec<FoundBacking>, DriverError> {
        not_here()
    }

    async fn list_workspaces(&self) -> Result<Vec<FoundWorkspace>, DriverError> {
        not_here()
    }

    async fn inspect(&self, _id: &SandboxId) -> Result<BackingReport, DriverError> {
        not_here()
    }

    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        Box::pin(futures::stream::pending())
    }

    async fn ensure_workspace(
        &self,
        _request: &WorkspaceRequest,
    ) -> Result<WorkspaceReport, DriverError> {
        not_here()
    }

    async fn create(&self, _request: &CreateRequest) -> Result<(), DriverError> {
        not_here()
    }

    async fn start(&self, _id: &SandboxId) -> Result<BackingReport, DriverError> {
        not_here()
    }

    async fn stop(&self, _id: &SandboxId, _grace: Duration) -> Result<(), DriverError> {
        not_here()
    }

    async fn kill(&self, _id: &SandboxId) -> Result<(), DriverError> {
        not_here()
    }

    async fn freeze(&self, _id: &SandboxId) -> Result<(), DriverError> {
        not_here()
    }

    async fn thaw(&self, _id: &SandboxId) -> Result<(), DriverError> {
        not_here()
    }

    async fn remove(&self, _id: &SandboxId) -> Result<(), DriverError> {
        not_here()
    }

    async fn discard_workspace(&self, _id: &WorkspaceId) -> Result<(), DriverError> {
        not_here()
    }

    async fn open_session(
        &self,
        _id: &SandboxId,
        backing_run: &str,
    ) -> Result<(Box<dyn SessionStream>, SessionPeer), DriverError> {
        loop {
            let Some((run, stream)) = self.dialled.lock().await.recv().await else {
                return not_here();
            };
            // A supervisor of another run is turned away, as by any driver.
            if run == backing_run {
                return Ok((stream, SessionPeer { backing_run: run }));
            }
        }
    }
}
