//! Everything about a process that can be settled before the fork: what is asked for, checked and
//! turned into what the kernel takes.

use std::ffi::CString;

use sandkeep_frames::message::Process;

use crate::user::{self, Identity};

const DEFAULT_WORKDIR: &str = "/workspace";
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const DEFAULT_TERM: &str = "xterm-256color";

/// Why a process cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotStarted {
    /// The request makes no sense, whatever the sandbox looks like.
    Invalid(String),
    /// The sandbox has no room for another process now.
    Exhausted(String),
    /// It fails in this sandbox, as a program that cannot be run: code 126 or 127.
    Failed {
        /// Exit code to report.
        code: i32,
        /// A sentence.
        message: String,
    },
}

/// Ready to be forked.
#[derive(Debug)]
pub struct Plan {
    /// Not empty.
    pub argv: Vec<CString>,
    /// `K=V`, each key once.
    pub env: Vec<CString>,
    /// Paths to try, in order.
    pub programs: Vec<CString>,
    /// Absolute.
    pub workdir: CString,
    /// Whom to become.
    pub identity: Identity,
}

impl Plan {
    /// Checks a request.
    pub fn of(process: &Process) -> Result<Self, NotStarted> {
        let Some(name) = process.argv.first() else {
            return Err(NotStarted::Invalid("the command is empty".to_owned()));
        };
        let workdir = match process.workdir.as_str() {
            "" => DEFAULT_WORKDIR,
            path if path.starts_with('/') => path,
            path => return Err(NotStarted::Invalid(format!("{path} is not an absolute path"))),
        };
        let identity = user::look_up(&process.user)
            .map_err(|message| NotStarted::Failed { code: 126, message })?;
        let env = environment(process, &identity);
        Ok(Self {
            argv: c_strings(process.argv.iter().cloned())?,
            programs: c_strings(programs(name, path_of(&env)).into_iter())?,
            env: c_strings(env.into_iter())?,
            workdir: c_string(workdir.to_owned())?,
            identity,
        })
    }
}

/// The base, then what was given; the last one of a key counts.
fn environment(process: &Process, identity: &Identity) -> Vec<String> {
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut env = vec![
        format!("PATH={DEFAULT_PATH}"),
        format!("HOME={DEFAULT_WORKDIR}"),
        format!("USER={}", identity.name),
        format!("HOSTNAME={hostname}"),
    ];
    if process.tty {
        env.push(format!("TERM={DEFAULT_TERM}"));
    }
    for entry in &process.env {
        let key = entry.split('=').next().unwrap_or_default();
        env.retain(|known| known.split('=').next() != Some(key));
        env.push(entry.clone());
    }
    env
}

fn path_of(env: &[String]) -> &str {
    env.iter().find_map(|entry| entry.strip_prefix("PATH=")).unwrap_or(DEFAULT_PATH)
}

/// As execvp does: a name with a slash is a path, any other is looked for.
fn programs(name: &str, path: &str) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    path.split(':')
        .map(|directory| if directory.is_empty() { "." } else { directory })
        .map(|directory| format!("{directory}/{name}"))
        .collect()
}

fn c_strings(texts: impl Iterator<Item = String>) -> Result<Vec<CString>, NotStarted> {
    texts.map(c_string).collect()
}

fn c_string(text: String) -> Result<CString, NotStarted> {
    let refuse =
        |_| NotStarted::Invalid("a NUL byte in the command or its surroundings".to_owned());
    CString::new(text).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(argv: &[&str], env: &[&str]) -> Process {
        Process {
            argv: argv.iter().map(ToString::to_string).collect(),
            env: env.iter().map(ToString::to_string).collect(),
            ..Process::default()
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let check = |process: Process, expect: &str| {
            let refused = Plan::of(&process).err();
            assert_eq!(refused, Some(NotStarted::Invalid(expect.to_owned())));
        };
        check(process(&[], &[]), "the command is empty");
        let nul = "a NUL byte in the command or its surroundings";
        check(process(&["a\0b"], &[]), nul);
        check(process(&["a"], &["A=\0"]), nul);
        let relative = Process { workdir: "src".to_owned(), ..process(&["a"], &[]) };
        check(relative, "src is not an absolute path");
    }

    #[test]
    fn given_variables_replace_the_base_and_the_last_one_counts() {
        let plan = Plan::of(&process(&["ls"], &["PATH=/a::/b", "X=1", "X=2"])).unwrap();
        let text = |all: &[CString]| {
            all.iter().map(|one| one.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(text(&plan.programs), ["/a/ls", "./ls", "/b/ls"]);
        let env = text(&plan.env);
        assert!(env.contains(&"X=2".to_owned()) && !env.contains(&"X=1".to_owned()), "{env:?}");
        assert_eq!(env.iter().filter(|entry| entry.starts_with("PATH=")).count(), 1);
        assert!(env.contains(&"HOME=/workspace".to_owned()), "{env:?}");
    }

    #[test]
    fn a_path_is_taken_as_it_is() {
        let plan = Plan::of(&process(&["./run me"], &[])).unwrap();
        assert_eq!(plan.programs, [c"./run me".to_owned()]);
    }
}
