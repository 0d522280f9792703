//! What a transaction has set of the session's settings, and what its end makes of it.

use std::collections::BTreeMap;

use crate::SqlError;

/// What a transaction has set. Each name has the value that a rollback, or the end, gives it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingsOfTransaction {
    /// Of all that it has set: the values before.
    before: BTreeMap<String, String>,
    /// Of what it has set for itself alone: the values behind it.
    behind: BTreeMap<String, String>,
}

/// The settings at a savepoint.
#[derive(Clone, Debug)]
pub(crate) struct SavedSettings {
    values: BTreeMap<String, String>,
    behind: BTreeMap<String, String>,
}

impl SettingsOfTransaction {
    /// Notes that a setting of this value gets another.
    pub(crate) fn sets(&mut self, name: &str, value: String, local: bool) {
        self.before.entry(name.to_owned()).or_insert_with(|| value.clone());
        if local {
            self.behind.entry(name.to_owned()).or_insert(value);
        } else {
            self.behind.remove(name);
        }
    }

    /// The settings as a savepoint keeps them.
    pub(crate) fn saved(&self, setting: impl Fn(&str) -> Option<String>) -> SavedSettings {
        let value = |name: &String| Some((name.clone(), setting(name)?));
        SavedSettings { values: self.before.keys().filter_map(value).collect(), behind: self.behind.clone() }
    }

    /// Goes back to a savepoint.
    ///
    /// # Errors
    /// When a value cannot be set again.
    pub(crate) fn roll_back_to(
        &mut self,
        saved: &SavedSettings,
        put: impl Fn(&str, &str) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        for (name, before) in &self.before {
            put(name, saved.values.get(name).unwrap_or(before))?;
        }
        self.behind = saved.behind.clone();
        Ok(())
    }

    /// Gives settings the values that they have behind the transaction.
    ///
    /// # Errors
    /// When a value cannot be set again.
    pub(crate) fn end(
        &self,
        committed: bool,
        put: impl Fn(&str, &str) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let values = if committed { &self.behind } else { &self.before };
        values.iter().try_for_each(|(name, value)| put(name, value))
    }
}
