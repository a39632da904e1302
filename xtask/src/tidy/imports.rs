//! Dependencies point one way; the table is that of ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::{TextFile, source};

/// What a crate may depend on.
struct Rule {
    /// Directory of the package.
    directory: &'static str,
    /// Crates of ours that it may use.
    ours: &'static [&'static str],
    /// Crates of ours that its tests may use besides.
    tests: &'static [&'static str],
    /// Crates of others that would break what it is for, with the reason.
    never: &'static [&'static str],
}

/// Async runtimes, network, randomness: nothing that a pure or a small crate can have.
const RUNTIMES: &[&str] = &["tokio", "futures", "tonic", "axum", "rustix", "libc", "getrandom"];

/// The same, where the kernel is asked directly.
const RUNTIMES_BUT_SYSTEM_CALLS: &[&str] = &["tokio", "futures", "tonic", "axum", "getrandom"];

const RULES: &[Rule] = &[
    Rule { directory: "crates/archive", ours: &[], tests: &[], never: RUNTIMES_BUT_SYSTEM_CALLS },
    Rule { directory: "crates/core", ours: &[], tests: &[], never: RUNTIMES },
    Rule { directory: "crates/frames", ours: &[], tests: &[], never: RUNTIMES },
    Rule { directory: "crates/proto", ours: &[], tests: &[], never: &["rustix", "axum"] },
    Rule {
        directory: "crates/store",
        ours: &["sandkeep-core"],
        tests: &[],
        never: &["tonic", "axum", "getrandom"],
    },
    Rule {
        directory: "crates/driver",
        ours: &["sandkeep-core"],
        tests: &["sandkeep-frames"],
        never: &["tonic", "axum", "rusqlite"],
    },
    Rule {
        directory: "crates/driver-local",
        ours: &["sandkeep-core", "sandkeep-driver"],
        tests: &["sandkeep-frames", "sandkeep-supervisor-image"],
        never: &["tonic", "axum", "rusqlite"],
    },
    Rule {
        directory: "crates/egress",
        ours: &[],
        tests: &[],
        never: &["tonic", "axum", "rusqlite", "rustix", "libc"],
    },
    Rule {
        directory: "crates/image",
        ours: &["sandkeep-archive"],
        tests: &[],
        never: &["tonic", "rusqlite", "libcontainer"],
    },
    Rule { directory: "crates/supervisor-image", ours: &[], tests: &[], never: RUNTIMES },
    Rule {
        directory: "crates/supervisor",
        ours: &["sandkeep-frames"],
        tests: &[],
        never: &["tokio", "tonic", "axum", "rusqlite", "tracing"],
    },
    Rule {
        directory: "crates/gateway",
        ours: &[
            "sandkeep-core",
            "sandkeep-frames",
            "sandkeep-proto",
            "sandkeep-store",
            "sandkeep-driver",
        ],
        tests: &["sandkeep-supervisor-image"],
        never: &["rusqlite", "libcontainer", "clap"],
    },
    Rule {
        directory: "crates/cli",
        ours: &[
            "sandkeep-core",
            "sandkeep-driver",
            "sandkeep-driver-local",
            "sandkeep-frames",
            "sandkeep-gateway",
            "sandkeep-proto",
            "sandkeep-store",
            "sandkeep-supervisor-image",
        ],
        tests: &[],
        never: &["rusqlite", "libcontainer"],
    },
    Rule { directory: "xtask", ours: &[], tests: &[], never: &["tokio", "clap"] },
    Rule {
        directory: "e2e",
        ours: &["sandkeep-core", "sandkeep-frames", "sandkeep-proto", "sandkeep-store"],
        tests: &[],
        never: &[],
    },
];

/// Paths that the core may not name: it has no input, output, clock, threads or randomness.
const NOT_IN_CORE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::io",
    "SystemTime",
    "Instant::",
    "async fn",
    ".await",
];

pub(super) fn faults(root: &Path, files: &[TextFile]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for rule in RULES {
        let path = Path::new(rule.directory).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        let manifest: Table = text.parse().with_context(|| format!("read {}", path.display()))?;
        faults.extend(rule.broken_by(&manifest).map(|what| format!("{}: {what}", path.display())));
    }
    let known: BTreeSet<&Path> = RULES.iter().map(|rule| Path::new(rule.directory)).collect();
    let manifests = files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    for directory in manifests.filter_map(|file| file.path.parent()) {
        if directory != Path::new("") && !known.contains(directory) {
            faults.push(format!("{}: no rule in xtask says what it may use", directory.display()));
        }
    }
    for file in files.iter().filter(|file| file.path.starts_with("crates/core/src")) {
        let code = source::without_literals(&file.text);
        for (number, line) in code.lines().enumerate() {
            for word in NOT_IN_CORE.iter().filter(|word| line.contains(**word)) {
                faults.push(file.fault(number + 1, format!("the core has no {word}")));
            }
        }
    }
    Ok(faults)
}

impl Rule {
    fn broken_by(&self, manifest: &Table) -> impl Iterator<Item = String> {
        let mut faults = Vec::new();
        for (section, name) in dependencies(manifest) {
            let for_tests = section == "dev-dependencies";
            let ours = name.starts_with("sandkeep");
            let allowed = self.ours.contains(&name.as_str())
                || (for_tests && self.tests.contains(&name.as_str()));
            if ours && !allowed {
                faults.push(format!("may not depend on {name} ({section})"));
            }
            if !for_tests && self.never.contains(&name.as_str()) {
                faults.push(format!("{name} does not belong here ({section})"));
            }
        }
        faults.into_iter()
    }
}

/// Section and name of each dependency, those for single targets included.
fn dependencies(manifest: &Table) -> Vec<(&'static str, String)> {
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables =
        targets.into_iter().flat_map(|targets| targets.values()).filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(tables) {
        for section in sections {
            let names = table.get(section).and_then(Value::as_table).into_iter();
            found.extend(names.flat_map(Table::keys).map(|name| (section, name.clone())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(directory: &str, manifest: &str) -> Vec<String> {
        let rule = RULES.iter().find(|rule| rule.directory == directory).expect("a rule");
        rule.broken_by(&manifest.parse().expect("a manifest")).collect()
    }

    #[test]
    fn a_dependency_against_the_direction_is_found_in_every_section() {
        for section in ["dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
            let manifest = format!("[{section}]\nsandkeep-gateway.workspace = true");
            assert_eq!(broken("crates/store", &manifest).len(), 1, "{section}");
        }
        assert_eq!(broken("crates/core", "[dependencies]\ntokio = '1'").len(), 1);
    }

    #[test]
    fn tests_may_use_what_is_listed_for_them() {
        let manifest = "[dev-dependencies]\nsandkeep-supervisor-image.workspace = true";
        assert_eq!(broken("crates/driver-local", manifest), Vec::<String>::new());
        let manifest = "[dependencies]\nsandkeep-supervisor-image.workspace = true";
        assert_eq!(broken("crates/driver-local", manifest).len(), 1);
    }
}
