//! What the conditions of a plan say of where its rows are.
//!
//! ```text
//!   one table:  conditions ─► a whole key, or the range of a key or an index, and what rows must pass besides
//!   a join:     the table whose conditions fix the most columns ─► the next table that joined columns find ─► ...
//! ```

use datafusion::logical_expr::{Expr, Operator};
use lode_engine::Table;

use super::access::{ChosenRange, Comparison, JoinedColumn, expanded, is_whole_key, means_the_same};
use super::rest::Tree;

/// What the conditions of a statement say of its rows.
pub(super) struct Conditions {
    pub(super) found: Found,
    /// What rows must pass besides.
    pub(super) residual: Vec<Expr>,
}

/// How rows are found.
pub(super) enum Found {
    /// By all columns of a key, each equal to a value.
    Key(Vec<Comparison>),
    Range(Box<ChosenRange>),
}

/// Why a statement is not short.
pub(super) enum NotShort {
    /// It is not, as long as the table is as it is.
    Not,
    /// What it means depends on its literals.
    ByLiterals,
}

impl Conditions {
    /// The comparisons among the conditions, and all conditions. `Err` if what they mean depends on the literals.
    fn compared(table: &Table, conditions: &[Expr]) -> Result<(Vec<Comparison>, Vec<Expr>), NotShort> {
        let mut all: Vec<Expr> = Vec::new();
        for condition in conditions.iter().flat_map(expanded) {
            if !all.contains(&condition) {
                all.push(condition);
            }
        }
        let compared: Vec<Comparison> = all.iter().filter_map(|c| Comparison::of(table, c)).collect();
        let is_compared = |c: &Expr| compared.iter().any(|o| o.whole == *c);
        if !all.iter().all(|c| is_compared(c) || means_the_same(table, c)) {
            return Err(NotShort::ByLiterals);
        }
        Ok((compared, all))
    }

    /// `Err` with what is known of a statement whose rows are not found by a key.
    pub(super) fn of(table: &Table, conditions: &[Expr]) -> Result<Self, NotShort> {
        let (compared, all) = Self::compared(table, conditions)?;
        let columns: Vec<u16> = compared.iter().map(|c| c.column).collect();
        let by_key = compared.len() == all.len()
            && compared.iter().all(|c| c.op == Operator::Eq)
            && is_whole_key(table, &columns);
        if by_key {
            return Ok(Self { found: Found::Key(compared), residual: Vec::new() });
        }
        // A condition that is no comparison may be one with its literals.
        let by_literals = compared.len() < all.len();
        match ChosenRange::of(table, &compared) {
            Some(range) => {
                let residual = all.into_iter().filter(|c| !range.has(c)).collect();
                Ok(Self { found: Found::Range(Box::new(range)), residual })
            }
            None if by_literals => Err(NotShort::ByLiterals),
            None => Err(NotShort::Not),
        }
    }
}

/// The order in which the rows of a plan's sources are found, and the range of each source.
pub(super) struct Steps {
    pub(super) order: Vec<usize>,
    pub(super) ranges: Vec<ChosenRange>,
}

impl Steps {
    /// `Err` with what is known of a plan of which some rows are not found by a key.
    pub(super) fn of(tree: &Tree<'_>) -> Result<Self, NotShort> {
        let mut own = Vec::new();
        for source in &tree.sources {
            own.push(Conditions::compared(&source.table, &source.conditions)?.0);
        }
        let mut ranges: Vec<Option<ChosenRange>> = tree.sources.iter().map(|_| None).collect();
        // The source whose conditions fix the most columns is read first.
        let alone = tree.sources.iter().zip(&own).enumerate();
        let alone = alone.filter_map(|(i, (s, compared))| Some((i, ChosenRange::of(&s.table, compared)?)));
        let only = tree.sources.len() == 1;
        let narrow = alone.filter(|(_, range)| only || range.is_narrow());
        let first = narrow.max_by_key(|(i, range)| (range.worth(), std::cmp::Reverse(*i)));
        let Some((first, range)) = first else {
            let by_literals = only && own[0].len() < tree.sources[0].conditions.len();
            return Err(if by_literals { NotShort::ByLiterals } else { NotShort::Not });
        };
        ranges[first] = Some(range);
        let mut order = vec![first];
        while order.len() < tree.sources.len() {
            let next = (0..tree.sources.len()).filter(|i| ranges[*i].is_none()).find_map(|i| {
                let by_step = order.iter().enumerate().filter_map(|(step, &by)| {
                    let inputs = tree.inputs(by, ranges[by].as_ref()?)?;
                    let edges = tree.edges.iter().filter(|e| e.of.0 == i && e.by.0 == by);
                    let joined = edges.filter_map(|e| {
                        let at = inputs.iter().position(|c| *c == e.by.1)?;
                        Some(Comparison::joined(e.of.1, JoinedColumn { step, at }))
                    });
                    let all: Vec<Comparison> = own[i].iter().cloned().chain(joined).collect();
                    ChosenRange::of(&tree.sources[i].table, &all).filter(|range| !range.equal.is_empty())
                });
                by_step.max_by_key(ChosenRange::worth).map(|range| (i, range))
            });
            let Some((i, range)) = next else { return Err(NotShort::Not) };
            ranges[i] = Some(range);
            order.push(i);
        }
        let ranges = ranges.into_iter().flatten().collect();
        Ok(Self { order, ranges })
    }
}
