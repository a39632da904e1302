//! `sandkeep gateway run`: this process becomes a gateway.

use std::os::fd::AsFd;

use clap::Args;
use sandkeep_gateway::config::{Config, Flags, LogFormat};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::background::{self, RotatingLog};
use super::log_queue::LogQueue;
use crate::autostart::Background;
use crate::client::plain_os_words;
use crate::error::{Failure, exit};
use crate::home::Home;

/// What a gateway can be told.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Options {
    /// Driver to use; may be repeated, the first is the default [default: local]
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Vec<String>,
    /// How log lines are written: text or json [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    log_format: Option<String>,
    /// Serve /metrics, /healthz and /readyz there [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
}

/// What `run` accepts.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Leave the terminal; given by those who start a gateway in the background
    #[arg(long, value_enum, hide = true)]
    background: Option<Background>,
}

impl Options {
    /// The same options for another `gateway run`.
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for driver in &self.driver {
            arguments.extend(["--driver".to_owned(), driver.clone()]);
        }
        if let Some(format) = &self.log_format {
            arguments.extend(["--log-format".to_owned(), format.clone()]);
        }
        if let Some(address) = &self.metrics_listen {
            arguments.extend(["--metrics-listen".to_owned(), address.clone()]);
        }
        arguments
    }
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn carry_out(home: &Home, arguments: Arguments) -> Result<u8, Failure> {
    if arguments.background.is_some() {
        // Before anything is opened: it closes all that is open.
        background::detach();
    }
    let Options { driver, log_format, metrics_listen } = arguments.options;
    let flags = Flags { drivers: driver, log_format, metrics_listen };
    let file = home.path().join("config.toml");
    let config = Config::load(&file, &flags, |name| std::env::var(name).ok())?;
    let filter = EnvFilter::try_new(&config.log.value).map_err(|error| {
        Failure::usage(
            format!("the log setting of {} is not accepted", config.log.origin),
            error.to_string(),
        )
    })?;
    let format = config.log_format.value;
    if arguments.background.is_some() {
        log_to(RotatingLog::of(home), filter, format);
        crate::serve::serve(home, &config)?;
        return Ok(0);
    }
    let queue = queue_to_stderr(format)?;
    log_to(queue.clone(), filter, format);
    log_panics();
    let served = crate::serve::serve(home, &config);
    queue.flush();
    served?;
    Ok(0)
}

fn queue_to_stderr(format: LogFormat) -> Result<LogQueue, Failure> {
    let stderr = std::io::stderr().as_fd().try_clone_to_owned();
    stderr.and_then(|stderr| LogQueue::to(stderr, format)).map_err(|error| {
        Failure::new(
            exit::FAILED,
            "the gateway was not started",
            plain_os_words(&error),
            "close other programs and try again",
        )
    })
}

/// A panic's words go to the log as well: printed by the panicking thread itself, they would wait
/// for whoever reads stderr.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "this is a bug")));
}

fn log_to<W>(writer: W, filter: EnvFilter, format: LogFormat)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    // Fails only when a log is set up already.
    let _set_up = match format {
        LogFormat::Text => log.with_ansi(crate::render::colour_on_stderr()).try_init(),
        LogFormat::Json => log.json().try_init(),
    };
}
