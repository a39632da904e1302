//! What a new sandbox should be like, from the options of `create` and `run`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sandkeep_proto::v1::{CreateRequest, Mount, Spec};

use crate::args::pair;
use crate::error::{Failure, exit};
use crate::size;

/// Options that `create` and `run` share.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpecArguments {
    /// Name of the sandbox [default: one is made up]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Remove the sandbox, and the workspace that it made, once its command has ended
    #[arg(long, conflicts_with = "keep")]
    pub(crate) rm: bool,
    /// Keep the sandbox once its command has ended
    #[arg(long)]
    pub(crate) keep: bool,
    /// Root file system: host, dir:/PATH or an image reference [default: host]
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// Which of the gateway's drivers [default: its first]
    #[arg(long)]
    pub(crate) driver: Option<String>,
    /// Environment: K=V, or K to pass on your own; may be repeated
    #[arg(long, short = 'e', value_name = "K[=V]")]
    pub(crate) env: Vec<String>,
    /// File with a K=V or a K on each line; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
    /// Use this workspace
    #[arg(long, value_name = "NAME", conflicts_with = "new_workspace")]
    pub(crate) workspace: Option<String>,
    /// Make a new workspace even though one of that name is kept
    #[arg(long)]
    pub(crate) new_workspace: bool,
    /// Label; may be repeated
    #[arg(long, short = 'l', value_name = "K=V", value_parser = pair)]
    pub(crate) label: Vec<(String, String)>,
    /// Processor limit in cores, for example 0.5
    #[arg(long, value_parser = size::cpu_millis, value_name = "CORES")]
    pub(crate) cpus: Option<u64>,
    /// Memory limit, for example 512m or 2g
    #[arg(long, short = 'm', value_parser = size::bytes, value_name = "BYTES")]
    pub(crate) memory: Option<u64>,
    /// Limit of processes and threads
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pids: Option<u32>,
    /// Disk limit, for example 10g
    #[arg(long, value_parser = size::bytes, value_name = "BYTES")]
    pub(crate) disk: Option<u64>,
    /// When to run the command again [default: on-failure; never for run]
    #[arg(long, value_enum)]
    pub(crate) restart: Option<Restart>,
    /// User inside: NAME or UID, with :GROUP or :GID if wished [default: root]
    #[arg(long, short = 'u')]
    pub(crate) user: Option<String>,
    /// Working directory inside [default: /workspace]
    #[arg(long, short = 'w')]
    pub(crate) workdir: Option<String>,
    /// Show a path of the host inside: SOURCE:TARGET[:ro]; may be repeated
    #[arg(long, value_name = "SOURCE:TARGET[:ro]", value_parser = mount)]
    pub(crate) mount: Vec<Mount>,
    /// Show a directory of tools read-only at its own path; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) tools: Vec<PathBuf>,
    /// Extra rights inside the sandbox's user namespace
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) privileges: Vec<Privilege>,
    /// Accept limits that cannot be enforced here
    #[arg(long)]
    pub(crate) unenforced: bool,
    /// Take an existing sandbox of that name
    #[arg(long, requires = "name")]
    pub(crate) reuse: bool,
    /// Time between the polite signal and the kill on stop [default: 10s]
    #[arg(long, value_parser = size::duration, value_name = "TIME")]
    pub(crate) stop_grace: Option<std::time::Duration>,
}

/// When the command is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Restart {
    /// One run.
    Never,
    /// After a loss or a failure.
    OnFailure,
    /// Whatever happened.
    Always,
}

impl Restart {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::OnFailure => "on-failure",
            Self::Always => "always",
        }
    }
}

/// Extra rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Privilege {
    /// What a package tool needs.
    Packages,
}

