//! A registry on loopback that behaves as told, badly if need be.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::get;
use futures::StreamExt;
use sandkeep_image::Digest;

/// What goes wrong, each counted down as it happens.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Blob answers that end after so many bytes.
    pub(crate) cut_after: Vec<usize>,
    /// Answers of "too many requests" before any is served.
    pub(crate) too_many: usize,
    /// Byte ranges are ignored and the whole is sent.
    pub(crate) no_ranges: bool,
    /// Blob answers with one byte changed.
    pub(crate) wrong: usize,
    /// User and password wanted; by way of a token.
    pub(crate) log_in: Option<(String, String)>,
}

/// What was asked, for tests that count.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) blobs: usize,
    pub(crate) blob_bytes: usize,
    pub(crate) manifests: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) manifests: HashMap<String, (String, Vec<u8>)>,
    pub(crate) blobs: HashMap<String, Vec<u8>>,
    pub(crate) faults: Faults,
    pub(crate) seen: Seen,
}

/// Serves until dropped.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) at: SocketAddr,
    pub(crate) inner: Arc<Mutex<Inner>>,
    server: tokio::task::JoinHandle<()>,
}

type Shared = State<(SocketAddr, Arc<Mutex<Inner>>)>;

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let inner = Arc::new(Mutex::new(Inner::default()));
        let router = Router::new()
            .route("/v2/", get(version))
            .route("/token", get(token))
            .route("/v2/{name}/manifests/{reference}", get(manifest))
            .route("/v2/{name}/blobs/{digest}", get(blob))
            .with_state((at, Arc::clone(&inner)));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { at, inner, server }
    }

    /// An image of these layers (plain tar streams), under `name` and its digest.
    pub(crate) fn add(&self, tag: &str, layers: &[Vec<u8>]) -> Digest {
        let mut inner = self.inner.lock().unwrap();
        let image = image_of(layers);
        let digest = Digest::of(&image.manifest);
        for blob in image.blobs {
            inner.blobs.insert(Digest::of(&blob).to_string(), blob);
        }
        let kind = "application/vnd.oci.image.manifest.v1+json".to_owned();
        for reference in [tag, digest.as_str()] {
            inner.manifests.insert(reference.to_owned(), (kind.clone(), image.manifest.clone()));
        }
        digest
    }

    pub(crate) fn name(&self, tag: &str) -> String {
        format!("{}/image:{tag}", self.at)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Documents of an image, as a builder makes them.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) manifest: Vec<u8>,
    pub(crate) config: Vec<u8>,
    /// The configuration and the layers.
    pub(crate) blobs: Vec<Vec<u8>>,
}

pub(crate) fn image_of(layers: &[Vec<u8>]) -> Made {
    let diff_ids: Vec<String> = layers.iter().map(|layer| Digest::of(layer).to_string()).collect();
    let config = serde_json::json!({
        "os": "linux",
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "config": {"User": "1000", "Env": ["A=b"], "Cmd": ["sh"], "WorkingDir": "/w"},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let config = serde_json::to_vec(&config).unwrap();
    let mut blobs = vec![config.clone()];
    let mut described = Vec::new();
    for layer in layers {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, layer).unwrap();
        let blob = gzip.finish().unwrap();
        described.push(serde_json::json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": Digest::of(&blob), "size": blob.len(),
        }));
        blobs.push(blob);
    }
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": Digest::of(&config), "size": config.len()},
        "layers": described,
    });
    Made { manifest: serde_json::to_vec(&manifest).unwrap(), config, blobs }
}

/// A layer with these files.
pub(crate) fn layer(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, path, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Bytes that no compression makes small.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}

