//! Joins of 4 to 8 tables from a seed, and the orders in which they can be joined.

use std::collections::BTreeSet;

use lode_base::random::Random;

use super::tables::{C_VALUES, TableSpec, log_uniform};

/// The fewest and most tables of a query.
const TABLES: (u64, u64) = (4, 8);
/// Tables of more rows are not joined by `c`, which has many equal values.
const ROWS_BY_C_MAX: u64 = 20_000;

/// A query over some of the tables.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) tables: Vec<usize>,
    /// Pairs of tables that an equality connects.
    edges: Vec<(usize, usize)>,
}

impl Query {
    pub(super) fn of(r: &mut Random, all: &[TableSpec]) -> Self {
        let count = r.between(TABLES.0, TABLES.1.min(all.len() as u64)) as usize;
        let references: Vec<(usize, usize)> =
            all.iter().enumerate().flat_map(|(from, t)| t.refers.iter().map(move |f| (from, f.to))).collect();
        let mut tables = vec![references[r.below(references.len() as u64) as usize].0];
        let (mut edges, mut conditions) = (Vec::new(), Vec::new());
        while tables.len() < count {
            let near: Vec<(usize, usize)> = references
                .iter()
                .copied()
                .filter(|(a, b)| tables.contains(a) != tables.contains(b))
                .collect();
            // All tables are one tree of references.
            let (from, to) = *r.pick(&near).expect("some table is not yet joined");
            tables.push(if tables.contains(&from) { to } else { from });
            edges.push((from, to));
            conditions.push(format!("t{from}.f{to} = t{to}.id"));
        }
        // An equality that is no reference: many rows meet many.
        let small: Vec<usize> = tables.iter().copied().filter(|t| all[*t].rows <= ROWS_BY_C_MAX).collect();
        if r.once_in(4)
            && let [a, b, ..] = small[..]
        {
            edges.push((a, b));
            conditions.push(format!("t{a}.c = t{b}.c"));
        }
        let mut filtered = 0;
        for &t in &tables {
            if r.once_in(3) {
                conditions.extend(filter(r, t, &all[t]));
                filtered += 1;
            }
        }
        if filtered == 0 {
            conditions.extend(filter(r, tables[0], &all[tables[0]]));
        }
        // FROM in no order.
        let mut from = tables.clone();
        for at in (1..from.len()).rev() {
            from.swap(at, r.below(at as u64 + 1) as usize);
        }
        let from: Vec<String> = from.iter().map(|t| format!("t{t}")).collect();
        let sum: Vec<String> =
            tables.iter().take(2).map(|t| format!("sum(CAST(t{t}.c AS BIGINT)), min(t{t}.s)")).collect();
        let sql = format!(
            "SELECT count(*), {} FROM {} WHERE {}",
            sum.join(", "),
            from.join(", "),
            conditions.join(" AND ")
        );
        Self { sql, tables, edges }
    }

    /// Different orders in which each table is connected with those before it: as many as there are, up to `most`.
    pub(super) fn orders(&self, r: &mut Random, most: usize) -> Vec<Vec<usize>> {
        let mut found = BTreeSet::new();
        // Where there are few orders, chance finds the same ones again.
        for _ in 0..most * 20 {
            if found.len() == most {
                break;
            }
            let mut order = vec![*r.pick(&self.tables).expect("a query has tables")];
            while order.len() < self.tables.len() {
                let is_near = |t: &usize| {
                    let other = |a: usize, b: usize| a == *t && order.contains(&b);
                    !order.contains(t) && self.edges.iter().any(|&(a, b)| other(a, b) || other(b, a))
                };
                let near: Vec<usize> = self.tables.iter().copied().filter(is_near).collect();
                order.push(*r.pick(&near).expect("the tables are connected"));
            }
            found.insert(order);
        }
        found.into_iter().collect()
    }
}

/// Conditions on one table: alone, correlated, or a range.
fn filter(r: &mut Random, number: usize, table: &TableSpec) -> Vec<String> {
    let a = log_uniform(r, 1, table.a_values) - 1;
    match r.below(5) {
        0 => vec![format!("t{number}.a = {a}")],
        1 => vec![format!("t{number}.a = {a}"), format!("t{number}.b = {}", a / table.b_width)],
        2 => vec![format!("t{number}.b = {}", r.below(table.b_values()))],
        3 => vec![format!("t{number}.s = 'value {a}'"), format!("t{number}.a = {a}")],
        _ => vec![format!("t{number}.c < {}", log_uniform(r, C_VALUES / 100, C_VALUES))],
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::tables;
    use super::*;

    #[test]
    fn orders_are_distinct_whole_and_connected() {
        for seed in 0..50 {
            let mut r = Random::of_seed(seed);
            let all = tables(&mut r, 9, 1.0);
            let query = Query::of(&mut r, &all);
            let orders = query.orders(&mut r, 30);
            assert!(orders.len() >= 4, "{query:?}");
            let mut sorted = query.tables.clone();
            sorted.sort_unstable();
            for order in &orders {
                let mut whole = order.clone();
                whole.sort_unstable();
                assert_eq!(whole, sorted);
                for at in 1..order.len() {
                    let meets = |(a, b): &(usize, usize)| {
                        let before = &order[..at];
                        before.contains(a) && *b == order[at] || before.contains(b) && *a == order[at]
                    };
                    assert!(query.edges.iter().any(meets), "{order:?} of {query:?}");
                }
            }
        }
    }
}
