//! What is written beside a sandbox: its label and its newest run.

use sandkeep_core::{GatewayId, Name, WorkspaceId};
use sandkeep_driver::CreateRequest;
use serde::{Deserialize, Serialize};

use crate::process::Birth;
use crate::tenant::Directory;

/// `backing.json`: whose it is, and everything that it is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) gateway: GatewayId,
    pub(crate) made_from: CreateRequest,
}

/// `mark.json`: which workspace the bytes beside it are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) gateway: GatewayId,
    pub(crate) id: WorkspaceId,
    pub(crate) name: Name,
}

/// `engine.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Engine {
    pub(crate) id: String,
}

/// `runtime.json`: the newest run. Written by the helper while PID 1 waits to be let go, so no
/// PID 1 ever runs that is not on record; means nothing on another boot, so it need not be durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) birth: Birth,
    /// Of the intent that it was started from.
    pub(crate) generation: u64,
    /// The very directory that is mounted inside.
    pub(crate) session_dir: Directory,
    /// The sandbox's directory: in another one this is a copy, and says nothing of what runs there.
    /// `None`: an older build wrote it.
    #[serde(default)]
    pub(crate) sandbox_dir: Option<Directory>,
    /// The kernel killed in it for memory; kept when its control group goes.
    #[serde(default)]
    pub(crate) oom: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run() -> Value {
        json!({
            "birth": { "boot_id": "b", "pid": 7, "start_time": 9 },
            "generation": 3,
            "session_dir": { "device": 1, "inode": 2 },
            "sandbox_dir": { "device": 1, "inode": 3 },
            "oom": false,
        })
    }

    fn mark() -> Value {
        json!({ "gateway": "aaaaaaaaaaaa", "id": "bbbbbbbbbbbb", "name": "work" })
    }

    /// Reads it with each field in turn gone, and as something else: how many of them are read.
    fn read_with_a_field_changed<T: serde::de::DeserializeOwned>(whole: &Value) -> usize {
        assert!(serde_json::from_value::<T>(whole.clone()).is_ok());
        let fields: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
        let mut read = 0;
        for field in &fields {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().remove(field);
            read += usize::from(serde_json::from_value::<T>(without).is_ok());
            for other in [json!(null), json!(-1), json!(1.5), json!([]), json!({}), json!("../x")] {
                let mut changed = whole.clone();
                changed[field] = other;
                read += usize::from(serde_json::from_value::<T>(changed).is_ok());
            }
        }
        read
    }

    #[test]
    fn a_file_beside_a_sandbox_with_a_wrong_field_is_an_error() {
        // What older builds did not write: whether memory ran out; the directory, which may be null.
        assert_eq!(read_with_a_field_changed::<RunRecord>(&run()), 3);
        assert_eq!(read_with_a_field_changed::<Mark>(&mark()), 0);
    }

    #[test]
    fn a_file_that_was_cut_anywhere_is_an_error() {
        for whole in [run().to_string(), mark().to_string()] {
            for end in 0..whole.len() {
                assert!(serde_json::from_str::<RunRecord>(&whole[..end]).is_err());
                assert!(serde_json::from_str::<Mark>(&whole[..end]).is_err());
            }
        }
    }

    #[test]
    fn names_in_a_mark_are_names() {
        for bad in ["", "A", "..", "/etc", "aaaaaaaaaaaaa", "aaaaaaaaaaa1"] {
            let mut changed = mark();
            changed["gateway"] = json!(bad);
            assert!(serde_json::from_value::<Mark>(changed).is_err(), "{bad}");
        }
    }
}
