//! Overflow of floats and division by zero are errors. Functions have the domains of PostgreSQL's.
//!
//! ```text
//!   d / 0               ─►  SQLSTATE 22012            1e308::float8 * 10   ─►  SQLSTATE 22003
//!   ln(0), sqrt(-1)     ─►  SQLSTATE 2201E, 2201F     r + i, r REAL and i INTEGER: DOUBLE
//!   round(2.5::float8)  ─►  2: halves to even
//! ```
//!
//! DataFusion returns infinities and NaN, and computes REAL with INTEGER as REAL.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

use super::kernel::through_array;
use crate::SqlError;
use crate::error::state;

/// Functions that have a domain, or whose result may be too large.
const MATH: [&str; 8] = ["exp", "ln", "log", "log10", "log2", "power", "sqrt", "cbrt"];

/// Before the coercion of types: makes a REAL a DOUBLE beside exact numbers, and as an argument.
pub(super) fn widen(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_real = |e: &Expr| matches!(e.get_type(schema), Ok(DataType::Float32));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_arithmetic(op) => {
            let is_exact = |e: &Expr| matches!(e.get_type(schema), Ok(t) if t.is_integer() || t.is_decimal());
            let widens = is_real(&left) && is_exact(&right) || is_exact(&left) && is_real(&right);
            let (left, right) = match widens {
                true => (as_double(*left, schema), as_double(*right, schema)),
                false => (*left, *right),
            };
            let e = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
            Ok(Transformed::new_transformed(e, widens))
        }
        Expr::ScalarFunction(mut f) if is_math(f.func.name()) || f.func.name() == "round" => {
            let widens = f.args.iter().any(&is_real);
            if widens {
                f.args =
                    f.args.into_iter().map(|e| if is_real(&e) { as_double(e, schema) } else { e }).collect();
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(f), widens))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn as_double(e: Expr, schema: &DFSchema) -> Expr {
    match e.get_type(schema) {
        Ok(DataType::Float64) => e,
        _ => cast(e, DataType::Float64),
    }
}

/// After the coercion of types: both sides have the operator's type.
pub(super) fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_float = |e: &Expr| matches!(e.get_type(schema), Ok(t) if t.is_floating());
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_arithmetic(op) && is_float(&left) && is_float(&right) =>
        {
            Ok(Transformed::yes(call(Function::Arithmetic(op), vec![*left, *right])))
        }
        // -0 and 0 are one distinct value, and NaN is the greatest.
        Expr::AggregateFunction(mut f)
            if (matches!(f.func.name(), "min" | "max") || f.params.distinct)
                && f.params.args.first().is_some_and(&is_float) =>
        {
            let inner = std::mem::replace(&mut f.params.args[0], Expr::Literal(ScalarValue::Null, None));
            f.params.args[0] = call(Function::Order, vec![inner]);
            Ok(Transformed::yes(Expr::AggregateFunction(f)))
        }
        // -NaN is NaN. In Arrow's order it would be less than all numbers.
        Expr::Negative(inner) if is_float(&inner) => Ok(Transformed::yes(match *inner {
            Expr::Literal(value, metadata) if let Ok(negated) = value.arithmetic_negate() => {
                Expr::Literal(negated, metadata)
            }
            inner => call(Function::Negate, vec![inner]),
        })),
        Expr::ScalarFunction(mut f) if is_math(f.func.name()) && f.args.iter().all(is_float) => {
            let name = f.func.name().to_owned();
            let mut args = std::mem::take(&mut f.args);
            f.args = args.clone();
            args.insert(0, Expr::ScalarFunction(f));
            Ok(Transformed::yes(call(Function::Math(name), args)))
        }
        Expr::ScalarFunction(mut f)
            if f.func.name() == "round" && f.args.len() == 1 && f.args.iter().all(is_float) =>
        {
            Ok(Transformed::yes(call(Function::Round, std::mem::take(&mut f.args))))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn is_arithmetic(op: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

fn is_math(name: &str) -> bool {
    MATH.contains(&name)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Function {
    /// `a op b`.
    Arithmetic(Operator),
    /// Checks a function. Its arguments are the function's result, then the function's arguments.
    Math(String),
    /// Halves to even.
    Round,
    Negate,
    /// -0 and 0 are one value, and so are all NaN.
    Order,
}

fn call(function: Function, args: Vec<Expr>) -> Expr {
    let signature = Signature::any(args.len(), Volatility::Immutable);
    let name = match &function {
        Function::Arithmetic(op) => match op {
            Operator::Plus => "checked_float_add".to_owned(),
            Operator::Minus => "checked_float_subtract".to_owned(),
            Operator::Multiply => "checked_float_multiply".to_owned(),
            Operator::Divide => "checked_float_divide".to_owned(),
            _ => "checked_float_modulo".to_owned(),
        },
        Function::Math(name) => format!("checked_{name}"),
        Function::Round => "rounded_to_even".to_owned(),
        Function::Negate => "negated_float".to_owned(),
        Function::Order => "float_order".to_owned(),
    };
    ScalarUDF::from(CheckedFloat { function, name, signature }).call(args)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedFloat {
    function: Function,
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedFloat {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // A scalar has a value even if there are no rows.
        let is_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        match &self.function {
            Function::Arithmetic(op) => {
                let (a, b) = (&args.args[0], &args.args[1]);
                let kernel = match op {
                    Operator::Plus => numeric::add_wrapping,
                    Operator::Minus => numeric::sub_wrapping,
                    Operator::Multiply => numeric::mul_wrapping,
                    Operator::Divide => numeric::div,
                    _ => numeric::rem,
                };
                let result = apply(a, b, kernel)?;
                if all_finite(&result) && *op != Operator::Multiply && *op != Operator::Divide {
                    return Ok(result);
                }
                let array = result.to_array(rows)?;
                let (a, b) = (a.to_array(array.len())?, b.to_array(array.len())?);
                match args.return_field.data_type() {
                    DataType::Float32 => arithmetic_fits::<Float32Type>(*op, &array, &a, &b, f64::from)?,
                    _ => arithmetic_fits::<Float64Type>(*op, &array, &a, &b, |v| v)?,
                }
                Ok(result)
            }
            Function::Math(name) => {
                let result = &args.args[0];
                if !all_finite(result) {
                    let array = double(result, rows)?;
                    let inputs =
                        args.args[1..].iter().map(|a| double(a, array.len())).collect::<Result<Vec<_>>>()?;
                    math_fits(name, &array, &inputs)?;
                }
                Ok(result.clone())
            }
            Function::Round => each(&args.args[0], rows, f64::round_ties_even),
            Function::Negate => each(&args.args[0], rows, |v| if v.is_nan() { v } else { -v }),
            // -0 + 0 is 0.
            Function::Order => each(&args.args[0], rows, |v| if v.is_nan() { f64::NAN } else { v + 0.0 }),
        }
    }
}

/// Applies `f` to each value, and keeps the type.
fn each(value: &ColumnarValue, rows: usize, f: impl Fn(f64) -> f64) -> Result<ColumnarValue> {
    through_array(value, rows, |array| {
        let doubles = arrow_cast(array, &DataType::Float64)?;
        let made: PrimitiveArray<Float64Type> = doubles.as_primitive::<Float64Type>().unary(f);
        Ok(arrow_cast(&made, array.data_type())?)
    })
}

/// Makes sorts and windows order floats as PostgreSQL does.
#[derive(Debug)]
pub(super) struct OrderOfFloats;

impl AnalyzerRule for OrderOfFloats {
    fn name(&self) -> &str {
        "order_of_floats"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_float = |e: &Expr, schema: &DFSchema| matches!(e.get_type(schema), Ok(t) if t.is_floating());
        let order = |e: &mut Expr| {
            let inner = std::mem::replace(e, Expr::Literal(ScalarValue::Null, None));
            *e = call(Function::Order, vec![inner]);
        };
        let ordered = |plan: LogicalPlan| match plan {
            LogicalPlan::Sort(mut sort) => {
                let mut changed = false;
                for by in sort.expr.iter_mut().filter(|by| is_float(&by.expr, sort.input.schema())) {
                    order(&mut by.expr);
                    changed = true;
                }
                Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
            }
            LogicalPlan::Window(_) => {
                let schema = merge_schema(&plan.inputs());
                let names = NamePreserver::new(&plan);
                plan.map_expressions(|e| {
                    let name = names.save(&e);
                    let rewritten = e.transform_up(|e| {
                        let Expr::WindowFunction(mut w) = e else { return Ok(Transformed::no(e)) };
                        let mut changed = false;
                        let keys = w.params.order_by.iter_mut().map(|by| &mut by.expr);
                        for key in keys.chain(&mut w.params.partition_by).filter(|e| is_float(e, &schema)) {
                            order(key);
                            changed = true;
                        }
                        Ok(Transformed::new_transformed(Expr::WindowFunction(w), changed))
                    })?;
                    Ok(rewritten.update_data(|e| name.restore(e)))
                })
            }
            other => Ok(Transformed::no(other)),
        };
        Ok(plan.transform_up_with_subqueries(ordered)?.data)
    }
}

fn double(value: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    Ok(arrow_cast(&value.to_array(rows)?, &DataType::Float64)?)
}

/// Whether no value is an infinity or NaN.
fn all_finite(value: &ColumnarValue) -> bool {
    match value {
        ColumnarValue::Scalar(ScalarValue::Float64(v)) => v.is_none_or(f64::is_finite),
        ColumnarValue::Scalar(ScalarValue::Float32(v)) => v.is_none_or(f32::is_finite),
        ColumnarValue::Scalar(_) => true,
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Float64 => array.as_primitive::<Float64Type>().values().iter().all(|v| v.is_finite()),
            DataType::Float32 => array.as_primitive::<Float32Type>().values().iter().all(|v| v.is_finite()),
            _ => true,
        },
    }
}

fn arithmetic_fits<T: ArrowPrimitiveType>(
    op: Operator,
    result: &ArrayRef,
    a: &ArrayRef,
    b: &ArrayRef,
    wide: impl Fn(T::Native) -> f64,
) -> Result<(), SqlError> {
    let (result, a, b) = (result.as_primitive::<T>(), a.as_primitive::<T>(), b.as_primitive::<T>());
    for i in 0..result.len() {
        if result.is_null(i) {
            continue;
        }
        let (r, a, b) = (wide(result.value(i)), wide(a.value(i)), wide(b.value(i)));
        if matches!(op, Operator::Divide | Operator::Modulo) && b == 0.0 && !a.is_nan() {
            return Err(SqlError::DivisionByZero);
        }
        let is_over = r.is_infinite() && a.is_finite() && b.is_finite();
        let is_under = r == 0.0
            && match op {
                Operator::Multiply => a != 0.0 && b != 0.0,
                Operator::Divide => a != 0.0 && b.is_finite(),
                _ => false,
            };
        if is_over || is_under {
            return Err(SqlError::OutOfRange(if is_over { "value" } else { "value too small:" }));
        }
    }
    Ok(())
}

fn math_fits(name: &str, result: &ArrayRef, inputs: &[ArrayRef]) -> Result<(), SqlError> {
    let result = result.as_primitive::<Float64Type>();
    let value = |input: &ArrayRef, i: usize| input.as_primitive::<Float64Type>().value(i);
    for i in (0..result.len()).filter(|&i| result.is_valid(i) && !result.value(i).is_finite()) {
        let last = inputs.last().map_or(0.0, |input| value(input, i));
        match name {
            "ln" | "log" | "log10" | "log2" if last == 0.0 => {
                return Err(SqlError::failed(
                    state::INVALID_ARGUMENT_FOR_LOGARITHM,
                    "cannot take logarithm of zero",
                ));
            }
            "ln" | "log" | "log10" | "log2" if last < 0.0 => {
                let message = "cannot take logarithm of a negative number";
                return Err(SqlError::failed(state::INVALID_ARGUMENT_FOR_LOGARITHM, message));
            }
            "sqrt" if last < 0.0 => {
                let message = "cannot take square root of a negative number";
                return Err(SqlError::failed(state::INVALID_ARGUMENT_FOR_POWER, message));
            }
            "power" if result.value(i).is_nan() && inputs.iter().all(|x| !value(x, i).is_nan()) => {
                let message = "a negative number raised to a non-integer power yields a complex result";
                return Err(SqlError::failed(state::INVALID_ARGUMENT_FOR_POWER, message));
            }
            "power" if value(&inputs[0], i) == 0.0 && last < 0.0 => {
                let message = "zero raised to a negative power is undefined";
                return Err(SqlError::failed(state::INVALID_ARGUMENT_FOR_POWER, message));
            }
            _ => {}
        }
        if result.value(i).is_infinite() && inputs.iter().all(|x| value(x, i).is_finite()) {
            return Err(SqlError::OutOfRange("value"));
        }
    }
    Ok(())
}

/// Casts to REAL. A value that is too large or too small is an error.
pub(super) fn narrowed(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let doubles = arrow_cast(array, &DataType::Float64)?;
    let reals: PrimitiveArray<Float32Type> = doubles.as_primitive::<Float64Type>().try_unary(|v| {
        let r = v as f32;
        match r.is_infinite() && v.is_finite() || r == 0.0 && v != 0.0 {
            true => Err(SqlError::OutOfRange("real")),
            false => Ok(r),
        }
    })?;
    Ok(Arc::new(reals))
}