impl SpecArguments {
    /// The request, with the verb's own default for the restart policy.
    pub(crate) fn request(
        self,
        command: Vec<String>,
        default_restart: Restart,
    ) -> Result<CreateRequest, Failure> {
        let env = environment(&self.env, &self.env_file)?;
        let mut tools = Vec::new();
        for directory in &self.tools {
            tools.push(absolute(directory)?);
        }
        let grace = self.stop_grace.map_or(0, |grace| millis(grace).max(1));
        let spec = Spec {
            image: self.image.unwrap_or_else(|| "host".to_owned()),
            command,
            env,
            user: self.user.unwrap_or_default(),
            workdir: self.workdir.unwrap_or_default(),
            cpu_millis: limit("--cpus", self.cpus)?,
            memory_bytes: limit("--memory", self.memory)?,
            pids: self.pids.unwrap_or(0),
            disk_bytes: limit("--disk", self.disk)?,
            restart: self.restart.unwrap_or(default_restart).as_str().to_owned(),
            labels: self.label.into_iter().collect(),
            mounts: self.mount,
            tools,
            privileges: self
                .privileges
                .iter()
                .map(|Privilege::Packages| "packages".into())
                .collect(),
            unenforced: self.unenforced,
            remove_when_done: self.rm,
            stop_grace_ms: grace,
            ..Spec::default()
        };
        Ok(CreateRequest {
            name: self.name.unwrap_or_default(),
            spec: Some(spec),
            driver: self.driver.unwrap_or_default(),
            workspace: self.workspace.unwrap_or_default(),
            new_workspace: self.new_workspace,
            reuse: self.reuse,
            request_id: request_id()?,
        })
    }
}

/// Zero means "no limit" on the wire, so it cannot be asked for.
fn limit(option: &str, amount: Option<u64>) -> Result<u64, Failure> {
    match amount {
        Some(0) => Err(Failure::usage(
            format!("the value of {option} is not accepted"),
            "a limit of zero leaves nothing to work with; leave the option out for no limit",
        )),
        Some(amount) => Ok(amount),
        None => Ok(0),
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A path as the gateway can use it: it does not work in this directory.
fn absolute(path: &Path) -> Result<String, Failure> {
    let not_usable =
        |why: String| Failure::usage(format!("{} cannot be shown inside", path.display()), why);
    let absolute = std::path::absolute(path).map_err(|error| not_usable(error.to_string()))?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|_| not_usable("its name is not UTF-8".to_owned()))
}

/// `SOURCE:TARGET[:ro|rw]`, or docker's `type=bind,src=…,dst=…,ro`.
fn mount(text: &str) -> Result<Mount, String> {
    let expected = "SOURCE:TARGET[:ro] or src=SOURCE,dst=TARGET[,ro] is expected";
    let mut mount = Mount::default();
    if text.contains('=') && !text.starts_with(['/', '.']) {
        for part in text.split(',') {
            match part.split_once('=').unwrap_or((part, "")) {
                ("type", "bind") | ("rw", "" | "true") => {}
                ("src" | "source", path) => mount.source = path.to_owned(),
                ("dst" | "target" | "destination", path) => mount.target = path.to_owned(),
                ("ro" | "readonly", "" | "true") => mount.read_only = true,
                _ => return Err(format!("{part:?} is not known; {expected}")),
            }
        }
    } else {
        let parts: Vec<&str> = text.split(':').collect();
        let (source, target, mode) = match parts.as_slice() {
            [source, target] => (*source, *target, "rw"),
            [source, target, mode] => (*source, *target, *mode),
            _ => return Err(expected.to_owned()),
        };
        mount.read_only = match mode {
            "ro" => true,
            "rw" => false,
            other => return Err(format!("{other:?} is not known; {expected}")),
        };
        mount.source = source.to_owned();
        mount.target = target.to_owned();
    }
    if mount.source.is_empty() || !mount.target.starts_with('/') {
        return Err(format!("the target has to be an absolute path; {expected}"));
    }
    let source = std::path::absolute(&mount.source).map_err(|error| error.to_string())?;
    mount.source = source.into_os_string().into_string().map_err(|_| "it is not UTF-8")?;
    Ok(mount)
}

/// `--env-file` first, in order, then `--env`: what comes later wins.
pub(crate) fn environment(
    given: &[String],
    files: &[PathBuf],
) -> Result<HashMap<String, String>, Failure> {
    let mut env = HashMap::new();
    for file in files {
        let text = read_env_file(file).map_err(|why| {
            Failure::new(
                exit::USAGE,
                format!("the file of --env-file {} was not read", file.display()),
                why,
                "name a text file with a K=V or a K on each line",
            )
        })?;
        for line in text.lines().map(str::trim_start) {
            if !line.is_empty() && !line.starts_with('#') {
                add(&mut env, line)?;
            }
        }
    }
    for item in given {
        add(&mut env, item)?;
    }
    Ok(env)
}

/// More than Linux gives to any process.
const ENV_FILE_MAX_BYTES: u64 = 1 << 20;

/// The text of a file or a pipe; the error is a clause. A device without an end is read up to the
/// bound only.
fn read_env_file(file: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let words = |error: std::io::Error| crate::client::plain_os_words(&error);
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(words)?;
    opened.take(ENV_FILE_MAX_BYTES + 1).read_to_string(&mut text).map_err(words)?;
    if text.len() as u64 > ENV_FILE_MAX_BYTES {
        return Err("it is longer than 1 MiB".to_owned());
    }
    Ok(text)
}

/// `K=V`, or `K` for the caller's own value; a `K` that the caller has not is left out, as docker
/// does.
fn add(env: &mut HashMap<String, String>, item: &str) -> Result<(), Failure> {
    let (key, value) = match item.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (item, std::env::var(item).ok()),
    };
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(Failure::usage(
            format!("the environment {item:?} is not accepted"),
            "K=V or K is expected",
        ));
    }
    if let Some(value) = value {
        env.insert(key.to_owned(), value);
    }
    Ok(())
}

