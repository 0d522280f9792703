//! Integer arithmetic whose result does not fit its type is an error: SQLSTATE 22003.
//!
//! ```text
//!   a + b, a - b, a * b, -a over integers ─► checked_add(a, b) ... after coercion: both sides are of the result's type
//! ```
//!
//! DataFusion wraps around. Arrow itself checks division and remainder.

use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

use crate::SqlError;

/// Addition, subtraction, multiplication or negation of integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Negate,
}

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_integer = |e: &Expr| match e {
        // A rewritten operation is known to be an integer. Asking a deep sum for its type would walk everything below
        // it.
        Expr::ScalarFunction(f) if f.func.inner().downcast_ref::<Checked>().is_some() => true,
        e => matches!(e.get_type(schema), Ok(t) if t.is_signed_integer()),
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if let Some(operation) = Operation::of(op)
                && is_integer(&left)
                && is_integer(&right) =>
        {
            Ok(Transformed::yes(operation.call(vec![*left, *right])))
        }
        Expr::Negative(inner) if is_integer(&inner) => Ok(Transformed::yes(match *inner {
            // -5 stays a literal.
            Expr::Literal(value, metadata) if let Ok(negated) = value.arithmetic_negate() => {
                Expr::Literal(negated, metadata)
            }
            inner => Operation::Negate.call(vec![inner]),
        })),
        other => Ok(Transformed::no(other)),
    }
}

impl Operation {
    fn of(op: Operator) -> Option<Self> {
        match op {
            Operator::Plus => Some(Self::Add),
            Operator::Minus => Some(Self::Subtract),
            Operator::Multiply => Some(Self::Multiply),
            _ => None,
        }
    }

    fn call(self, args: Vec<Expr>) -> Expr {
        let signature = Signature::any(args.len(), Volatility::Immutable);
        ScalarUDF::from(Checked { operation: self, signature }).call(args)
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "checked_add",
            Operation::Subtract => "checked_subtract",
            Operation::Multiply => "checked_multiply",
            Operation::Negate => "checked_negate",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = match (self.operation, &args.args[..]) {
            (Operation::Negate, [a]) => {
                let zero = ColumnarValue::Scalar(ScalarValue::new_zero(&a.data_type())?);
                apply(&zero, a, numeric::sub)
            }
            (Operation::Add, [a, b]) => apply(a, b, numeric::add),
            (Operation::Subtract, [a, b]) => apply(a, b, numeric::sub),
            (Operation::Multiply, [a, b]) => apply(a, b, numeric::mul),
            _ => return internal_err!("{} has other arguments", self.name()),
        };
        result.map_err(|e| match e {
            DataFusionError::ArrowError(e, _) if matches!(*e, ArrowError::ArithmeticOverflow(_)) => {
                SqlError::OutOfRange(type_name(args.return_field.data_type())).into()
            }
            other => other,
        })
    }
}

/// SQL's name of an integer type.
pub(super) fn type_name(t: &DataType) -> &'static str {
    match t {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "smallint",
        DataType::UInt16 | DataType::Int32 => "integer",
        _ => "bigint",
    }
}
