//! One seed: users and faults walk about at random, then faults freeze and everything that can
//! must come about and stay.

use std::time::Duration;

use sandkeep_driver::simulated::{Pace, Rates, Reach, Rng};

use crate::book::Book;
use crate::house::{Answer, DRIVERS, House};
use crate::settled::unsettled;
use crate::tally::Tally;

/// How finely time is cut while everything is checked.
pub(crate) const SLICE: Duration = Duration::from_secs(2);

/// Everything has to have come about so long after faults have frozen. The longest single wait is
/// a remove or discard whose answer never comes (five and ten minutes); the rest is backoff of at
/// most a minute each.
const CONVERGES_WITHIN: Duration = Duration::from_secs(40 * 60);

/// After everything has come about: longer than the longest command of the walk takes to run as
/// often as it ends (three times 65 s) and to have been steady for a minute.
const STEADY: Duration = Duration::from_secs(6 * 60);

/// Adopt and disown ask every engine, one of which may be hung.
const PATIENCE: Duration = Duration::from_secs(300);

/// Then nothing is written for so long.
const AT_REST: Duration = Duration::from_secs(2 * 3600);

/// One seed being walked.
pub(crate) struct Walk {
    pub(crate) house: House,
    pub(crate) book: Book,
    pub(crate) rng: Rng,
    pub(crate) tally: Tally,
    pub(crate) mending: Vec<Mend>,
    pub(crate) next_name: u64,
    /// The store was rolled back or the home moved at some time: a hold has a cause.
    pub(crate) hold_has_cause: bool,
    /// Promises were given up: the store was rolled back and nobody has said whose all this is.
    pub(crate) adrift: bool,
    pub(crate) copies: Vec<sandkeep_store::memory::MemorySnapshot>,
}

/// Something that is broken and will be mended.
pub(crate) struct Mend {
    pub(crate) at: Duration,
    pub(crate) what: Broken,
}

