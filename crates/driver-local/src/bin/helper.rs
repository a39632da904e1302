//! The helper as a program of its own, for tests of this crate; the `sandkeep` binary carries the
//! same under a hidden verb.

use std::process::exit;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    exit(sandkeep_driver_local::helper_main(&arguments));
}
