//! Scans in the order of a B+-tree index, which end once the operators above have the first rows.
//!
//! ```text
//!   walk along the index ─► pages, twice as many each time ─► PartitionScan ─► batches ─► sort, MIN or MAX
//!        ▲ not yet                                                 │
//!        └─ the n first rows so far come before all other pages? ◄─┘ keys of rows that pass
//! ```
//!
//! The scan emits all rows of each page that the walk names: more rows than the limit, and not in order. So the sort
//! with a limit, or MIN and MAX, stays in the plan. The rest of the table is not read. If the walk names more than a
//! quarter of the pages and more than 16 (few rows pass, or they are scattered), or the index was dropped meanwhile, the scan reads
//! all other pages too.
//!
//! Invariant: when a walk ends early, at least `rows` emitted rows that pass the predicates sort before every row that was
//! not emitted, or equal to it, in the order of that walk.

use std::collections::BinaryHeap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{and, filter, prep_null_mask_filter};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use lode_command::PageRange;
use lode_engine::{IndexOrder, IndexWalk, OrderBound, OrderKey};
use lode_page::Column;

use super::keys::KeyFilter;
use super::metrics::ScanMetrics;
use super::partition::PartitionScan;
use super::runtime::RuntimeFilters;
use super::{ScanSpec, engine_error};
use crate::arrow_convert::from_arrow;

/// A walk may name at most one of so many pages of the scan.
const PAGES_PART_MAX: u64 = 4;
/// A walk may always name so many pages.
const PAGES_MIN: u64 = 16;

/// Orders. The scan must emit the first rows of each.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    /// The orders are walked one after the other. The rows of all walks are emitted.
    pub(crate) walks: Vec<FirstRows>,
    /// The filters of the operators above, over the emitted columns. Rows that fail them do not count towards a
    /// limit.
    pub(crate) predicates: Vec<Arc<dyn PhysicalExpr>>,
}

/// The first rows of an order.
#[derive(Clone, Debug)]
pub(crate) struct FirstRows {
    pub(crate) order: IndexOrder,
    /// The positions of the order's columns among the emitted columns.
    pub(crate) columns: Vec<usize>,
    /// How many rows are needed.
    pub(crate) rows: usize,
}

impl FirstRows {
    fn describe(&self, spec: &ScanSpec) -> String {
        let names: Vec<&str> = self.columns.iter().map(|&i| spec.schema.field(i).name().as_str()).collect();
        let end = if self.order.backward { "last" } else { "first" };
        format!("{end} {} of index={} by ({})", self.rows, self.order.index, names.join(", "))
    }
}

impl Ordered {
    /// For EXPLAIN.
    pub(super) fn describe(&self, spec: &ScanSpec) -> String {
        let walks: Vec<String> = self.walks.iter().map(|w| w.describe(spec)).collect();
        format!("in order: {}", walks.join(", "))
    }
}

/// A scan along indexes, on the thread that polls it.
pub(super) struct OrderedScan {
    spec: Arc<ScanSpec>,
    ordered: Arc<Ordered>,
    /// All pages that may have rows that pass.
    planned: Vec<PageRange>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    keys: Vec<KeyFilter>,
    batch_rows: usize,
    metrics: ScanMetrics,
    walks: Vec<Walk>,
    /// The number of the walk under way.
    at: usize,
    /// Whether all pages are read, because the walk was given up.
    is_whole: bool,
    /// The pages of the last step.
    pages: Option<PartitionScan>,
}

struct Walk {
    of: FirstRows,
    /// The walk along the index; `None` before it begins.
    along: Option<IndexWalk>,
    /// No row of a page that the walk has not named sorts before this bound. `None` before the walk begins, and after
    /// its end.
    bound: Option<OrderBound>,
    /// The first rows so far, as a heap with the last of them on top.
    first: BinaryHeap<OrderKey>,
    /// Entries that the next step looks at.
    entries: u64,
}

impl Walk {
    fn new(of: &FirstRows) -> Self {
        let (of, entries) = (of.clone(), of.rows as u64);
        Self { of, along: None, bound: None, first: BinaryHeap::new(), entries }
    }

