//! Files and functions that a reader can hold in mind, each file with its purpose on top.

use super::{TextFile, source};

/// Lines of a file; look again at 400.
const FILE_MAX_LINES: usize = 500;

/// Lines of a function, from its name to its closing brace.
const FUNCTION_MAX_LINES: usize = 70;

pub(super) fn faults(files: &[TextFile]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        if lines > FILE_MAX_LINES {
            faults.push(file.fault(lines, format!("{lines} lines, at most {FILE_MAX_LINES}")));
        }
        if !file.text.starts_with("//!") {
            faults.push(file.fault(1, "opens without //! (what it is for, where it stops)"));
        }
        for function in functions(&file.text) {
            if function.lines > FUNCTION_MAX_LINES {
                let Function { name, lines, .. } = &function;
                let what = format!("{name} has {lines} lines, at most {FUNCTION_MAX_LINES}");
                faults.push(file.fault(function.line, what));
            }
        }
    }
    faults
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// Of its name, counted from 1.
    line: usize,
    lines: usize,
}

/// Every function with a body.
fn functions(text: &str) -> Vec<Function> {
    let code = source::without_literals(text);
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let in_word = code[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = &code[start + 3..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if in_word || name.is_empty() {
            continue;
        }
        if let Some(length) = body_end(rest) {
            found.push(Function {
                name,
                line: code[..start].lines().count().max(1),
                lines: rest[..length].lines().count(),
            });
        }
    }
    found
}

/// One past the closing brace; `None`: a declaration without a body.
fn body_end(rest: &str) -> Option<usize> {
    let mut parentheses = 0_u32;
    let mut braces = 0_u32;
    for (at, character) in rest.char_indices() {
        match character {
            '(' | '[' => parentheses += 1,
            ')' | ']' => parentheses = parentheses.saturating_sub(1),
            ';' if braces == 0 && parentheses == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_name_to_closing_brace() {
        let text = "trait T {\n    fn declared(x: [u8; 4]);\n}\n\
                    fn long(\n    a: u8,\n) {\n    if a > 0 {\n        \"}\";\n    }\n}\n\
                    fn short() {}\n";
        let found: Vec<_> = functions(text).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("long".to_owned(), 7), ("short".to_owned(), 1)]);
    }

    #[test]
    fn a_long_function_is_a_fault() {
        let body = "    call();\n".repeat(69);
        let file = |body: &str| TextFile {
            path: "x.rs".into(),
            text: format!("//! X.\nfn f() {{\n{body}}}\n"),
        };
        assert_eq!(faults(&[file(&body)]).len(), 1);
        assert_eq!(faults(&[file(&body[12..])]), Vec::<String>::new());
    }
}
