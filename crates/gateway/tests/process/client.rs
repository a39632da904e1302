//! A client of a gateway process.

use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;

use sandkeep_gateway::home::{connect_address, socket_of};
use sandkeep_proto::v1;
use sandkeep_proto::v1::sandkeep_client::SandkeepClient;
use tonic::transport::{Channel, Endpoint};

/// Runs a client's work to its end.
pub(crate) fn with_client<T, F>(home: &Path, work: impl FnOnce(SandkeepClient<Channel>) -> F) -> T
where
    F: Future<Output = T>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address = connect_address(&socket_of(home)).unwrap();
    runtime.block_on(async {
        let uri = format!("unix:{}", address.path().display());
        let channel = Endpoint::from_shared(uri).unwrap().connect().await.unwrap();
        work(SandkeepClient::new(channel).max_decoding_message_size(64 << 20)).await
    })
}

/// Whether anybody listens.
pub(crate) fn listens(home: &Path) -> bool {
    let address = connect_address(&socket_of(home)).unwrap();
    StdStream::connect(address.path()).is_ok()
}

pub(crate) fn request(name: &str) -> v1::CreateRequest {
    v1::CreateRequest {
        name: name.to_owned(),
        spec: Some(v1::Spec { image: "host".to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

/// Makes sandboxes, side by side.
pub(crate) fn create_many(home: &Path, count: usize) {
    with_client(home, |client| async move {
        let creations = (0..count).map(|i| {
            let mut client = client.clone();
            async move { client.create(request(&format!("box-{i}"))).await.map(drop) }
        });
        futures::future::try_join_all(creations).await.unwrap();
    });
}

pub(crate) fn list(home: &Path) -> Vec<v1::Sandbox> {
    with_client(home, |mut client| async move {
        client.list(v1::ListRequest::default()).await.unwrap().into_inner().sandboxes
    })
}

pub(crate) fn status(home: &Path) -> v1::GatewayStatusResponse {
    with_client(home, |mut client| async move {
        client.gateway_status(v1::GatewayStatusRequest {}).await.unwrap().into_inner()
    })
}
