//! Named places where a test can make the gateway stop dead, to prove that a crash there loses
//! nothing. Compiled to nothing without the feature `failpoints`.
//!
//! `SANDKEEP_FAILPOINT=PLACE` kills the process (SIGKILL, no clean-up) the first time it comes by.

/// Stops the process dead when `SANDKEEP_FAILPOINT` names this place.
#[cfg(feature = "failpoints")]
pub fn hit(place: &str) {
    if std::env::var("SANDKEEP_FAILPOINT").is_ok_and(|wanted| wanted == place) {
        let own = rustix::process::getpid();
        let _killed = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
}

/// Nothing, in a build without the feature.
#[cfg(not(feature = "failpoints"))]
pub const fn hit(_place: &str) {}
