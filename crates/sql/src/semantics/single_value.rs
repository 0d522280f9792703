//! Correlated scalar subqueries: each has at most one row, which is checked as it runs.
//!
//! ```text
//!   (SELECT x FROM s WHERE s.id = t.id)   ─►   only_value((SELECT counted_value(x) FROM s WHERE s.id = t.id))
//! ```
//!
//! DataFusion turns such a subquery into a join with the groups of its correlated columns, and so wants an aggregate: a value, and how
//! many rows there are. A group that belongs to no row of the query may have several rows, so the count is looked at after the join.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StructArray};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::SqlError;
use crate::error::state;

/// Gives each correlated scalar subquery that may have several rows the aggregate that refuses them.
#[derive(Debug)]
pub(super) struct SingleRows;

impl AnalyzerRule for SingleRows {
    fn name(&self) -> &str {
        "single_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let of_node = |node: LogicalPlan| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|e| {
                let name = names.save(&e);
                Ok(e.transform_up(of_expression)?.update_data(|e| name.restore(e)))
            })
        };
        plan.transform_up_with_subqueries(of_node).data()
    }
}

fn of_expression(e: Expr) -> Result<Transformed<Expr>> {
    match e {
        Expr::ScalarSubquery(s) if !s.outer_ref_columns.is_empty() && may_have_rows(&s.subquery) => {
            let [_] = s.subquery.schema().fields().as_ref() else {
                return Ok(Transformed::no(Expr::ScalarSubquery(s)));
            };
            let (qualifier, field) = s.subquery.schema().qualified_field(0);
            let (value, name) = (Expr::Column(Column::from((qualifier, field))), field.name().clone());
            let single = Expr::AggregateFunction(AggregateFunction::new_udf(
                function(),
                vec![value],
                false,
                None,
                Vec::new(),
                None,
            ));
            let plan = LogicalPlanBuilder::from(s.subquery.as_ref().clone())
                .aggregate(Vec::<Expr>::new(), vec![single.clone()])?
                .project(vec![Expr::Column(Column::from_name(single.schema_name().to_string())).alias(name)])?
                .build()?;
            let counted = Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..s });
            let signature = Signature::any(1, Volatility::Immutable);
            Ok(Transformed::yes(ScalarUDF::from(OnlyValue { signature }).call(vec![counted])))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether a query may have more than one row, so that DataFusion refuses it where it is correlated. One that says how many rows it has
/// stays as it is.
fn may_have_rows(query: &LogicalPlan) -> bool {
    let inner = match query {
        LogicalPlan::Projection(p) => return may_have_rows(&p.input),
        LogicalPlan::SubqueryAlias(a) => return may_have_rows(&a.input),
        other => other,
    };
    match inner {
        LogicalPlan::Aggregate(_) | LogicalPlan::Limit(_) | LogicalPlan::Sort(_) => false,
        LogicalPlan::Filter(f) if matches!(f.input.as_ref(), LogicalPlan::Aggregate(_)) => false,
        other => other.max_rows().is_none_or(|rows| rows > 1),
    }
}

fn function() -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(CountedValue { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CountedValue {
    signature: Signature,
}

impl AggregateUDFImpl for CountedValue {
    fn name(&self) -> &str {
        "counted_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields(&args[0])))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type();
        Ok(Box::new(Counted { rows: 0, value: ScalarValue::try_new_null(value_type(data_type)?)? }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(fields(value_type(args.return_field.data_type())?).to_vec())
    }
}

/// The fields of a counted value.
fn fields(value: &DataType) -> Fields {
    vec![Field::new("value", value.clone(), true), Field::new("rows", DataType::Int64, true)].into()
}

fn value_type(counted: &DataType) -> Result<&DataType> {
    match counted {
        DataType::Struct(fields) if fields.len() == 2 => Ok(fields[0].data_type()),
        other => internal_err!("{other} is no counted value"),
    }
}

/// The value of the first row, and how many rows there are.
#[derive(Debug)]
struct Counted {
    rows: i64,
    value: ScalarValue,
}

impl Counted {
    fn add(&mut self, rows: i64, value: impl FnOnce() -> Result<ScalarValue>) -> Result<()> {
        if self.rows == 0 && rows > 0 {
            self.value = value()?;
        }
        self.rows += rows;
        Ok(())
    }
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].len() as i64, || ScalarValue::try_from_array(&values[0], 0))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[1].as_primitive::<Int64Type>();
        for i in 0..rows.len() {
            self.add(rows.value(i), || ScalarValue::try_from_array(&states[0], i))?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.value.to_array()?;
        let rows: ArrayRef = Arc::new(Int64Array::from(vec![self.rows]));
        let fields = fields(value.data_type());
        Ok(ScalarValue::Struct(Arc::new(StructArray::new(fields, vec![value, rows], None))))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Int64(Some(self.rows))])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}

/// The value of a counted value of at most one row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        "only_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        value_type(&args[0]).cloned()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let counted = args.args[0].to_array(args.number_rows)?;
        let counted = counted.as_struct();
        let rows = counted.column(1).as_primitive::<Int64Type>();
        if (0..rows.len()).any(|i| counted.is_valid(i) && rows.is_valid(i) && rows.value(i) > 1) {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(SqlError::failed(state::CARDINALITY_VIOLATION, message).into());
        }
        // Without a row on the other side of the join, the whole is NULL.
        let values = counted.column(0);
        Ok(ColumnarValue::Array(match counted.nulls() {
            Some(nulls) if nulls.null_count() > 0 => {
                let missing: BooleanArray = nulls.iter().map(|valid| Some(!valid)).collect();
                nullif(values, &missing)?
            }
            _ => values.clone(),
        }))
    }
}
