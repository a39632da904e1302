//! One keyed queue: every key at most once in it, at most one worker on a key at a time, and
//! wake-ups in the future.
//!
//! ```text
//!            wake                     take                 done
//!   idle ──────────────▶ ready ─────────────▶ running ─────────────▶ idle
//!     ▲                    ▲  wake while running: again  │
//!     └── timer ◀── wake_at┴─────────────────────────────┘
//! ```
//! A wake carries a key and nothing else, so the path after a restart is the everyday path.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandkeep_core::{SandboxId, WorkspaceId};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What the reconciler looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A sandbox.
    Sandbox(SandboxId),
    /// A workspace that is to be discarded.
    Workspace(WorkspaceId),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandbox(id) => write!(f, "sandbox {id}"),
            Self::Workspace(id) => write!(f, "workspace {id}"),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Key>,
    /// Exactly the keys in `ready`.
    queued: HashSet<Key>,
    running: HashSet<Key>,
    /// Running keys that were woken meanwhile.
    again: HashSet<Key>,
    timers: BTreeSet<(Instant, Key)>,
    timer_of: HashMap<Key, Instant>,
    closed: bool,
}

impl State {
    fn push(&mut self, key: Key) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn clear_timer(&mut self, key: &Key) {
        if let Some(at) = self.timer_of.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
    }

    fn fire_due(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.clear_timer(&key);
            self.push(key);
        }
    }
}

/// The queue. Cheap to share.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl Queue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Look at this key soon. A timer set for it is void: the look will set the next one.
    pub fn wake(&self, key: Key) {
        let mut state = self.state();
        state.clear_timer(&key);
        state.push(key);
        drop(state);
        self.changed.notify_one();
    }

    /// Look at this key after `delay`, unless something wakes it before. Replaces its timer.
    pub fn wake_after(&self, key: Key, delay: Duration) {
        let mut state = self.state();
        state.clear_timer(&key);
        let at = Instant::now() + delay;
        state.timer_of.insert(key.clone(), at);
        state.timers.insert((at, key));
        drop(state);
        self.changed.notify_one();
    }

    /// The next key to work on; `None` once closed. The caller owes a [`done`](Self::done).
    pub async fn take(&self) -> Option<Key> {
        loop {
            let notified = self.changed.notified();
            let next_timer = {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                state.fire_due(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.queued.remove(&key);
                    state.running.insert(key.clone());
                    return Some(key);
                }
                state.timers.first().map(|(at, _)| *at)
            };
            match next_timer {
                Some(at) => tokio::select! {
                    biased;
                    () = notified => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => notified.await,
            }
        }
    }

    /// The worker has finished with this key; it is queued again if it was woken meanwhile.
    pub fn done(&self, key: &Key) {
        let mut state = self.state();
        state.running.remove(key);
        if state.again.remove(key) {
            state.clear_timer(key);
            state.push(key.clone());
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Nothing is handed out any more.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    /// Keys ready or being worked on; those that wait for a timer are not counted.
    pub fn depth(&self) -> usize {
        let state = self.state();
        state.ready.len() + state.running.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        Key::Sandbox(SandboxId::from_random([n; 8]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_woken_many_times_is_handed_out_once() {
        let queue = Queue::new();
        for _ in 0..10 {
            queue.wake(key(1));
        }
        assert_eq!(queue.take().await, Some(key(1)));
        queue.done(&key(1));
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_key_is_never_handed_out_twice_and_comes_again_after() {
        let queue = Queue::new();
        queue.wake(key(1));
        assert_eq!(queue.take().await, Some(key(1)));
        queue.wake(key(1));
        queue.wake(key(2));
        assert_eq!(queue.take().await, Some(key(2)));
        let nothing = tokio::time::timeout(Duration::from_secs(60), queue.take()).await;
        assert!(nothing.is_err(), "key 1 is still running");
        queue.done(&key(1));
        assert_eq!(queue.take().await, Some(key(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_and_an_earlier_wake_voids_it() {
        let queue = Queue::new();
        let begin = Instant::now();
        queue.wake_after(key(1), Duration::from_secs(5));
        assert_eq!(queue.take().await, Some(key(1)));
        assert_eq!(begin.elapsed().as_secs(), 5);
        queue.done(&key(1));

        queue.wake_after(key(2), Duration::from_secs(5));
        queue.wake(key(2));
        assert_eq!(queue.take().await, Some(key(2)));
        queue.done(&key(2));
        let nothing = tokio::time::timeout(Duration::from_secs(60), queue.take()).await;
        assert!(nothing.is_err(), "the timer was void");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_set_while_running_survives_done() {
        let queue = Queue::new();
        queue.wake(key(1));
        let taken = queue.take().await;
        queue.wake_after(key(1), Duration::from_secs(1));
        queue.done(&key(1));
        assert_eq!(queue.take().await, taken);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_hands_out_nothing() {
        let queue = Queue::new();
        queue.wake(key(1));
        queue.close();
        assert_eq!(queue.take().await, None);
    }
}
