//! `sandkeep completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::Failure;
use crate::render;

/// What it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Does it; gives the exit code.
pub(crate) fn carry_out(arguments: Arguments) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "sandkeep", &mut script);
    render::result(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
