//! Metrics and health, as a scraper meets them.

use sandkeep_gateway::http;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scene::Scene;

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn metrics_and_health_are_served() {
    let mut scene = Scene::new().await;
    let listener = http::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(http::serve(scene.api.clone(), listener));
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    assert!(get(address, "/healthz").await.ends_with("\r\nok\n"));
    assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(get(address, "/nothing").await.starts_with("HTTP/1.1 404"));
    let metrics = get(address, "/metrics").await;
    for line in [
        "sandkeep_sandboxes{phase=\"Ready\"} 1",
        "sandkeep_sandboxes{phase=\"Error\"} 0",
        "sandkeep_driver_up{driver=\"sim\"} 1",
        "sandkeep_hold 0",
        "sandkeep_sessions_connected 1",
        "sandkeep_api_calls_total{method=\"Create\"} 1",
        "sandkeep_build_info{version=\"0.0.0-test\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in {metrics}");
    }
    for counted in ["sandkeep_reconcile_passes_total", "sandkeep_store_commits_total"] {
        let found = metrics.lines().find(|line| line.starts_with(&format!("{counted} "))).unwrap();
        assert_ne!(found, format!("{counted} 0"), "{metrics}");
    }
    scene.api.stopping.cancel();
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_told() {
    let listener = http::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let refused = http::bind(listener.local_addr().unwrap()).await.unwrap_err();
    assert_eq!(refused.reason, "MetricsAddressUnusable");
}
