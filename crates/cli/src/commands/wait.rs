//! `sandkeep wait`.

use std::time::Duration;

use sandkeep_proto::v1::{Sandbox, SandboxRef};

use super::Context;
use crate::args::{Format, Output};
use crate::client::Gateway;
use crate::error::Failure;
use crate::many::{Targets, each, report};
use crate::progress::Progress;
use crate::render;
use crate::size;
use crate::wait::{DEFAULT_TIMEOUT, Goal, Reached, Subject, wait_for};

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    targets: Targets,
    /// ready, stopped, completed, deleted or condition=TYPE[=STATUS]; what is not there is deleted
    #[arg(long = "for", value_parser = goal, default_value = "ready", value_name = "STATE")]
    goal: Goal,
    /// Longest time to wait [default: 10m]
    #[arg(long, value_parser = size::duration, value_name = "TIME")]
    timeout: Option<Duration>,
    #[command(flatten)]
    output: Output,
}

fn goal(text: &str) -> Result<Goal, String> {
    match text.to_ascii_lowercase().as_str() {
        "ready" => return Ok(Goal::Ready),
        "stopped" => return Ok(Goal::Stopped),
        "completed" => return Ok(Goal::Completed),
        "deleted" => return Ok(Goal::Deleted),
        _ => {}
    }
    let condition = text.strip_prefix("condition=").filter(|rest| !rest.is_empty());
    let condition =
        condition.ok_or("ready, stopped, completed, deleted or condition=TYPE[=STATUS]")?;
    let (kind, status) = condition.split_once('=').unwrap_or((condition, "True"));
    match status.to_ascii_lowercase().as_str() {
        "true" | "false" | "unknown" => {
            Ok(Goal::Condition { kind: kind.to_owned(), status: status.to_owned() })
        }
        other => Err(format!("{other:?} is no status; True, False or Unknown is expected")),
    }
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let mut gateway = context.connector.connect().await?;
    let names = arguments.targets.resolve(&mut gateway).await?;
    let timeout = arguments.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let results = each(&names, |name| {
        let (gateway, goal, quiet) = (gateway.clone(), arguments.goal.clone(), context.quiet);
        async move { one(gateway, name, goal, timeout, quiet).await }
    })
    .await;
    let (reached, code) = report(results);
    let (mut sandboxes, mut gone) = (Vec::new(), Vec::new());
    for (name, sandbox) in reached {
        match sandbox {
            Some(sandbox) => sandboxes.push(*sandbox),
            None => gone.push(Sandbox { name, ..Sandbox::default() }),
        }
    }
    match arguments.output.format {
        Format::Table => {
            render::result(&render::sandbox::outcomes(&sandboxes))?;
            render::result(&render::sandbox::words(&gone, "deleted"))?;
        }
        Format::Json => render::sandbox::one_or_many(sandboxes, arguments.targets.is_single())?,
        Format::Name => {
            render::result(&render::sandbox::names(&sandboxes))?;
            render::result(&render::sandbox::names(&gone))?;
        }
    }
    Ok(code)
}

async fn one(
    mut gateway: Gateway,
    name: String,
    goal: Goal,
    timeout: Duration,
    quiet: bool,
) -> Result<(String, Option<Box<Sandbox>>), Failure> {
    // By id from here on: a new sandbox of that name is another one.
    let what = format!("sandbox \"{name}\" was not waited for");
    let found = gateway
        .call(&what, |mut client| {
            let request = SandboxRef { name: name.clone() };
            async move { client.get(request).await }
        })
        .await;
    let subject = match found {
        Ok(sandbox) => Subject::of(&sandbox),
        Err(failure) if failure.exit == crate::error::exit::NOT_FOUND && goal == Goal::Deleted => {
            return Ok((name, None));
        }
        Err(failure) => return Err(failure),
    };
    let mut progress = Progress::new(quiet);
    match wait_for(&mut gateway, &subject, &goal, timeout, &mut progress).await? {
        Reached::Sandbox(sandbox) => Ok((name, Some(sandbox))),
        Reached::Gone => Ok((subject.name, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read_and_a_condition_means_true_unless_said() {
        assert_eq!(goal("ready"), Ok(Goal::Ready));
        assert_eq!(goal("Stopped"), Ok(Goal::Stopped));
        let condition = |kind: &str, status: &str| {
            Ok(Goal::Condition { kind: kind.into(), status: status.into() })
        };
        assert_eq!(goal("condition=Ready"), condition("Ready", "True"));
        assert_eq!(goal("condition=HostChanged=false"), condition("HostChanged", "false"));
        for bad in ["", "up", "condition=", "condition=Ready=maybe"] {
            assert!(goal(bad).is_err(), "{bad}");
        }
    }
}
