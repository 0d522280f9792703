//! RETURNING of a short statement: expressions over the rows that it has in hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Ident, SelectItem};
use lode_engine::{Snapshot, Table};

use super::computed::{Computed, Rows};
use super::expressions::{Expressions, Names, Parameters};
use super::logical::{Parts, is_settled, typed_plan, without_common_parts};
use super::moment::with_moment;
use crate::dml::ReturningQuery;
use crate::statement::ShortShape as Shape;
use crate::{Session, SqlError};

/// What RETURNING asks for, as the planner understands it.
pub(super) struct ReturningPlan {
    /// Over bare names of columns and parameters.
    outputs: Vec<Expr>,
    /// The columns that they look at.
    pub(super) inputs: Vec<u16>,
    schema: SchemaRef,
    /// Whether one looks at the moment of the statement.
    pub(super) has_moment: bool,
}

impl ReturningPlan {
    /// The plan of RETURNING in a statement of this shape that changes `table`; `None` if it is more than expressions over a row.
    ///
    /// # Errors
    /// Those of planning.
    pub(super) async fn of(
        session: &Session,
        snapshot: &Snapshot,
        table: &Table,
        shape: &Shape,
        items: &[SelectItem],
        alias: Option<&Ident>,
    ) -> Result<Option<Self>, SqlError> {
        let query = ReturningQuery::of(items, table, alias);
        let state = query.state(session, snapshot, Vec::new())?;
        let (parsed, names) = query.parsed()?;
        let Parsed::Statement(sql) = parsed else { return Ok(None) };
        let logical = typed_plan(&state, *sql, &shape.types).await?;
        let (logical, has_moment) = with_moment(&state, logical, shape.types.len())?;
        if !is_settled(&logical, false)? {
            return Ok(None);
        }
        let optimized = without_common_parts(&state).optimize(&logical)?;
        let Some(parts) = Parts::of(&optimized, table.name()) else { return Ok(None) };
        let mut bare = Names::of(table);
        let outputs = parts.outputs.into_iter().map(|e| bare.bare(e)).collect::<Option<Vec<_>>>();
        let Some(outputs) = outputs.filter(|_| parts.conditions.is_empty()) else { return Ok(None) };
        let schema: SchemaRef = Arc::new(Schema::clone(optimized.schema().as_arrow()));
        let schema = names.name(&schema);
        Ok(Some(Self { outputs, inputs: bare.inputs, schema, has_moment }))
    }

    /// The same, ready to be evaluated.
    pub(super) fn made(
        self,
        state: &SessionState,
        table: &Table,
        parameters: &Parameters,
    ) -> Result<Returning, SqlError> {
        let made = Expressions::new(state, table, self.inputs, parameters)?;
        Ok(Returning { schema: self.schema, computed: made.computed(table, self.outputs)? })
    }
}

/// RETURNING of a short statement.
pub(super) struct Returning {
    pub(super) schema: SchemaRef,
    computed: Computed,
}

impl Returning {
    /// The result for rows of which the columns are known that it looks at; `None` if it cannot be evaluated.
    pub(super) fn rows(
        &self,
        known: &BTreeMap<u16, ArrayRef>,
        count: usize,
        parameters: &[ScalarValue],
    ) -> Option<RecordBatch> {
        let columns = self.computed.inputs.iter().map(|c| known.get(c).cloned());
        let rows = Rows { count, columns: columns.collect::<Option<_>>()? };
        let columns = self.computed.evaluate(Some(&rows), parameters)?.into_iter().flatten().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).ok()
    }
}