    /// For a walk that has begun: whether no other page can have a row that sorts before the last of the first rows.
    fn is_done(&self) -> bool {
        let enough = self.first.len() >= self.of.rows;
        let Some(bound) = &self.bound else { return true };
        enough && self.first.peek().is_some_and(|last| last.is_within(bound))
    }

    fn count(&mut self, keys: Vec<OrderKey>) {
        for key in keys {
            if self.first.len() < self.of.rows {
                self.first.push(key);
            } else if let Some(mut last) = self.first.peek_mut()
                && key < *last
            {
                *last = key;
            }
        }
    }
}

impl OrderedScan {
    pub(super) fn new(
        spec: Arc<ScanSpec>,
        ordered: Arc<Ordered>,
        planned: Vec<PageRange>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        keys: Vec<KeyFilter>,
        batch_rows: usize,
        metrics: ScanMetrics,
    ) -> Self {
        let walks = ordered.walks.iter().map(Walk::new).collect();
        let (at, is_whole, pages) = (0, false, None);
        Self { spec, ordered, planned, filters, keys, batch_rows, metrics, walks, at, is_whole, pages }
    }

    /// The next batch, or `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(pages) = &mut self.pages {
                if let Some(batch) = pages.next()? {
                    self.count(&batch)?;
                    return Ok(Some(batch));
                }
                self.pages = None;
            }
            let Some(pages) = self.step()? else { return Ok(None) };
            let filters = RuntimeFilters::new(self.filters.clone(), self.keys.clone());
            let (spec, metrics) = (self.spec.clone(), self.metrics.clone());
            self.pages = Some(PartitionScan::new(
                spec,
                pages,
                filters,
                Arc::default(),
                None,
                self.batch_rows,
                metrics,
            )?);
        }
    }

    /// The next pages to read; `None` when the operators above have the rows that they need.
    fn step(&mut self) -> Result<Option<Vec<PageRange>>> {
        let spec = &self.spec;
        while let Some(walk) = self.walks.get_mut(self.at).filter(|_| !self.is_whole) {
            if walk.along.is_some() && walk.is_done() {
                self.at += 1;
                continue;
            }
            let along = match &mut walk.along {
                Some(along) => along,
                begun @ None => {
                    begun.insert(spec.snapshot.walk(&spec.table, &walk.of.order).map_err(engine_error)?)
                }
            };
            let planned: u64 = self.planned.iter().map(|r| u64::from(r.count)).sum();
            let next = match along.named() <= (planned / PAGES_PART_MAX).max(PAGES_MIN) {
                true => along.next(&spec.table, walk.entries).map_err(engine_error)?,
                false => None,
            };
            let Some(next) = next else {
                self.is_whole = true;
                // Rows that an earlier walk emitted are emitted again. Only MIN and MAX have several walks, and a row that is
                // emitted twice does not change their result.
                return Ok(Some(along.others(&self.planned)));
            };
            walk.entries *= 2;
            walk.bound = next.bound;
            if !next.pages.is_empty() {
                return Ok(Some(next.pages));
            }
        }
        Ok(None)
    }

    /// Counts emitted rows towards the first rows of the current walk and of those that follow.
    fn count(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.is_whole {
            return Ok(());
        }
        let mut passes: Option<BooleanArray> = None;
        for predicate in &self.ordered.predicates {
            let array = predicate.evaluate(batch)?.into_array(batch.num_rows())?;
            let mask = match array.as_boolean() {
                mask if mask.null_count() > 0 => prep_null_mask_filter(mask),
                mask => mask.clone(),
            };
            passes = Some(match passes {
                Some(passes) => and(&passes, &mask)?,
                None => mask,
            });
        }
        for walk in &mut self.walks[self.at..] {
            let columns = walk.of.columns.iter().zip(&walk.of.order.columns).map(|(&at, &c)| {
                let array = match &passes {
                    Some(passes) => filter(batch.column(at), passes)?,
                    None => batch.column(at).clone(),
                };
                let data_type = self.spec.table.schema().columns[usize::from(c)].data_type;
                from_arrow(&array, data_type).map_err(|e| DataFusionError::External(Box::new(e)))
            });
            let columns: Vec<Column> = columns.collect::<Result<_>>()?;
            walk.count(walk.of.order.keys(&columns));
        }
        Ok(())
    }
}
