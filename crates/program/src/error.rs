//! Why something is not a program, or could not be evaluated.

use lode_page::DataType;

/// Why an expression, a rule or an entry was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A column that the schema does not have.
    #[error("column {column} does not exist: the schema has {columns} columns")]
    NoSuchColumn {
        /// The number asked for.
        column: u16,
        /// Columns of the schema.
        columns: usize,
    },
    /// Types that do not go together.
    #[error("ill-typed program: {0}")]
    Type(String),
    /// A constant that is not of its type.
    #[error("{value} is not a {data_type}")]
    BadConstant {
        /// The constant.
        value: String,
        /// What it should be.
        data_type: DataType,
    },
    /// A bound on programs.
    #[error("the program is too large: {got} {what}, at most {max} are allowed")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many there may be.
        max: usize,
    },
    /// An expression that the drive does not evaluate as the host would.
    #[error("the drive does not evaluate {0}")]
    Unsupported(&'static str),
    /// An index rule that contradicts itself.
    #[error("bad index rule: {0}")]
    BadRule(&'static str),
    /// Keys that no set collects.
    #[error("bad set of keys: {0}")]
    BadKeys(&'static str),
    /// Malformed bytes.
    #[error("corrupt {what} at byte {at}")]
    Corrupt {
        /// What was being read.
        what: &'static str,
        /// Where, in bytes.
        at: usize,
    },
}

/// Why columns could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError<E> {
    /// The source had no column to give.
    #[error("{0}")]
    Source(E),
    /// An argument of an aggregate, or a sum, overflowed.
    #[error("a decimal in an aggregate has more digits than fit 128 bits")]
    Overflow,
    /// A column has another type, or other rows, than the schema and the page say.
    #[error(
        "column {column} is not what the schema says: it has {got_rows} rows of {got}, not {rows} of {data_type}"
    )]
    Mismatch {
        /// The column.
        column: u16,
        /// Its type.
        got: DataType,
        /// Its rows.
        got_rows: usize,
        /// The type in the schema.
        data_type: DataType,
        /// The rows of the page.
        rows: usize,
    },
}
