//! The type check: which trees are programs.
//!
//! Invariants of a tree that passed: every column exists; operands have the types that [`crate::expr`] demands;
//! depth, nodes, lists and patterns are bounded. Evaluation relies on all of it.

use lode_page::{DataType, Schema, Value};

use crate::{ArithOp, Expr, KeySet, ProgramError};

/// Deepest tree.
pub(crate) const DEPTH_MAX: usize = 64;
/// Most nodes of a tree.
pub(crate) const NODES_MAX: usize = 4096;
/// Most values of one IN list.
pub(crate) const LIST_MAX: usize = 65_536;
/// Longest LIKE pattern, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 4096;
/// Most digits of a decimal.
const DIGITS_MAX: u8 = 38;

/// The type of an expression over the columns of `schema`.
///
/// # Errors
/// When the expression is ill-typed, names a column that does not exist, or is larger than the drive allows.
pub fn type_of(schema: &Schema, e: &Expr) -> Result<DataType, ProgramError> {
    Checker { schema, nodes: 0, caps_digits: false }.walk(e, 1)
}

/// The same for an aggregate's argument. Decimal arithmetic whose type would need more than 38 digits has 38, as in
/// DataFusion, and its values are checked as they are computed.
///
/// # Errors
/// As [`type_of`].
pub fn type_of_argument(schema: &Schema, e: &Expr) -> Result<DataType, ProgramError> {
    Checker { schema, nodes: 0, caps_digits: true }.walk(e, 1)
}

/// Checks that the types of `schema` are valid (digits of decimals), and that its columns can be numbered.
pub(crate) fn check_schema(schema: &Schema) -> Result<(), ProgramError> {
    let max = usize::from(u16::MAX);
    let got = schema.columns.len();
    if got > max {
        return Err(ProgramError::TooLarge { what: "columns", got, max });
    }
    schema.columns.iter().try_for_each(|c| check_type(c.data_type))?;
    schema.absent_problem().map_or(Ok(()), |what| ill_typed(what.into()))
}

fn check_type(t: DataType) -> Result<(), ProgramError> {
    match t {
        DataType::Decimal { precision, scale }
            if precision == 0 || precision > DIGITS_MAX || scale > precision =>
        {
            ill_typed(format!("{t} is no type"))
        }
        _ => Ok(()),
    }
}

fn ill_typed<T>(what: String) -> Result<T, ProgramError> {
    Err(ProgramError::Type(what))
}

struct Checker<'a> {
    schema: &'a Schema,
    nodes: usize,
    /// Whether a result with too many digits is limited to 38 digits instead of refused.
    caps_digits: bool,
}

impl Checker<'_> {
    fn walk(&mut self, e: &Expr, depth: usize) -> Result<DataType, ProgramError> {
        self.nodes += 1;
        let bound =
            |what, got, max| if got <= max { Ok(()) } else { Err(ProgramError::TooLarge { what, got, max }) };
        bound("levels", depth, DEPTH_MAX)?;
        bound("nodes", self.nodes, NODES_MAX)?;
        match e {
            Expr::Column(c) => {
                let columns = self.schema.columns.len();
                let column = self.schema.columns.get(usize::from(*c));
                let t = column.ok_or(ProgramError::NoSuchColumn { column: *c, columns })?.data_type;
                check_type(t)?;
                Ok(t)
            }
            Expr::Const(v, t) => {
                check_type(*t)?;
                if v.fits(*t) { Ok(*t) } else { Err(bad_constant(v, *t)) }
            }
            Expr::Compare(_, a, b) => {
                let (a, b) = (self.walk(a, depth + 1)?, self.walk(b, depth + 1)?);
                if !comparable(a, b) {
                    return ill_typed(format!("{a} is compared with {b}"));
                }
                Ok(DataType::Boolean)
            }
            Expr::And(terms) | Expr::Or(terms) => {
                bound("nodes", self.nodes + terms.len(), NODES_MAX)?;
                terms.iter().try_for_each(|t| self.boolean(t, depth + 1))?;
                Ok(DataType::Boolean)
            }
            Expr::Not(a) => {
                self.boolean(a, depth + 1)?;
                Ok(DataType::Boolean)
            }
            Expr::IsNull(a) => {
                self.walk(a, depth + 1)?;
                Ok(DataType::Boolean)
            }
            Expr::In { value, list } => {
                let t = self.walk(value, depth + 1)?;
                bound("values in a list", list.len(), LIST_MAX)?;
                if list.is_empty() {
                    return Err(ProgramError::Unsupported("an empty IN list"));
                }
                // Compare and IN need equal scales, but not equal precisions.
                let wide = match t {
                    DataType::Decimal { scale, .. } => DataType::Decimal { precision: DIGITS_MAX, scale },
                    t => t,
                };
                match list.iter().find(|v| !v.fits(wide)) {
                    Some(v) => Err(bad_constant(v, t)),
                    None => Ok(DataType::Boolean),
                }
            }
            Expr::InKeys { value, keys } => {
                let t = self.walk(value, depth + 1)?;
                match (&**keys, t) {
                    (_, DataType::Boolean) => ill_typed("a BOOLEAN in a key set".into()),
                    (_, t) if t.is_float() => ill_typed(format!("{t} in a key set")),
                    (KeySet::Strings(_), t) if t.is_variable() => Ok(DataType::Boolean),
                    (KeySet::Numbers(_), t) if !t.is_variable() => Ok(DataType::Boolean),
                    (KeySet::Strings(_), t) => ill_typed(format!("{t} in a key set of strings")),
                    (KeySet::Numbers(_), t) => ill_typed(format!("{t} in a key set of numbers")),
                }
            }
            Expr::Like { value, pattern, case_insensitive } => {
                let t = self.walk(value, depth + 1)?;
                if t != DataType::Text {
                    return ill_typed(format!("{t} LIKE"));
                }
                // Case folding would need exactly the version of Unicode's tables that the host's library has.
                if *case_insensitive {
                    return Err(ProgramError::Unsupported("ILIKE"));
                }
                bound("bytes of a pattern", pattern.len(), PATTERN_BYTES_MAX)?;
                Ok(DataType::Boolean)
            }
            Expr::Arith(op, a, b) => {
                let (a, b) = (self.walk(a, depth + 1)?, self.walk(b, depth + 1)?);
                arith(*op, a, b, self.caps_digits)
            }
            Expr::Cast(a, to) => {
                check_type(*to)?;
                let from = self.walk(a, depth + 1)?;
                if !lossless(from, *to) {
                    return ill_typed(format!("a cast from {from} to {to} can fail or lose"));
                }
                Ok(*to)
            }
        }
    }

    fn boolean(&mut self, e: &Expr, depth: usize) -> Result<(), ProgramError> {
        match self.walk(e, depth)? {
            DataType::Boolean => Ok(()),
            t => ill_typed(format!("{t} where a BOOLEAN is needed")),
        }
    }
}

