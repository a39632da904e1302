//! The places that settings come from, read once and asked in order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::nearest::nearest;
use super::{Flags, KEYS, Key, Origin, Setting, Wrong, refuse};
use crate::refusal::Refusal;
use crate::verbs::check::quoted;

/// Thousands of times what all keys need.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// What was found, per key and in order of precedence.
#[derive(Debug)]
pub(super) struct Sources {
    found: Vec<(Key, Vec<String>, Origin)>,
}

impl Sources {
    /// Reads all of them.
    pub(super) fn read(
        file: &Path,
        flags: &Flags,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Refusal> {
        let table = read_file(file)?;
        let mut found = Vec::new();
        for key in KEYS {
            let flag = flag(flags, key.name);
            if !flag.is_empty() {
                found.push((key, flag, Origin::Flag(key.flag)));
            }
            if let Some(text) = env(key.env).filter(|text| !text.is_empty()) {
                let words = if key.name == "driver" { split(&text) } else { vec![text] };
                found.push((key, words, Origin::Environment(key.env)));
            }
            if let Some(value) = table.get(key.name) {
                let words = words(value).ok_or_else(|| wrong_type(file, key, value))?;
                found.push((key, words, Origin::File(file.to_owned())));
            }
        }
        unknown_key(file, &table)?;
        Ok(Self { found })
    }

    /// The value of `key` from the first place that has one, else from `default`.
    pub(super) fn pick<T>(
        &self,
        key: &str,
        default: &[&str],
        parse: impl Fn(&[String]) -> Result<T, Wrong>,
    ) -> Result<Setting<T>, Refusal> {
        let first = self.found.iter().find(|(found, ..)| found.name == key);
        let (words, origin) = match first {
            Some((_, words, origin)) => (words.clone(), origin.clone()),
            None => (default.iter().map(|word| (*word).to_owned()).collect(), Origin::Default),
        };
        match parse(&words) {
            Ok(value) => Ok(Setting { value, origin }),
            Err((why, next)) => {
                let what = match origin {
                    Origin::Flag(flag) => format!("{flag} cannot be used"),
                    origin => format!("the setting {key} ({origin}) cannot be used"),
                };
                Err(refuse(what, why, next))
            }
        }
    }
}

fn flag(flags: &Flags, key: &str) -> Vec<String> {
    match key {
        "driver" => flags.drivers.clone(),
        "log_format" => flags.log_format.iter().cloned().collect(),
        "metrics_listen" => flags.metrics_listen.iter().cloned().collect(),
        _ => Vec::new(),
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).collect()
}

fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(word) => Some(vec![word.clone()]),
        Value::Array(values) => {
            values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}

fn read_file(file: &Path) -> Result<Table, Refusal> {
    let unreadable =
        |error: &io::Error| refuse(not_read(file), error.to_string(), "mend or remove the file");
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::new()),
        Err(error) => return Err(unreadable(&error)),
        Ok(found) if found.len() > FILE_MAX_BYTES || !found.is_file() => {
            let why = "it is not a file of settings".to_owned();
            return Err(refuse(not_read(file), why, "mend or remove it"));
        }
        Ok(_) => {}
    }
    let text = fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().and_then(|span| text.get(..span.start));
        let line = line.map_or(1, |before| before.matches('\n').count() + 1);
        let why = format!("line {line}: {}", error.message().replace('\n', ", "));
        refuse(not_read(file), why, "write it as TOML: key = \"value\"")
    })
}

fn not_read(file: &Path) -> String {
    format!("the settings in {} were not read", file.display())
}

fn wrong_type(file: &Path, key: Key, value: &Value) -> Refusal {
    refuse(
        format!("the setting {} ({}) cannot be used", key.name, file.display()),
        format!("a text or a list of texts is expected, and this is of type {}", value.type_str()),
        format!("write: {} = \"…\"", key.name),
    )
}

fn unknown_key(file: &Path, table: &Table) -> Result<(), Refusal> {
    let names = KEYS.map(|key| key.name);
    let Some(unknown) = table.keys().find(|key| !names.contains(&key.as_str())) else {
        return Ok(());
    };
    let next = match nearest(unknown, &names) {
        Some(name) => format!("write {name}"),
        None => format!("the keys are: {}", names.join(", ")),
    };
    let path: PathBuf = file.to_owned();
    let why = format!("there is no setting {}", quoted(unknown));
    Err(refuse(not_read(&path), why, next))
}
