//! Invariants over one record, run by every test that makes records.

use crate::record::Record;

/// The first invariant that `record` breaks, as a sentence; `None`: it is sound.
pub fn check(record: &Record) -> Option<String> {
    intent(record).or_else(|| observation(record)).or_else(|| attempt(record))
}

fn first_broken<const N: usize>(rules: [(bool, &str); N]) -> Option<String> {
    rules.into_iter().find(|(holds, _)| !holds).map(|(_, rule)| rule.to_owned())
}

fn intent(record: &Record) -> Option<String> {
    let intent = &record.intent;
    first_broken([
        (intent.generation >= 1, "generations start at 1"),
        (intent.run >= 1, "runs start at 1"),
        (intent.run <= intent.generation, "each run is a change of intent"),
        (intent.spec_generation <= intent.generation, "the spec changed at a past generation"),
        (
            intent.fresh_after <= record.observed.incarnation,
            "a fresh backing is one above an incarnation that was seen",
        ),
    ])
}

fn observation(record: &Record) -> Option<String> {
    let observed = &record.observed;
    let named = observed.backing_run.is_some();
    let result = observed.result.as_ref().map(|result| (result.run, result.restart));
    let ordered = record.attempt.go.map(|go| (go.run, go.restart));
    first_broken([
        ((observed.incarnation > 0) == named, "an incarnation is a named run of the backing"),
        (
            observed.previous_backing_run.is_none()
                || observed.previous_backing_run != observed.backing_run,
            "two runs of a backing have two names",
        ),
        (observed.restarts <= observed.incarnation, "each healed loss is an incarnation"),
        (result <= ordered, "a result belongs to an order"),
    ])
}

fn attempt(record: &Record) -> Option<String> {
    let attempt = &record.attempt;
    let incarnation = record.observed.incarnation;
    first_broken([
        (
            attempt.generation <= record.intent.generation,
            "nothing is tried for an intent that is not there yet",
        ),
        (
            attempt.first_error.is_some() == attempt.latest_error.is_some(),
            "a latest error has a first one",
        ),
        (attempt.failure.is_none() || attempt.latest_error.is_some(), "a failed try has an error"),
        (
            attempt.go.is_none_or(|go| go.run <= record.intent.run),
            "no run is ordered that was not asked for",
        ),
        (
            attempt.go.is_none_or(|go| go.incarnation <= incarnation),
            "orders go to incarnations that were seen",
        ),
        (attempt.reached <= incarnation, "only incarnations that were seen are reached"),
        (attempt.from_incarnation <= incarnation, "a try begins at an incarnation that was seen"),
    ])
}
