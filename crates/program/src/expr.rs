//! Expressions: typed trees over the columns of one page, as they are before they are checked.
//!
//! Semantics are SQL's, and equal DataFusion's wherever both can evaluate an expression: three-valued logic, exact
//! decimals, IEEE total order for floats, bytewise order for strings. An expression that could fail at run time
//! (division, narrowing casts, sums of BIGINT that may overflow) cannot be expressed.
//!
//! Typing rules (held by [`crate::Program::check`]):
//!   `Compare`, `In`: both sides of one type, decimals of one scale.  `Arith` on integers: both sides of one type,
//!   SMALLINT with an INTEGER as its result, or INTEGER with a BIGINT: so it cannot overflow.  On decimals: `Add` and `Sub` have scale max(s1, s2) and precision
//!   max(p1 - s1, p2 - s2) + 1 + scale, `Mul` scale s1 + s2 and precision p1 + p2 + 1, at most 38: so they cannot
//!   overflow.  On floats there is none: which of two NaNs an operation passes on is left to the compiler, and the
//!   total order tells NaNs apart.  `Cast`: only where no value can fail or lose (see [`Expr::Cast`]).

use std::sync::Arc;

use lode_page::{DataType, Value};

use crate::KeySet;

/// An expression over one row. Columns are numbered as in the table's schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// The column of this number.
    Column(u16),
    /// A constant of a type; may be NULL.
    Const(Value, DataType),
    /// A comparison; NULL when either side is.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// True when all are; false when one is; else NULL.
    And(Vec<Expr>),
    /// True when one is; false when all are; else NULL.
    Or(Vec<Expr>),
    /// Three-valued negation.
    Not(Box<Expr>),
    /// Whether the value is NULL; never NULL itself.
    IsNull(Box<Expr>),
    /// Whether the value is in the list. A NULL in the list makes "not found" NULL. (`NOT IN` is `Not(In)`.)
    In {
        /// The value to look up.
        value: Box<Expr>,
        /// Constants of the value's type, in any order. NULLs are allowed.
        list: Vec<Value>,
    },
    /// Whether a value that is neither BOOLEAN nor a float may be in a key set; NULL when the value is. A set may let other
    /// keys through, so nothing must rely on a true outcome.
    InKeys {
        /// The value to look up.
        value: Box<Expr>,
        /// Keys of the value's type.
        keys: Arc<KeySet>,
    },
    /// SQL's LIKE with `%`, `_` and the escape `\`.
    Like {
        /// The text.
        value: Box<Expr>,
        /// The pattern.
        pattern: String,
        /// ILIKE, with simple case folding. The check refuses it.
        case_insensitive: bool,
    },
    /// Addition, subtraction or multiplication.
    Arith(ArithOp, Box<Expr>, Box<Expr>),
    /// A conversion that cannot fail: an integer to a wider one or to DOUBLE (from 32 bits and less) or to a DECIMAL
    /// with room for all its digits; a REAL to DOUBLE; a DECIMAL to one with at least as many digits on both sides
    /// of the point; a DATE to TIMESTAMP is not among them (it can overflow).
    Cast(Box<Expr>, DataType),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

impl CompareOp {
    /// The operator with its sides exchanged: `a op b` is `b op.flipped() a`.
    pub const fn flipped(self) -> Self {
        match self {
            Self::Eq | Self::NotEq => self,
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
        }
    }
}

/// Arithmetic that cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
}

impl Expr {
    /// `a op b`.
    pub fn compare(op: CompareOp, a: Expr, b: Expr) -> Self {
        Self::Compare(op, Box::new(a), Box::new(b))
    }

    /// Appends the columns that are read, in no order, some of them more than once.
    pub fn columns(&self, out: &mut Vec<u16>) {
        match self {
            Self::Column(c) => out.push(*c),
            Self::Const(..) => {}
            Self::Compare(_, a, b) | Self::Arith(_, a, b) => {
                a.columns(out);
                b.columns(out);
            }
            Self::And(terms) | Self::Or(terms) => terms.iter().for_each(|t| t.columns(out)),
            Self::Not(a) | Self::IsNull(a) | Self::Cast(a, _) => a.columns(out),
            Self::In { value, .. } | Self::InKeys { value, .. } | Self::Like { value, .. } => {
                value.columns(out)
            }
        }
    }

    /// Bytes that the expression takes on the link: 4 a node, and its constants.
    pub fn link_bytes(&self) -> usize {
        4 + match self {
            Self::Column(_) => 0,
            Self::Const(v, _) => constant_bytes(v),
            Self::Compare(_, a, b) | Self::Arith(_, a, b) => a.link_bytes() + b.link_bytes(),
            Self::And(terms) | Self::Or(terms) => terms.iter().map(Self::link_bytes).sum(),
            Self::Not(a) | Self::IsNull(a) | Self::Cast(a, _) => a.link_bytes(),
            Self::In { value, list } => value.link_bytes() + list.iter().map(constant_bytes).sum::<usize>(),
            Self::InKeys { value, keys } => value.link_bytes() + keys.link_bytes(),
            Self::Like { value, pattern, .. } => value.link_bytes() + pattern.len(),
        }
    }

    /// `low <= v AND v <= high`.
    pub fn between(v: Expr, low: Expr, high: Expr) -> Self {
        Self::And(vec![
            Self::compare(CompareOp::GtEq, v.clone(), low),
            Self::compare(CompareOp::LtEq, v, high),
        ])
    }
}

/// Bytes that a constant takes on the link.
pub(crate) fn constant_bytes(v: &Value) -> usize {
    match v {
        Value::Null => 1,
        Value::Boolean(_) => 2,
        Value::Int(_) | Value::Real(_) | Value::Double(_) => 9,
        Value::Decimal(_) => 17,
        Value::Bytes(b) => 5 + b.len(),
    }
}
