//! How the rows of a short statement are found: by a whole key, or by a range of a key or an index.
//!
//! ```text
//!   a = $1 AND b = $2                  a whole key        ─► at most one row
//!   a = $1 AND b >= $2 AND c <> $3     key (a, b, d)      ─► rows with a = $1 from b = $2 on; then the rest: c <> $3
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use lode_engine::{Few, IndexKind, RowOrder, Rule, Table};
use lode_page::DataType;
use parking_lot::Mutex;

use super::values::widens;
use crate::arrow_convert::arrow_type;

/// More rows than this are found by a scan.
pub(super) const ROWS_MAX: usize = 256;
/// The most rows of a table that is joined, and the most times that rows are looked for in it.
pub(super) const JOINED_ROWS_MAX: usize = 1024;
/// The most executions that go to the general path at once after one that met too many rows.
const PAUSE_MAX: u32 = 64;

/// How rows are found.
pub(super) enum Access {
    /// INSERT: not at all.
    None,
    /// By the columns of a PRIMARY KEY or UNIQUE key, each with a value.
    Key {
        columns: Vec<u16>,
        values: Vec<Wanted>,
    },
    Range(Box<RangeAccess>),
}

/// A range of an order.
pub(super) struct RangeAccess {
    pub(super) order: RowOrder,
    /// The values of its leading columns.
    pub(super) equal: Vec<Wanted>,
    /// The ends for the column behind them, and whether the range has them.
    pub(super) low: Option<(Wanted, bool)>,
    pub(super) high: Option<(Wanted, bool)>,
    /// Which rows are enough.
    pub(super) few: Few,
    /// What rows must pass besides.
    pub(super) residual: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) pause: Pause,
}

/// The value that a column is compared with.
pub(super) enum Wanted {
    Parameter(usize, DataType),
    Constant(ScalarValue, DataType),
    Expression(Arc<dyn PhysicalExpr>, DataType),
    /// That of a column of the rows that were found in a step before.
    Joined(JoinedColumn),
}

/// A column of the rows that were found in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JoinedColumn {
    /// 0 for the table that is read first.
    pub(super) step: usize,
    /// Its place among the columns that are read.
    pub(super) at: usize,
}

/// The qualifier of names that stand for joined columns.
const STEP: &str = "__lode_step";

impl JoinedColumn {
    /// The column as an expression, which no statement has.
    fn to_expr(self) -> Expr {
        Expr::Column(Column::new(Some(STEP), format!("{} {}", self.step, self.at)))
    }

    pub(super) fn of_expr(e: &Expr) -> Option<Self> {
        let Expr::Column(Column { relation: Some(relation), name, .. }) = e else { return None };
        let (step, at) = name.split_once(' ')?;
        let is = relation.table() == STEP;
        is.then_some(Self { step: step.parse().ok()?, at: at.parse().ok()? })
    }
}

/// A table whose rows are found by those of tables before it.
pub(super) struct Joined {
    /// Which scan of the plan it is.
    pub(super) leaf: usize,
    pub(super) table: Mutex<Arc<Table>>,
    pub(super) range: RangeAccess,
}

/// Keeps a statement that meets too many rows from looking for them in vain each time.
#[derive(Default)]
pub(super) struct Pause {
    /// Executions that are still to go to the general path.
    left: AtomicU32,
    /// How many the next such execution adds.
    next: AtomicU32,
}

impl Pause {
    /// Whether this execution is one of those.
    pub(super) fn takes(&self) -> bool {
        self.left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    pub(super) fn met_too_many(&self) {
        let next = self.next.load(Relaxed);
        self.left.store(next, Relaxed);
        self.next.store((next * 2 + 1).min(PAUSE_MAX), Relaxed);
    }

    pub(super) fn met_few(&self) {
        self.next.store(0, Relaxed);
    }
}

/// A condition `column op value`.
#[derive(Clone)]
pub(super) struct Comparison {
    pub(super) column: u16,
    pub(super) op: Operator,
    pub(super) value: Expr,
    /// The condition.
    pub(super) whole: Expr,
}

impl Comparison {
    /// The column of a table that is read later equals one of a table that is read before.
    pub(super) fn joined(column: u16, by: JoinedColumn) -> Self {
        Self { column, op: Operator::Eq, value: by.to_expr(), whole: by.to_expr() }
    }

    /// A condition that compares a column, or `CAST(column AS a wider type)`, with a value. `None` for any other.
    pub(super) fn of(table: &Table, condition: &Expr) -> Option<Self> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
        let column = |e: &Expr| {
            let (e, to) = match e {
                Expr::Cast(cast) => (cast.expr.as_ref(), Some(cast.field.data_type())),
                e => (e, None),
            };
            let Expr::Column(c) = e else { return None };
            let number = table.column(&c.name)?;
            let from = table.schema().columns[usize::from(number)].data_type;
            let own = arrow_type(from);
            widens(from, to.unwrap_or(&own)).then_some((number, from))
        };
        let ((column, t), value, op) = match (column(left), column(right)) {
            (Some(found), None) => (found, right.as_ref(), *op),
            (None, Some(found)) => (found, left.as_ref(), op.swap()?),
            _ => return None,
        };
        let compares =
            matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
        let sound = compares && value.column_refs().is_empty() && (t == DataType::Text || !has_text(value));
        sound.then(|| Self { column, op, value: value.clone(), whole: condition.clone() })
    }
}

