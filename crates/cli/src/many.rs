//! Verbs that act on many sandboxes: which ones, side by side, each reported.

use std::collections::HashMap;
use std::future::Future;

use clap::Args;
use futures::StreamExt as _;
use futures::stream;
use sandkeep_proto::v1::ListRequest;

use crate::args::pair;
use crate::client::Gateway;
use crate::error::{Failure, exit};
use crate::render;

/// So many are under way at once: enough that slow ones hide each other, few enough to leave the
/// gateway's connection responsive.
const SIDE_BY_SIDE: usize = 32;

/// Which sandboxes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Targets {
    /// Names or ids
    #[arg(value_name = "NAME", required_unless_present_any = ["all", "selector"])]
    pub(crate) names: Vec<String>,
    /// All sandboxes
    #[arg(long, conflicts_with_all = ["names", "selector"])]
    pub(crate) all: bool,
    /// All sandboxes with this label; may be repeated, all have to match
    #[arg(long, value_name = "K=V", value_parser = pair, conflicts_with = "names")]
    pub(crate) selector: Vec<(String, String)>,
}

impl Targets {
    /// One sandbox was named: its result is written as one, not as a list of one.
    pub(crate) fn is_single(&self) -> bool {
        self.names.len() == 1
    }

    /// The names or ids; ids for those that were not named one by one.
    pub(crate) async fn resolve(&self, gateway: &mut Gateway) -> Result<Vec<String>, Failure> {
        if !self.all && self.selector.is_empty() {
            let mut names = Vec::with_capacity(self.names.len());
            for name in &self.names {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            return Ok(names);
        }
        let selector: HashMap<_, _> = self.selector.iter().cloned().collect();
        let list = gateway
            .call("the sandboxes were not listed", |mut client| {
                let request = ListRequest { selector: selector.clone(), brief: true };
                async move { client.list(request).await }
            })
            .await?;
        Ok(list.sandboxes.into_iter().map(|sandbox| sandbox.id).collect())
    }
}

/// Does the same with each name, side by side, and gives the results in the order of the names.
pub(crate) async fn each<T, F, R>(names: &[String], act: F) -> Vec<Result<T, Failure>>
where
    F: Fn(String) -> R,
    R: Future<Output = Result<T, Failure>>,
{
    stream::iter(names.iter().cloned().map(act)).buffered(SIDE_BY_SIDE).collect().await
}

/// Reports every failure, and gives the successes and the exit code: that of the failures when they
/// agree, else 1.
pub(crate) fn report<T>(results: Vec<Result<T, Failure>>) -> (Vec<T>, u8) {
    let mut done = Vec::with_capacity(results.len());
    let mut code = 0;
    for result in results {
        match result {
            Ok(value) => done.push(value),
            Err(failure) => {
                render::failure(&failure);
                code = match code {
                    0 => failure.exit,
                    same if same == failure.exit => same,
                    _ => exit::FAILED,
                };
            }
        }
    }
    (done, code)
}
