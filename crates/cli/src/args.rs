//! The command line: every verb and option is defined once; help and completions come from here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    completions, create, delete, events, exec, explain, gateway, get, list, logs, restart, run,
    start, stop, version, wait, workspace,
};

/// Keeps sandboxes for AI agents and never loses the work inside.
#[derive(Debug, Parser)]
#[command(name = "sandkeep", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Where the gateway keeps its state [default: the XDG state directory; /var/lib/sandkeep for
    /// root]
    #[arg(long, global = true, env = "SANDKEEP_HOME", value_name = "DIR", hide_env_values = true)]
    pub(crate) home: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one value in the whole life of the process")]
pub(crate) enum Verb {
    #[command(flatten)]
    Sandbox(SandboxVerb),
    /// Sandboxes: the same verbs as at the top
    #[command(name = "sandbox", subcommand)]
    UnderSandbox(SandboxVerb),
    /// Files that outlive their sandboxes
    #[command(subcommand, visible_alias = "workspaces")]
    Workspace(workspace::Verb),
    /// The process that keeps the sandboxes
    #[command(subcommand)]
    Gateway(gateway::Verb),
    /// Print a script that completes commands in your shell
    Completions(completions::Arguments),
    /// Print the versions of this program and of the gateway
    Version(version::Arguments),
}

/// Verbs about sandboxes.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one value in the whole life of the process")]
pub(crate) enum SandboxVerb {
    /// Make a sandbox, run a command in it and exit with the command's code
    Run(run::Arguments),
    /// Make a sandbox that stays
    Create(create::Arguments),
    /// List sandboxes
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Show sandboxes in full
    Get(get::Arguments),
    /// Start sandboxes
    Start(start::Arguments),
    /// Stop sandboxes; their files stay
    Stop(stop::Arguments),
    /// Stop and start sandboxes, with a new run of their command
    Restart(restart::Arguments),
    /// Delete sandboxes; their workspaces are kept
    #[command(visible_alias = "rm")]
    Delete(delete::Arguments),
    /// Run a command in a sandbox
    Exec(exec::Arguments),
    /// Show what a sandbox's command has written
    Logs(logs::Arguments),
    /// Wait until sandboxes are as wished
    Wait(wait::Arguments),
    /// Tell why a sandbox is as it is, and what happens next
    Explain(explain::Arguments),
    /// Show what has happened
    Events(events::Arguments),
}

/// How a result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// One document.
    Json,
    /// Names alone, a line each.
    Name,
}

/// The option for it.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// How to write the result
    #[arg(
        long = "output",
        short = 'o',
        value_enum,
        default_value = "table",
        value_name = "FORMAT"
    )]
    pub(crate) format: Format,
}

/// How a result without names is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TextFormat {
    /// For people.
    #[default]
    Text,
    /// One document.
    Json,
}

/// The option for it.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TextOutput {
    /// How to write the result
    #[arg(long = "output", short = 'o', value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) format: TextFormat,
}

/// `k=v`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is expected".to_owned()),
    }
}
