//! Half sentences about a sandbox's state, used in progress and in failures.

use std::time::Duration;

use sandkeep_proto::v1::Sandbox;

/// `lab: Starting (WaitingForSupervisor): the supervisor has not reported yet`.
pub(crate) fn state(sandbox: &Sandbox) -> String {
    format!("{}: {}", sandbox.name, state_of(sandbox))
}

/// The same without the name.
pub(crate) fn state_of(sandbox: &Sandbox) -> String {
    let Sandbox { phase, reason, message, .. } = sandbox;
    match (reason.is_empty() || reason == phase, message.is_empty()) {
        (true, true) => phase.clone(),
        (true, false) => format!("{phase}: {message}"),
        (false, true) => format!("{phase} ({reason})"),
        (false, false) => format!("{phase} ({reason}): {message}"),
    }
}

/// Why it is as it is, as one clause.
pub(crate) fn why(sandbox: &Sandbox) -> String {
    match (sandbox.message.is_empty(), &sandbox.last_error) {
        (false, _) => sandbox.message.clone(),
        (true, Some(error)) if !error.message.is_empty() => error.message.clone(),
        _ => sandbox.reason.clone(),
    }
}

/// `10 min`, `1 h 30 min`, `45 s`, `500 ms`.
pub(crate) fn span(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 {
        return format!("{millis} ms");
    }
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let shown: Vec<String> = parts
        .iter()
        .filter(|(amount, _)| *amount > 0)
        .map(|(amount, unit)| format!("{amount} {unit}"))
        .collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_in_the_units_people_say() {
        for (millis, expect) in
            [(500, "500 ms"), (45_000, "45 s"), (600_000, "10 min"), (5_400_000, "1 h 30 min")]
        {
            assert_eq!(span(Duration::from_millis(millis)), expect);
        }
    }

    #[test]
    fn a_state_says_no_more_than_is_known() {
        let mut sandbox =
            Sandbox { name: "lab".into(), phase: "Ready".into(), ..Sandbox::default() };
        assert_eq!(state(&sandbox), "lab: Ready");
        sandbox.reason = "RunLost".into();
        assert_eq!(state(&sandbox), "lab: Ready (RunLost)");
        sandbox.message = "the run was lost".into();
        assert_eq!(state(&sandbox), "lab: Ready (RunLost): the run was lost");
    }
}