/// The conditions that a condition stands for: `a BETWEEN b AND c` is `a >= b AND a <= c`.
pub(super) fn expanded(condition: &Expr) -> Vec<Expr> {
    match condition {
        Expr::Between(b) if !b.negated => {
            let compare = |op, end: &Expr| {
                Expr::BinaryExpr(BinaryExpr { left: b.expr.clone(), op, right: Box::new(end.clone()) })
            };
            vec![compare(Operator::GtEq, &b.low), compare(Operator::LtEq, &b.high)]
        }
        _ => vec![condition.clone()],
    }
}

/// Whether a parameter of an expression is text. A quoted literal that is compared with anything but text is typed by what it is
/// compared with.
fn has_text(e: &Expr) -> bool {
    let mut found = false;
    let walked = e.apply(|e| {
        found |= matches!(e, Expr::Placeholder(p) if p.field.as_ref()
            .is_some_and(|f| *f.data_type() == arrow_type(DataType::Text)));
        Ok(TreeNodeRecursion::Continue)
    });
    walked.is_err() || found
}

/// Whether a condition that is evaluated as it is means the same with its literals.
pub(super) fn means_the_same(table: &Table, condition: &Expr) -> bool {
    if !has_text(condition) {
        return true;
    }
    let is_text = |e: &Expr| {
        matches!(e, Expr::Column(c) if table.column(&c.name)
            .is_some_and(|c| table.schema().columns[usize::from(c)].data_type == DataType::Text))
    };
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => is_text(left) || is_text(right),
        _ => false,
    }
}

/// The order and the conditions of a range.
pub(super) struct ChosenRange {
    pub(super) order: RowOrder,
    pub(super) equal: Vec<Comparison>,
    pub(super) low: Option<Comparison>,
    pub(super) high: Option<Comparison>,
}

impl ChosenRange {
    /// The order of which the conditions fix the most leading columns; `None` if they fix and bound none.
    pub(super) fn of(table: &Table, conditions: &[Comparison]) -> Option<Self> {
        let of_order = |order: RowOrder| {
            let with = |c: u16, is: fn(Operator) -> bool| {
                conditions.iter().find(|o| o.column == c && is(o.op)).cloned()
            };
            let fixed = order.columns.iter().map_while(|&c| with(c, |op| op == Operator::Eq));
            let equal: Vec<Comparison> = fixed.collect();
            let next = order.columns.get(equal.len()).copied();
            let low = next.and_then(|c| with(c, |op| matches!(op, Operator::Gt | Operator::GtEq)));
            let high = next.and_then(|c| with(c, |op| matches!(op, Operator::Lt | Operator::LtEq)));
            Self { order, equal, low, high }
        };
        let some = |c: &Self| {
            let restricted = c.equal.len() + usize::from(c.low.is_some() || c.high.is_some());
            restricted > 0 && c.order.has_all(table, restricted)
        };
        table.row_orders().into_iter().map(of_order).filter(some).max_by_key(Self::worth)
    }

    /// How much the range is restricted.
    pub(super) fn worth(&self) -> impl Ord + use<> {
        let ends = usize::from(self.low.is_some()) + usize::from(self.high.is_some());
        (self.equal.len(), ends, std::cmp::Reverse(self.order.columns.len()))
    }

    /// Whether all rows of the range pass this condition.
    pub(super) fn has(&self, condition: &Expr) -> bool {
        let used = || self.equal.iter().chain(&self.low).chain(&self.high);
        expanded(condition).iter().all(|condition| used().any(|c| c.whole == *condition))
    }

    /// Whether it may be short: a range without a fixed column and with one end may have most of the table.
    pub(super) fn is_narrow(&self) -> bool {
        !self.equal.is_empty() || self.low.is_some() && self.high.is_some()
    }
}

/// Whether these are all columns of a PRIMARY KEY or UNIQUE key, in any order.
pub(super) fn is_whole_key(table: &Table, columns: &[u16]) -> bool {
    let is = |key: &[u16]| {
        key.len() == columns.len() && !key.is_empty() && key.iter().all(|c| columns.contains(c))
    };
    let unique = |rule: &Rule| matches!(rule, Rule::Unique { columns } if is(columns));
    is(&table.def().primary_key)
        || table.def().constraints.iter().any(|c| unique(&c.rule))
        || table.indexes().iter().any(|i| i.kind == IndexKind::Btree { unique: true } && is(&i.columns))
}

/// Whether a statement that compares these columns with values may find its rows by a key or an index.
pub(super) fn may_be_found(table: &Table, compared: &[String]) -> bool {
    let unique = table.def().constraints.iter().filter_map(|c| match &c.rule {
        Rule::Unique { columns } => Some(&columns[..]),
        _ => None,
    });
    let indexes = table.indexes().iter().filter(|i| i.kind != IndexKind::Page).map(|i| &i.columns[..]);
    let keys = [&table.def().primary_key[..]].into_iter().chain(unique).chain(indexes);
    let is_compared = |c: u16| compared.contains(&table.def().columns[usize::from(c)].name);
    // The columns of a whole key may be compared in any order, and those of a range from the first on.
    keys.filter_map(|key| key.first()).any(|&c| is_compared(c))
}
