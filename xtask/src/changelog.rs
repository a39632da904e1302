//! The changelog, made from one small file per visible change.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Prints the fragments, sorted by their file names.
pub(crate) fn print(root: &Path) -> Result<()> {
    let directory = root.join("changelog.d");
    let mut files = fs::read_dir(&directory)
        .and_then(|files| {
            files.map(|file| file.map(|file| file.path())).collect::<Result<Vec<_>, _>>()
        })
        .with_context(|| format!("read {}", directory.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        println!("- {}", text.trim().replace('\n', "\n  "));
    }
    Ok(())
}