fn bad_constant(v: &Value, t: DataType) -> ProgramError {
    let mut value = format!("{v:?}");
    if let Some((end, _)) = value.char_indices().nth(64) {
        value.truncate(end);
        value.push('…');
    }
    ProgramError::BadConstant { value, data_type: t }
}

/// One type, decimals of one scale.
fn comparable(a: DataType, b: DataType) -> bool {
    match (a, b) {
        (DataType::Decimal { scale: a, .. }, DataType::Decimal { scale: b, .. }) => a == b,
        _ => a == b,
    }
}

fn arith(op: ArithOp, a: DataType, b: DataType, caps_digits: bool) -> Result<DataType, ProgramError> {
    use DataType::{BigInt, Decimal, Double, Integer, Real, SmallInt};
    match (a, b) {
        (SmallInt, SmallInt) => Ok(Integer),
        (Integer, Integer) => Ok(BigInt),
        (BigInt, BigInt) => Err(ProgramError::Unsupported("arithmetic on BIGINT, which may not fit")),
        (Real | Double, _) if a == b => Err(ProgramError::Unsupported("arithmetic on floats")),
        (Decimal { precision: p1, scale: s1 }, Decimal { precision: p2, scale: s2 }) => {
            let (precision, scale) = match op {
                ArithOp::Add | ArithOp::Sub => {
                    let scale = s1.max(s2);
                    ((p1 - s1).max(p2 - s2) + 1 + scale, scale)
                }
                ArithOp::Mul => (p1 + p2 + 1, s1 + s2),
            };
            if caps_digits && scale <= DIGITS_MAX {
                return Ok(Decimal { precision: precision.min(DIGITS_MAX), scale });
            }
            if precision > DIGITS_MAX {
                return ill_typed(format!("{op:?} of {a} and {b} needs {precision} digits"));
            }
            Ok(Decimal { precision, scale })
        }
        _ => ill_typed(format!("{op:?} of {a} and {b}")),
    }
}

/// Whether every value of `from` converts to `to` without failure or loss.
fn lossless(from: DataType, to: DataType) -> bool {
    use DataType::{BigInt, Decimal, Double, Integer, Real, SmallInt};
    let digits = match from {
        SmallInt => Some(5),
        Integer => Some(10),
        BigInt => Some(19),
        _ => None,
    };
    match (from, to) {
        (SmallInt, Integer | BigInt | Double) | (Integer, BigInt | Double) | (Real, Double) => true,
        (Decimal { precision: p1, scale: s1 }, Decimal { precision: p2, scale: s2 }) => {
            s2 >= s1 && p2 - s2 >= p1 - s1
        }
        (_, Decimal { precision, scale }) => digits.is_some_and(|d| precision - scale >= d),
        _ => from == to,
    }
}
