//! Who calls: told by the kernel, for nothing that a client says about itself is believed.

use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

use crate::grpc::status;
use crate::refusal::{Refusal, RefusalKind};

/// `uid:N` of the peer. Only the gateway's own user and root may call.
pub(crate) fn of<T>(request: &Request<T>) -> Result<String, Status> {
    let uid = request
        .extensions()
        .get::<UdsConnectInfo>()
        .and_then(|info| info.peer_cred)
        .map(|credentials| credentials.uid());
    allowed(uid, rustix::process::geteuid().as_raw()).map_err(|refusal| status::of(&refusal))
}

fn allowed(peer: Option<u32>, own: u32) -> Result<String, Refusal> {
    let why = match peer {
        Some(uid) if uid == own || uid == 0 => return Ok(format!("uid:{uid}")),
        Some(uid) => format!("the gateway belongs to uid {own}, and uid {uid} calls"),
        None => "the kernel does not tell who calls".to_owned(),
    };
    Err(Refusal::new(
        RefusalKind::NotPermitted,
        "NotPermitted",
        "the call was refused",
        why,
        "start a gateway of your own: sandkeep gateway start",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_user_and_root_may_call() {
        assert_eq!(allowed(Some(1000), 1000), Ok("uid:1000".to_owned()));
        assert_eq!(allowed(Some(0), 1000), Ok("uid:0".to_owned()));
        for stranger in [Some(1001), None] {
            let refused = allowed(stranger, 1000).map_err(|refusal| refusal.kind);
            assert_eq!(refused, Err(RefusalKind::NotPermitted));
        }
        assert!(allowed(Some(1000), 0).is_err());
    }
}
