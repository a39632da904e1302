//! Every relative link of a document, and every page of a reason, leads somewhere.

use std::path::Path;

use super::TextFile;

const REASONS: &str = "crates/core/src/condition.rs";

pub(super) fn faults(root: &Path, files: &[TextFile]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.is_markdown()) {
        let directory = file.path.parent().unwrap_or(Path::new(""));
        for (number, line) in file.text.lines().enumerate() {
            for target in targets(line).filter(|target| is_relative(target)) {
                let path = target.split('#').next().unwrap_or(target);
                if !root.join(directory).join(path).exists() {
                    faults.push(file.fault(number + 1, format!("{target} leads nowhere")));
                }
            }
        }
    }
    let reasons = files.iter().find(|file| file.path == Path::new(REASONS));
    for reason in reasons.iter().flat_map(|file| reasons_of(&file.text)) {
        if !root.join("docs/conditions").join(format!("{reason}.md")).exists() {
            faults.push(format!("docs/conditions/{reason}.md: no page for this reason"));
        }
    }
    faults
}

/// What stands in `](…)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        rest.find(')').map(|end| rest[..end].trim())
    })
}

fn is_relative(target: &str) -> bool {
    !target.is_empty()
        && !target.starts_with('#')
        && !target.contains("://")
        && !target.starts_with("mailto:")
}

/// The words of `Self::Word => "Word"`.
fn reasons_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (variant, word) = line.trim().strip_prefix("Self::")?.split_once(" => \"")?;
        let word = word.trim_end_matches("\",");
        (word == variant).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_wherever_they_stand() {
        let found: Vec<_> = targets("[a](b.md), ![c](d/e.png) and [f](https://g)").collect();
        assert_eq!(found, ["b.md", "d/e.png", "https://g"]);
        assert!(is_relative("b.md#part") && !is_relative("https://g") && !is_relative("#here"));
    }

    #[test]
    fn reasons_are_read_from_the_core() {
        let text = "    Self::Created => \"Created\",\n    Self::Other => other(),\n";
        assert_eq!(reasons_of(text).collect::<Vec<_>>(), ["Created"]);
    }
}
