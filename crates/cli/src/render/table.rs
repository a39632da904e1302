//! Tables for people: columns as wide as their widest cell, everything in them made harmless.

use super::escape;

/// A table; rows may have fewer cells than there are columns.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|h| (*h).to_owned()).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let shown =
            cells.map(|cell| if cell.is_empty() { "-".to_owned() } else { escape::line(&cell) });
        self.rows.push(shown.into());
    }

    /// The text, a line each row.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line += &format!("{cell:<width$}   ");
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Lines of `name: value` with the values under each other.
pub(crate) fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 1;
    let mut text = String::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let name = format!("{name}:");
        text += &format!("{name:<width$} {}\n", escape::line(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_cell_breaks_the_line() {
        let mut table = Table::new(&["NAME", "PHASE"]);
        table.row(["a".into(), "Ready".into()]);
        table.row(["longer\n\x1b[2J".into(), String::new()]);
        assert_eq!(
            table.text(),
            "NAME                PHASE\na                   Ready\nlonger\\n\\u{1b}[2J   -\n"
        );
    }

    #[test]
    fn fields_line_up_and_empty_ones_are_left_out() {
        let text =
            fields(&[("Name", "lab".into()), ("Error", String::new()), ("Since", "x".into())]);
        assert_eq!(text, "Name:  lab\nSince: x\n");
    }
}
