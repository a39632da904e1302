//! The suite that every driver must pass: plain functions over the trait.
//!
//! A driver's tests make a [`Fixture`] and call [`check`] for each case of
//! [`driver_cases!`](crate::driver_cases) (one test each, with a fixture of its own), and
//! [`check_pins`] once. A case that asks for what the driver or the
//! fixture cannot do is skipped aloud; which ones are is pinned, so that a skip cannot creep in.
//!
//! Deliberately absent: what happens inside a session. Execs are proved end to end.

mod fixture;
mod frozen;
mod lifecycle;
mod losses;
mod many;
mod order;
mod session;
mod spec;
mod workspace;

pub use fixture::{Fixture, Footprint, Skip, Wishes};

use std::future::Future;
use std::pin::Pin;

/// What a case came to when it did not fail (a failure is a panic).
pub type Outcome = Result<(), Skip>;

type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A case under its name.
#[derive(Clone, Copy)]
pub struct Case {
    /// A sentence, as the name of a test.
    pub name: &'static str,
    run: fn(&dyn Fixture) -> Running<'_>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! cases {
    ($($module:ident: $($name:ident),* $(,)?;)*) => {
        /// Every case of the suite.
        pub const CASES: &[Case] = &[
            $($(Case { name: stringify!($name), run: |fixture| Box::pin($module::$name(fixture)) },)*)*
        ];
    };
}

/// Hands every case, by the module it is written in, to the macro `$use`: the list stands here and
/// nowhere else, so a driver's tests cannot leave one out.
#[macro_export]
macro_rules! driver_cases {
    ($use:ident) => {
        $use! {
            lifecycle:
                identity_stays_the_same_and_outlives_the_process,
                inspect_of_an_absent_one_says_absent,
                a_created_one_is_idle_until_it_is_started,
                create_collides_and_is_adopted,
                create_with_a_newer_generation_takes_its_place_and_keeps_the_root,
                start_of_what_was_never_created_is_not_found,
                start_of_a_running_one_is_left_alone,
                stop_is_polite_first,
                stop_kills_after_the_grace,
                kill_ends_it_at_once_and_twice_is_once,
                remove_of_an_absent_one_is_done,
                remove_leaves_nothing,
                remove_of_a_running_one_ends_it,
                list_finds_exactly_what_carries_our_id;
            order:
                every_order_of_verbs_ends_where_the_verbs_say;
            losses:
                recorded_provisioning_want_running_backing_idle,
                error_at_gateway_start_backing_exited_143_still_on_disk,
                a_killed_one_is_seen_exited_and_comes_back_as_another_run,
                a_reboot_is_seen_as_a_loss_and_start_brings_it_back,
                a_new_process_finds_what_runs_and_leaves_it_alone,
                the_end_of_a_running_one_is_told_to_who_watches;
            workspace:
                a_workspace_outlives_its_sandbox,
                a_marked_workspace_that_is_gone_is_missing_and_nothing_is_made,
                a_workspace_that_lost_its_mark_is_missing,
                start_refuses_an_empty_workspace_in_place_of_a_marked_one,
                ensuring_twice_is_once,
                discarding_twice_is_once_and_removes_every_byte,
                list_finds_marked_workspaces;
            session:
                pid_1_gets_a_session,
                a_second_process_gets_the_session_after_the_first_is_gone,
                a_process_inside_that_is_not_pid_1_gets_no_session,
                a_session_of_an_ended_run_is_refused,
                waiting_for_a_session_ends_with_the_run;
            frozen:
                a_frozen_one_is_paused_and_thaws,
                a_frozen_one_can_be_stopped;
            spec:
                a_limit_that_cannot_be_enforced_is_refused_unless_accepted,
                an_image_that_cannot_run_here_is_invalid_and_nothing_is_made;
            many:
                twenty_side_by_side_come_up_and_go,
                one_that_is_busy_does_not_hold_up_the_others;
        }
    };
}

driver_cases!(cases);

/// Runs one case and holds its outcome against the pinned skips.
///
/// # Panics
/// The case fails; it is skipped and not pinned; it is pinned and not skipped.
pub async fn check(fixture: &dyn Fixture, name: &str, pinned_skips: &[&str]) {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    let pinned = pinned_skips.contains(&name);
    match (case.run)(fixture).await {
        Ok(()) => assert!(!pinned, "{name} is pinned as skipped, and it ran"),
        Err(Skip(why)) => {
            fixture.say(&format!("skipped {name}: {why}"));
            assert!(pinned, "{name} was skipped ({why}) and is not pinned as skipped");
        }
    }
}

/// Holds the pinned skips against [`CASES`].
///
/// # Panics
/// A pinned name is no case.
pub fn check_pins(pinned_skips: &[&str]) {
    for name in pinned_skips {
        assert!(CASES.iter().any(|case| case.name == *name), "there is no case {name}");
    }
}
