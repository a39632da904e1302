//! All execs: running, ended and not yet forgotten. Bounded in number and in memory.

use std::collections::{BTreeMap, HashMap};

use super::Exec;

/// Execs that run at the same time.
pub const MAX_LIVE: usize = 512;

/// Ended execs that are remembered.
pub const MAX_ENDED: usize = 256;

/// Over this, streams get small windows, so that memory stays bounded however many there are.
const PLENTY_BYTES: usize = 48 * 1024 * 1024;

/// Over this, the oldest ended execs are forgotten.
const ENDED_BYTES: usize = 8 * 1024 * 1024;

/// Execs by number and by id. Numbers rise and are not used again.
#[derive(Debug, Default)]
pub struct Table {
    execs: BTreeMap<u32, Exec>,
    ids: HashMap<String, u32>,
    pids: HashMap<i32, u32>,
    last_key: u32,
}

impl Table {
    /// Adds one; gives its number.
    pub fn insert(&mut self, exec: Exec) -> u32 {
        self.last_key = self.last_key.wrapping_add(1);
        let key = self.last_key;
        self.ids.insert(exec.id.clone(), key);
        if let Some(pid) = exec.pid() {
            self.pids.insert(pid, key);
        }
        self.execs.insert(key, exec);
        key
    }

    /// Forgets one.
    pub fn remove(&mut self, key: u32) -> Option<Exec> {
        let exec = self.execs.remove(&key)?;
        if self.ids.get(&exec.id) == Some(&key) {
            self.ids.remove(&exec.id);
        }
        if let Some(pid) = exec.pid() {
            self.pids.remove(&pid);
        }
        Some(exec)
    }

    /// By number.
    pub fn get(&mut self, key: u32) -> Option<&mut Exec> {
        self.execs.get_mut(&key)
    }

    /// By number, to look at.
    pub fn peek(&self, key: u32) -> Option<&Exec> {
        self.execs.get(&key)
    }

    /// Number by id.
    pub fn find(&self, id: &str) -> Option<u32> {
        self.ids.get(id).copied()
    }

    /// Number by pid; the pid is then free for another.
    pub fn take_pid(&mut self, pid: i32) -> Option<u32> {
        self.pids.remove(&pid)
    }

    /// All, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Exec)> {
        self.execs.iter().map(|(key, exec)| (*key, exec))
    }

    /// All, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Exec)> {
        self.execs.iter_mut().map(|(key, exec)| (*key, exec))
    }

    /// Another may be started.
    pub fn has_room(&self) -> bool {
        self.pids.len() < MAX_LIVE
    }

    /// There is memory for full windows.
    pub fn has_plenty(&self) -> bool {
        self.execs.values().map(Exec::held).sum::<usize>() < PLENTY_BYTES
    }

    /// Numbers of the ended execs that are too many: the oldest ones without a client.
    pub fn surplus(&self) -> Vec<u32> {
        let ended = || self.iter().filter(|(_, exec)| exec.exited().is_some());
        let mut count = ended().count();
        let mut bytes: usize = ended().map(|(_, exec)| exec.held()).sum();
        let mut surplus = Vec::new();
        let idle = |exec: &Exec| exec.stream.is_none() && !exec.is_main;
        for (key, exec) in ended().filter(|(_, exec)| idle(exec)) {
            if count <= MAX_ENDED && bytes <= ENDED_BYTES {
                break;
            }
            count -= 1;
            bytes -= exec.held();
            surplus.push(key);
        }
        surplus
    }
}
