//! Aggregation: groups of rows and their states, built page by page. The host merges them.
//!
//! ```text
//!   rows that passed ─┬─ keys ──────► group of each row ─┐
//!                     └─ arguments ─► values ────────────┴─► states ── full, or over ─► partial groups
//! ```
//!
//! The result are *partial* groups: a group can come out more than once. The host merges counts and sums by adding,
//! least and greatest values by comparing. This bounds the table: when a new group does not fit, all groups come out,
//! and the table starts empty. AVG is a sum and a count.
//!
//! Exactness: nothing wraps. The sum of a BIGINT is a DECIMAL, which has room for it. By its types, decimal
//! arithmetic within an argument may need more than 38 digits; a value or a sum that does not fit 128 bits is an
//! error. Floats are added in the order of pages and rows.

mod arguments;
mod keys;
mod states;
mod table;

use lode_page::{DataType, Schema};

use crate::plan::{self, Val};
use crate::{Expr, ProgramError, check};

pub use table::{Given, GroupTable};

/// Most groups that may be asked for at a time.
pub const GROUPS_MAX: u32 = 65_536;
/// Most columns to group by, and most calls.
const LIST_MAX: usize = 256;
/// Digits of a sum of decimals.
const SUM_DIGITS: u8 = 38;

/// The columns to group by, and the calls to compute for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregation {
    /// The columns of the key, in the order of the answer. Without columns there is one group. NULLs are equal.
    pub group_by: Vec<u16>,
    /// The calls, in the order of the answer. Their results follow the keys.
    pub calls: Vec<Call>,
    /// Groups that are kept at a time, 1 to [`GROUPS_MAX`].
    pub groups_max: u32,
}

/// An aggregate function of a group. NULLs are ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// The number of rows: BIGINT.
    CountRows,
    /// The number of rows with a value: BIGINT.
    Count(Expr),
    /// The sum: BIGINT of SMALLINT and INTEGER, DECIMAL(38, 0) of BIGINT, DECIMAL(38, s) of decimals of scale s, DOUBLE of
    /// floats; NULL without a value.
    Sum(Expr),
    /// The least value: of the argument's type, which is no float and not BOOLEAN; NULL without a value.
    Min(Expr),
    /// The greatest.
    Max(Expr),
}

impl Call {
    fn argument(&self) -> Option<&Expr> {
        match self {
            Self::CountRows => None,
            Self::Count(e) | Self::Sum(e) | Self::Min(e) | Self::Max(e) => Some(e),
        }
    }

    /// The type of the result.
    fn result(&self, schema: &Schema) -> Result<DataType, ProgramError> {
        use DataType::{BigInt, Decimal, Double, Integer, Real, SmallInt};
        let Some(e) = self.argument() else { return Ok(BigInt) };
        let t = check::type_of_argument(schema, e)?;
        let ill = |what: &str| Err(ProgramError::Type(format!("{what} of {t}")));
        match (self, t) {
            // Counting needs only whether there is a value.
            (Self::Count(Expr::Column(_)), DataType::Boolean) => Ok(BigInt),
            (_, DataType::Boolean) => ill("an aggregate"),
            (Self::Count(_), _) | (Self::Sum(_), SmallInt | Integer) => Ok(BigInt),
            (Self::Sum(_), BigInt) => Ok(Decimal { precision: SUM_DIGITS, scale: 0 }),
            (Self::Sum(_), Decimal { scale, .. }) => Ok(Decimal { precision: SUM_DIGITS, scale }),
            (Self::Sum(_), Real | Double) => Ok(Double),
            (Self::Sum(_), _) => ill("the sum"),
            (_, Real | Double) => ill("the least or greatest"),
            _ => Ok(t),
        }
    }
}

/// An aggregation that passed the check over a schema.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) asked: Aggregation,
    /// Types of the keys, then of the calls' results.
    pub(crate) types: Vec<DataType>,
    /// The argument of each call; `None` for a row count, and for an argument that is always NULL.
    arguments: Vec<Option<Argument>>,
    /// Columns that it reads, ascending and distinct.
    pub(crate) columns: Vec<u16>,
}

/// An argument, planned for evaluation.
#[derive(Clone, Debug)]
struct Argument {
    value: Val,
    /// The columns that it reads, ascending and distinct. It is NULL exactly where one of them is.
    columns: Vec<u16>,
}

impl Checked {
    /// Checks an aggregation over `schema`.
    ///
    /// # Errors
    /// When a column does not exist, types do not go together, or a bound is passed.
    pub(crate) fn new(schema: &Schema, asked: Aggregation) -> Result<Self, ProgramError> {
        let columns = schema.columns.len();
        for (what, got) in [("keys", asked.group_by.len()), ("aggregates", asked.calls.len())] {
            if got > LIST_MAX {
                return Err(ProgramError::TooLarge { what, got, max: LIST_MAX });
            }
        }
        let groups = asked.groups_max as usize;
        if groups == 0 || groups > GROUPS_MAX as usize {
            let what = if groups == 0 { "groups: there is no room for one" } else { "groups" };
            return Err(ProgramError::TooLarge { what, got: groups, max: GROUPS_MAX as usize });
        }
        let mut types = Vec::new();
        let mut read = asked.group_by.clone();
        for &column in &asked.group_by {
            let Some(c) = schema.columns.get(usize::from(column)) else {
                return Err(ProgramError::NoSuchColumn { column, columns });
            };
            // Only the host decides which floats are equal, and which NaN stands for all.
            if c.data_type.is_float() {
                return Err(ProgramError::Unsupported("groups by floats"));
            }
            types.push(c.data_type);
        }
        let mut arguments = Vec::new();
        for call in &asked.calls {
            types.push(call.result(schema)?);
            arguments.push(call.argument().and_then(|e| {
                let mut columns = Vec::new();
                e.columns(&mut columns);
                columns.sort_unstable();
                columns.dedup();
                read.extend(&columns);
                Some(Argument { value: plan::value(schema, e)?, columns })
            }));
        }
        read.sort_unstable();
        read.dedup();
        Ok(Self { asked, types, arguments, columns: read })
    }

    /// Bytes on the link.
    pub(crate) fn link_bytes(&self) -> usize {
        let call = |c: &Call| 2 + c.argument().map_or(0, Expr::link_bytes);
        8 + self.asked.group_by.len() * 2 + self.asked.calls.iter().map(call).sum::<usize>()
    }
}
