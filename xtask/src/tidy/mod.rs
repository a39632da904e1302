//! What no compiler checks: import direction, module docs, lengths, links, and words that do not
//! belong here. Also run as ordinary tests.

mod imports;
mod lengths;
mod links;
mod source;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A text file of the repository.
struct TextFile {
    /// Relative to the repository.
    path: PathBuf,
    text: String,
}

impl TextFile {
    fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    fn is_markdown(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "md")
    }

    fn fault(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.path.display())
    }
}

/// Prints every fault; any is an error.
pub(crate) fn report(root: &Path) -> Result<()> {
    let faults = faults(root)?;
    for fault in &faults {
        println!("{fault}");
    }
    if !faults.is_empty() {
        bail!("tidy: {} faults", faults.len());
    }
    println!("tidy: all is well");
    Ok(())
}

fn faults(root: &Path) -> Result<Vec<String>> {
    let files = text_files(root)?;
    let mut faults = imports::faults(root, &files)?;
    faults.extend(lengths::faults(&files));
    faults.extend(words::faults(&files));
    faults.extend(links::faults(root, &files));
    faults.sort();
    Ok(faults)
}

/// Every file that git knows or would add, as far as it is text.
fn text_files(root: &Path) -> Result<Vec<TextFile>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .context("ask git for the files")?;
    if !listed.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let mut files = Vec::new();
    for path in listed.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
        // A file may be listed and deleted; a binary one is not read.
        if let Ok(text) = fs::read_to_string(root.join(&path)) {
            files.push(TextFile { path, text });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        assert_eq!(faults(crate::root()).expect("it can be looked at"), Vec::<String>::new());
    }
}
