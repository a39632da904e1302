//! Sessions with simulated supervisors: the same promises as the real ones, no bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sandkeep_core::{RunResult, SandboxId, Session};
use sandkeep_driver::simulated::{
    Disturbance, Execution, FaultKind, GoUnheard, SupervisorView, World,
};
use sandkeep_gateway::{Clock, GoOrder, SessionError, SessionTarget, Sessions};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::life::Life;

/// A supervisor that does not answer for so long has no session any more.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

/// How long a new connection takes.
const CONNECTING: Duration = Duration::from_millis(5);

/// How long an order is waited for.
const GO_DEADLINE: Duration = Duration::from_secs(10);

pub(crate) type Wake = Arc<dyn Fn(&SandboxId) + Send + Sync>;

/// All sessions of one gateway process.
#[derive(Clone)]
pub(crate) struct SimulatedSessions {
    shared: Arc<Shared>,
}

struct Shared {
    world: World,
    clock: Arc<dyn Clock>,
    life: Life,
    wake: Wake,
    lines: Mutex<BTreeMap<SandboxId, Line>>,
    /// The newest execution whose result is durable: a supervisor that tells it again brings
    /// no news.
    stored: Mutex<BTreeMap<SandboxId, Execution>>,
    /// Wakes in the order of waiting, so that a seed repeats; a watch channel would not.
    cuts: Notify,
}

struct Line {
    target: SessionTarget,
    session: Session,
    result: Option<RunResult>,
    keeper: AbortHandle,
}

impl std::fmt::Debug for SimulatedSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedSessions").finish_non_exhaustive()
    }
}

impl SimulatedSessions {
    pub(crate) fn new(world: World, clock: Arc<dyn Clock>, life: Life, wake: Wake) -> Self {
        let (lines, stored) = (Mutex::default(), Mutex::default());
        let cuts = Notify::new();
        Self { shared: Arc::new(Shared { world, clock, life, wake, lines, stored, cuts }) }
    }