#[derive(Debug, Clone)]
pub(crate) enum Broken {
    Reach(&'static str),
    Engine(&'static str),
    EngineFull(String),
    StoreFull,
    Configured,
}

/// How a seed went.
pub(crate) struct Walked {
    pub(crate) tally: Tally,
    pub(crate) hash: u64,
    pub(crate) trace: Vec<String>,
    pub(crate) outcome: Result<(), String>,
}

/// Walks one seed to its end.
pub(crate) async fn walk(seed: u64, keep_trace: bool) -> Walked {
    let mut rng = Rng::new(seed ^ 0x5a5a_0000_1111_2222);
    let house = House::new(rng.next(), Pace::VARIED, keep_trace);
    let mut walk = Walk {
        house,
        book: Book::default(),
        rng,
        tally: Tally { seeds: 1, ..Tally::default() },
        mending: Vec::new(),
        next_name: 0,
        hold_has_cause: false,
        adrift: false,
        copies: Vec::new(),
    };
    let outcome = walk.whole().await;
    walk.finish(outcome)
}

impl Walk {
    async fn whole(&mut self) -> Result<(), String> {
        self.house.start().await;
        self.rough_times().await?;
        self.freeze().await?;
        self.converge().await?;
        self.rest().await
    }

    async fn rough_times(&mut self) -> Result<(), String> {
        // One seed in eight has users and no chance faults: their own races are enough.
        if !self.rng.chance(125) {
            self.house.world.with_faults(|faults| faults.rates = Rates::ROUGH);
        }
        let steps = self.rng.between(15, 45);
        for _ in 0..steps {
            self.step().await?;
            let longest = *self.rng.pick(&[500, 3000, 20_000, 90_000]);
            let wait = self.rng.millis(0, longest);
            self.pass(wait).await?;
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<(), String> {
        if self.house.gateway().hold().is_some() && self.rng.chance(300) {
            return self.end_adrift().await;
        }
        if self.rng.chance(550) { self.verb().await } else { self.fault().await }
    }

    /// Lets time pass in slices, mends what is due, checks after each.
    pub(crate) async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let end = self.house.world.elapsed() + time;
        loop {
            let now = self.house.world.elapsed();
            if now >= end {
                return self.check();
            }
            self.house.pass(SLICE.min(end - now)).await;
            self.mend_due(false).await;
            self.check()?;
        }
    }

    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.tally.sandbox_ms += u64::try_from(self.book.entries.len()).unwrap_or(0) * 2000;
        if self.house.gateway().hold().is_some() && !self.hold_has_cause {
            let hold = self.house.gateway().hold();
            return Err(format!("the gateway is in hold without cause: {hold:?}"));
        }
        if self.adrift {
            // What is wrong at this moment may be what a user has to say something about.
            return match self.house.world.violations().first() {
                Some(violation) => Err(violation.clone()),
                None => self.house.world.work_is_whole(),
            };
        }
        self.book.check(&self.house)
    }

    pub(crate) fn mend_after(&mut self, low_ms: u64, high_ms: u64, what: Broken) {
        let at = self.house.world.elapsed() + self.rng.millis(low_ms, high_ms);
        self.mending.push(Mend { at, what });
    }

    pub(crate) async fn mend_due(&mut self, all: bool) {
        let now = self.house.world.elapsed();
        let due = |mend: &Mend| all || mend.at <= now;
        let (due, later): (Vec<Mend>, Vec<Mend>) =
            std::mem::take(&mut self.mending).into_iter().partition(due);
        self.mending = later;
        let away: Vec<&'static str> = due
            .iter()
            .chain(&self.mending)
            .filter_map(|mend| match mend.what {
                Broken::Engine(driver) => Some(driver),
                _ => None,
            })
            .collect();
        for mend in due {
            // An engine that is on its way back is not reached before it is there.
            if matches!(mend.what, Broken::Reach(driver) if away.contains(&driver)) {
                continue;
            }
            self.mend(mend.what).await;
        }
    }

    async fn mend(&mut self, what: Broken) {
        let world = &self.house.world;
        match what {
            Broken::Reach(driver) => world.set_reach(driver, Reach::Up),
            Broken::Engine(driver) => {
                // Every connection to the other one is broken before ours answers again.
                world.set_reach(driver, Reach::Down);
                world.lead_to(driver, &format!("engine-{driver}"));
                self.mend_after(30_000, 30_000, Broken::Reach(driver));
            }
            Broken::EngineFull(engine) => world.set_engine_full(&engine, false),
            Broken::StoreFull => self.house.store.set_full(false),
            Broken::Configured => {
                self.house.configured = DRIVERS.to_vec();
                self.house.crash("to be given all drivers again").await;
            }
        }
    }

    /// Faults come to an end; what is dead stays dead.
    async fn freeze(&mut self) -> Result<(), String> {
        self.house.world.note(format_args!("faults freeze"));
        self.house.world.with_faults(sandkeep_driver::simulated::Faults::freeze);
        self.house.store.set_hook(None);
        self.mend_due(true).await;
        self.pass(Duration::from_secs(30)).await?;
        self.mend_due(true).await;
        self.end_adrift().await?;
        if self.rng.chance(150) {
            let driver = *self.rng.pick(&DRIVERS);
            let reach = if self.rng.chance(500) { Reach::Down } else { Reach::Hung };
            self.house.world.set_reach(driver, reach);
        }
        Ok(())
    }

    /// A user says whose all this is, if that is the question.
    pub(crate) async fn end_adrift(&mut self) -> Result<(), String> {
        for _ in 0..100 {
            if self.house.gateway().hold().is_none() {
                break;
            }
            let adopt = self.rng.chance(600);
            self.tally.verb(if adopt { "adopt" } else { "disown" });
            let answer = if adopt {
                self.house
                    .ask_for(PATIENCE, |gateway| async move { gateway.adopt("user").await })
                    .await
            } else {
                self.house
                    .ask_for(PATIENCE, |gateway| async move { gateway.disown("user").await })
                    .await
            };
            let names = format!("{answer:?}");
            self.house.world.note(format_args!("adopt {adopt}: {names}"));
            if matches!(answer, Answer::Given(Ok(_))) {
                self.settle_book();
            }
            self.house.pass(Duration::from_secs(10)).await;
        }
        if self.house.gateway().hold().is_some() {
            return Err("the gateway stays in hold".to_owned());
        }
        Ok(())
    }

    /// What the gateway says now is what was promised.
    fn settle_book(&mut self) {
        self.adrift = false;
        for entry in self.book.entries.values_mut() {
            entry.forget_promises();
        }
    }

    async fn converge(&mut self) -> Result<(), String> {
        let begun = self.house.world.elapsed();
        loop {
            self.pass(Duration::from_secs(10)).await?;
            let open = unsettled(&self.house, &self.book);
            if open.is_empty() {
                break;
            }
            if self.house.gateway().hold().is_some() {
                self.end_adrift().await?;
            }
            if self.house.world.elapsed() - begun > CONVERGES_WITHIN {
                return Err(format!("never comes about: {}", open.join("; ")));
            }
        }
        Ok(())
    }

    async fn rest(&mut self) -> Result<(), String> {
        self.pass(STEADY).await?;
        let open = unsettled(&self.house, &self.book);
        if !open.is_empty() {
            return Err(format!("came about and did not stay: {}", open.join("; ")));
        }
        let before = (self.house.store.commits(), self.house.world.acted());
        let end = self.house.world.elapsed() + AT_REST;
        while self.house.world.elapsed() < end {
            self.house.pass(Duration::from_secs(120)).await;
            self.check()?;
        }
        let after = (self.house.store.commits(), self.house.world.acted());
        if before != after {
            return Err(format!(
                "at rest: {} commits and {} calls",
                after.0 - before.0,
                after.1 - before.1
            ));
        }
        Ok(())
    }

    fn finish(mut self, outcome: Result<(), String>) -> Walked {
        let world = self.house.world.clone();
        self.tally.faults = world.with_faults(|faults| faults.counts().clone());
        self.tally.actions = self.house.all_actions();
        self.tally.effects = world.effects();
        self.tally.reasons = std::mem::take(&mut self.book.reasons);
        self.tally.phases = std::mem::take(&mut self.book.phases);
        let (hash, trace) = (world.trace_hash(), world.trace_lines());
        Walked { tally: self.tally, hash, trace, outcome }
    }
}
