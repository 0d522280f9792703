//! Generates the tables and loads them.
//!
//! ```text
//!   generator thread ─► bounded channel ─► stream of batches ─► Session::load_batches (one commit a table)
//! ```
//!
//! Invariants: a table is loaded as a whole or not at all; if anything fails or the user stops the load, the tables
//! that it created are dropped again; the number of batches in flight is bounded, so memory does not grow with the
//! scale.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use lode_sql::Session;
use tokio::sync::mpsc;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use super::Scale;
use super::schema::{Pages, TABLES, Table};
use crate::BenchError;

/// The number of rows in a generated batch.
const BATCH_ROWS: usize = 8192;

/// The most batches that the generator may be ahead of the load.
const BATCHES_AHEAD: usize = 8;

/// The progress of a load.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The table being loaded.
    pub table: &'static str,
    /// The rows of all tables loaded so far.
    pub rows: u64,
    /// The rows of all tables. The number for lineitem is an estimate within 0.1 %.
    pub rows_expected: u64,
}

/// Called after each batch; `Break` stops the load.
pub type OnProgress = Arc<dyn Fn(Progress) -> ControlFlow<()> + Send + Sync>;

/// The result of a load.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// The rows of all tables.
    pub rows: u64,
    /// The wall time.
    pub wall: Duration,
}

/// The batches of a table, as they are generated.
pub type Batches = Box<dyn RecordBatchReader<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The generator of a table at a scale.
///
/// # Panics
/// If TPC-H has no such table.
pub fn generate(table: &str, scale: Scale) -> Batches {
    let s = scale.factor();
    macro_rules! make {
        ($arrow:ident, $generator:ident) => {
            Box::new($arrow::new($generator::new(s, 1, 1)).with_batch_size(BATCH_ROWS))
        };
    }
    match table {
        "region" => make!(RegionArrow, RegionGenerator),
        "nation" => make!(NationArrow, NationGenerator),
        "part" => make!(PartArrow, PartGenerator),
        "supplier" => make!(SupplierArrow, SupplierGenerator),
        "partsupp" => make!(PartSuppArrow, PartSuppGenerator),
        "customer" => make!(CustomerArrow, CustomerGenerator),
        "orders" => make!(OrderArrow, OrderGenerator),
        "lineitem" => make!(LineItemArrow, LineItemGenerator),
        other => panic!("TPC-H has no table {other}"),
    }
}

/// The number of rows in a table at a scale. For lineitem it is an estimate.
pub fn rows_expected(table: &Table, scale: Scale) -> u64 {
    let base = match table.name {
        "region" => return 5,
        "nation" => return 25,
        "part" => 200_000.0,
        "supplier" => 10_000.0,
        "partsupp" => 800_000.0,
        "customer" => 150_000.0,
        "orders" => 1_500_000.0,
        _ => 6_001_215.0,
    };
    (base * scale.factor()) as u64
}

/// Creates the eight tables and loads each in one commit.
pub async fn load(
    session: &Session,
    scale: Scale,
    pages: impl Into<Pages>,
    progress: OnProgress,
) -> Result<Loaded, BenchError> {
    let pages = pages.into();
    let start = Instant::now();
    let rows_expected = TABLES.iter().map(|t| rows_expected(t, scale)).sum();
    let mut rows = 0;
    let mut created = Vec::new();
    for table in &TABLES {
        let at = Progress { table: table.name, rows, rows_expected };
        match load_table(session, table, scale, pages, at, &progress, &mut created).await {
            Ok(n) => rows += n,
            Err(e) => {
                for name in created.into_iter().rev() {
                    // The first error is reported, so an error of this statement is ignored.
                    let _ = execute(session, &format!("DROP TABLE {name}")).await;
                }
                return Err(e);
            }
        }
    }
    Ok(Loaded { rows, wall: start.elapsed() })
}

async fn load_table(
    session: &Session,
    table: &Table,
    scale: Scale,
    pages: Pages,
    at: Progress,
    progress: &OnProgress,
    created: &mut Vec<&'static str>,
) -> Result<u64, BenchError> {
    execute(session, &table.create(pages)).await?;
    created.push(table.name);
    let stopped = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stream = stream(table.name, scale, at, Arc::clone(progress), Arc::clone(&stopped));
    session.load_batches(table.name, stream).await.map_err(|source| {
        if stopped.load(std::sync::atomic::Ordering::Relaxed) {
            return BenchError::Interrupted;
        }
        BenchError::sql(format!("loading {}", table.name), source)
    })
}

/// The table's batches as a stream that reports progress, and fails if it is told to stop.
fn stream(
    table: &'static str,
    scale: Scale,
    at: Progress,
    progress: OnProgress,
    stopped: Arc<std::sync::atomic::AtomicBool>,
) -> SendableRecordBatchStream {
    let batches = generate(table, scale);
    let schema: SchemaRef = batches.schema();
    let (send, receive) = mpsc::channel(BATCHES_AHEAD);
    std::thread::spawn(move || {
        for batch in batches {
            if send.blocking_send(batch).is_err() {
                return;
            }
        }
    });
    let stream = futures::stream::unfold((receive, at), move |(mut receive, mut at)| {
        let (progress, stopped) = (Arc::clone(&progress), Arc::clone(&stopped));
        async move {
            let batch = receive.recv().await?;
            at.rows += batch.as_ref().map_or(0, |b| b.num_rows() as u64);
            if progress(at).is_break() {
                stopped.store(true, std::sync::atomic::Ordering::Relaxed);
                let stop = DataFusionError::External(Box::new(BenchError::Interrupted));
                return Some((Err(stop), (receive, at)));
            }
            Some((batch.map_err(DataFusionError::from), (receive, at)))
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

async fn execute(session: &Session, sql: &str) -> Result<(), BenchError> {
    let what = sql.split(" (").next().unwrap_or(sql).to_string();
    match session.execute(sql).await {
        Ok(_) => Ok(()),
        Err(source) => Err(BenchError::sql(what, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_meet_the_generator() {
        let scale = Scale::new(0.01).unwrap();
        for table in &TABLES {
            let batches = generate(table.name, scale);
            let rows: usize = batches.map(|b| b.unwrap().num_rows()).sum();
            let expected = rows_expected(table, scale);
            assert!(rows.abs_diff(expected as usize) * 100 <= rows, "{}: {rows} of {expected}", table.name);
        }
    }
}
