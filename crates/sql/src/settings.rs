//! The settings of a session: Lode's and DataFusion's, `search_path`, and those of PostgreSQL that scripts and drivers set.
//!
//! ```text
//!   SET s = v ─► the session's value; within a transaction, a rollback takes it back      SET LOCAL ─► its end does
//! ```
//!
//! Of PostgreSQL's settings a value is taken if it is what Lode does anyway, or if it concerns nothing that Lode has. Others are refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::state;
use crate::namespaces::SearchPath;
use crate::{Session, SqlError};

/// The setting of the schemas in which names without one are looked for.
pub(crate) const SEARCH_PATH: &str = "search_path";

/// A setting of PostgreSQL: its name, its value at the start of a session, and the values that it takes, in lower case; without any it
/// takes all.
struct Fixed {
    name: &'static str,
    start: &'static str,
    takes: &'static [&'static str],
}

const fn fixed(name: &'static str, start: &'static str, takes: &'static [&'static str]) -> Fixed {
    Fixed { name, start, takes }
}

const ON: &[&str] = &["on", "true", "yes", "1"];
const OFF: &[&str] = &["off", "false", "no", "0"];
const ZERO: &[&str] = &["0", "0ms", "0s"];
const UTC: &[&str] = &["utc", "gmt", "z", "etc/utc", "0", "+00:00"];

/// PostgreSQL's settings that are known.
const FIXED: &[Fixed] = &[
    fixed("application_name", "", &[]),
    fixed("bytea_output", "hex", &["hex"]),
    fixed("check_function_bodies", "on", &[]),
    fixed("client_encoding", "UTF8", &["utf8", "utf-8", "unicode"]),
    fixed("client_min_messages", "notice", &[]),
    fixed("datestyle", "ISO, MDY", &["iso", "iso, mdy", "iso,mdy", "mdy"]),
    fixed("default_table_access_method", "heap", &["heap"]),
    fixed("default_tablespace", "", &[""]),
    fixed(
        "default_transaction_isolation",
        "repeatable read",
        &["read uncommitted", "read committed", "repeatable read"],
    ),
    fixed("default_transaction_read_only", "off", OFF),
    fixed("default_with_oids", "off", OFF),
    fixed("escape_string_warning", "on", &[]),
    fixed("extra_float_digits", "1", &["1", "2", "3"]),
    fixed("idle_in_transaction_session_timeout", "0", ZERO),
    fixed("intervalstyle", "postgres", &["postgres"]),
    fixed("lock_timeout", "0", ZERO),
    fixed("row_security", "on", &[]),
    fixed("server_encoding", "UTF8", &["utf8"]),
    fixed("session_replication_role", "origin", &["origin"]),
    fixed("standard_conforming_strings", "on", ON),
    fixed("statement_timeout", "0", ZERO),
    fixed("synchronous_commit", "on", ON),
    fixed("timezone", "UTC", UTC),
    fixed("transaction_isolation", "repeatable read", &["repeatable read"]),
    fixed("transaction_timeout", "0", ZERO),
    fixed("xmloption", "content", &[]),
];

/// What a session has set of PostgreSQL's settings. A clone shares it.
#[derive(Clone, Default)]
struct SetValues(Arc<Mutex<BTreeMap<&'static str, String>>>);

/// The name under which a setting is known.
pub(crate) fn canonical(name: &str) -> String {
    let lower = name.to_lowercase();
    if lower == "time zone" { "timezone".into() } else { lower }
}

impl Session {
    /// The value of a setting; `None` when there is no such setting, or it has no value.
    pub(crate) fn setting(&self, name: &str) -> Option<String> {
        if name == SEARCH_PATH {
            return Some(self.namespaces().path().text());
        }
        if let Some(known) = FIXED.iter().find(|f| f.name == name) {
            let set: SetValues = self.kept().of();
            let value = set.0.lock().get(known.name).cloned();
            return Some(value.unwrap_or_else(|| known.start.to_owned()));
        }
        self.config().entries().into_iter().find(|e| e.key == name)?.value
    }

    /// The value of a setting at the start of the session.
    pub(crate) fn first_setting(&self, name: &str) -> Option<String> {
        if name == SEARCH_PATH {
            return Some(SearchPath::default().text());
        }
        if let Some(known) = FIXED.iter().find(|f| f.name == name) {
            return Some(known.start.to_owned());
        }
        self.initial_config().entries().into_iter().find(|e| e.key == name)?.value
    }

    /// Gives a setting a value.
    ///
    /// # Errors
    /// SQLSTATE 42704 when there is no such setting; 22023 or 0A000 when it does not take the value.
    pub(crate) fn put_setting(&self, name: &str, value: &str) -> Result<(), SqlError> {
        if name == SEARCH_PATH {
            self.namespaces().set_path(SearchPath::of_text(value)?);
            self.names_changed();
            return Ok(());
        }
        if let Some(known) = FIXED.iter().find(|f| f.name == name) {
            if !known.takes.is_empty() && !known.takes.contains(&value.to_lowercase().as_str()) {
                let (name, start) = (known.name, known.start);
                let message = format!("SET {name} = '{value}': it is always '{start}'");
                return Err(SqlError::Unsupported(message));
            }
            self.kept().of::<SetValues>().0.lock().insert(known.name, value.to_owned());
            return Ok(());
        }
        if name.starts_with("datafusion.catalog.") || name.starts_with("datafusion.sql_parser.") {
            return Err(SqlError::Unsupported(format!("SET {name}: Lode's names and its SQL are fixed")));
        }
        if !self.initial_config().entries().iter().any(|e| e.key == name) {
            return Err(no_setting(name));
        }
        let one_partition = self.database().host().is_some() && value != "1";
        if one_partition && name == "datafusion.execution.target_partitions" {
            return Err(SqlError::Unsupported(format!("SET {name}: with a modelled device there is one")));
        }
        self.with_config(|c| c.set(name, value))?;
        if name == "lode.durability" {
            self.durability_set();
        }
        Ok(())
    }

    /// Whether there is a setting of this name.
    pub(crate) fn has_setting(&self, name: &str) -> bool {
        name == SEARCH_PATH
            || FIXED.iter().any(|f| f.name == name)
            || self.config().entries().iter().any(|e| e.key == name)
    }

    /// Whether it is a setting that DataFusion does not know.
    pub(crate) fn is_own_setting(&self, name: &str) -> bool {
        name == SEARCH_PATH || FIXED.iter().any(|f| f.name == name)
    }
}

/// The error of a setting that is not there.
pub(crate) fn no_setting(name: &str) -> SqlError {
    let message = format!("there is no setting \"{name}\"; SHOW ALL lists them");
    SqlError::failed(state::UNDEFINED_OBJECT, message)
}