    /// Every session is cut; each is made anew.
    pub(crate) fn cut_all(&self) {
        self.shared.cuts.notify_waiters();
        self.shared.world.with_faults(|faults| faults.count(FaultKind::SessionLost));
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what is known of the line with this target; wakes when that is news.
    fn tell(&self, target: &SessionTarget, session: Session, result: Option<RunResult>) {
        if self.life.is_over() {
            return;
        }
        let news = {
            let mut lines = self.lines();
            let Some(line) = lines.get_mut(&target.id) else { return };
            if !same(&line.target, target) {
                return;
            }
            let news = facts_of(&line.session) != facts_of(&session) || line.result != result;
            line.session = session;
            line.result = result;
            news
        };
        if news {
            (self.wake)(&target.id);
        }
    }

    fn view(&self, target: &SessionTarget) -> Option<SupervisorView> {
        let view = self.world.supervisor(&target.id, &target.backing_run)?;
        let stored = self.stored.lock().unwrap().get(&target.id).copied();
        let result = view.result.filter(|r| Some((r.run, r.restart)) > stored);
        Some(SupervisorView { result, ..view })
    }

    fn connected(&self, target: &SessionTarget, view: &SupervisorView) -> Session {
        let now = self.clock.now();
        let since = match self.lines().get(&target.id).map(|line| line.session.clone()) {
            Some(Session::Connected { since, incarnation, .. })
                if incarnation == target.incarnation =>
            {
                since
            }
            _ => now,
        };
        let incarnation = target.incarnation;
        Session::Connected { incarnation, since, probed_at: Some(now), main: view.main }
    }
}

/// What of a session is worth a look; a newer probe is not.
fn facts_of(session: &Session) -> Session {
    match session.clone() {
        Session::Connected { incarnation, since, probed_at, main } => Session::Connected {
            incarnation,
            since,
            probed_at: probed_at.map(|_| sandkeep_core::Timestamp::EPOCH),
            main,
        },
        other => other,
    }
}

fn same(one: &SessionTarget, other: &SessionTarget) -> bool {
    one.backing_run == other.backing_run && one.incarnation == other.incarnation
}

/// Keeps one session for ever: connects, follows, connects again.
async fn keep(shared: Arc<Shared>, target: SessionTarget) {
    loop {
        shared.world.until(|_| shared.view(&target).filter(|view| view.answers)).await;
        tokio::time::sleep(CONNECTING).await;
        if shared.view(&target).is_some_and(|view| view.answers) {
            follow(&shared, &target).await;
            shared.tell(&target, Session::Lost { since: shared.clock.now() }, None);
        }
    }
}

/// Until the session ends: because its supervisor has gone, does not answer, or it was cut.
async fn follow(shared: &Shared, target: &SessionTarget) {
    let cut = shared.cuts.notified();
    tokio::pin!(cut);
    cut.as_mut().enable();
    let mut known: Option<SupervisorView> = None;
    loop {
        let Some(view) = shared.view(target) else { return };
        if view.answers && known.as_ref() != Some(&view) {
            hear(shared, target, &view, known.as_ref()).await;
        }
        let answers = view.answers;
        known = Some(view);
        let changed = shared.world.until(|_| {
            let now = shared.view(target);
            (now.as_ref() != known.as_ref()).then_some(())
        });
        tokio::select! {
            biased;
            () = &mut cut => return,
            () = changed => {}
            () = tokio::time::sleep(PROBE_DEADLINE), if !answers => return,
        }
    }
}

/// Tells the reconciler what the supervisor says; a result may be told later than the end. Not in
/// the first word of a session, though: the real `Hello` has in it what is not stored yet, and
/// nobody sees the session without it.
async fn hear(
    shared: &Shared,
    target: &SessionTarget,
    view: &SupervisorView,
    before: Option<&SupervisorView>,
) {
    let session = shared.connected(target, view);
    let untold = before.is_some_and(|before| before.result != view.result);
    if untold && view.result.is_some() && shared.world.strikes_result_late() {
        shared.tell(target, session.clone(), None);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    shared.tell(target, session, view.result.clone());
}

#[async_trait]
impl Sessions for SimulatedSessions {
    fn want(&self, target: SessionTarget) {
        let mut lines = self.shared.lines();
        if lines.get(&target.id).is_some_and(|line| same(&line.target, &target)) {
            return;
        }
        let (shared, wanted) = (Arc::clone(&self.shared), target.clone());
        let life = self.shared.life.clone();
        let keeper =
            tokio::spawn(async move { life.during(keep(shared, wanted)).await }).abort_handle();
        let line = Line { target: target.clone(), session: Session::None, result: None, keeper };
        if let Some(old) = lines.insert(target.id, line) {
            old.keeper.abort();
        }
    }

    fn release(&self, id: &SandboxId) {
        if let Some(old) = self.shared.lines().remove(id) {
            old.keeper.abort();
        }
    }

    fn session(&self, id: &SandboxId) -> Session {
        self.shared.lines().get(id).map_or(Session::None, |line| line.session.clone())
    }

    fn result(&self, id: &SandboxId) -> Option<RunResult> {
        self.shared.lines().get(id).and_then(|line| line.result.clone())
    }

    fn result_stored(&self, id: &SandboxId, run: u64, restart: u32) {
        if self.shared.life.is_over() {
            return;
        }
        let backing_run = {
            let mut lines = self.shared.lines();
            let Some(line) = lines.get_mut(id) else { return };
            if line.result.as_ref().is_some_and(|r| (r.run, r.restart) <= (run, restart)) {
                line.result = None;
            }
            line.target.backing_run.clone()
        };
        let mut stored = self.shared.stored.lock().unwrap();
        let newest = stored.entry(id.clone()).or_default();
        *newest = (*newest).max((run, restart));
        drop(stored);
        self.shared.world.result_stored(id, &backing_run, run, restart);
    }

    async fn go(&self, id: &SandboxId, order: GoOrder) -> Result<(), SessionError> {
        self.shared.life.during(self.shared.go(id, order)).await
    }

    async fn forget(&self, id: &SandboxId) {
        self.release(id);
    }
}

impl Shared {
    async fn go(&self, id: &SandboxId, order: GoOrder) -> Result<(), SessionError> {
        let target = {
            let lines = self.lines();
            let line = lines.get(id).filter(|line| {
                matches!(line.session, Session::Connected { incarnation, .. }
                    if incarnation == order.go.incarnation)
            });
            line.map(|line| line.target.clone()).ok_or(SessionError::NotConnected)?
        };
        let fate = self.world.count_effect(&format!("go {id}"));
        tokio::time::sleep(Duration::from_millis(1)).await;
        match fate {
            Some(Disturbance::CrashBefore) => self.die("before go").await,
            Some(Disturbance::Error) => return Err(SessionError::Lost),
            Some(Disturbance::LateAnswer(after)) => {
                let (world, id) = (self.world.clone(), id.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    // Its gateway is dead.
                    let _unheard = world.go(&id, &target.backing_run, order.go, &order.spec);
                });
                return self.die("go comes late").await;
            }
            _ => {}
        }
        let answer = self.deliver(&target, id, &order).await;
        match fate {
            Some(Disturbance::Twice) => {
                // The second one finds its execution running already.
                let _again = self.deliver(&target, id, &order).await;
            }
            Some(Disturbance::CrashAfter) => return self.die("after go").await,
            Some(Disturbance::DoneButTimedOut) => {
                tokio::time::sleep(GO_DEADLINE).await;
                return Err(SessionError::Lost);
            }
            _ => {}
        }
        if let (Ok(()), Some(view)) = (&answer, self.view(&target)) {
            let session = self.connected(&target, &view);
            self.tell(&target, session, view.result);
        }
        answer
    }

    async fn deliver(
        &self,
        target: &SessionTarget,
        id: &SandboxId,
        order: &GoOrder,
    ) -> Result<(), SessionError> {
        match self.world.go(id, &target.backing_run, order.go, &order.spec) {
            Ok(()) => Ok(()),
            Err(GoUnheard::Gone) => Err(SessionError::Lost),
            Err(GoUnheard::Frozen) => {
                tokio::time::sleep(GO_DEADLINE).await;
                Err(SessionError::Lost)
            }
        }
    }

    async fn die<T>(&self, why: &str) -> T {
        self.world.order_crash(why);
        std::future::pending().await
    }
}
