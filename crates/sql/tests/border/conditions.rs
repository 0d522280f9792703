//! Generates random SQL conditions over the columns of a random table. DataFusion evaluates all of them without an
//! error.

use super::random::{Choices, Random};

/// A generator of conditions.
pub(crate) struct Conditions<'a> {
    random: &'a mut Random,
    table: &'static str,
}

impl<'a> Conditions<'a> {
    pub(crate) fn new(random: &'a mut Random) -> Self {
        Self { random, table: "" }
    }

    /// Qualifies columns with `table`.
    pub(crate) fn of(self, table: &'static str) -> Self {
        Self { table, ..self }
    }

    /// A condition with at most `depth` nested connectives.
    pub(crate) fn condition(&mut self, depth: u32) -> String {
        if depth == 0 || self.random.once_in(3) {
            return self.leaf();
        }
        match self.random.below(5) {
            0 | 1 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            2 | 3 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            _ => format!("NOT ({})", self.condition(depth - 1)),
        }
    }

    fn leaf(&mut self) -> String {
        let name = *self
            .random
            .one(&["id", "si", "i", "l", "r", "d", "n", "w", "s", "x", "dt", "ts", "b", "id", "s"]);
        let c = self.column(name);
        let op = *self.random.one(&["=", "<>", "<", "<=", ">", ">="]);
        match self.random.below(12) {
            0 => format!("{c} IS NULL"),
            1 => format!("{c} IS NOT NULL"),
            2 => {
                let distinct = *self.random.one(&["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
                format!("({c} {distinct} {})", self.value(name))
            }
            3 => {
                let not = *self.random.one(&["", "NOT "]);
                format!("{c} {not}BETWEEN {} AND {}", self.value(name), self.value(name))
            }
            4 | 5 => {
                let not = *self.random.one(&["", "NOT "]);
                let mut list: Vec<String> = (0..self.random.signed(1, 7)).map(|_| self.value(name)).collect();
                if self.random.once_in(5) {
                    list.push("NULL".into());
                }
                format!("{c} {not}IN ({})", list.join(", "))
            }
            6 if name == "s" => {
                let not = *self.random.one(&["", "NOT "]);
                format!("{c} {not}LIKE '{}'", self.pattern())
            }
            7 => self.arithmetic(op),
            8 if name == "b" => {
                let is =
                    *self.random.one(&["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS UNKNOWN"]);
                format!("{c} {is}")
            }
            9 if name == "b" => c,
            10 => self.beyond(op),
            11 if name == "l" => format!("{c} {op} {}", self.column("i")),
            11 if name == "w" => format!("{c} {op} {}", self.column("n")),
            _ => format!("{c} {op} {}", self.value(name)),
        }
    }

    fn column(&self, name: &str) -> String {
        if self.table.is_empty() { name.to_owned() } else { format!("{}.{name}", self.table) }
    }

    /// A constant that the column with this name is likely to contain.
    fn value(&mut self, name: &str) -> String {
        let spread = *self.random.one(&[4, 20, 400]);
        let v = self.random.signed(-spread, spread);
        match name {
            "id" => self.random.signed(-5, 1100).to_string(),
            "si" => (*self.random.one(&[v, v, v, 32_767, -32_768])).to_string(),
            "i" => (*self.random.one(&[v, v, v, 2_147_483_647])).to_string(),
            "l" => (*self.random.one(&[v, v, v, i64::MAX])).to_string(),
            "r" => format!("CAST('{}' AS REAL)", self.float(v)),
            "d" => format!("CAST('{}' AS DOUBLE)", self.float(v)),
            "n" | "w" => format!("{}.{:02}", v / 100, v.abs() % 100),
            "s" => self.text(),
            "x" => format!("CAST({} AS BYTEA)", self.text().replace('\\', "\\\\")),
            "dt" => format!("DATE '1970-01-01' + INTERVAL '{v} days'"),
            "ts" => {
                let micros = v.unsigned_abs();
                format!("TIMESTAMP '1970-01-01 00:00:00.{micros:06}'")
            }
            "b" => (*self.random.one(&["true", "false"])).to_owned(),
            other => unreachable!("no column {other}"),
        }
    }

    fn float(&mut self, v: i64) -> String {
        match self.random.below(6) {
            0 => (*self.random.one(&["NaN", "-0", "0", "Infinity", "-Infinity"])).to_owned(),
            _ => (v as f64 / 4.0).to_string(),
        }
    }

    fn text(&mut self) -> String {
        let texts =
            ["", "a", "ab", "aab", "ä%", "b_aab", "\\a", "日本a", "a longer text of more than twelve bytes"];
        format!("'{}'", self.random.one(&texts))
    }

    fn pattern(&mut self) -> String {
        let parts = ["a", "b", "ab", "%", "_", "%", "ä", "\\%", "\\_", "\\\\", "日", "text"];
        (0..self.random.signed(0, 4)).map(|_| *self.random.one(&parts)).collect()
    }

    fn arithmetic(&mut self, op: &str) -> String {
        let a = *self.random.one(&["+", "-", "*"]);
        let k = self.random.signed(-3, 3);
        let (i, l, n, d, w) =
            (self.column("i"), self.column("l"), self.column("n"), self.column("d"), self.column("w"));
        match self.random.below(6) {
            // Types are wide enough not to overflow, because a row that one level evaluates and another skips must
            // not fail.
            0 => format!("CAST({l} AS DECIMAL(19, 0)) {a} {k} {op} {l}"),
            1 => format!("{n} {a} {n} {op} {}", self.value("n")),
            2 => format!("{n} * (1 - {n}) {op} {}", self.value("n")),
            3 => format!("{d} {} 1e0 {op} {}", self.random.one(&["+", "-"]), self.value("d")),
            4 => format!("{w} {} {n} {op} {}", self.random.one(&["+", "-"]), self.value("w")),
            _ => format!("CAST({i} AS BIGINT) {a} {k} {op} {l}"),
        }
    }

    /// A condition that the drive declines.
    fn beyond(&mut self, op: &str) -> String {
        let k = self.random.signed(-3, 3);
        match self.random.below(4) {
            0 => format!("{} % 3 {op} {k}", self.column("l")),
            1 => format!("char_length({}) {op} {k}", self.column("s")),
            2 => format!("CASE WHEN {} THEN {} ELSE {k} END {op} {k}", self.column("b"), self.column("si")),
            _ => format!("upper({}) {op} {}", self.column("s"), self.text()),
        }
    }
}
