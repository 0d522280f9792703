//! Options of sequences, and the definitions that they make, with PostgreSQL's defaults.

use datafusion::sql::sqlparser::ast::{DataType, Expr, SequenceOptions, UnaryOperator, Value};
use lode_engine::SequenceDef;

use crate::SqlError;
use crate::error::state;
use crate::statement::SequenceOption;

/// The options that the parser has found for an IDENTITY column.
pub(crate) fn identity_options(options: &[SequenceOptions]) -> Result<Vec<SequenceOption>, SqlError> {
    let some = |e: &Option<Expr>| e.as_ref().map(number).transpose();
    let option = |o: &SequenceOptions| {
        Ok(match o {
            SequenceOptions::IncrementBy(n, _) => SequenceOption::Increment(number(n)?),
            SequenceOptions::MinValue(n) => SequenceOption::Min(some(n)?),
            SequenceOptions::MaxValue(n) => SequenceOption::Max(some(n)?),
            SequenceOptions::StartWith(n, _) => SequenceOption::Start(number(n)?),
            SequenceOptions::Cache(n) => SequenceOption::Cache(number(n)?),
            // The parser says whether there was a NO.
            SequenceOptions::Cycle(no) => SequenceOption::Cycle(!no),
        })
    };
    options.iter().map(option).collect()
}

fn number(e: &Expr) -> Result<i64, SqlError> {
    let (text, negative) = match e {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => (expr.to_string(), true),
        Expr::Value(v) if matches!(v.value, Value::Number(..)) => (e.to_string(), false),
        other => {
            return Err(SqlError::failed(state::SYNTAX_ERROR, format!("expected a number, found {other}")));
        }
    };
    let text = if negative { format!("-{text}") } else { text };
    text.parse().map_err(|_| {
        let message = format!("value \"{text}\" is out of range for type bigint");
        SqlError::failed(state::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

/// The least and the greatest number of a type.
fn range_of(declared: &str) -> Option<(i64, i64)> {
    Some(match declared {
        "smallint" => (i16::MIN.into(), i16::MAX.into()),
        "integer" => (i32::MIN.into(), i32::MAX.into()),
        "bigint" => (i64::MIN, i64::MAX),
        _ => return None,
    })
}

fn type_name(t: &DataType) -> Result<&'static str, SqlError> {
    Ok(match t {
        DataType::SmallInt(None) | DataType::Int2(None) => "smallint",
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => "integer",
        DataType::BigInt(None) | DataType::Int8(None) => "bigint",
        other => {
            let message = format!("sequence type must be smallint, integer, or bigint, not {other}");
            return Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, message));
        }
    })
}

/// The definition that options make of a new sequence, or of `old`. The owner is the caller's.
///
/// # Errors
/// 42601 for an option that is there twice; 22023 for numbers that do not go together.
pub(super) fn defined(
    id: u32,
    options: &[SequenceOption],
    old: Option<&SequenceDef>,
) -> Result<SequenceDef, SqlError> {
    for (i, option) in options.iter().enumerate() {
        let same = |o: &SequenceOption| std::mem::discriminant(o) == std::mem::discriminant(option);
        if options[..i].iter().any(same) {
            return Err(SqlError::failed(state::SYNTAX_ERROR, "conflicting or redundant options"));
        }
    }
    let invalid = |what: String| SqlError::failed(state::INVALID_PARAMETER_VALUE, what);
    macro_rules! given {
        ($kind:ident) => {
            options.iter().find_map(|o| match o {
                SequenceOption::$kind(v) => Some(v.clone()),
                _ => None,
            })
        };
    }
    let declared = match given!(As) {
        Some(t) => type_name(&t)?.to_owned(),
        None => old.map_or_else(|| "bigint".to_owned(), |o| o.declared.clone()),
    };
    let (type_min, type_max) = range_of(&declared).expect("it is one of the three");
    let old_range = old.and_then(|o| range_of(&o.declared));
    let increment = given!(Increment).or(old.map(|o| o.increment)).unwrap_or(1);
    let ascends = increment > 0;
    let (min_default, max_default) = if ascends { (1, type_max) } else { (type_min, -1) };
    // A bound that is that of the old type becomes that of the new one.
    let kept =
        |bound: i64, of_type: fn((i64, i64)) -> i64| (old_range.map(of_type) != Some(bound)).then_some(bound);
    let old_min = old.and_then(|o| if ascends { Some(o.min) } else { kept(o.min, |r| r.0) });
    let old_max = old.and_then(|o| if ascends { kept(o.max, |r| r.1) } else { Some(o.max) });
    let min = given!(Min).unwrap_or(old_min).unwrap_or(min_default);
    let max = given!(Max).unwrap_or(old_max).unwrap_or(max_default);
    for (what, bound) in [("MINVALUE", min), ("MAXVALUE", max)] {
        if !(type_min..=type_max).contains(&bound) {
            return Err(invalid(format!(
                "{what} ({bound}) is out of range for sequence data type {declared}"
            )));
        }
    }
    let start = given!(Start).or(old.map(|o| o.start)).unwrap_or(if ascends { min } else { max });
    let restart = given!(Restart);
    let (first, epoch) = match (&restart, old) {
        (Some(n), old) => (n.unwrap_or(start), old.map_or(0, |o| o.epoch + 1)),
        (None, Some(old)) => (old.first, old.epoch),
        (None, None) => (start, 0),
    };
    let cache = given!(Cache).or(old.map(|o| o.cache)).unwrap_or(1);
    if cache < 1 {
        return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
    }
    let cycle = given!(Cycle).or(old.map(|o| o.cycle)).unwrap_or(false);
    let owner = old.and_then(|o| o.owner.clone());
    // Only an explicit RESTART is held against new bounds: the numbers of before may be outside.
    let checked_first = if restart.is_some() || old.is_none() { first } else { start };
    let def = SequenceDef { id, epoch, declared, start, first, increment, min, max, cycle, cache, owner };
    SequenceDef { first: checked_first, ..def.clone() }.check().map_err(invalid)?;
    Ok(def)
}
