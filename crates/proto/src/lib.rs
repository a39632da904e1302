//! The `sandkeep.v1` gRPC interface: generated messages, client and server.
//!
//! Converted at the edge of the gateway and the CLI; never used inside the core.

/// Version 1 of the interface.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("sandkeep.v1");
}
