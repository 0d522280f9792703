//! What a scan reads: its filter as a program, and the pages that may have rows which pass.
//!
//! ```text
//!   filters ─► programs, joined by AND ─┬─► a B+-tree index on their columns names few pages? ─► those pages
//!                                       │                                                  no ─► all pages
//!                                       └─► share of the rows that passes ─► the planner's estimate
//! ```

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::prelude::SessionConfig;
use lode_command::PageRange;
use lode_engine::{AccessPath, IndexedPages, Snapshot, Table, TreeUse};
use lode_page::{DataType, Value};
use lode_program::{self as program, CompareOp};

use super::assumed::assumed;
use super::{Sample, deal, engine_error, estimate};
use crate::hidden_columns::HiddenValues;
use crate::translate::{lower, translate_filter};
use crate::{Offload, StatementCounts};

/// Estimate: one in this many rows passes on a page that an index names.
const ROWS_A_PAGE_PASS: u64 = 16;
/// A sample of fewer rows that finds none gives way to what bounds say.
const FEW_ROWS: u64 = 5000;
/// The most of a page's rows that are expected to pass where a sample of whole pages found none.
const PART_OF_A_PAGE: f64 = 0.5;
/// Up to this many pages of an index are read by one thread.
const FEW_PAGES_MAX: u64 = 16;

/// The filter of a scan, and the pages that it reads.
pub(crate) struct Access {
    /// The condition on rows. If the offload level filters exactly, only rows that pass come out; else it is a hint
    /// for skipping pages.
    pub(crate) filter: Option<program::Expr>,
    /// Conditions of partial indexes that the filter implies.
    pub(crate) implied: Vec<program::Expr>,
    /// The filter as SQL, for EXPLAIN.
    pub(crate) filter_text: String,
    /// The share of the table's rows that is expected to pass, 0 to 1.
    pub(crate) selectivity: f64,
    /// The sample that says so, if there is one.
    pub(crate) sample: Option<Sample>,
    pub(crate) pages: Pages,
}

/// The access path, and how many pages B+-tree indexes may name.
#[derive(Clone, Copy)]
pub(crate) struct Trees {
    pub(crate) path: &'static AccessPath,
    /// As many are few.
    pub(crate) few: u64,
}

/// What the columns of filters are.
#[derive(Clone, Copy)]
pub(crate) struct FilterOver<'a> {
    pub(crate) schema: &'a Schema,
    /// The table's column of each of the first fields.
    pub(crate) stored: &'a [u16],
    pub(crate) hidden: &'a HiddenValues,
}

/// The pages that may have rows which pass: those that an index names, or all.
pub(crate) struct Pages(Option<IndexedPages>);

impl Access {
    /// Decides how to find the rows of `table` that pass `filters`.
    /// The reads of the estimate are added to `counts`.
    ///
    /// # Errors
    /// When the drive fails; when a filter that the scan promised to apply does not translate.
    pub(crate) fn of(
        snapshot: &Snapshot,
        table: &Table,
        over: FilterOver<'_>,
        offload: Offload,
        filters: &[Expr],
        trees: Trees,
        counts: &Arc<StatementCounts>,
    ) -> Result<Self> {
        let Pushed { filter, implied, text: filter_text } = pushed(table, over, offload, filters)?;
        let indexed = match (with_implied(filter.as_ref(), &implied), trees.path.tree_pages_max(trees.few)) {
            // A host that does all of the work reads all pages.
            (Some(_), _) if offload == Offload::Off => None,
            (Some(filter), _) if trees.path.trees == TreeUse::Minima => {
                snapshot.pages_by_minima(table, &filter).map_err(engine_error)?
            }
            (Some(filter), Some(most)) => {
                snapshot.index_pages_by(table, &filter, most, trees.path).map_err(engine_error)?
            }
            _ => None,
        };
        let mut sample = None;
        let selectivity = match (&filter, &indexed) {
            // Many pages say nothing of how many rows pass.
            (Some(_), Some(indexed)) if indexed.count <= trees.few || !offload.filters_exactly() => {
                indexed.count as f64 / (table.pages() * ROWS_A_PAGE_PASS).max(1) as f64
            }
            (Some(f), _) if offload.filters_exactly() => {
                let passing = Passing::of(snapshot, table, f, counts)?;
                sample = passing.sample;
                passing.share
            }
            _ => 1.0,
        };
        Ok(Self { filter, implied, filter_text, selectivity, sample, pages: Pages(indexed) })
    }

