//! How fast an exec is, how much a supervisor holds at rest and after work: of the program as
//! shipped, if `SANDKEEP_SUPERVISOR` names it.
//!
//! `SANDKEEP_SUPERVISOR=… cargo bench -p sandkeep-supervisor`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is a measurement")]
#![allow(clippy::disallowed_methods, reason = "there is nothing to simulate here")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use support::{Sandbox, process};

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!("{what}: median {:?}, p99 {:?}", at(50), at(99));
}

fn main() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let memory = |when: &str| {
        println!(
            "{when}: {} kB, of it {} kB its own",
            sandbox.status("VmRSS"),
            sandbox.status("RssAnon")
        );
    };
    memory("at rest");
    let time = |work: &mut dyn FnMut(u32)| -> Vec<Duration> {
        let one = |number| {
            let begun = Instant::now();
            work(number);
            begun.elapsed()
        };
        (1..=300).map(one).collect()
    };
    let execs = time(&mut |number| {
        link.run(number, &format!("e{number}"), process(&["/bin/true"]));
    });
    report("exec of true", execs);
    report(
        "the same by a plain parent",
        time(&mut |_| {
            Command::new("/bin/true").status().unwrap();
        }),
    );
    memory("after 300 execs");
    let begun = Instant::now();
    let total = 1 << 30;
    let bytes =
        link.run(1000, "big", process(&["head", "-c", "1073741824", "/dev/zero"])).stdout.len();
    assert_eq!(bytes, total);
    println!("output: {:.0} MB/s", total as f64 / 1e6 / begun.elapsed().as_secs_f64());
    memory("after 1 GiB");
}
