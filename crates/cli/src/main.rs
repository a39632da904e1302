//! `sandkeep`: the command line, and the gateway in the same binary.
//!
//! This file decides what the process becomes: a small single-threaded program that makes local
//! containers, a gateway, or a client of one. Everything else lies in the modules.

mod args;
mod attach;
mod autostart;
#[cfg(test)]
mod bad_words;
mod client;
mod commands;
mod error;
mod home;
mod many;
mod progress;
mod render;
mod serve;
mod size;
mod spec;
mod terminal;
mod wait;

use clap::Parser as _;

use crate::args::{Cli, Verb};
use crate::autostart::Autostart;
use crate::client::Connector;
use crate::commands::Context;
use crate::error::{Failure, exit};
use crate::home::Home;

fn main() {
    become_helper_if_asked();
    let cli = Cli::parse();
    let code = match act(cli) {
        Ok(code) => code,
        Err(failure) => {
            render::failure(&failure);
            failure.exit
        }
    };
    // A thread may still read stdin: this is the way out that does not wait for it.
    std::process::exit(code.into())
}

/// What makes a local container forks without exec, so it has to be a process of one thread: this
/// binary again, before anything else is begun.
fn become_helper_if_asked() {
    #[cfg(target_os = "linux")]
    {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_some_and(|first| first == sandkeep_driver_local::HELPER_ARG) {
            let rest: Vec<String> =
                arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
            std::process::exit(sandkeep_driver_local::helper_main(&rest));
        }
    }
}

fn act(cli: Cli) -> Result<u8, Failure> {
    let home = Home::resolve(cli.global.home.as_deref())?;
    if let Verb::Gateway(commands::gateway::Verb::Run(arguments)) = cli.verb {
        return commands::gateway::run::carry_out(&home, arguments);
    }
    let forbidden = std::env::var_os("SANDKEEP_NO_AUTOSTART")
        .is_some_and(|value| !value.is_empty() && value != "0");
    let autostart = if forbidden { Autostart::Forbidden } else { Autostart::Allowed };
    let context = Context { connector: Connector { home, autostart }, quiet: cli.global.quiet };
    // One thread: a client has one thing to do, and starts in less time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::new(
            exit::FAILED,
            "sandkeep did not start",
            client::plain_os_words(&error),
            "close other programs and try again",
        )
    })?;
    runtime.block_on(commands::carry_out(context, cli.verb))
}
