//! Settings of a gateway: flags over environment over `config.toml` over defaults, each with
//! where it came from.
//!
//! A key that does not exist is an error with the nearest one that does: a setting that is
//! silently ignored is a promise broken. Where the home is cannot be set in a file inside it.

mod nearest;
mod source;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::refusal::{Refusal, RefusalKind};
use crate::verbs::check::quoted;
use source::Sources;

/// Every key of `config.toml`, in the order in which they are shown.
const KEYS: [Key; 4] = [
    Key { name: "driver", env: "SANDKEEP_DRIVER", flag: "--driver" },
    Key { name: "log", env: "RUST_LOG", flag: "" },
    Key { name: "log_format", env: "SANDKEEP_LOG_FORMAT", flag: "--log-format" },
    Key { name: "metrics_listen", env: "SANDKEEP_METRICS_LISTEN", flag: "--metrics-listen" },
];

/// Drivers beside each other; more are a slip.
const DRIVERS_MAX: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    name: &'static str,
    env: &'static str,
    /// Empty: there is none.
    flag: &'static str,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// This flag.
    Flag(&'static str),
    /// This environment variable.
    Environment(&'static str),
    /// This file.
    File(PathBuf),
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// What holds.
    pub value: T,
    /// Who says so.
    pub origin: Origin,
}

/// How a gateway writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What was given on the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--driver`, as often as given.
    pub drivers: Vec<String>,
    /// `--log-format`.
    pub log_format: Option<String>,
    /// `--metrics-listen`.
    pub metrics_listen: Option<String>,
}

/// All settings of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Drivers by name; at least one, the first is the default of new sandboxes.
    pub drivers: Setting<Vec<String>>,
    /// What is logged, as `RUST_LOG` is written.
    pub log: Setting<String>,
    /// How it is logged.
    pub log_format: Setting<LogFormat>,
    /// Where metrics and health are served; `None`: nowhere.
    pub metrics_listen: Setting<Option<SocketAddr>>,
}

/// One line of `config show`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The key.
    pub key: &'static str,
    /// Its value; empty: none.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

impl Config {
    /// Puts the settings together. `file` need not be there; `env` looks up a variable.
    pub fn load(
        file: &Path,
        flags: &Flags,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Refusal> {
        let sources = Sources::read(file, flags, env)?;
        Ok(Self {
            drivers: sources.pick("driver", &["local"], drivers)?,
            log: sources.pick("log", &["info"], |words| one(words).map(str::to_owned))?,
            log_format: sources.pick("log_format", &["text"], log_format)?,
            metrics_listen: sources.pick("metrics_listen", &[], metrics_listen)?,
        })
    }

    /// Every setting, with where it came from.
    pub fn shown(&self) -> Vec<Shown> {
        let log_format = match self.log_format.value {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        let metrics_listen = self.metrics_listen.value.map(|address| address.to_string());
        let line = |key, value, origin: &Origin| Shown { key, value, origin: origin.clone() };
        vec![
            line("driver", self.drivers.value.join(", "), &self.drivers.origin),
            line("log", self.log.value.clone(), &self.log.origin),
            line("log_format", log_format.to_owned(), &self.log_format.origin),
            line("metrics_listen", metrics_listen.unwrap_or_default(), &self.metrics_listen.origin),
        ]
    }
}

/// Why a value is refused: what is wrong with it, and what would be right.
type Wrong = (String, &'static str);

fn drivers(words: &[String]) -> Result<Vec<String>, Wrong> {
    const RULE: &str = "give names of drivers, such as local, the default one first";
    if words.is_empty() || words.len() > DRIVERS_MAX {
        return Err((format!("{} drivers are given", words.len()), RULE));
    }
    for (i, word) in words.iter().enumerate() {
        let letters = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        if word.is_empty() || !letters || word.len() > 32 {
            return Err((format!("{} cannot be the name of a driver", quoted(word)), RULE));
        }
        if words[..i].contains(word) {
            return Err((format!("the driver {word} is given twice"), RULE));
        }
    }
    Ok(words.to_vec())
}

fn log_format(words: &[String]) -> Result<LogFormat, Wrong> {
    match one(words)? {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err((format!("{} is not a format", quoted(other)), "give text or json")),
    }
}

fn metrics_listen(words: &[String]) -> Result<Option<SocketAddr>, Wrong> {
    if words.is_empty() {
        return Ok(None);
    }
    let word = one(words)?;
    let wrong = (
        format!("{} is not an address with a port", quoted(word)),
        "give an address and a port, such as 127.0.0.1:9464",
    );
    word.parse().map(Some).map_err(|_| wrong)
}

fn one(words: &[String]) -> Result<&str, Wrong> {
    match words {
        [word] => Ok(word),
        _ => Err((format!("{} values are given", words.len()), "give one value")),
    }
}

fn refuse(what: String, why: impl Into<String>, next: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Invalid, "InvalidConfig", what, why, next)
}

#[cfg(test)]
mod tests;
