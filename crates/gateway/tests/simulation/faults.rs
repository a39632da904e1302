//! The faults' side of a walk: what befalls the gateway, its disk, its clock, engines and machine.

use std::time::Duration;

use sandkeep_core::SandboxId;
use sandkeep_driver::simulated::{FaultKind, Reach};
use sandkeep_store::StoreError;
use sandkeep_store::memory::{CommitFate, MemorySnapshot};

use crate::house::DRIVERS;
use crate::walk::{Broken, Walk};

impl Walk {
    pub(crate) async fn fault(&mut self) -> Result<(), String> {
        match self.rng.below(100) {
            0..12 => self.crash_gateway().await,
            12..26 => self.break_reach(),
            26..34 => self.restart_engine(),
            34..38 => self.reboot().await,
            38..60 => self.hurt_backing(),
            60..64 => self.cut_sessions(),
            64..74 => self.hurt_store(),
            74..78 => self.turn_clock(),
            78..81 => self.other_engine().await?,
            81..84 => self.fill_engine(),
            84..86 => self.lose_workspace(),
            86..90 => self.copies.push(self.house.store.snapshot()),
            90..93 => return self.roll_back().await,
            93..95 => return self.move_home().await,
            95..97 => self.forget_driver().await,
            _ => self.plan_crash(),
        }
        Ok(())
    }

    fn count(&self, kind: FaultKind) {
        self.house.world.with_faults(|faults| faults.count(kind));
    }

    async fn crash_gateway(&mut self) {
        let longest = *self.rng.pick(&[100, 5000, 900_000]);
        self.house.away = self.rng.millis(1, longest);
        self.house.crash("by chance").await;
    }

    /// The gateway dies right before, right after, or far ahead of its next effects' answers.
    fn plan_crash(&mut self) {
        use sandkeep_driver::simulated::Disturbance::{CrashAfter, CrashBefore, LateAnswer};
        let number = self.house.world.effects() + self.rng.between(1, 4);
        let late = LateAnswer(self.rng.millis(1, 20_000));
        let what = *self.rng.pick(&[CrashBefore, CrashAfter, late]);
        self.house.away = self.rng.millis(1, 3000);
        self.house.world.with_faults(|faults| faults.plan(number, what));
    }

    fn break_reach(&mut self) {
        let driver = *self.rng.pick(&DRIVERS);
        let (kind, reach) = match self.rng.below(3) {
            0 => (FaultKind::EngineDown, Reach::Down),
            1 => (FaultKind::EngineHung, Reach::Hung),
            _ => (FaultKind::EngineSlow, Reach::Slow(self.rng.millis(500, 15_000))),
        };
        self.count(kind);
        self.house.world.set_reach(driver, reach);
        self.mend_after(500, 300_000, Broken::Reach(driver));
    }

    /// As Docker or a Podman machine: everything on it ends, stays on disk, and nobody starts it.
    fn restart_engine(&mut self) {
        let driver = *self.rng.pick(&DRIVERS);
        self.count(FaultKind::EngineRestarted);
        if let Some(engine) = self.house.world.engine_of(driver) {
            self.house.world.set_reach(driver, Reach::Down);
            self.house.world.end_everything(&engine, Some(143));
            self.mend_after(100, 30_000, Broken::Reach(driver));
        }
    }

    async fn reboot(&mut self) {
        self.count(FaultKind::MachineRebooted);
        self.house.kill("the machine reboots");
        for driver in DRIVERS {
            if let Some(engine) = self.house.world.engine_of(driver) {
                self.house.world.end_everything(&engine, None);
            }
        }
        let down = self.rng.millis(5000, 600_000);
        tokio::time::sleep(down).await;
        self.house.start().await;
    }

    fn hurt_backing(&mut self) {
        let Some((driver, id)) = self.some_backing() else { return };
        let Some(engine) = self.house.world.engine_of(driver) else { return };
        let world = &self.house.world;
        let (kind, done) = match self.rng.below(7) {
            0 => (FaultKind::BackingKilled, world.kill_backing(&engine, &id, 137, false)),
            1 => (FaultKind::BackingKilled, world.kill_backing(&engine, &id, 0, false)),
            2 => (FaultKind::BackingOutOfMemory, world.kill_backing(&engine, &id, 137, true)),
            3 => (FaultKind::BackingStopped, world.kill_backing(&engine, &id, 143, false)),
            4 | 5 => (FaultKind::BackingPaused, world.set_paused(&engine, &id, true)),
            _ => (FaultKind::BackingRemoved, world.remove_backing(&engine, &id)),
        };
        if done {
            self.count(kind);
        }
    }

    fn some_backing(&mut self) -> Option<(&'static str, SandboxId)> {
        let driver = *self.rng.pick(&DRIVERS);
        let engine = self.house.world.engine_of(driver)?;
        let ids: Vec<SandboxId> = self
            .house
            .world
            .with_engine(&engine, |engine| engine.backings.keys().cloned().collect())?;
        (!ids.is_empty()).then(|| (driver, self.rng.pick(&ids).clone()))
    }

    fn cut_sessions(&mut self) {
        self.house.world.note(format_args!("all sessions are cut"));
        if let Some(process) = &self.house.process {
            process.sessions.cut_all();
        }
    }

