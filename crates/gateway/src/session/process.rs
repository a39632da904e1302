//! A sandbox's spec and a client's request as the supervisor takes them.

use std::collections::BTreeMap;

use sandkeep_core::Spec;
use sandkeep_frames::message::Process;

use crate::session::exec::ExecRequest;

/// Longest exec id, as in a DNS label: it names files of logs.
const EXEC_ID_BYTES: usize = 63;

/// The main command of a spec; its output is always kept.
pub(crate) fn main_process(spec: &Spec) -> Process {
    Process {
        argv: spec.command.clone(),
        env: environment(spec, &[]),
        workdir: spec.workdir.clone().unwrap_or_default(),
        user: spec.user.clone().unwrap_or_default(),
        tty: spec.tty,
        stdin: spec.stdin,
        rows: 0,
        columns: 0,
        keep_output: true,
        attached: spec.attach,
    }
}

/// An exec in a sandbox of this spec. `Err`: a clause that says what is wrong with the request.
pub(crate) fn exec_process(spec: &Spec, request: &ExecRequest) -> Result<Process, String> {
    if request.argv.is_empty() {
        return Err("no command was given".to_owned());
    }
    if let Some(entry) = request.env.iter().find(|entry| entry.find('=').is_none_or(|at| at == 0)) {
        return Err(format!("{entry:?} is not K=V"));
    }
    let process = Process {
        argv: request.argv.clone(),
        env: environment(spec, &request.env),
        workdir: request.workdir.clone().or_else(|| spec.workdir.clone()).unwrap_or_default(),
        user: request.user.clone().or_else(|| spec.user.clone()).unwrap_or_default(),
        tty: request.tty,
        stdin: request.stdin,
        rows: request.rows,
        columns: request.columns,
        keep_output: request.detached,
        attached: !request.detached,
    };
    let texts = process.argv.iter().chain(&process.env).chain([&process.workdir, &process.user]);
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err("a NUL byte cannot be passed to a process".to_owned());
    }
    Ok(process)
}

/// Whether `id` may name an exec: `[a-z0-9-]{1,63}`. Log sources are named so too.
pub(crate) fn is_exec_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=EXEC_ID_BYTES).contains(&id.len()) && id.bytes().all(allowed)
}

/// The sandbox's environment with `more` (each `K=V`) on top; each key once.
fn environment(spec: &Spec, more: &[String]) -> Vec<String> {
    let spec_env = spec.env.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let mut all: BTreeMap<&str, &str> = spec_env.collect();
    all.extend(more.iter().filter_map(|entry| entry.split_once('=')));
    all.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}
