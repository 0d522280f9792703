//! Plain tables of text for people: columns aligned, headings above a rule.

/// The length of the longest rule under a heading, in characters.
const RULE_MAX: usize = 60;

/// A table under construction. Columns of numbers are aligned to the right, columns of text to the left.
pub struct TextTable {
    right: Vec<bool>,
    rows: Vec<Row>,
}

enum Row {
    Cells(Vec<String>),
    Rule,
}

impl TextTable {
    /// A table whose columns have these headings. A column whose heading starts with `>` is aligned to the right.
    pub fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|h| h.starts_with('>')).collect();
        let cells = headings.iter().map(|h| h.trim_start_matches('>').to_string()).collect();
        Self { right, rows: vec![Row::Cells(cells), Row::Rule] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(Row::Cells(cells.into_iter().collect()));
    }

    /// Adds a rule, for example before totals.
    pub fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    /// The text of the table. Each line has a line end. A row is as high as its highest cell.
    pub fn render(&self) -> String {
        let mut widths = vec![0; self.right.len()];
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (w, c) in widths.iter_mut().zip(cells) {
                    *w = c.lines().map(|l| l.chars().count()).max().unwrap_or(0).max(*w);
                }
            }
        }
        let mut out = String::new();
        for row in &self.rows {
            match row {
                Row::Rule => {
                    let rules: Vec<String> =
                        widths.iter().map(|w| "-".repeat((*w).clamp(1, RULE_MAX))).collect();
                    self.line(&mut out, &widths, rules.iter().map(String::as_str));
                }
                Row::Cells(cells) => {
                    let height = cells.iter().map(|c| c.lines().count()).max().unwrap_or(0).max(1);
                    for i in 0..height {
                        self.line(&mut out, &widths, cells.iter().map(|c| c.lines().nth(i).unwrap_or("")));
                    }
                }
            }
        }
        out
    }

    fn line<'a>(&self, out: &mut String, widths: &[usize], cells: impl Iterator<Item = &'a str>) {
        let mut line = String::new();
        for (i, (cell, &width)) in cells.zip(widths).enumerate() {
            if i > 0 {
                line.push_str("  ");
            }
            // A width of `format!` has 16 bits, and a larger one panics.
            let fill = width.saturating_sub(cell.chars().count());
            if self.right[i] {
                line.extend(std::iter::repeat_n(' ', fill));
            }
            line.push_str(cell);
            if !self.right[i] {
                line.extend(std::iter::repeat_n(' ', fill));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut t = TextTable::new(&["name", ">rows"]);
        t.row(["a".into(), "1".into()]);
        t.row(["long".into(), "1,000".into()]);
        assert_eq!(t.render(), "name   rows\n----  -----\na         1\nlong  1,000\n");
        let mut t = TextTable::new(&["plan", ">n"]);
        t.row(["a\n  b".into(), "1".into()]);
        assert_eq!(t.render(), "plan  n\n----  -\na     1\n  b\n");
    }

    #[test]
    fn a_cell_of_more_than_65_535_characters_is_written() {
        let long = "x".repeat(70_000);
        let mut t = TextTable::new(&["plan", ">n"]);
        t.row([long.clone(), "1".into()]);
        assert!(t.render().contains(&format!("{long}  1\n")));
    }
}
