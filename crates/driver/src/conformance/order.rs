//! Every order of verbs, held against a dumb twin that says where each must end.

use std::time::Duration;

use sandkeep_core::Backing;

use super::Outcome;
use super::fixture::{Fixture, Wishes, fine, refused};
use crate::{Driver, ErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Create,
    Start,
    Stop,
    Kill,
    Remove,
}

const VERBS: [Verb; 5] = [Verb::Create, Verb::Start, Verb::Stop, Verb::Kill, Verb::Remove];

/// Where the twin thinks the backing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Absent,
    Idle,
    Running,
    Exited,
}

impl Twin {
    fn after(self, verb: Verb) -> Self {
        match (verb, self) {
            (Verb::Remove, _) => Self::Absent,
            (Verb::Create, Self::Absent) => Self::Idle,
            (Verb::Start, Self::Idle | Self::Exited) => Self::Running,
            (Verb::Stop | Verb::Kill, Self::Running) => Self::Exited,
            (_, here) => here,
        }
    }

    fn is(self, backing: &Backing) -> bool {
        match self {
            Self::Absent => matches!(backing, Backing::Absent),
            Self::Idle => matches!(backing, Backing::Idle),
            Self::Running => matches!(backing, Backing::Running),
            Self::Exited => matches!(backing, Backing::Exited { .. }),
        }
    }
}

/// All words of three verbs; after each verb the driver is where the twin is.
pub(super) async fn every_order_of_verbs_ends_where_the_verbs_say(
    fixture: &dyn Fixture,
) -> Outcome {
    let driver = fixture.driver();
    let wishes = Wishes::new(fixture, 1);
    fine("workspace", driver.ensure_workspace(&wishes.workspace(false)).await);
    for first in VERBS {
        for second in VERBS {
            for third in VERBS {
                let mut twin = Twin::Absent;
                for verb in [first, second, third] {
                    carry_out(&*driver, &wishes, verb, twin).await;
                    twin = twin.after(verb);
                    let word = format!("{first:?} {second:?} {third:?}, at {verb:?}: {twin:?}");
                    wishes.until(&*driver, &word, |backing| twin.is(backing)).await;
                }
                fine("remove", driver.remove(&wishes.id).await);
            }
        }
    }
    Ok(())
}

async fn carry_out(driver: &dyn Driver, wishes: &Wishes, verb: Verb, twin: Twin) {
    match verb {
        Verb::Create => fine("create", driver.create(&wishes.backing(1)).await),
        Verb::Start if twin == Twin::Absent => {
            assert_eq!(refused("start", driver.start(&wishes.id).await), ErrorKind::NotFound);
        }
        Verb::Start => drop(fine("start", driver.start(&wishes.id).await)),
        Verb::Stop => fine("stop", driver.stop(&wishes.id, Duration::from_secs(20)).await),
        Verb::Kill => fine("kill", driver.kill(&wishes.id).await),
        Verb::Remove => fine("remove", driver.remove(&wishes.id).await),
    }
}
