//! `differs.txt`: the cases in which Lode deliberately differs from PostgreSQL.
//!
//! ```text
//!   = the reason, one line
//!   theme kind pattern      the statements of the theme that match, `*` for any text; `*` for any theme
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

/// A deliberate difference.
struct Entry {
    line: String,
    theme: String,
    kind: String,
    pattern: String,
    used: AtomicBool,
}

/// All deliberate differences.
pub(crate) struct Differs(Vec<Entry>);

impl Differs {
    pub(crate) fn read() -> Self {
        let mut reason = false;
        let mut entries = Vec::new();
        for line in include_str!("differs.txt").lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with("= ") {
                reason = true;
                continue;
            }
            assert!(reason, "differs.txt: an entry without a reason: {line}");
            let mut parts = line.splitn(3, ' ').map(str::to_owned);
            let mut part =
                || parts.next().unwrap_or_else(|| panic!("differs.txt: `theme kind pattern`: {line}"));
            let (theme, kind, pattern) = (part(), part(), part());
            entries.push(Entry { line: line.to_owned(), theme, kind, pattern, used: AtomicBool::new(false) });
        }
        Self(entries)
    }

    /// Whether this difference is deliberate.
    pub(crate) fn has(&self, theme: &str, kind: &str, sql: &str) -> bool {
        let mut found = false;
        for e in &self.0 {
            if (e.theme == "*" || e.theme == theme) && e.kind == kind && matches(&e.pattern, sql) {
                e.used.store(true, Ordering::Relaxed);
                found = true;
            }
        }
        found
    }

    /// The entries that no case needed.
    pub(crate) fn unused(&self) -> Vec<&str> {
        self.0.iter().filter(|e| !e.used.load(Ordering::Relaxed)).map(|e| e.line.as_str()).collect()
    }
}

/// Whether `text` matches the pattern, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    tail.is_empty() || starts.into_iter().any(|at| matches(tail, &rest[at..]))
}

#[test]
fn patterns_match_whole_statements() {
    assert!(matches("SELECT avg(*", "SELECT avg(i) FROM e_int"));
    assert!(matches("*::bytea*", "SELECT 'a'::bytea"));
    assert!(matches("SELECT 2 * 3", "SELECT 2 * 3"));
    assert!(!matches("SELECT avg(*)", "SELECT avg(i) FROM e_int"));
    assert!(!matches("avg(*", "SELECT avg(i)"));
}
