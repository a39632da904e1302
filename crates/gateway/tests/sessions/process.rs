//! A real supervisor as an ordinary process, with a hub that has a session with it.

use std::path::Path;
use std::process::Stdio;

use sandkeep_core::{Go, MainStatus, Session, Spec, Timestamp};
use sandkeep_gateway::session::{ExecRequest, ExecStream};
use sandkeep_gateway::sessions::{GoOrder, Sessions};
use tokio::net::UnixListener;
use tokio::process::{Child, Command};

use super::world::{World, spec};

/// See above.
pub(super) struct Real {
    pub(super) world: World,
    listener: UnixListener,
    directory: tempfile::TempDir,
    supervisor: Child,
}

fn start(directory: &Path) -> Child {
    let program = sandkeep_supervisor_image::unpack(&directory.join("supervisor")).unwrap();
    let state = directory.join("state");
    std::fs::create_dir_all(&state).unwrap();
    Command::new(program)
        .args(["init", "--not-pid1", "--socket"])
        .arg(directory.join("socket"))
        .arg("--state")
        .arg(state)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn here() -> Spec {
    Spec { user: None, workdir: Some("/".to_owned()), ..spec() }
}

pub(super) fn shell(id: &str, script: &str) -> ExecRequest {
    ExecRequest {
        exec_id: id.to_owned(),
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        stdin: true,
        ..ExecRequest::default()
    }
}

impl Real {
    pub(super) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let supervisor = start(directory.path());
        let real = Self { world: World::new(), listener, directory, supervisor };
        real.world.want(1);
        real.accept(1).await;
        real
    }

    pub(super) async fn accept(&self, incarnation: u64) {
        let (stream, _) = self.listener.accept().await.unwrap();
        self.world.hand_over(incarnation, stream);
        self.world
            .until(|session| matches!(session, Session::Connected { probed_at: Some(_), .. }))
            .await;
    }

    /// The supervisor is killed, and another one started as the next life.
    pub(super) async fn kill_and_start(&mut self, incarnation: u64) {
        self.supervisor.kill().await.unwrap();
        self.supervisor = start(self.directory.path());
        self.world.hub.release(&self.world.id);
        self.world.want(incarnation);
        self.accept(incarnation).await;
    }

    pub(super) fn open(&self, request: ExecRequest) -> ExecStream {
        self.world.hub.exec_open(&self.world.id, &here(), request).unwrap()
    }

    pub(super) async fn go(&self, run: u64, incarnation: u64, script: &str) {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        let at = Timestamp::from_millis(1);
        let order = GoOrder {
            go: Go { run, incarnation, restart: 0, at },
            spec: Spec { command, attach: false, ..here() },
        };
        self.world.hub.go(&self.world.id, order).await.unwrap();
    }

    pub(super) async fn ended(&self, run: u64) {
        let ended = MainStatus::Ended { run, restart: 0 };
        self.world
            .until(|session| matches!(session, Session::Connected { main, .. } if *main == ended))
            .await;
    }
}