    fn hurt_store(&mut self) {
        let broken = || StoreError::Unavailable { message: "the disk failed by chance".to_owned() };
        let store = self.house.store.clone();
        match self.rng.below(4) {
            0 => {
                self.count(FaultKind::StoreFull);
                store.set_full(true);
                self.mend_after(1000, 120_000, Broken::StoreFull);
            }
            1 => {
                self.count(FaultKind::StoreFailed);
                for _ in 0..self.rng.between(1, 4) {
                    store.fail_next(broken());
                }
            }
            2 => {
                self.count(FaultKind::StoreDoneButFailed);
                store.fate_next(CommitFate::FailAfter(broken()));
            }
            _ => {
                // A disk that never answers again ends with the process.
                self.count(FaultKind::StoreHungThenCrash);
                let number = self.house.world.effects() + 1;
                let die = sandkeep_driver::simulated::Disturbance::CrashAfter;
                self.house.world.with_faults(|faults| faults.plan(number, die));
            }
        }
    }

    fn turn_clock(&mut self) {
        let by = i64::try_from(*self.rng.pick(&[5_u64, 3600, 86_400 * 30])).unwrap_or(0) * 1000;
        let by = if self.rng.chance(500) { by } else { -by };
        self.count(if by > 0 { FaultKind::ClockForward } else { FaultKind::ClockBack });
        self.house.world.note(format_args!("the clock is turned by {by} ms"));
        self.house.clock.turn(by);
    }

    /// Another engine answers where ours was: it knows nothing of us, and that proves nothing.
    async fn other_engine(&mut self) -> Result<(), String> {
        let driver = *self.rng.pick(&DRIVERS);
        if self.mending.iter().any(|mend| matches!(mend.what, Broken::Engine(d) if d == driver)) {
            return Ok(());
        }
        self.count(FaultKind::OtherEngine);
        // Every connection to the old one is broken before the new one answers.
        self.house.world.set_reach(driver, Reach::Down);
        self.mending.retain(|mend| !matches!(mend.what, Broken::Reach(d) if d == driver));
        self.mend_after(120_000, 400_000, Broken::Engine(driver));
        self.pass(Duration::from_secs(30)).await?;
        self.house.world.lead_to(driver, &format!("other-{driver}"));
        self.house.world.set_reach(driver, Reach::Up);
        Ok(())
    }

    fn fill_engine(&mut self) {
        let driver = *self.rng.pick(&DRIVERS);
        let engine = format!("engine-{driver}");
        self.count(FaultKind::EngineFull);
        self.house.world.set_engine_full(&engine, true);
        self.mend_after(5000, 200_000, Broken::EngineFull(engine));
    }

    fn lose_workspace(&mut self) {
        let driver = *self.rng.pick(&DRIVERS);
        let engine = format!("engine-{driver}");
        let ids: Vec<_> = self
            .house
            .world
            .with_engine(&engine, |engine| {
                let idle = engine.workspaces.keys().filter(|id| {
                    !engine.backings.values().any(|backing| {
                        backing.state.is_live() && backing.made_from.spec.workspace == **id
                    })
                });
                idle.cloned().collect()
            })
            .unwrap_or_default();
        if ids.is_empty() {
            return;
        }
        let id = self.rng.pick(&ids).clone();
        if self.house.world.lose_workspace(&engine, &id) {
            self.count(FaultKind::WorkspaceLost);
        }
    }

    /// The store is as it was some time ago.
    async fn roll_back(&mut self) -> Result<(), String> {
        if self.copies.is_empty() || self.adrift {
            return Ok(());
        }
        let copy: MemorySnapshot = self.rng.pick(&self.copies).clone();
        self.count(FaultKind::StoreRolledBack);
        self.house.kill("its store is rolled back");
        self.house.store.restore(&copy);
        self.house.world.note(format_args!("the store is rolled back"));
        self.house.world.forgive_runs();
        self.adrift = true;
        self.hold_has_cause = true;
        self.house.start().await;
        let look = self.rng.millis(30_000, 90_000);
        self.pass(look).await?;
        self.hold_holds().await?;
        if self.house.gateway().hold().is_none() {
            // Nothing on any backend proves it: what the store says holds.
            self.adrift = false;
            for entry in self.book.entries.values_mut() {
                entry.forget_promises();
            }
        }
        self.end_adrift().await
    }

    /// In hold nothing is changed on any backend, however long it takes.
    async fn hold_holds(&mut self) -> Result<(), String> {
        if self.house.gateway().hold().is_none() {
            return Ok(());
        }
        // Calls that were under way when it went into hold come to their end.
        self.pass(Duration::from_secs(60)).await?;
        let before = self.house.world.acted();
        self.pass(Duration::from_secs(300)).await?;
        let acted = self.house.world.acted() - before;
        if self.house.gateway().hold().is_some() && acted > 0 {
            return Err(format!("in hold, and {acted} calls changed something on backends"));
        }
        Ok(())
    }

    /// The home is found on another machine.
    async fn move_home(&mut self) -> Result<(), String> {
        self.count(FaultKind::HomeCopied);
        self.hold_has_cause = true;
        self.house.kill("its home is moved");
        self.house.machine.push('x');
        self.house.start().await;
        if self.house.gateway().hold().is_none() {
            return Err("a home on another machine, and no hold".to_owned());
        }
        self.hold_holds().await?;
        self.end_adrift().await
    }

    async fn forget_driver(&mut self) {
        if self.house.configured.len() < DRIVERS.len() {
            return;
        }
        let driver = *self.rng.pick(&DRIVERS);
        self.house.configured.retain(|name| *name != driver);
        self.house.world.note(format_args!("the next gateway is not given {driver}"));
        self.house.crash("to be given fewer drivers").await;
        self.mend_after(1000, 120_000, Broken::Configured);
    }
}
