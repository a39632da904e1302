//! Waiting for a state, never for a moment.

use std::time::Duration;

/// Asks again and again until `is_so`, for at most `seconds`; says whether it came to be.
#[allow(clippy::disallowed_methods, reason = "a test's own patience, in real time")]
pub fn until(seconds: u64, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = std::time::Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begin.elapsed() > Duration::from_secs(seconds) {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
}
