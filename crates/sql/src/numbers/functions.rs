//! `nextval`, `currval`, `setval` and `lastval`.
//!
//! A number is taken when the function is evaluated, and stays taken whatever becomes of the statement.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, Int64Builder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    Value,
};
use lode_engine::{Database, SequenceDef};

use super::SequenceSession;
use crate::SqlError;
use crate::error::state;
use crate::namespaces::NameSpaces;

/// The function that takes the next number of the sequence of a number: that of a column's default.
pub(crate) const NEXT_BY_ID: &str = "__lode_nextval";

/// Which function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    Next,
    NextById,
    Current,
    Set,
    Last,
}

/// A function over sequences, in one session.
#[derive(Clone)]
struct SequenceFunction {
    which: Which,
    signature: Signature,
    db: Database,
    session: SequenceSession,
    names: NameSpaces,
}

impl std::fmt::Debug for SequenceFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.which.fmt(f)
    }
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.which == other.which
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.which.hash(hasher);
    }
}

/// Registers the functions of a session.
pub(crate) fn register(
    state: &mut SessionState,
    db: &Database,
    session: &SequenceSession,
    names: &NameSpaces,
) -> Result<()> {
    use datafusion::execution::FunctionRegistry;
    for which in [Which::Next, Which::NextById, Which::Current, Which::Set, Which::Last] {
        let exact = |types: &[DataType]| TypeSignature::Exact(types.to_vec());
        let types = match which {
            Which::Next | Which::Current => exact(&[DataType::Utf8]),
            Which::NextById => exact(&[DataType::Int64]),
            Which::Set => TypeSignature::OneOf(vec![
                exact(&[DataType::Utf8, DataType::Int64]),
                exact(&[DataType::Utf8, DataType::Int64, DataType::Boolean]),
            ]),
            Which::Last => TypeSignature::Nullary,
        };
        let signature = Signature::new(types, Volatility::Volatile);
        let (db, session, names) = (db.clone(), session.clone(), names.clone());
        state.register_udf(Arc::new(SequenceFunction { which, signature, db, session, names }.into()))?;
    }
    Ok(())
}

/// The call that takes the next number of this sequence.
pub(crate) fn call_next(sequence: u32) -> Expr {
    let id = Expr::value(Value::Number(sequence.to_string(), false));
    let args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(id))];
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(NEXT_BY_ID)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

impl SequenceFunction {
    /// The next numbers of one sequence for so many rows.
    fn next(&self, name: &str, def: &SequenceDef, rows: usize) -> Result<Int64Array, SqlError> {
        let mut numbers = Vec::with_capacity(rows);
        while numbers.len() < rows {
            let given = self.db.next_numbers(name, def, (rows - numbers.len()) as u64)?;
            let number = |i: u64| given.first + given.increment.wrapping_mul(i as i64);
            numbers.extend((0..given.count).map(number));
        }
        if let Some(&last) = numbers.last() {
            self.session.gave(def.id, last);
        }
        Ok(numbers.into())
    }

    /// The next numbers of the sequences that each row names.
    fn next_of_each(&self, names: &ArrayRef) -> Result<Int64Array, SqlError> {
        let names = names.as_string::<i32>();
        let is_one = names.null_count() == 0 && names.iter().all(|n| n == names.iter().next().flatten());
        if is_one && !names.is_empty() {
            let (name, def) = self.session.named(names.value(0), &self.names)?;
            return self.next(&name, &def, names.len());
        }
        let mut numbers = Int64Builder::new();
        for name in names {
            match name {
                None => numbers.append_null(),
                Some(name) => {
                    let (name, def) = self.session.named(name, &self.names)?;
                    numbers.append_value(self.next(&name, &def, 1)?.value(0));
                }
            }
        }
        Ok(numbers.finish())
    }

    fn current(&self, name: &str) -> Result<i64, SqlError> {
        let (name, def) = self.session.named(name, &self.names)?;
        self.session.0.lock().given.get(&def.id).copied().ok_or_else(|| {
            let message = format!("currval of sequence \"{name}\" is not yet defined in this session");
            SqlError::failed(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn last(&self) -> Result<i64, SqlError> {
        let known = self.session.0.lock();
        known.last.and_then(|id| known.given.get(&id).copied()).ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            SqlError::failed(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn set(&self, name: &str, value: i64, given: bool) -> Result<(), SqlError> {
        let (name, def) = self.session.named(name, &self.names)?;
        if !(def.min..=def.max).contains(&value) {
            let (min, max) = (def.min, def.max);
            let message =
                format!("setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})");
            return Err(SqlError::failed(state::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        self.db.set_number(&def, value, given)?;
        if given {
            self.session.0.lock().given.insert(def.id, value);
        }
        Ok(())
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.which {
            Which::Next => "nextval",
            Which::NextById => NEXT_BY_ID,
            Which::Current => "currval",
            Which::Set => "setval",
            Which::Last => "lastval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|a| a.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let text = |i: usize| -> Result<ArrayRef> { Ok(cast(&arrays[i], &DataType::Utf8)?) };
        let numbers: Int64Array = match self.which {
            Which::Next => self.next_of_each(&text(0)?)?,
            Which::NextById => {
                let ids = arrays[0].as_primitive::<Int64Type>();
                if ids.is_empty() {
                    return Ok(ColumnarValue::Array(Arc::new(Int64Array::from(Vec::<i64>::new()))));
                }
                let (name, def) = self.session.of_id(ids.value(0) as u32)?;
                self.next(&name, &def, rows)?
            }
            Which::Current => {
                let names = text(0)?;
                let names = names.as_string::<i32>().iter();
                names.map(|n| n.map(|n| self.current(n)).transpose()).collect::<Result<_, SqlError>>()?
            }
            Which::Last => Int64Array::from(vec![self.last()?; rows]),
            Which::Set => {
                let names = text(0)?;
                let values = arrays[1].as_primitive::<Int64Type>();
                let all = BooleanArray::from(vec![true; rows]);
                let given = arrays.get(2).map_or(&all, |a| a.as_boolean());
                let mut numbers = Int64Builder::new();
                for ((name, value), given) in names.as_string::<i32>().iter().zip(values).zip(given) {
                    match (name, value, given) {
                        (Some(name), Some(value), Some(given)) => {
                            self.set(name, value, given)?;
                            numbers.append_value(value);
                        }
                        _ => numbers.append_null(),
                    }
                }
                numbers.finish()
            }
        };
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    }
}
