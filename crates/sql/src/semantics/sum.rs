//! `sum` of BIGINT is NUMERIC, so that it does not overflow.
//!
//! ```text
//!   sum(b)      b BIGINT                ─►  sum(CAST(b AS NUMERIC(19)))
//!   sum(n)      n NUMERIC of more than 28 digits  ─►  checked_sum(n): more than 38 digits are SQLSTATE 22003
//! ```
//!
//! DataFusion wraps around at 64 bits. A NUMERIC with more than 28 digits has no room for ten more digits, and wraps
//! around at 128 bits.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunctionDefinition};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, ExprSchemable, GroupsAccumulator, Signature,
    Volatility, cast,
};

use crate::SqlError;

/// The name of the sum that checks its digits.
pub(crate) const CHECKED_SUM: &str = "checked_sum";
/// Digits of a BIGINT.
const BIGINT_DIGITS: u8 = 19;
/// The most digits of a NUMERIC to whose sum DataFusion can add ten digits.
const DIGITS_MAX: u8 = 28;
/// The first number that has more digits than a NUMERIC.
const BOUND: i128 = 10i128.pow(38);

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::AggregateFunction(mut f) if f.func.name() == "sum" => {
            let Some(argument) = f.params.args.first_mut() else {
                return Ok(Transformed::no(Expr::AggregateFunction(f)));
            };
            let (changed, func) = widen(argument, schema);
            if let Some(func) = func {
                f = AggregateFunction { func, ..f };
            }
            Ok(Transformed::new_transformed(Expr::AggregateFunction(f), changed))
        }
        Expr::WindowFunction(mut w) if matches!(&w.fun, WindowFunctionDefinition::AggregateUDF(f) if f.name() == "sum") =>
        {
            let Some(argument) = w.params.args.first_mut() else {
                return Ok(Transformed::no(Expr::WindowFunction(w)));
            };
            let (changed, func) = widen(argument, schema);
            if let Some(func) = func {
                w.fun = WindowFunctionDefinition::AggregateUDF(func);
            }
            Ok(Transformed::new_transformed(Expr::WindowFunction(w), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Makes a summed BIGINT a NUMERIC. Returns whether it did, and the function that must replace `sum`, if any.
fn widen(argument: &mut Expr, schema: &DFSchema) -> (bool, Option<Arc<AggregateUDF>>) {
    match argument.get_type(schema) {
        Ok(DataType::Int64 | DataType::UInt64) => {
            let inner = std::mem::replace(argument, Expr::Literal(ScalarValue::Null, None));
            *argument = cast(inner, DataType::Decimal128(BIGINT_DIGITS + 1, 0));
            (true, None)
        }
        Ok(DataType::Decimal128(digits, _)) if digits > DIGITS_MAX => (true, Some(FUNCTION.clone())),
        _ => (false, None),
    }
}

static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(CheckedSum { signature }))
});

/// `sum` for NUMERICs whose sum may need more than 38 digits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    signature: Signature,
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        CHECKED_SUM
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        sum_udaf().return_type(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return Err(SqlError::Unsupported(format!(
                "sum(DISTINCT ...) of a NUMERIC of more than {DIGITS_MAX} digits"
            ))
            .into());
        }
        Ok(Box::new(Total { sum: None, count: 0, data_type: args.return_field.data_type().clone() }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        sum_udaf().inner().state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Totals { sums: Vec::new(), data_type: args.return_field.data_type().clone() }))
    }
}

fn added(a: i128, b: i128) -> Result<i128> {
    let sum = a.checked_add(b).filter(|s| (-BOUND + 1..BOUND).contains(s));
    sum.ok_or_else(|| SqlError::OutOfRange("numeric").into())
}

/// The sum of all values, or of those in a window's frame.
#[derive(Debug)]
struct Total {
    sum: Option<i128>,
    /// The number of values in the sum.
    count: u64,
    data_type: DataType,
}

impl Total {
    fn scalar(&self) -> ScalarValue {
        let DataType::Decimal128(precision, scale) = self.data_type else {
            unreachable!("the sum of a NUMERIC is a NUMERIC")
        };
        ScalarValue::Decimal128(self.sum, precision, scale)
    }
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Decimal128Type>().iter().flatten() {
            self.sum = Some(added(self.sum.unwrap_or(0), value)?);
            self.count += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Decimal128Type>().iter().flatten() {
            self.count -= 1;
            self.sum = if self.count == 0 { None } else { Some(added(self.sum.unwrap_or(0), -value)?) };
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.scalar())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.scalar()])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sums of groups.
#[derive(Debug)]
struct Totals {
    sums: Vec<Option<i128>>,
    data_type: DataType,
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_groups, None);
        let counts = |row: usize| filter.is_none_or(|f| f.is_valid(row) && f.value(row));
        for (row, (value, &group)) in
            values[0].as_primitive::<Decimal128Type>().iter().zip(groups).enumerate()
        {
            if let Some(value) = value
                && counts(row)
            {
                self.sums[group] = Some(added(self.sums[group].unwrap_or(0), value)?);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(values, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums: PrimitiveArray<Decimal128Type> = emit_to.take_needed(&mut self.sums).into_iter().collect();
        Ok(Arc::new(sums.with_data_type(self.data_type.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let counts = |row: usize| filter.is_none_or(|f| f.is_valid(row) && f.value(row));
        let values = values[0].as_primitive::<Decimal128Type>().iter().enumerate();
        let states: PrimitiveArray<Decimal128Type> =
            values.map(|(row, v)| v.filter(|_| counts(row))).collect();
        Ok(vec![Arc::new(states.with_data_type(self.data_type.clone()))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Option<i128>>()
    }
}
