//! Golden stories: `tests/decide/*.txt`, one story a file, read as a diff.
//!
//! A file is a comment that says what the story guards, then blocks: commands, `----`, and what
//! they print. `SANDKEEP_GOLDEN=rewrite cargo test -p sandkeep-core --test golden` writes what they
//! print now. The commands are listed in stage.rs.

mod print;
mod stage;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use stage::Stage;

fn stories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decide");
    let entries = fs::read_dir(folder).expect("the folder of stories");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

/// The story as it would be written now.
fn told(text: &str) -> Result<String, String> {
    let mut stage = Stage::default();
    let mut now = String::new();
    for block in text.split("\n\n") {
        let (commands, _) = block.split_once("\n----").unwrap_or((block, ""));
        let mut printed = Vec::new();
        let mut has_commands = false;
        for line in commands.trim().lines() {
            now += line;
            now.push('\n');
            if line.starts_with('#') {
                continue;
            }
            has_commands = true;
            let output = stage.command(line);
            printed.extend(output.map_err(|error| format!("{line}: {error}; so far:\n{now}"))?);
        }
        if has_commands {
            now += "----\n";
            for line in printed {
                now += &line;
                now.push('\n');
            }
        }
        now.push('\n');
    }
    Ok(format!("{}\n", now.trim_end()))
}

#[test]
fn every_story_goes_as_it_is_told() {
    let rewrite = std::env::var("SANDKEEP_GOLDEN").is_ok_and(|value| value == "rewrite");
    let mut failures = Vec::new();
    let stories = stories();
    assert!(stories.len() > 40, "the stories are found");
    for file in stories {
        let text = fs::read_to_string(&file).expect("a story");
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        if !text.starts_with("# ") || text.lines().count() >= 100 {
            failures.push(format!("{name} says first what it guards, and is short enough to read"));
        }
        match told(&text) {
            Err(error) => failures.push(format!("{name}: {error}")),
            Ok(now) if now == text => {}
            Ok(now) if rewrite => fs::write(&file, now).expect("the story is written"),
            Ok(now) => failures.push(format!("{name} goes otherwise now:\n{now}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_two_public_faults_have_their_stories() {
    let named: Vec<_> = stories()
        .iter()
        .filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    for name in [
        "recorded-provisioning-want-running-backing-idle",
        "error-at-gateway-start-backing-exited-143-still-on-disk",
    ] {
        assert!(named.iter().any(|story| story == name), "{name}");
    }
}
