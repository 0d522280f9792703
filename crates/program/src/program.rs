//! `Program`: a checked filter, and a projection or an aggregation, over the columns of one schema.

use std::sync::Arc;

use lode_page::{DataType, Schema};

use crate::aggregate::{Aggregation, Checked};
use crate::expr::constant_bytes;
use crate::plan::{self, Node};
use crate::{Expr, ProgramError, check};

/// A filter and a projection that passed the check. Immutable.
#[derive(Clone, Debug)]
pub struct Program {
    schema: Schema,
    filter: Option<Expr>,
    plan: Option<Node>,
    filter_columns: Vec<u16>,
    projection: Vec<u16>,
    slots: bool,
    aggregation: Option<Arc<Checked>>,
}

impl Program {
    /// Checks a filter (of type BOOLEAN) and a projection (columns in the order of the answer) over `schema`. With
    /// `slots`, answers include the slot of each row.
    ///
    /// # Errors
    /// When a column does not exist, types do not go together, or a bound is passed.
    pub fn check(
        schema: Schema,
        filter: Option<Expr>,
        projection: Vec<u16>,
        slots: bool,
    ) -> Result<Self, ProgramError> {
        check::check_schema(&schema)?;
        let columns = schema.columns.len();
        if let Some(&column) = projection.iter().find(|&&c| usize::from(c) >= columns) {
            return Err(ProgramError::NoSuchColumn { column, columns });
        }
        let mut filter_columns = Vec::new();
        if let Some(f) = &filter {
            match check::type_of(&schema, f)? {
                DataType::Boolean => f.columns(&mut filter_columns),
                t => return Err(ProgramError::Type(format!("the filter is of type {t}"))),
            }
        }
        filter_columns.sort_unstable();
        filter_columns.dedup();
        let plan = filter.as_ref().map(|f| plan::plan(&schema, f));
        Ok(Self { schema, filter, plan, filter_columns, projection, slots, aggregation: None })
    }

    /// The same filter, with an aggregation of the rows that pass instead of the projection.
    ///
    /// # Errors
    /// When a column does not exist, types do not go together, or a bound is passed.
    pub fn with_aggregation(self, aggregation: Aggregation) -> Result<Self, ProgramError> {
        let checked = Checked::new(&self.schema, aggregation)?;
        Ok(Self { projection: Vec::new(), slots: false, aggregation: Some(Arc::new(checked)), ..self })
    }

    /// The aggregation of the rows that pass, if there is one.
    pub fn aggregation(&self) -> Option<&Aggregation> {
        self.aggregation.as_ref().map(|a| &a.asked)
    }

    /// Types of the keys and results of the aggregation, in the order of the answer; empty without one.
    pub fn group_types(&self) -> &[DataType] {
        self.aggregation.as_ref().map_or(&[], |a| &a.types)
    }

    /// Columns that the aggregation reads, ascending and distinct; none without one.
    pub fn aggregate_columns(&self) -> &[u16] {
        self.aggregation.as_ref().map_or(&[], |a| &a.columns)
    }

    pub(crate) fn checked_aggregation(&self) -> Option<&Checked> {
        self.aggregation.as_deref()
    }

    /// The schema that the program understands.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The filter; without one every row passes.
    pub fn filter(&self) -> Option<&Expr> {
        self.filter.as_ref()
    }

    /// The planned filter.
    pub(crate) fn plan(&self) -> Option<&Node> {
        self.plan.as_ref()
    }

    /// Columns of the answer, in its order.
    pub fn projection(&self) -> &[u16] {
        &self.projection
    }

    /// Whether answers include the slot of each row.
    pub fn slots(&self) -> bool {
        self.slots
    }

    /// Columns that the filter reads, ascending and distinct.
    pub fn filter_columns(&self) -> &[u16] {
        &self.filter_columns
    }

    /// The same program with `more`, a run-time filter, as another condition.
    ///
    /// # Errors
    /// As [`Program::check`].
    pub fn with_filter(&self, more: Expr) -> Result<Self, ProgramError> {
        let filter = match self.filter.clone() {
            None => more,
            Some(Expr::And(mut terms)) => {
                terms.push(more);
                Expr::And(terms)
            }
            Some(f) => Expr::And(vec![f, more]),
        };
        let narrowed = Self::check(self.schema.clone(), Some(filter), self.projection.clone(), self.slots)?;
        Ok(Self { aggregation: self.aggregation.clone(), ..narrowed })
    }

    /// Bytes that the program takes on the link.
    pub fn link_bytes(&self) -> usize {
        const HEADER_BYTES: usize = 16;
        let filter = self.filter.as_ref().map_or(0, Expr::link_bytes);
        HEADER_BYTES
            + self.schema.columns.len() * 4
            + self.schema.absent.iter().map(|c| constant_bytes(c.value())).sum::<usize>()
            + self.projection.len() * 2
            + filter
            + self.aggregation.as_ref().map_or(0, |a| a.link_bytes())
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Program>();
};
