//! What a local driver is made from.

use std::path::PathBuf;

use sandkeep_core::GatewayId;

/// First user id of the host that sandboxes use: far above ordinary users and the ranges that
/// distributions give to users and engines (from 100,000, and 2^19 on for systemd-nspawn).
pub const DEFAULT_UID_BASE: u32 = 0x7000_0000;

/// How many ids a sandbox has: what every tool inside expects.
pub const UID_COUNT: u32 = 65_536;

/// A local driver's settings.
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// Everything of this driver lies below; made when missing. At any depth, of any length.
    pub home: PathBuf,
    /// Whose sandboxes these are.
    pub gateway: GatewayId,
    /// The supervisor's static binary; readable and executable for others.
    pub supervisor: PathBuf,
    /// How the helper is started.
    pub helper: HelperCommand,
    /// Root inside is this user outside; [`UID_COUNT`] ids follow. [`DEFAULT_UID_BASE`].
    pub uid_base: u32,
    /// For tests only.
    pub knobs: Knobs,
}

/// The program that calls [`crate::helper_main`]: the same binary again, so that what forks
/// without `exec` has one thread.
#[derive(Debug, Clone)]
pub struct HelperCommand {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments before the helper's own.
    pub args: Vec<String>,
}

/// What tests turn; all off by default.
#[derive(Debug, Clone, Default)]
pub struct Knobs {
    /// In place of the kernel's boot id: another one is a reboot that left processes alone.
    pub boot_id: Option<String>,
    /// Guards of the supervisor that stay down, by its names.
    pub without_supervisor_guards: Vec<String>,
    /// Guards of this driver that stay down.
    pub without_guards: Vec<Guard>,
    /// Arguments for PID 1 in place of the supervisor's own.
    pub init_args: Option<Vec<String>>,
    /// The helper ends itself (SIGKILL) at this step of a launch.
    pub helper_dies_at: Option<Step>,
}

/// A guard of this driver, to show that the check behind it can fail. No setting, no option and no
/// call leads here: only a test that makes its own [`Knobs`] can leave one down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Host files keep their owner, so that what others may not read is not readable.
    ForeignOwners,
    /// Groups of whoever started the gateway are left behind.
    Groups,
    /// `nosuid` on everything.
    NoSuid,
    /// `nodev` on everything.
    NoDev,
    /// Only the peer that is PID 1 gets a session.
    PeerCheck,
    /// A network namespace of its own.
    Network,
    /// A /proc of its own.
    Processes,
    /// A process namespace of its own. Without it there is no PID 1, and none of the supervisor's
    /// guards; /proc is the host's then.
    PidNamespace,
    /// Only allow-listed paths of the host.
    HostPaths,
    /// A user namespace of its own: root inside is nobody outside. Without it `uid_base` is 0.
    UserNamespace,
    /// Counts of the kernel's of its own: what one sandbox takes is taken from nobody else.
    OwnCounts,
    /// A namespace of its own for what processes share by key: memory, semaphores, queues.
    Ipc,
    /// Sandkeep's own side (/run/sandkeep) is read-only.
    OwnSide,
    /// Nothing that the gateway or the helper has open reaches PID 1.
    Descriptors,
    /// Masked and read-only paths of /proc and /sys.
    MaskedPaths,
    /// The limit on processes that everybody gets.
    DefaultPids,
}

/// A step of a launch, for failpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The sandbox's lock is held, nothing is made.
    Locked,
    /// The root file system is mounted.
    Mounted,
    /// PID 1 is there and waits.
    Made,
    /// PID 1 is on record and waits.
    Recorded,
    /// PID 1 runs, nobody was told.
    LetGo,
}