/// A new `[a-z2-7]{12}`.
pub(crate) fn request_id() -> Result<String, Failure> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| {
        Failure::new(
            exit::FAILED,
            "no request was made",
            format!("the system gives no random numbers: {error}"),
            "try again",
        )
    })?;
    Ok(sandkeep_core::SandboxId::from_random(random).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_in_both_spellings() {
        for (text, source, target, read_only) in [
            ("/a:/b", "/a", "/b", false),
            ("/a:/b:ro", "/a", "/b", true),
            ("/a=1:/b:rw", "/a=1", "/b", false),
            ("type=bind,src=/a,dst=/b,ro", "/a", "/b", true),
            ("source=/a,target=/b", "/a", "/b", false),
        ] {
            let expect = Mount { source: source.into(), target: target.into(), read_only };
            assert_eq!(mount(text), Ok(expect), "{text}");
        }
        for text in ["", "/a", "/a:b", "/a:/b:x", ":/b", "type=volume,src=a,dst=/b", "a:b:c:d"] {
            assert!(mount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn later_environment_wins_and_comments_are_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("env");
        std::fs::write(&file, "# note\nA=1\n\nB=x=y \nSANDKEEP_SURELY_NOT_SET\n").unwrap();
        let env = environment(&["A=2".into(), "PATH".into()], &[file]).unwrap();
        assert_eq!(env["A"], "2");
        assert_eq!(env["B"], "x=y ");
        assert_eq!(env["PATH"], std::env::var("PATH").unwrap());
        assert!(!env.contains_key("SANDKEEP_SURELY_NOT_SET"));
        assert!(environment(&["=x".into()], &[]).is_err());
    }

    #[test]
    fn a_file_that_is_no_text_of_settings_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        for file in [
            directory.path().join("missing"),
            directory.path().to_owned(),
            "/dev/zero".into(),
            write("no-text", &[b'A', b'=', 0xff, b'\n']),
            write("no-key", b"A=1\n=2\n"),
            write("spaces", b"A B=1\n"),
            write("long", &vec![b'x'; 2 << 20]),
        ] {
            let refused = environment(&[], std::slice::from_ref(&file)).unwrap_err();
            assert_eq!(refused.exit, exit::USAGE, "{}", file.display());
        }
        let long = write("nearly", format!("A={}", "x".repeat((1 << 20) - 2)).as_bytes());
        assert_eq!(environment(&[], &[long]).unwrap()["A"].len(), (1 << 20) - 2);
    }

    #[test]
    fn request_ids_are_ids() {
        let id = request_id().unwrap();
        assert!(id.parse::<sandkeep_core::SandboxId>().is_ok());
        assert_ne!(id, request_id().unwrap());
    }
}
