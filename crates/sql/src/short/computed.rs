//! Expressions over columns of rows and parameters.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::compute::prep_null_mask_filter;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use lode_engine::{EngineError, Table};
use lode_page::{ColumnBuilder, Value};

use crate::SqlError;
use crate::arrow_convert::{one_to_arrow, to_arrow};

/// Expressions over some columns of a table's rows and over the parameters of a statement.
pub(super) struct Computed {
    /// The columns of the row that are read.
    pub(super) inputs: Vec<u16>,
    pub(super) outputs: Vec<Output>,
    /// What expressions see: `inputs`, then the parameters.
    pub(super) seen: SchemaRef,
}

pub(super) enum Output {
    /// A column of the row, by its place in `inputs`.
    Input(usize),
    Parameter(usize),
    Expression {
        expression: Arc<dyn PhysicalExpr>,
        /// Whether it looks at the row.
        of_row: bool,
        /// Whether it takes numbers of a sequence.
        takes: bool,
    },
}

impl Computed {
    /// The outputs for some rows; `None` if one cannot be evaluated. Without rows, only those that do not look at them, once.
    pub(super) fn evaluate(
        &self,
        rows: Option<&Rows>,
        parameters: &[ScalarValue],
    ) -> Option<Vec<Option<ArrayRef>>> {
        let count = rows.map_or(1, |rows| rows.count);
        let mut batch = None;
        let mut each = Vec::with_capacity(self.outputs.len());
        let mut later = Vec::new();
        for (i, output) in self.outputs.iter().enumerate() {
            each.push(match output {
                Output::Input(i) => rows.map(|rows| rows.columns[*i].clone()),
                Output::Parameter(i) => Some(parameters[*i].to_array_of_size(count).ok()?),
                Output::Expression { of_row: true, .. } if rows.is_none() => None,
                Output::Expression { expression, takes, .. } => {
                    if batch.is_none() {
                        batch = Some(self.seen_batch(rows, parameters)?);
                    }
                    match takes {
                        true => {
                            later.push((i, expression));
                            None
                        }
                        false => Some(evaluated(expression, batch.as_ref()?)?),
                    }
                }
            });
        }
        // The general path would take the numbers again if something else fails.
        for (i, expression) in later {
            each[i] = Some(evaluated(expression, batch.as_ref()?)?);
        }
        Some(each)
    }

    /// Which of the rows pass a condition; `None` if it cannot be evaluated.
    pub(super) fn passed(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        rows: &Rows,
        parameters: &[ScalarValue],
    ) -> Option<BooleanArray> {
        passed(condition, &self.seen_batch(Some(rows), parameters)?)
    }

    /// Whether some output is an expression that does not look at the row.
    pub(super) fn has_constants(&self) -> bool {
        self.outputs.iter().any(|o| matches!(o, Output::Expression { of_row: false, .. }))
    }

    /// What expressions see. Without rows their columns are NULL.
    pub(super) fn seen_batch(&self, rows: Option<&Rows>, parameters: &[ScalarValue]) -> Option<RecordBatch> {
        match rows {
            Some(rows) => rows.with_parameters(&self.seen, parameters),
            None => {
                let fields = self.seen.fields()[..self.inputs.len()].iter();
                let columns = fields.map(|f| new_null_array(f.data_type(), 1)).collect();
                Rows { count: 1, columns }.with_parameters(&self.seen, parameters)
            }
        }
    }
}

/// Columns of the rows that a statement is about.
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) columns: Vec<ArrayRef>,
}

impl Rows {
    /// The columns, then each parameter as often as there are rows; `None` if they are not those of the schema.
    pub(super) fn with_parameters(
        &self,
        seen: &SchemaRef,
        parameters: &[ScalarValue],
    ) -> Option<RecordBatch> {
        let parameters = parameters.iter().map(|v| v.to_array_of_size(self.count).ok());
        let columns: Option<Vec<ArrayRef>> =
            self.columns.iter().cloned().map(Some).chain(parameters).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        RecordBatch::try_new_with_options(seen.clone(), columns?, &options).ok()
    }
}

pub(super) fn evaluated(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Option<ArrayRef> {
    // The general path finds the words for what is wrong.
    expression.evaluate(batch).ok()?.into_array(batch.num_rows()).ok()
}

/// Which rows of a batch pass a condition; `None` if it cannot be evaluated.
pub(super) fn passed(condition: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Option<BooleanArray> {
    let passed = evaluated(condition, batch)?;
    let passed = passed.as_boolean_opt()?;
    Some(if passed.null_count() > 0 { prep_null_mask_filter(passed) } else { passed.clone() })
}

/// The columns of some rows, from the values of each row.
pub(super) fn columns(table: &Table, inputs: &[u16], rows: &[Vec<Value>]) -> Result<Rows, SqlError> {
    let column = |(i, &c): (usize, &u16)| -> Result<ArrayRef, SqlError> {
        let t = table.schema().columns[usize::from(c)].data_type;
        if let [row] = rows {
            return Ok(one_to_arrow(t, &row[i])?);
        }
        let mut column = ColumnBuilder::new(t);
        for row in rows {
            let invalid = |e| EngineError::Invalid { table: table.name().into(), what: format!("{e}") };
            column.push(&row[i]).map_err(invalid)?;
        }
        Ok(to_arrow(&column.finish())?)
    };
    let columns = inputs.iter().enumerate().map(column).collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Rows { count: rows.len(), columns })
}
