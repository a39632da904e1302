//! Resource limits: many descriptors for PID 1 itself, the ordinary ones for what it starts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits that every process is started with.
#[derive(Debug, Clone)]
pub struct ChildLimits {
    open_files: Rlimit,
}

/// Descriptors that [`MAX_LIVE`](crate::exec::table::MAX_LIVE) execs could use, and some more.
const OPEN_FILES: u64 = 4096;

/// A tenth of the memory that there is: more than PID 1 ever has.
const OOM_SCORE_ADJUSTMENT: &str = "100";

impl ChildLimits {
    /// Raises PID 1's own limit of open files, and remembers what children shall have.
    pub fn take() -> Self {
        let open_files = getrlimit(Resource::Nofile);
        let current = open_files.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
        let own = Rlimit { current: Some(current), maximum: open_files.maximum };
        // Within the hard limit, so it is not refused; if it is, fewer execs are possible.
        let _ = setrlimit(Resource::Nofile, own);
        Self { open_files }
    }

    /// In a child: its own limits, and the first place when memory runs out: PID 1 must not be
    /// taken for one of many small processes. No core files: they would fill the workspace (in a
    /// sandbox the guard `core-dumps` sees to that, and this call does nothing).
    pub fn apply(&self) {
        // More than the driver gave to PID 1, so nobody forbids it; where /proc is not there the
        // kernel chooses by size alone.
        drop(std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJUSTMENT));
        let _ = setrlimit(Resource::Nofile, self.open_files);
        let core = getrlimit(Resource::Core);
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: core.maximum });
    }
}
