//! Aggregation: groups of rows and what is known of each, made page by page, merged by whoever asked.
//!
//! ```text
//!   rows that passed ─┬─ keys ──────► group of each row ─┐
//!                     └─ arguments ─► values ────────────┴─► states ── full, or over ─► partial groups
//! ```
//!
//! What comes out are *partial* groups: a group can come out more than once, and whoever takes them merges counts and
//! sums by adding, least and greatest by comparing. So the table is bounded: when a group does not fit, all that are
//! there come out, and it begins anew. AVG is a sum and a count.
//!
//! Exactness: nothing wraps. The sum of a BIGINT is a DECIMAL, which has room for it. Arithmetic on decimals within an
//! argument may need more than 38 digits by its types; a value, or a sum, that does not fit 128 bits is an error. Sums of
//! floats are added in the order of pages and rows.

mod arguments;
mod keys;
mod states;
mod table;

use lode_page::{DataType, Schema};

use crate::plan::{self, Val};
use crate::{Expr, ProgramError, check};

pub use table::GroupTable;

/// Most groups that may be asked for at a time.
pub const GROUPS_MAX: u32 = 65_536;
/// Most columns to group by, and most calls.
const LIST_MAX: usize = 256;
/// Digits of a sum of decimals.
const SUM_DIGITS: u8 = 38;

/// What to group by, and what to know of each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregation {
    /// Columns whose values make a group, in the order of the answer; with none there is one group. NULLs are equal.
    pub group_by: Vec<u16>,
    /// What to know of each group, in the order of the answer, behind the keys.
    pub calls: Vec<Call>,
    /// Groups that are kept at a time, 1 to [`GROUPS_MAX`].
    pub groups_max: u32,
}

/// What to know of a group. NULLs do not count.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// How many rows it has: BIGINT.
    CountRows,
    /// How many of them have a value: BIGINT.
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

    /// The type of what comes out.
    fn result(&self, schema: &Schema) -> Result<DataType, ProgramError> {
        use DataType::{BigInt, Decimal, Double, Integer, Real, SmallInt};
        let Some(e) = self.argument() else { return Ok(BigInt) };
        let t = check::type_of_argument(schema, e)?;
        let ill = |what: &str| Err(ProgramError::Type(format!("{what} of {t}")));
        match (self, t) {
            // Whether there is one is all that counting asks of a value.
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
    /// The arguments, call by call; `None` for a row count, and for what is NULL whatever the row.
    arguments: Vec<Option<Argument>>,
    /// Columns that it reads, ascending and distinct.
    pub(crate) columns: Vec<u16>,
}

/// An argument as evaluation walks it.
#[derive(Clone, Debug)]
struct Argument {
    value: Val,
    /// The columns that it reads, ascending and distinct: it is NULL exactly where one of them is.
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
            // Which floats are one value, and which NaN stands for all, is the host's to say.
            if matches!(c.data_type, DataType::Real | DataType::Double) {
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
