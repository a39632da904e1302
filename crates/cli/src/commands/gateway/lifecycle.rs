//! `sandkeep gateway start|stop|restart`: a gateway in the background. Sandboxes never stop with
//! it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandkeep_proto::v1::GatewayStatusRequest;
use tokio::time::Instant;

use super::run::Options;
use crate::autostart::{self, Background};
use crate::client::{Connector, Gateway, plain_os_words};
use crate::commands::Context;
use crate::error::{Failure, exit};
use crate::render;
use crate::size;

/// A gateway stops within moments; one that writes to a slow disk may take longer.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a polite end before force, unless another is asked for.
const FORCE_AFTER: Duration = Duration::from_secs(3);
/// A killed process is gone at once, unless the kernel waits for a device on its behalf.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// A gateway that works says at once which drivers it has.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// What `stop` and `restart` accept.
#[derive(Debug, clap::Args)]
pub(crate) struct StopArguments {
    /// Longest time to wait until it is gone [default: 30s; 3s with --force]
    #[arg(long, value_parser = size::duration, value_name = "TIME")]
    timeout: Option<Duration>,
    /// Kill it if it has not ended by then: one that hangs. No record and no sandbox is lost
    #[arg(long)]
    force: bool,
}

impl StopArguments {
    fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(if self.force { FORCE_AFTER } else { STOP_TIMEOUT })
    }
}

/// Starts one, unless one is running.
pub(super) async fn start(context: Context, options: Options) -> Result<u8, Failure> {
    if let Some(gateway) = context.connector.connect_if_running().await? {
        render::message(&format!("a gateway is running already{}", pid_words(&gateway)));
        return Ok(0);
    }
    let gateway = start_with(&context.connector, &options.to_arguments()).await?;
    if !context.quiet {
        render::message(&format!("the gateway is running{}", pid_words(&gateway)));
    }
    Ok(0)
}

async fn start_with(connector: &Connector, arguments: &[String]) -> Result<Gateway, Failure> {
    // The first connection only shows that it answers.
    let started = autostart::start(&connector.home, Background::Start, arguments).await;
    drop(started.map_err(|failure| failure.with_exit(exit::FAILED))?);
    connector.connect().await
}

/// Stops the one that is running, if one is.
pub(super) async fn stop(context: Context, arguments: StopArguments) -> Result<u8, Failure> {
    match context.connector.connect_if_running().await? {
        None => render::message("no gateway is running"),
        Some(gateway) => {
            end(&context.connector, gateway, &arguments).await?;
            if !context.quiet {
                render::message("the gateway has stopped; its sandboxes go on");
            }
        }
    }
    Ok(0)
}

/// Stops the one that is running, if one is, and starts one with the same drivers.
pub(super) async fn restart(context: Context, arguments: StopArguments) -> Result<u8, Failure> {
    let mut options = Options::default();
    if let Some(mut gateway) = context.connector.connect_if_running().await? {
        options.driver = drivers(&mut gateway, arguments.force).await?;
        end(&context.connector, gateway, &arguments).await?;
    }
    let gateway = start_with(&context.connector, &options.to_arguments()).await?;
    if !context.quiet {
        render::message(&format!("the gateway is running{}", pid_words(&gateway)));
    }
    Ok(0)
}

/// The drivers of a gateway; of one that hangs, and is to go nevertheless, those that it was
/// started with.
async fn drivers(gateway: &mut Gateway, force: bool) -> Result<Vec<String>, Failure> {
    let pid = gateway.pid;
    let status = gateway.call("the gateway was not restarted", |mut client| async move {
        client.gateway_status(GatewayStatusRequest {}).await
    });
    if !force {
        return Ok(status.await?.drivers.into_iter().map(|driver| driver.name).collect());
    }
    match tokio::time::timeout(STATUS_TIMEOUT, status).await {
        Ok(Ok(status)) => Ok(status.drivers.into_iter().map(|driver| driver.name).collect()),
        _ => Ok(pid.map(started_with).unwrap_or_default()),
    }
}

/// The values of `--driver` on the command line of a process; none where that is not shown.
fn started_with(pid: Pid) -> Vec<String> {
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    drivers_in(&line.unwrap_or_default())
}

fn drivers_in(command_line: &str) -> Vec<String> {
    let mut arguments = command_line.split('\0');
    let mut found = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix("--driver=") {
            Some(name) => found.push(name.to_owned()),
            None if argument == "--driver" => found.extend(arguments.next().map(str::to_owned)),
            None => {}
        }
    }
    found
}

fn pid_words(gateway: &Gateway) -> String {
    gateway.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

/// Sends SIGTERM to the process that listens, and to no other, and waits until it is gone; with
/// force, kills it after that.
async fn end(
    connector: &Connector,
    gateway: Gateway,
    arguments: &StopArguments,
) -> Result<(), Failure> {
    let process = listening_process(connector, &gateway).await?;
    drop(gateway);
    let timeout = arguments.timeout();
    if ends_by(&process, Signal::TERM, timeout)? {
        return Ok(());
    }
    if arguments.force && ends_by(&process, Signal::KILL, KILL_TIMEOUT)? {
        return Ok(());
    }
    Err(Failure::new(
        exit::TIMED_OUT,
        "the gateway has not stopped yet",
        format!("it was told to {} ago", render::phrases::span(timeout)),
        format!(
            "see its log: {}; if it hangs, end it (sandboxes go on): sandkeep gateway stop --force",
            connector.home.log().display()
        ),
    ))
}

/// Sends a signal and waits for the end.
fn ends_by(process: &OwnedFd, signal: Signal, timeout: Duration) -> Result<bool, Failure> {
    match pidfd_send_signal(process, signal) {
        // It ended by itself just now.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(not_stopped(plain_os_words(&error.into()))),
    }
    has_ended(process, timeout).map_err(|error| not_stopped(plain_os_words(&error.into())))
}

/// Waits for the end of a process: its descriptor is readable then. Blocks, as there is nothing
/// else to do.
fn has_ended(process: &OwnedFd, timeout: Duration) -> Result<bool, Errno> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = Timespec::try_from(deadline - Instant::now()).ok();
        match poll(&mut [PollFd::new(process, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            other => return Ok(other? > 0),
        }
    }
}

/// A descriptor of the process behind the socket. The kernel names the listener; that the same one
/// is named again once the descriptor is held proves that the number was not used anew between.
async fn listening_process(connector: &Connector, gateway: &Gateway) -> Result<OwnedFd, Failure> {
    let pid = gateway
        .pid
        .ok_or_else(|| not_stopped("it runs where this program cannot see processes".to_owned()))?;
    let process = pidfd_open(pid, PidfdFlags::NONBLOCK)
        .map_err(|error| not_stopped(plain_os_words(&error.into())))?;
    match connector.connect_if_running().await? {
        Some(again) if again.pid != Some(pid) => {
            Err(not_stopped("another one took its place at this moment".to_owned()))
        }
        _ => Ok(process),
    }
}

fn not_stopped(why: String) -> Failure {
    Failure::new(exit::FAILED, "the gateway was not stopped", why, "see: sandkeep gateway status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_hangs_is_replaced_with_the_drivers_it_was_started_with() {
        let line = "sandkeep\0gateway\0run\0--driver\0local\0--driver=docker\0";
        assert_eq!(drivers_in(line), ["local", "docker"]);
        assert_eq!(drivers_in("sandkeep\0gateway\0run\0"), Vec::<String>::new());
    }
}
