//! When a sandbox was last used and what keeps it awake. Written by the activity tracker.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Facts about use. Reserved for idle stop; `asleep_since` is honoured by `decide` already.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// Put to sleep since then; `None`: awake. With `want` Running a sleeping sandbox counts as
    /// met when it is down or frozen.
    #[serde(default)]
    pub asleep_since: Option<Timestamp>,
    /// Last verified use.
    #[serde(default)]
    pub last_active_at: Option<Timestamp>,
    /// Names of those who keep it awake.
    #[serde(default)]
    pub holds: Vec<String>,
}
