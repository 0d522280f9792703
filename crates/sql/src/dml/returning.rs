//! RETURNING: expressions over the rows that a statement made, changed or deleted.
//!
//! ```text
//!   rows of the statement, all columns ─► a table in memory, under the name of the changed table ─► SELECT ... ─► rows
//! ```
//!
//! The rows are those that the statement has in hand: nothing is read again. They are computed before the statement ends, so that an
//! error in them undoes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::MemTable;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, SelectItem, SetExpr, Statement as Sql, TableAlias, TableWithJoins,
};
use futures::stream;
use lode_engine::{Snapshot, Table};

use super::rewrite;
use crate::error::state;
use crate::names::{RETURNED, split};
use crate::session::{plan, start};
use crate::statement::{OutputNames, StatementResult, prepare};
use crate::types::arrow_schema;
use crate::{Session, SqlError};

/// What RETURNING asks of the rows of a table, as a query.
pub(crate) struct ReturningQuery {
    items: Vec<SelectItem>,
    /// The name by which the expressions know the table.
    alias: Ident,
    /// The columns of the table that are not dropped.
    schema: SchemaRef,
}

impl ReturningQuery {
    /// The query of RETURNING in a statement that changes `table`.
    pub(crate) fn of(items: &[SelectItem], table: &Table, alias: Option<&Ident>) -> Self {
        let alias = alias.cloned().unwrap_or_else(|| Ident::with_quote('"', split(table.name()).1));
        let fields = arrow_schema(table.def());
        let fields = fields.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { items: items.to_vec(), alias, schema }
    }

    /// What the query is planned with, where the changed rows are `rows`.
    pub(crate) fn state(
        &self,
        session: &Session,
        snapshot: &Snapshot,
        rows: Vec<RecordBatch>,
    ) -> Result<SessionState, SqlError> {
        let rows = MemTable::try_new(self.schema.clone(), vec![rows])?;
        Ok(session.state_with(snapshot.clone(), None, vec![(RETURNED.to_owned(), Arc::new(rows))]))
    }

    /// The query, prepared, and the names of its columns.
    pub(crate) fn parsed(self) -> Result<(Parsed, OutputNames), SqlError> {
        let mut query = rewrite::empty_select();
        let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("SELECT 1 is a SELECT") };
        let names = OutputNames::of_items(&self.items);
        select.projection = self.items;
        let name = ObjectName::from(vec![Ident::with_quote('"', RETURNED)]);
        let alias = TableAlias { explicit: true, name: self.alias, columns: Vec::new(), at: None };
        let relation = rewrite::named(name, Some(alias))?;
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
        let mut parsed = Parsed::Statement(Box::new(Sql::Query(query)));
        prepare(&mut parsed)?;
        Ok((parsed, names))
    }
}

/// The RETURNING of a statement, and the rows for it so far.
pub(super) struct Returning {
    query: ReturningQuery,
    /// The columns of the table that are not dropped.
    columns: Vec<u16>,
    rows: Vec<RecordBatch>,
}

impl Returning {
    /// The RETURNING of a statement that changes `table`, if it has one.
    pub(super) fn of(items: &Option<Vec<SelectItem>>, table: &Table, alias: Option<&Ident>) -> Option<Self> {
        let query = ReturningQuery::of(items.as_ref()?, table, alias);
        Some(Self { query, columns: table.def().live_columns().collect(), rows: Vec::new() })
    }

    /// Adds rows, given by all columns of the table.
    pub(super) fn add(&mut self, columns: &BTreeMap<u16, ArrayRef>) -> Result<(), SqlError> {
        let columns = self.columns.iter().map(|c| columns[c].clone()).collect();
        self.rows.push(RecordBatch::try_new(self.query.schema.clone(), columns)?);
        Ok(())
    }

    /// Adds rows that a query has found: their identities, then all columns of the table.
    pub(super) fn add_found(&mut self, found: &RecordBatch) -> Result<(), SqlError> {
        let columns = self.columns.iter().copied().zip(found.columns()[1..].iter().cloned()).collect();
        self.add(&columns)
    }

    /// Puts the rows in the order of these places.
    pub(super) fn sort(&mut self, places: &[u64]) -> Result<(), SqlError> {
        use datafusion::arrow::array::UInt64Array;
        use datafusion::arrow::compute::{sort_to_indices, take_record_batch};
        let all = concat_batches(&self.query.schema, &self.rows)?;
        let order = sort_to_indices(&UInt64Array::from(places.to_vec()), None, None)?;
        self.rows = vec![take_record_batch(&all, &order)?];
        Ok(())
    }

    /// The result, computed.
    ///
    /// # Errors
    /// Those of the expressions.
    pub(super) async fn result(
        self,
        session: &Session,
        snapshot: &Snapshot,
    ) -> Result<StatementResult, SqlError> {
        let session = self.query.state(session, snapshot, self.rows)?;
        let (parsed, names) = self.query.parsed()?;
        let plan = plan(&session, parsed).await?;
        if aggregates(&plan) {
            let message = "aggregate functions are not allowed in RETURNING";
            return Err(SqlError::failed(state::GROUPING_ERROR, message));
        }
        let (schema, rows) = start(&session, &plan).await?;
        let batches = datafusion::physical_plan::common::collect(rows).await?;
        let batches = stream::iter(batches.into_iter().map(Ok));
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches));
        Ok(StatementResult::Rows { schema, stream }.named(Some(&names)))
    }
}

/// Whether a query without FROM of its own aggregates.
pub(super) fn aggregates(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Projection(p) => aggregates(&p.input),
        _ => false,
    }
}
