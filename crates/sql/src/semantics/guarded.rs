//! Functions that fail for some arguments fail with the SQLSTATE that PostgreSQL has for it.
//!
//! ```text
//!   sqrt(-1)                  ─►  2201F          substr('abc', 1, -1)     ─►  22011
//!   split_part('a', ',', 0)   ─►  22023          abs((-32768)::smallint)  ─►  22003
//! ```
//!
//! DataFusion's errors differ in their text alone. Once its argument types are settled, each of these functions can
//! fail in one way only, so the function determines the SQLSTATE.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::SqlError;
use crate::error::state;

/// The functions, and the SQLSTATE of their failure.
const FUNCTIONS: [(&str, &str); 12] = [
    ("abs", state::NUMERIC_VALUE_OUT_OF_RANGE),
    ("chr", state::INVALID_PARAMETER_VALUE),
    ("date_part", state::INVALID_PARAMETER_VALUE),
    ("date_trunc", state::INVALID_PARAMETER_VALUE),
    ("decode", state::INVALID_PARAMETER_VALUE),
    ("factorial", state::NUMERIC_VALUE_OUT_OF_RANGE),
    ("lcm", state::NUMERIC_VALUE_OUT_OF_RANGE),
    ("make_date", state::DATETIME_FIELD_OVERFLOW),
    ("power", state::INVALID_ARGUMENT_FOR_POWER),
    ("split_part", state::INVALID_PARAMETER_VALUE),
    ("sqrt", state::INVALID_ARGUMENT_FOR_POWER),
    ("substr", state::SUBSTRING_ERROR),
];

/// After the coercion of types.
pub(super) fn rewrite(expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return Ok(Transformed::no(expr)) };
    let state = FUNCTIONS.iter().find(|(name, _)| *name == func.name()).map(|(_, state)| *state);
    match state {
        Some(state) if func.inner().downcast_ref::<Guarded>().is_none() => {
            Ok(Transformed::yes(ScalarUDF::from(Guarded { function: func, state }).call(args)))
        }
        _ => Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))),
    }
}

/// A function whose failures get this SQLSTATE, unless they already have a specific one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Guarded {
    function: Arc<ScalarUDF>,
    state: &'static str,
}

impl ScalarUDFImpl for Guarded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.function.invoke_with_args(args).map_err(|e| {
            let e = SqlError::from(e);
            match e.sqlstate() {
                state::SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION => {
                    SqlError::failed(self.state, e.to_string()).into()
                }
                _ => e.into(),
            }
        })
    }
}
