//! Keys whose checks wait.

use lode_engine::{Constraint, Deferral, Rule, TableDef};

/// Whether the check of a key of a table waits, or may wait, for the commit.
pub(crate) fn is_deferrable(of: &TableDef, constraints: &[Constraint], key: &[u16]) -> bool {
    if *key == of.primary_key {
        return of.primary_key_deferral != Deferral::None;
    }
    let is_of_key = |c: &&Constraint| matches!(&c.rule, Rule::Unique { columns } if columns == key);
    constraints.iter().find(is_of_key).is_some_and(|c| c.deferral != Deferral::None)
}
