//! The words in which databases differ. Texts hold names of these words in braces.

/// The words of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The type of a point in time: `{timestamp}`.
    pub timestamp: &'static str,
    /// What stands between an index's table and its columns to make it a B+-tree: `{btree}`.
    pub btree: &'static str,
    /// What ends the definition of a table whose rows are to lie in the order of a key of several columns: `{clustered}`.
    pub clustered: &'static str,
}

impl Dialect {
    /// Lode's words.
    pub const LODE: Self = Self { timestamp: "TIMESTAMP", btree: "USING btree ", clustered: "" };
    /// SQLite's words. A point in time is its microseconds since 1970, since SQLite has no such type.
    pub const SQLITE: Self = Self { timestamp: "INTEGER", btree: "", clustered: " WITHOUT ROWID" };
    /// The words of databases that need nothing special.
    pub const PLAIN: Self = Self { timestamp: "TIMESTAMP", btree: "", clustered: "" };

    /// A text in this dialect.
    pub fn render(&self, text: &str) -> String {
        text.replace("{timestamp}", self.timestamp)
            .replace("{btree}", self.btree)
            .replace("{clustered}", self.clustered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced() {
        let text =
            "CREATE TABLE t (a {timestamp}, PRIMARY KEY (a, b)){clustered}; CREATE INDEX i ON t {btree}(a)";
        assert_eq!(
            Dialect::LODE.render(text),
            "CREATE TABLE t (a TIMESTAMP, PRIMARY KEY (a, b)); CREATE INDEX i ON t USING btree (a)"
        );
        assert_eq!(
            Dialect::SQLITE.render(text),
            "CREATE TABLE t (a INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID; CREATE INDEX i ON t (a)"
        );
    }
}
