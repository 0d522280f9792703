//! A predicate without AND, OR or NOT, which an index kind is asked about, and the kind's answer.

use lode_page::{DataType, Value};

use crate::Program;
use crate::order_key::value_at;
use crate::plan::{Node, Pred, Test, Val};

/// The outcomes of a predicate that are possible on the rows of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// Some row may pass.
    pub can_be_true: bool,
    /// Some row may fail.
    pub can_be_false: bool,
    /// The outcome of some row may be NULL.
    pub can_be_null: bool,
}

impl Outcomes {
    /// Nothing is known.
    pub const ANY: Self = Self { can_be_true: true, can_be_false: true, can_be_null: true };
    pub(super) const NEVER: Self = Self { can_be_true: false, can_be_false: false, can_be_null: false };

    /// The outcomes of IS NULL over a column that has a NULL or not, and a value or not.
    pub(super) fn of_is_null(has_null: bool, has_value: bool) -> Self {
        Self { can_be_true: has_null, can_be_false: has_value, can_be_null: false }
    }

    /// The outcomes that two kinds, asked about the same rows, both hold possible.
    pub(super) fn and(self, o: Self) -> Self {
        Self {
            can_be_true: self.can_be_true && o.can_be_true,
            can_be_false: self.can_be_false && o.can_be_false,
            can_be_null: self.can_be_null && o.can_be_null,
        }
    }
}

/// Longer lists are not looked up in the entry of each page.
pub(super) const POINTS_MAX: usize = 64;

/// A predicate that a kind of index is asked about: a test of one value, a comparison of two, or IS NULL.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    pub(super) program: &'a Program,
    pub(super) node: &'a Node,
}

impl Leaf<'_> {
    /// The columns that it reads, ascending and distinct.
    pub fn columns(&self) -> &[u16] {
        &self.node.columns
    }

    /// The type of a column.
    pub fn data_type(&self, column: u16) -> DataType {
        self.program.schema().columns[usize::from(column)].data_type
    }

    /// The column, if the predicate is whether one column is NULL.
    pub(super) fn is_null_of(&self) -> Option<u16> {
        match (&self.node.pred, self.columns()) {
            (Pred::IsNull, [column]) => Some(*column),
            _ => None,
        }
    }

    /// The column and the values for which the predicate is true, if it reads one column and there are at most `max`
    /// such values: `c = 5`, `c IN (5, 7)`, `c BETWEEN 5 AND 7`, a BOOLEAN `c`. The predicate is NULL where the
    /// column is NULL. For any other value it is false, or NULL for `IN (..., NULL)`.
    pub fn points(&self, max: usize) -> Option<(u16, Vec<Value>)> {
        let (column, test) = match &self.node.pred {
            Pred::Column(c) => return Some((*c, vec![Value::Boolean(true)])),
            Pred::Test { value: Val::Column(c), test, .. } => (*c, test),
            _ => return None,
        };
        let t = self.data_type(column);
        let values: Option<Vec<Value>> = match test {
            Test::Range { low, high, outside: false } => match high.checked_sub(*low) {
                _ if low > high => Some(Vec::new()),
                Some(span) if span < max as i128 => (*low..=*high).map(|v| value_at(t, v)).collect(),
                _ => None,
            },
            Test::Ints(set) if set.values().len() <= max => {
                set.values().iter().map(|&v| value_at(t, v)).collect()
            }
            Test::Bytes(crate::CompareOp::Eq, b) => Some(vec![Value::Bytes(b.to_vec().into())]),
            Test::Strings(set) if set.values().len() <= max => {
                Some(set.values().iter().map(|b| Value::Bytes(b.to_vec().into())).collect())
            }
            Test::Like(pattern) => pattern.exact().map(|b| vec![Value::Bytes(b.to_vec().into())]),
            _ => None,
        };
        values.filter(|v| v.len() <= max).map(|v| (column, v))
    }
}
