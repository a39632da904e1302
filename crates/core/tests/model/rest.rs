//! How far a world is from rest: the steps that the system takes by itself once all events are
//! spent, as a graph that is looked at when the walk is over.
//!
//! The steps are not counted in the world itself: worlds that differ in such a count alone would be
//! walked many times over.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

/// Every step from a world without events to the next one.
#[derive(Default)]
pub(crate) struct Course(Mutex<Vec<(u64, u64)>>);

fn name(world: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

impl Course {
    pub(crate) fn note<World: Hash>(&self, from: &World, to: &World) {
        let step = (name(from), name(to));
        self.0.lock().expect("no walker panicked").push(step);
    }

    /// Steps of the longest way; `None`: some way has no end.
    pub(crate) fn longest(&self) -> Option<u32> {
        let steps = std::mem::take(&mut *self.0.lock().expect("no walker panicked"));
        let mut ways: HashMap<u64, Vec<u64>> = HashMap::new();
        // Steps that lead to a world and were not looked at yet, and the longest way there so far.
        let mut worlds: HashMap<u64, (u32, u32)> = HashMap::new();
        for (from, to) in steps {
            ways.entry(from).or_default().push(to);
            worlds.entry(from).or_default();
            worlds.entry(to).or_default().0 += 1;
        }
        let first = worlds.iter().filter(|(_, (open, _))| *open == 0);
        let mut ready: Vec<u64> = first.map(|(world, _)| *world).collect();
        let (mut seen, mut longest) = (0, 0);
        while let Some(world) = ready.pop() {
            seen += 1;
            let here = worlds[&world].1;
            longest = longest.max(here);
            for to in ways.remove(&world).unwrap_or_default() {
                let (open, far) = worlds.get_mut(&to).expect("each step has two ends");
                *open -= 1;
                *far = (*far).max(here + 1);
                if *open == 0 {
                    ready.push(to);
                }
            }
        }
        (seen == worlds.len()).then_some(longest)
    }
}

#[test]
fn the_longest_way_counts_where_ways_meet_again() {
    let course = Course::default();
    for (from, to) in [(1, 2), (1, 4), (2, 3), (3, 4), (4, 5)] {
        course.note(&from, &to);
    }
    assert_eq!(course.longest(), Some(4));
}

#[test]
fn a_way_without_an_end_is_found() {
    let course = Course::default();
    for (from, to) in [(1, 2), (2, 3), (3, 2), (3, 4)] {
        course.note(&from, &to);
    }
    assert_eq!(course.longest(), None);
}
