//! Named places where a test can make the gateway stop dead, to prove that a crash there loses
//! nothing. Compiled to nothing without the feature `failpoints`.
//!
//! `SANDKEEP_FAILPOINT=STAGE:MOMENT` (`start:before`, `create:after`, `verb-delete:stored` …) kills
//! the process by SIGKILL, with no clean-up, when it comes by.

/// Stops the process dead when `SANDKEEP_FAILPOINT` names this stage and moment.
#[cfg(feature = "failpoints")]
pub fn hit(stage: &str, moment: &str) {
    let place = std::env::var("SANDKEEP_FAILPOINT").unwrap_or_default();
    if place.split_once(':').is_some_and(|(s, m)| s == stage && m == moment) {
        let own = rustix::process::getpid();
        let _killed = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
}

/// Nothing, in a build without the feature.
#[cfg(not(feature = "failpoints"))]
pub const fn hit(_stage: &str, _moment: &str) {}
