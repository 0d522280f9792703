//! Groups of pages that nobody reads: what an index entry says of all rows of its page.
//!
//! ```text
//!   COUNT(*)                  the rows of the entry
//!   COUNT(c)                  the same, if no row has NULL in c; 0, if all have
//!   MIN(c), MAX(c)            the ends of a range that the values of c reach (IndexKind::is_tight)
//!   anything else, GROUP BY   not known: the page is read
//! ```

use super::entry::IndexEntry;
use super::rule::IndexRule;
use crate::aggregate::{Call, Given, GroupTable};
use crate::order_key::{is_exact, key_span};
use crate::{Expr, Program};

/// Adds all rows of the page that `entry` describes, which pass the program's filter, to the groups of `table`. Returns false, and adds
/// none, if the entry does not say enough.
pub fn take_entry(table: &mut GroupTable, program: &Program, rule: &IndexRule, entry: &IndexEntry) -> bool {
    let Some(asked) = program.aggregation() else { return false };
    let is_known = rule.schema().agrees_with(program.schema()) && rule.entry_bytes() == entry.encoded_bytes();
    if !asked.group_by.is_empty() || !is_known {
        return false;
    }
    let given: Option<Vec<Given>> = asked.calls.iter().map(|c| of_call(program, rule, entry, c)).collect();
    given.is_some_and(|given| {
        table.take_given(entry.rows(), given);
        true
    })
}

fn of_call(program: &Program, rule: &IndexRule, entry: &IndexEntry, call: &Call) -> Option<Given> {
    let rows = i64::from(entry.rows());
    Some(match call {
        Call::CountRows => Given::Count(rows),
        Call::Count(Expr::Column(c)) if !program.schema().columns[usize::from(*c)].nullable => {
            Given::Count(rows)
        }
        Call::Count(Expr::Column(c)) => match rule.bounds(entry, *c)? {
            of if !of.has_nulls => Given::Count(rows),
            of if of.keys.is_none() => Given::Count(0),
            _ => return None,
        },
        Call::Min(Expr::Column(c)) | Call::Max(Expr::Column(c)) => {
            let t = program.schema().columns[usize::from(*c)].data_type;
            let Some((min, max)) = rule.extremes(entry, *c)?.keys else { return Some(Given::Nothing) };
            let key = if matches!(call, Call::Min(_)) { min } else { max };
            // The least and the greatest of floats are the host's.
            if !is_exact(t, key) || t.is_float() {
                return None;
            }
            Given::Value(key_span(t, key).0)
        }
        Call::Count(_) | Call::Min(_) | Call::Max(_) | Call::Sum(_) => return None,
    })
}
