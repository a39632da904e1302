//! docs/track-record.md and docs/bad-input.md speak of stories and tests: each of them is there.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
}

/// All code of the repository.
fn code() -> String {
    let mut files = Vec::new();
    sources(root(), &mut files);
    files.iter().map(|file| fs::read_to_string(file).expect("text")).collect()
}

#[test]
fn every_parser_of_bad_input_names_a_test_that_is_there() {
    let page = fs::read_to_string(root().join("docs/bad-input.md")).expect("the page");
    let code = code();
    let mut rows = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() == 5)
    {
        let tests = row.rsplit('|').nth(1).unwrap_or_default();
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty() || row.contains("| shown by |"), "{row}");
        for name in names {
            assert!(code.contains(&format!("fn {name}(")), "{name} is not there");
        }
        rows += 1;
    }
    assert!(rows > 20, "{rows} rows");
}

#[test]
fn every_row_of_the_track_record_names_what_is_there() {
    let page = fs::read_to_string(root().join("docs/track-record.md")).expect("the page");
    let code = code();
    let mut rows = 0;
    let mut missing = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() >= 4)
    {
        let shown = row.rsplit('|').nth(1).unwrap_or_default();
        if row.split('|').nth(1).is_none_or(|fault| fault.trim().parse::<u32>().is_err()) {
            continue;
        }
        rows += 1;
        assert!(!shown.trim().is_empty(), "{row}");
        for name in shown.split('`').skip(1).step_by(2) {
            let there = match name.strip_suffix(".txt") {
                Some(_) => root().join("crates/core/tests/decide").join(name).is_file(),
                None if name.contains(' ') || !name.contains('_') => true,
                // Functions, and the cases that the macros of the end-to-end tests make.
                None => [format!("fn {name}("), format!("{name}:"), format!("{name} \"")]
                    .iter()
                    .any(|definition| code.contains(definition)),
            };
            if !there {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "named and not there: {missing:?}");
    assert!(rows > 100, "{rows} rows");
}
