//! Walks many seeds on all cores, or one with its trace.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use crate::tally::Tally;
use crate::walk::{Walked, walk};

/// In a plain `cargo test`; `cargo xtask test` asks for 10,000.
const SEEDS: u64 = 500;

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A task that panics is no more than a task that ends, to a runtime; to a test it is a failure.
fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.with_borrow_mut(|panics| panics.push(info.to_string()));
            before(info);
        }));
    });
}

/// Walks one seed on a runtime of its own, so that nothing is left of it for the next.
pub(crate) fn walk_alone(seed: u64, keep_trace: bool) -> Walked {
    watch_for_panics();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without input and output can be made");
    let mut walked = runtime.block_on(walk(seed, keep_trace));
    drop(runtime);
    let panics = PANICS.with_borrow_mut(std::mem::take);
    if let Some(panic) = panics.first() {
        walked.outcome = Err(format!("a task panicked: {panic}"));
    }
    walked
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// The first seed that fails, of many walked on all cores.
fn walk_many(first: u64, count: u64) -> (Tally, Vec<(u64, String)>) {
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let total = Mutex::new((Tally::default(), Vec::new()));
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut own = Tally::default();
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let walked = walk_alone(seed, false);
                    own.add(walked.tally);
                    if let Err(what) = walked.outcome {
                        failed.store(number("SANDKEEP_SIM_GO_ON").is_none(), Ordering::Relaxed);
                        total.lock().unwrap().1.push((seed, what));
                    }
                }
                total.lock().unwrap().0.add(own);
            });
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn every_seed_keeps_what_was_asked_for() {
    if let Some(seed) = number("SANDKEEP_SIM_SEED") {
        let walked = walk_alone(seed, true);
        println!("{}", walked.trace.join("\n"));
        println!("{}", walked.tally);
        if let Err(what) = walked.outcome {
            panic!("seed {seed}: {what}");
        }
        return;
    }
    let count = number("SANDKEEP_SIM_SEEDS").unwrap_or(SEEDS);
    let first = number("SANDKEEP_SIM_FIRST").unwrap_or(1);
    let (tally, failed) = walk_many(first, count);
    println!("{tally}");
    for (seed, what) in &failed {
        println!("seed {seed}: {what}\n  replay: cargo xtask sim {seed}");
    }
    assert!(failed.is_empty(), "{} of {} seeds failed", failed.len(), tally.seeds);
    // A run too short to reach everything says so by failing only when it was meant to be long.
    let unreached = tally.unreached();
    if count >= SEEDS {
        assert!(unreached.is_empty(), "never reached: {}", unreached.join(", "));
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1..=20 {
        let (one, other) = (walk_alone(seed, false), walk_alone(seed, false));
        assert_eq!(one.hash, other.hash, "seed {seed}");
    }
}
