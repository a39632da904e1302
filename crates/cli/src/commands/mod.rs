//! The verbs, a file each: what they accept and what they do.

pub(crate) mod completions;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod gateway;
pub(crate) mod get;
mod intent;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod start;
pub(crate) mod stop;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod workspace;

use crate::args::{SandboxVerb, Verb};
use crate::client::Connector;
use crate::error::Failure;

/// What every verb is given.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The way to the gateway.
    pub(crate) connector: Connector,
    /// No progress is shown.
    pub(crate) quiet: bool,
}

/// Does what was asked; gives the exit code.
pub(crate) async fn carry_out(context: Context, verb: Verb) -> Result<u8, Failure> {
    match verb {
        Verb::Sandbox(verb) | Verb::UnderSandbox(verb) => sandbox(context, verb).await,
        Verb::Workspace(verb) => workspace::carry_out(context, verb).await,
        Verb::Gateway(verb) => gateway::carry_out(context, verb).await,
        Verb::Completions(arguments) => completions::carry_out(arguments),
        Verb::Version(arguments) => version::carry_out(context, arguments).await,
    }
}

async fn sandbox(context: Context, verb: SandboxVerb) -> Result<u8, Failure> {
    match verb {
        SandboxVerb::Run(arguments) => run::carry_out(context, arguments).await,
        SandboxVerb::Create(arguments) => create::carry_out(context, arguments).await,
        SandboxVerb::List(arguments) => list::carry_out(context, arguments).await,
        SandboxVerb::Get(arguments) => get::carry_out(context, arguments).await,
        SandboxVerb::Start(arguments) => start::carry_out(context, arguments).await,
        SandboxVerb::Stop(arguments) => stop::carry_out(context, arguments).await,
        SandboxVerb::Restart(arguments) => restart::carry_out(context, arguments).await,
        SandboxVerb::Delete(arguments) => delete::carry_out(context, arguments).await,
        SandboxVerb::Exec(arguments) => exec::carry_out(context, arguments).await,
        SandboxVerb::Logs(arguments) => logs::carry_out(context, arguments).await,
        SandboxVerb::Wait(arguments) => wait::carry_out(context, arguments).await,
        SandboxVerb::Explain(arguments) => explain::carry_out(context, arguments).await,
        SandboxVerb::Events(arguments) => events::carry_out(context, arguments).await,
    }
}
