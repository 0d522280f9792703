//! Aggregates of floats as in PostgreSQL: NaN is the greatest value, and a sum over a moving frame is the sum of the
//! frame's values.
//!
//! In DataFusion's groups NaN is neither less nor greater than a number. Its sums over moving frames subtract the
//! values that leave; so once NaN or an infinity was in the frame, the sum never recovers.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunctionDefinition};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, Signature, Volatility,
};

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_float = |e: Option<&Expr>| matches!(e.map(|e| e.get_type(schema)), Some(Ok(t)) if t.is_floating());
    match expr {
        Expr::AggregateFunction(f) if is_float(f.params.args.first()) && !f.params.distinct => {
            let func = match f.func.name() {
                "min" => FloatAggregate::Least.function(),
                "max" => FloatAggregate::Greatest.function(),
                _ => return Ok(Transformed::no(Expr::AggregateFunction(f))),
            };
            Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, ..f })))
        }
        Expr::WindowFunction(mut w) if is_float(w.params.args.first()) && !w.params.distinct => {
            let func = match &w.fun {
                WindowFunctionDefinition::AggregateUDF(f) if f.name() == "sum" => {
                    FloatAggregate::Sum.function()
                }
                WindowFunctionDefinition::AggregateUDF(f) if f.name() == "avg" => {
                    FloatAggregate::Mean.function()
                }
                _ => return Ok(Transformed::no(Expr::WindowFunction(w))),
            };
            w.fun = WindowFunctionDefinition::AggregateUDF(func);
            Ok(Transformed::yes(Expr::WindowFunction(w)))
        }
        other => Ok(Transformed::no(other)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FloatAggregate {
    Least,
    Greatest,
    Sum,
    Mean,
}

impl FloatAggregate {
    fn function(self) -> Arc<AggregateUDF> {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::from(OfFloats { aggregate: self, signature }))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfFloats {
    aggregate: FloatAggregate,
    signature: Signature,
}

impl AggregateUDFImpl for OfFloats {
    fn name(&self) -> &str {
        match self.aggregate {
            FloatAggregate::Least => "least_float",
            FloatAggregate::Greatest => "greatest_float",
            FloatAggregate::Sum => "sum_of_frame",
            FloatAggregate::Mean => "mean_of_frame",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match self.aggregate {
            FloatAggregate::Least | FloatAggregate::Greatest => Ok(args[0].clone()),
            FloatAggregate::Sum | FloatAggregate::Mean => Ok(DataType::Float64),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type().clone();
        Ok(match self.aggregate {
            FloatAggregate::Least => Box::new(Extreme { greatest: false, value: None, data_type }),
            FloatAggregate::Greatest => Box::new(Extreme { greatest: true, value: None, data_type }),
            FloatAggregate::Sum => Box::new(Frame { values: VecDeque::new(), mean: false }),
            FloatAggregate::Mean => Box::new(Frame { values: VecDeque::new(), mean: true }),
        })
    }
}

/// The least or the greatest value.
#[derive(Debug)]
struct Extreme {
    greatest: bool,
    value: Option<f64>,
    data_type: DataType,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = arrow_cast(&values[0], &DataType::Float64)?;
        for new in values.as_primitive::<Float64Type>().iter().flatten() {
            let is_better = match self.value {
                None => true,
                Some(old) if self.greatest => new > old || new.is_nan() && !old.is_nan(),
                Some(old) => new < old || old.is_nan() && !new.is_nan(),
            };
            if is_better {
                self.value = Some(new);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64(self.value).cast_to(&self.data_type)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The values of a window's frame. Their sum is computed anew for each row, so that values which left have no effect.
#[derive(Debug)]
struct Frame {
    values: VecDeque<f64>,
    mean: bool,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = arrow_cast(&values[0], &DataType::Float64)?;
        self.values.extend(values.as_primitive::<Float64Type>().iter().flatten());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let left = values[0].len() - values[0].null_count();
        self.values.drain(..left.min(self.values.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.values.is_empty() {
            return Ok(ScalarValue::Float64(None));
        }
        let sum: f64 = self.values.iter().sum();
        let count = self.values.len() as f64;
        Ok(ScalarValue::Float64(Some(if self.mean { sum / count } else { sum })))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<f64>()
    }
}
