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
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::MemTable;
use datafusion::common::{Column, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement as Sql, TableAlias,
    TableWithJoins,
};
use futures::stream;
use lode_engine::{Snapshot, Table};

use super::rewrite;
use crate::error::state;
use crate::names::{RETURNED, split};
use crate::session::{plan, start};
use crate::statement::{OutputNames, StatementResult, fold, has_subquery, prepare, table_name};
use crate::types::arrow_schema;
use crate::{Session, SqlError};

/// What RETURNING asks of the rows of a table, as a query.
#[derive(Clone)]
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

    /// The plan of the query over rows that have columns of other tables as well, and the names of its columns.
    async fn over_all(
        self,
        state: &SessionState,
        beside: &[(Option<TableReference>, FieldRef)],
    ) -> Result<(LogicalPlan, OutputNames), SqlError> {
        let own = TableReference::bare(fold(&self.alias));
        let own_columns = self.schema.fields().len() - beside.len();
        let names = self.schema.fields()[..own_columns].iter().map(|f| (Some(own.clone()), f));
        let named: Vec<(Option<TableReference>, String)> = names
            .chain(beside.iter().map(|(of, f)| (of.clone(), f)))
            .map(|(of, f)| (of, f.name().clone()))
            .collect();
        let rows = state.schema_for_ref(RETURNED)?.table(RETURNED).await?;
        let rows = rows.expect("it was given with the state");
        let rows = LogicalPlanBuilder::scan(RETURNED, provider_as_source(rows), None)?;
        let fields = rows.schema().iter().map(Column::from).collect::<Vec<_>>();
        let seen = fields.into_iter().zip(&named);
        let rows =
            rows.project(seen.map(|(c, (of, name))| Expr::Column(c).alias_qualified(of.clone(), name)))?;
        let rows = rows.build()?;
        // The clauses are prepared as those of a query.
        let made_so = "the query is a SELECT";
        let (Parsed::Statement(sql), _) = self.clone().parsed()? else { unreachable!("{made_so}") };
        let Sql::Query(query) = *sql else { unreachable!("{made_so}") };
        let SetExpr::Select(select) = *query.body else { unreachable!("{made_so}") };
        let (mut exprs, mut names): (Vec<Expr>, Vec<String>) = Default::default();
        for (item, given) in select.projection.into_iter().zip(&self.items) {
            let of = match &item {
                SelectItem::Wildcard(_) => None,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    Some(TableReference::bare(table_name(name)?))
                }
                _ => {
                    let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item
                    else {
                        return Err(SqlError::Unsupported(format!("RETURNING {item}")));
                    };
                    if has_subquery(&e) {
                        let what = "a subquery in RETURNING beside FROM or USING";
                        return Err(SqlError::Unsupported(what.into()));
                    }
                    exprs.push(state.create_logical_expr(&e.to_string(), rows.schema())?);
                    names.extend(OutputNames::of_items(std::slice::from_ref(given)).first_name());
                    continue;
                }
            };
            let before = exprs.len();
            for ((relation, name), field) in named.iter().zip(rows.schema().iter()) {
                if of.is_none() || *relation == of {
                    exprs.push(Expr::Column(Column::from(field)));
                    names.push(name.clone());
                }
            }
            if let Some(of) = of.filter(|_| exprs.len() == before) {
                let message = format!("missing FROM-clause entry for table \"{of}\"");
                return Err(SqlError::failed(state::UNDEFINED_TABLE, message));
            }
        }
        let exprs = exprs.into_iter().enumerate().map(|(i, e)| e.alias(format!("__lode_returned_{i}")));
        let plan = LogicalPlanBuilder::from(rows).project(exprs)?.build()?;
        Ok((plan, OutputNames::of_all(names)))
    }
}

/// The RETURNING of a statement, and the rows for it so far.
pub(super) struct Returning {
    query: ReturningQuery,
    /// The columns of the table that are not dropped.
    columns: Vec<u16>,
    /// Columns of the tables in FROM and USING, which follow them.
    beside: Vec<(Option<TableReference>, FieldRef)>,
    rows: Vec<RecordBatch>,
}

impl Returning {
    /// The RETURNING of a statement that changes `table`, if it has one.
    pub(super) fn of(items: &Option<Vec<SelectItem>>, table: &Table, alias: Option<&Ident>) -> Option<Self> {
        let query = ReturningQuery::of(items.as_ref()?, table, alias);
        let columns = table.def().live_columns().collect();
        Some(Self { query, columns, beside: Vec::new(), rows: Vec::new() })
    }

    /// The rows have columns of other tables as well: those of `plan` from `first` on.
    pub(super) fn sees_beside(&mut self, plan: &LogicalPlan, first: usize) {
        let fields = plan.schema().iter().skip(first);
        let nullable = |f: &FieldRef| Arc::new(f.as_ref().clone().with_nullable(true));
        self.beside = fields.map(|(of, f)| (of.cloned(), nullable(f))).collect();
        // In memory the columns are found by their places.
        let own = self.query.schema.fields().iter().cloned();
        let beside = self
            .beside
            .iter()
            .enumerate()
            .map(|(i, (_, f))| Arc::new(f.as_ref().clone().with_name(format!("__lode_beside_{i}"))));
        self.query.schema = Arc::new(Schema::new(own.chain(beside).collect::<Vec<_>>()));
    }

    /// Adds rows, given by all columns of the table; `found`: the rows of the query that has found them, whose last columns are those of
    /// other tables.
    pub(super) fn add(
        &mut self,
        columns: &BTreeMap<u16, ArrayRef>,
        found: Option<&RecordBatch>,
    ) -> Result<(), SqlError> {
        let beside =
            found.map_or(&[][..], |found| &found.columns()[found.num_columns() - self.beside.len()..]);
        let columns = self.columns.iter().map(|c| columns[c].clone()).chain(beside.iter().cloned()).collect();
        self.rows.push(RecordBatch::try_new(self.query.schema.clone(), columns)?);
        Ok(())
    }

    /// Adds rows that a query has found: their identities, then all columns of the table.
    pub(super) fn add_found(&mut self, found: &RecordBatch) -> Result<(), SqlError> {
        let columns = self.columns.iter().copied().zip(found.columns()[1..].iter().cloned()).collect();
        self.add(&columns, Some(found))
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
        let state = self.query.state(session, snapshot, self.rows)?;
        let (plan, names) = match self.beside.is_empty() {
            true => {
                let (parsed, names) = self.query.parsed()?;
                (plan(&state, parsed).await?, names)
            }
            false => self.query.over_all(&state, &self.beside).await?,
        };
        if aggregates(&plan) {
            let message = "aggregate functions are not allowed in RETURNING";
            return Err(SqlError::failed(state::GROUPING_ERROR, message));
        }
        let (schema, rows) = start(&state, &plan).await?;
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
