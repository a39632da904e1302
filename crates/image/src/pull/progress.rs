//! What is told while an image comes.

use std::sync::Arc;

use crate::name::Digest;

/// One step. Layers are counted from 0, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The registry said what the image is.
    Resolved {
        /// Of the manifest for this machine.
        digest: Digest,
        /// How many layers it has.
        layers: usize,
    },
    /// Bytes of a layer that have come, what an earlier try left included.
    Downloaded {
        /// Which one.
        layer: usize,
        /// Bytes so far.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// A layer came whole and is being unpacked.
    Unpacking {
        /// Which one.
        layer: usize,
    },
    /// A layer is here.
    Here {
        /// Which one.
        layer: usize,
    },
    /// The registry failed; the download goes on by itself in a moment.
    Retrying {
        /// Why.
        message: String,
    },
}

/// Called often, from any thread; must return quickly.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// Where one download tells how far it is.
pub(super) struct Bytes {
    sink: ProgressSink,
    layer: Option<(usize, u64)>,
}

pub(super) fn of_layer(sink: ProgressSink, layer: usize, total: u64) -> Bytes {
    Bytes { sink, layer: Some((layer, total)) }
}

/// For documents: too small to be shown.
pub(super) fn silent() -> Bytes {
    Bytes { sink: Arc::new(|_| {}), layer: None }
}

impl Bytes {
    pub(super) fn done(&self, done: u64) {
        if let Some((layer, total)) = self.layer {
            (self.sink)(Progress::Downloaded { layer, done, total });
        }
    }

    pub(super) fn retrying(&self, message: &str) {
        (self.sink)(Progress::Retrying { message: message.to_owned() });
    }
}
