//! A checksum manifest of a tree: what must be the same before and after.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// One line per entry below `root`, sorted: kind, mode, size, checksum or link target, path.
/// Modification times are left out: they belong to whoever writes, not to what was kept.
pub fn manifest(root: &Path) -> String {
    let mut lines = Vec::new();
    walk(root, root, &mut lines);
    lines.sort();
    lines.join("\n")
}

fn walk(root: &Path, dir: &Path, lines: &mut Vec<String>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries {
        let path = entry.expect("a readable entry").path();
        let meta = fs::symlink_metadata(&path).expect("an entry that stays");
        let name = path.strip_prefix(root).expect("below the root").display().to_string();
        let mode = meta.mode() & 0o7777;
        if meta.is_dir() {
            lines.push(format!("dir {mode:o} {name}"));
            walk(root, &path, lines);
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).expect("a link").display().to_string();
            lines.push(format!("link {target} {name}"));
        } else {
            let sum = Sha256::digest(fs::read(&path).expect("a readable file"));
            lines.push(format!("file {mode:o} {} {sum:x} {name}", meta.len()));
        }
    }
}