    /// The B+-tree index that names the pages, and how many they are.
    pub(crate) fn index(&self) -> Option<(String, u64)> {
        self.pages.0.as_ref().map(|i| (i.index.clone(), i.count))
    }
}

/// The share of a table's rows that pass a filter.
pub(crate) struct Passing {
    pub(crate) share: f64,
    /// What was sampled, if anything was.
    pub(crate) sample: Option<Sample>,
}

impl Passing {
    /// The share that a sample shows, or is assumed without one.
    pub(crate) fn of(
        snapshot: &Snapshot,
        table: &Table,
        filter: &program::Expr,
        counts: &StatementCounts,
    ) -> Result<Self> {
        let sample = estimate::sample(snapshot, table, filter, counts)?;
        let otherwise =
            || snapshot.statistics(table).map(|known| assumed(filter, &known)).map_err(engine_error);
        let share = match sample {
            // Few rows of which none passes say little.
            Some(s) if s.share == 0.0 && s.pages * table.rows() < FEW_ROWS * table.pages() => {
                otherwise().map(|share| share.min(s.high))?
            }
            // All rows that pass may lie on a page that was not drawn.
            Some(s) if s.share == 0.0 && s.pages < table.pages() => {
                otherwise()?.min(s.high).min(PART_OF_A_PAGE / table.pages() as f64)
            }
            Some(s) => s.share,
            None => otherwise()?,
        };
        Ok(Self { share, sample })
    }
}

impl Pages {
    /// The pages dealt out to as many threads as a table of `rows` rows is worth.
    pub(crate) fn dealt(
        self,
        snapshot: &Snapshot,
        table: &Table,
        rows: u64,
        config: &SessionConfig,
    ) -> Vec<Vec<PageRange>> {
        // What fits one batch, or a few pages of an index, is not worth a second thread.
        let is_small =
            rows as usize <= config.batch_size() || self.0.as_ref().is_some_and(|i| i.count <= FEW_PAGES_MAX);
        let partitions = if is_small { 1 } else { config.target_partitions() };
        let ranges = self.0.map_or_else(|| snapshot.page_ranges(table), |i| i.pages);
        deal(&ranges, partitions)
    }
}

/// A filter, and conditions that are true wherever it is, as one expression.
pub(super) fn with_implied(
    filter: Option<&program::Expr>,
    implied: &[program::Expr],
) -> Option<program::Expr> {
    let filter = filter?.clone();
    if implied.is_empty() {
        return Some(filter);
    }
    let mut terms = match filter {
        program::Expr::And(terms) => terms,
        one => vec![one],
    };
    terms.extend(implied.iter().cloned());
    Some(program::Expr::And(terms))
}

/// The filters that translate.
struct Pushed {
    /// As one expression of a program.
    filter: Option<program::Expr>,
    implied: Vec<program::Expr>,
    /// As EXPLAIN shows them.
    text: String,
}

fn pushed(table: &Table, over: FilterOver<'_>, offload: Offload, filters: &[Expr]) -> Result<Pushed> {
    let FilterOver { schema, stored, hidden } = over;
    let fields = schema.fields().len();
    let (mut terms, mut texts, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for f in filters {
        let lowered = lower(schema, f);
        let translated = lowered
            .as_ref()
            .and_then(|f| translate_filter(table.schema(), stored, fields, f, hidden.expressions()));
        match translated {
            Some(e) => {
                terms.push(e);
                texts.push(f.human_display().to_string());
                known.extend(lowered);
            }
            // The plan no longer has the filter, since `supports_filters_pushdown` said that the scan applies it.
            None if offload.filters_exactly() => return internal_err!("filter {f} no longer translates"),
            None => {}
        }
    }
    let is_true = |c: u16| {
        let one = program::Expr::Const(Value::Boolean(true), DataType::Boolean);
        program::Expr::compare(CompareOp::Eq, program::Expr::Column(c), one)
    };
    let implied = hidden.implied(&known).into_iter().map(is_true).collect();
    let filter = if terms.len() > 1 { Some(program::Expr::And(terms)) } else { terms.pop() };
    Ok(Pushed { filter, implied, text: texts.join(" AND ") })
}
