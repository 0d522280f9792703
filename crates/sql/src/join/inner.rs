//! The inner side of a join by index: a scan, and the row-by-row operators above it.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use lode_engine::HostWork;

use crate::columns::place_of;
use crate::scan::{LodeScanExec, ScanSpec};

/// The inner side.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    scan: LodeScanExec,
    /// From the scan up.
    steps: Vec<Step>,
    schema: SchemaRef,
}

#[derive(Clone, Debug)]
enum Step {
    Filter { predicate: Arc<dyn PhysicalExpr>, projection: Option<Vec<usize>> },
    Project { columns: Vec<Arc<dyn PhysicalExpr>>, schema: SchemaRef },
}

impl Inner {
    /// The inner side that `plan` is; `None` if it does more than to filter and project a scan's rows.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
            let scan = scan.is_plain().then(|| scan.clone())?;
            return Some(Self { scan, steps: Vec::new(), schema: plan.schema() });
        }
        let (input, step) = if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            if filter.fetch().is_some() || is_volatile(filter.predicate()) {
                return None;
            }
            let projection = filter.projection().as_ref().map(|p| p.to_vec());
            (filter.input(), Step::Filter { predicate: filter.predicate().clone(), projection })
        } else {
            let projection = plan.downcast_ref::<ProjectionExec>()?;
            let columns: Vec<_> = projection.expr().iter().map(|p| p.expr.clone()).collect();
            if columns.iter().any(is_volatile) {
                return None;
            }
            (projection.input(), Step::Project { columns, schema: plan.schema() })
        };
        let mut inner = Self::of(input)?;
        inner.steps.push(step);
        inner.schema = plan.schema();
        Some(inner)
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn spec(&self) -> &ScanSpec {
        self.scan.spec()
    }

    /// The table's column that a column of the inner side is.
    pub(super) fn stored(&self, place: usize) -> Option<u16> {
        let below = |place: usize, step: &Step| match step {
            Step::Filter { projection: Some(projection), .. } => Some(projection[place]),
            Step::Filter { projection: None, .. } => Some(place),
            Step::Project { columns, .. } => place_of(&columns[place]),
        };
        let place = self.steps.iter().rev().try_fold(place, below)?;
        self.spec().output[place]
    }

    /// The rows of the inner side that rows of the scan become.
    pub(super) fn applied(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        for step in &self.steps {
            let rows = batch.num_rows();
            batch = match step {
                Step::Filter { predicate, projection } => {
                    self.spec().computes(HostWork::Filter, rows as u64);
                    let passes = predicate.evaluate(&batch)?.into_array(rows)?;
                    let passed = filter_record_batch(&batch, passes.as_boolean())?;
                    match projection {
                        Some(places) => passed.project(places)?,
                        None => passed,
                    }
                }
                Step::Project { columns, schema } => {
                    let arrays = columns.iter().map(|c| c.evaluate(&batch)?.into_array(rows));
                    let arrays = arrays.collect::<Result<Vec<_>>>()?;
                    let options = RecordBatchOptions::new().with_row_count(Some(rows));
                    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?
                }
            };
        }
        Ok(batch)
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.spec();
        write!(f, "table={}", spec.table.name())?;
        if spec.offload.filters_exactly() && !spec.filter_text.is_empty() {
            write!(f, ", filter={}", spec.filter_text)?;
        }
        // What is looked up is not filtered early, whatever was asked for.
        if let Some(early) = spec.early.as_ref().filter(|e| !e.is_first) {
            write!(f, ", {early}")?;
        }
        for step in &self.steps {
            if let Step::Filter { predicate, .. } = step {
                write!(f, ", condition={predicate}")?;
            }
        }
        Ok(())
    }
}