fn answer(status: StatusCode) -> Response<Body> {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

/// What is wrong with this request before it is looked at, if anything is.
fn refusal(at: SocketAddr, inner: &mut Inner, headers: &HeaderMap) -> Option<Response<Body>> {
    if inner.faults.too_many > 0 {
        inner.faults.too_many -= 1;
        return Some(answer(StatusCode::TOO_MANY_REQUESTS));
    }
    let wanted = inner.faults.log_in.is_some();
    if !wanted || headers.get("authorization").is_some_and(|value| value == "Bearer the-token") {
        return None;
    }
    let challenge = format!("Bearer realm=\"http://{at}/token\",service=\"test\"");
    let response = Response::builder().status(StatusCode::UNAUTHORIZED);
    Some(response.header("www-authenticate", challenge).body(Body::empty()).unwrap())
}

async fn version(State((at, inner)): Shared, headers: HeaderMap) -> Response<Body> {
    let mut inner = inner.lock().unwrap();
    // Being refused here means nothing but "log in".
    let too_many = std::mem::take(&mut inner.faults.too_many);
    let refusal = refusal(at, &mut inner, &headers);
    inner.faults.too_many = too_many;
    refusal.unwrap_or_else(|| answer(StatusCode::OK))
}

async fn token(State((_, inner)): Shared, headers: HeaderMap) -> Response<Body> {
    let inner = inner.lock().unwrap();
    let given = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    match &inner.faults.log_in {
        // "user:secret", the one pair that tests use.
        Some(_) if given.as_deref() != Some("Basic dXNlcjpzZWNyZXQ=") => {
            answer(StatusCode::UNAUTHORIZED)
        }
        _ => Response::new(Body::from("{\"token\":\"the-token\"}")),
    }
}

async fn manifest(
    State((at, inner)): Shared,
    Path((_, reference)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    let mut inner = inner.lock().unwrap();
    if let Some(refusal) = refusal(at, &mut inner, &headers) {
        return refusal;
    }
    inner.seen.manifests += 1;
    match inner.manifests.get(&reference) {
        Some((kind, bytes)) => Response::builder()
            .header("content-type", kind)
            .header("docker-content-digest", Digest::of(bytes).as_str())
            .body(Body::from(bytes.clone()))
            .unwrap(),
        None => answer(StatusCode::NOT_FOUND),
    }
}

async fn blob(
    State((at, inner)): Shared,
    Path((_, digest)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    let mut inner = inner.lock().unwrap();
    if let Some(refusal) = refusal(at, &mut inner, &headers) {
        return refusal;
    }
    let Some(mut bytes) = inner.blobs.get(&digest).cloned() else {
        return answer(StatusCode::NOT_FOUND);
    };
    inner.seen.blobs += 1;
    if inner.faults.wrong > 0 {
        inner.faults.wrong -= 1;
        bytes[0] ^= 1;
    }
    let mut response = Response::builder();
    let range = headers.get("range").map(|range| range.to_str().unwrap().to_owned());
    if let Some(range) = range.filter(|_| !inner.faults.no_ranges) {
        let from: usize =
            range.strip_prefix("bytes=").unwrap().split('-').next().unwrap().parse().unwrap();
        bytes.drain(..from);
        response = response.status(StatusCode::PARTIAL_CONTENT);
    }
    response = response.header("content-length", bytes.len());
    if bytes.len() > 10_000 && !inner.faults.cut_after.is_empty() {
        let cut = inner.faults.cut_after.remove(0);
        bytes.truncate(cut);
        inner.seen.blob_bytes += bytes.len();
        // A pause after each piece lets the server hand it to the kernel before all breaks off.
        let pieces: Vec<Bytes> = bytes.chunks(16 * 1024).map(Bytes::copy_from_slice).collect();
        let broken = futures::stream::iter(pieces)
            .then(|piece| async {
                tokio::task::yield_now().await;
                Ok(piece)
            })
            .chain(futures::stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            }));
        return response.body(Body::from_stream(broken)).unwrap();
    }
    inner.seen.blob_bytes += bytes.len();
    response.body(Body::from(bytes)).unwrap()
}
