//! Rust source with its comments and literals blanked, so that braces and words in them do not
//! count. Lines and columns stay.

/// A space for each character inside comments, strings and characters; line breaks stay.
pub(super) fn without_literals(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = literal_end(&characters, at);
        match end {
            Some(end) => {
                let blanked = characters[at..end].iter();
                out.extend(blanked.map(|c| if *c == '\n' { '\n' } else { ' ' }));
                at = end;
            }
            None => {
                out.push(characters[at]);
                at += 1;
            }
        }
    }
    out
}

/// One past the comment or literal that starts at `at`; `None`: none does.
fn literal_end(text: &[char], at: usize) -> Option<usize> {
    let next = text.get(at + 1);
    let in_word = at > 0 && is_word(text[at - 1]);
    match text[at] {
        '/' if next == Some(&'/') => Some(find(text, at, |rest| rest[0] == '\n')),
        '/' if next == Some(&'*') => Some(block_comment_end(text, at)),
        '"' => Some(string_end(text, at)),
        'r' if !in_word => raw_string_end(text, at),
        'b' | 'c' if !in_word && next == Some(&'r') => raw_string_end(text, at + 1),
        '\'' => character_end(text, at),
        _ => None,
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn find(text: &[char], from: usize, wanted: impl Fn(&[char]) -> bool) -> usize {
    (from..text.len()).find(|at| wanted(&text[*at..])).unwrap_or(text.len())
}

fn block_comment_end(text: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn string_end(text: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// `start` is at the `r`.
fn raw_string_end(text: &[char], start: usize) -> Option<usize> {
    let hashes = text[start + 1..].iter().take_while(|c| **c == '#').count();
    let quote = start + 1 + hashes;
    if text.get(quote) != Some(&'"') {
        return None;
    }
    let closes = |rest: &[char]| {
        rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#')
    };
    Some((find(text, quote + 1, closes) + 1 + hashes).min(text.len()))
}

/// A lifetime is none.
fn character_end(text: &[char], start: usize) -> Option<usize> {
    match text.get(start + 1)? {
        '\\' => Some((find(text, start + 3, |rest| rest[0] == '\'') + 1).min(text.len())),
        _ => (text.get(start + 2) == Some(&'\'')).then_some(start + 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_in_literals_and_comments_are_blanked() {
        for (text, blanked) in [
            ("a { } // { ", "a { }      "),
            ("\"{\" + b\"\\\"{\" }", "    + b      }"),
            ("r#\"{\"# { br\"{\"", "       {      "),
            ("/* { /* { */ } */ {", "                  {"),
            ("'{' 'a '\\'' '\\u{41}' }", "    'a               }"),
            ("x\n\"\n{\n\"\ny", "x\n \n \n \ny"),
        ] {
            assert_eq!(without_literals(text), blanked, "{text}");
        }
    }
}
