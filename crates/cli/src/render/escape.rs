//! Text from a sandbox or a user, made harmless: control characters cannot drive the terminal.

use std::fmt::Write as _;

/// One line: every control character, line breaks too, is written out.
pub(crate) fn line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => clean.push_str("\\n"),
            '\r' => clean.push_str("\\r"),
            '\t' => clean.push_str("\\t"),
            c if is_harmful(c) => {
                // Writing into a String cannot fail.
                let _written = write!(clean, "\\u{{{:x}}}", c as u32);
            }
            c => clean.push(c),
        }
    }
    clean
}

/// Control characters, and those that turn the direction of what follows.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_gets_through() {
        for (text, expect) in [
            ("plain – ünïcode", "plain – ünïcode"),
            ("a\x1b[31mred", "a\\u{1b}[31mred"),
            ("two\nlines\r", "two\\nlines\\r"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt", "\\u{202e}txt"),
            ("bell\x07", "bell\\u{7}"),
        ] {
            assert_eq!(line(text), expect);
        }
    }
}
