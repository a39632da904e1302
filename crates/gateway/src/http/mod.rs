//! Metrics and health over plain HTTP, for machines that look after the gateway. Nothing can be
//! changed here, and nothing of a sandbox's content is told.

mod text;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use tokio::net::{TcpListener, TcpStream};

use crate::connection::{Connection, Door};
use crate::grpc::Api;
use crate::refusal::{Refusal, RefusalKind};

/// Scrapers are few; whoever else comes by must not take the files that sandboxes need.
const CONNECTIONS_MAX: usize = 64;

/// Binds the address for [`serve`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Refusal> {
    TcpListener::bind(address).await.map_err(|error| {
        Refusal::new(
            RefusalKind::Failed,
            "MetricsAddressUnusable",
            format!("metrics cannot be served at {address}"),
            error.to_string(),
            "give another address with --metrics-listen, or none",
        )
    })
}

/// Serves until the gateway stops.
pub async fn serve(api: Api, listener: TcpListener) -> io::Result<()> {
    let stopping = api.stopping.clone();
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(api));
    let door = Door::new(CONNECTIONS_MAX, stopping.clone());
    axum::serve(Counted { listener, door }, router)
        .with_graceful_shutdown(stopping.cancelled_owned())
        .await
}

/// A listener with a door.
#[derive(Debug)]
struct Counted {
    listener: TcpListener,
    door: Door,
}

impl Listener for Counted {
    type Io = Connection<TcpStream>;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, ()) {
        let accept = || async { self.listener.accept().await.map(|(stream, _)| stream) };
        (self.door.next(accept).await, ())
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

async fn metrics(State(api): State<Arc<Api>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text::render(&api))
}

/// The process answers: a supervisor of the gateway need not restart it.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Verbs are taken: not any more once the gateway stops.
async fn readyz(State(api): State<Arc<Api>>) -> (StatusCode, &'static str) {
    if api.stopping.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else if api.gateway.hold().is_some() {
        (StatusCode::OK, "ok, on hold\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}
