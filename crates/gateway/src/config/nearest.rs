//! The nearest right word to a wrong one.

/// The candidate with the fewest edits, if few enough to have been meant: at most a third of the
/// word, and two at least.
pub(super) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let bound = (word.chars().count() / 3).max(2);
    candidates
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(edits, _)| *edits <= bound)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements that turn one into the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_a_far_one_is_not_offered() {
        let keys = ["driver", "log", "log_format", "metrics_listen"];
        for (word, expected) in [
            ("drivers", Some("driver")),
            ("Driver", Some("driver")),
            ("logformat", Some("log_format")),
            ("metric-listen", Some("metrics_listen")),
            ("logs", Some("log")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &keys), expected, "{word}");
        }
    }

    #[test]
    fn distances_count_edits() {
        for (a, b, edits) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ä", "a", 1)] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }
}
