//! Groups of a scan: the number of rows, the sum of keys and the least value, per value or for all rows.

use std::collections::BTreeMap;

use lode_command::GroupRows;
use lode_page::Value;
use lode_program::{Aggregation, Call, Expr};

use crate::content::{Row, integer};

/// The number of rows, the sum of keys, the least value.
type Group = (i64, i128, Option<i64>);
/// The groups by value. The key is `None` for the only group of all rows.
type Groups = BTreeMap<Option<Option<i64>>, Group>;

pub(super) fn aggregation(by_value: bool, groups_max: u32) -> Aggregation {
    let group_by = if by_value { vec![1] } else { Vec::new() };
    let calls = vec![Call::CountRows, Call::Sum(Expr::Column(0)), Call::Min(Expr::Column(1))];
    Aggregation { group_by, calls, groups_max }
}

/// The groups of these rows.
pub(super) fn of_rows(by_value: bool, rows: impl Iterator<Item = Row>) -> Groups {
    let mut groups = Groups::new();
    for (key, value) in rows {
        add(&mut groups, by_value.then_some(value), (1, key.into(), value));
    }
    groups
}

/// Merges partial groups. Returns `None` if they do not have the requested form.
pub(super) fn of_parts(by_value: bool, groups_max: u32, parts: &[GroupRows]) -> Option<Groups> {
    let mut groups = Groups::new();
    let keys = usize::from(by_value);
    for part in parts {
        if part.columns.len() != keys + 3 || part.rows == 0 || part.rows > groups_max {
            return None;
        }
        for row in 0..part.rows as usize {
            let value = |c: usize| integer(&part.columns[c], row);
            // The sum of BIGINT is a DECIMAL.
            let Value::Decimal(sum) = part.columns[keys + 1].value(row) else { return None };
            let of = (value(keys)?, sum, value(keys + 2));
            add(&mut groups, by_value.then(|| value(0)), of);
        }
    }
    Some(groups)
}

fn add(groups: &mut Groups, key: Option<Option<i64>>, (rows, sum, least): Group) {
    let g = groups.entry(key).or_insert((0, 0, None));
    let least = match (g.2, least) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    *g = (g.0 + rows, g.1 + sum, least);
}
