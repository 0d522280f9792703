//! A life of the process of `lode bench endure`: it opens the drive, runs the updates and tells what it sees, until it is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use lode_bench::sql::LodeSql;
use lode_bench::sql::endure::{Gauges, Reopened, Sample, Told, Written};
use lode_engine::Database;
use lode_workload::harness::RunError;
use lode_workload::sql::endure::{self, Plan, TABLE, totals};
use lode_workload::sql::{SqlDatabase, Value};
use lode_workload::store::{StoreError, StoreResult};

use super::embedded::{Embedded, failed};
use super::oltp::SqlPlace;
use crate::allocator;
use crate::error::{CliError, CliResult};
use crate::script::println_quietly;

/// What a life does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Memory of the database.
    pub(super) memory: u64,
    /// Minutes of updates in the lives before.
    pub(super) minutes: f64,
    /// Its updates. A life without rows only opens the drive and checks it.
    pub(super) plan: Plan,
    /// Whether the old snapshot merges before each of its answers, rather than waiting for background work.
    pub(super) merges_at_once: bool,
}

/// Lives.
pub(super) fn live(life: Life, image: &Path) -> CliResult {
    allocator::keep_to_small_limit(life.memory);
    let begun = Instant::now();
    let (opened, sql) = SqlPlace::at(image, life.memory).open(None)?;
    let open_ms = begun.elapsed().as_secs_f64() * 1e3;
    read_a_row(&sql).map_err(failed)?;
    let row_ms = begun.elapsed().as_secs_f64() * 1e3;
    let database = opened.store.0.clone();
    let info = opened.local().ok_or_else(|| CliError::Failed("the drive is served elsewhere".into()))?.info();
    let reopened = Reopened {
        minutes: life.minutes,
        open_ms,
        row_ms,
        log_pages: info.recovery.log_pages,
        redo_bytes: database.tree_stats().redo_bytes,
    };
    tell(&Told::Opened { opened: reopened, totals: totals(&sql).map_err(failed)? })?;
    if life.plan.length.is_zero() {
        tell(&Told::Checked { found: database.check()? })?;
        return opened.close();
    }
    let updated = update(life, &opened, &sql, &database, image);
    updated.and(opened.close())
}

fn tell(told: &Told) -> CliResult {
    let line = serde_json::to_string(told).map_err(|e| CliError::Failed(e.to_string()))?;
    println_quietly(&line)
}

fn read_a_row(sql: &LodeSql) -> StoreResult {
    let mut connection = sql.connect()?;
    let by_key = connection.prepare(&format!("SELECT n FROM {TABLE} WHERE id = $1"))?;
    let row = connection.execute(by_key, &[Value::Int(1)])?.row()?;
    row.map(drop).ok_or(StoreError::Missing("the first row"))
}

fn update(life: Life, opened: &Embedded, sql: &LodeSql, database: &Database, image: &Path) -> CliResult {
    let drive = opened.local().expect("it was told of above");
    let gauges = || Gauges::read(database, drive, image);
    let merges = || {
        if life.merges_at_once {
            // If the drive fails, the next commit is told.
            let _ = database.merge(TABLE);
        }
        database.merge_stats().merges
    };
    let mut before: Written = gauges()?.written;
    let mut acknowledged = 0;
    let mut each = |s: &endure::Sample, long: Option<endure::Long>| -> StoreResult {
        let gauges = gauges()?;
        acknowledged += s.latency.count;
        let sample = Sample {
            minutes: life.minutes + s.at_s / 60.0,
            commits: s.latency.count,
            rate: s.latency.count as f64 / s.seconds.max(1e-3),
            conflicts: s.conflicts,
            p50_us: s.latency.p50_us,
            p99_us: s.latency.p99_us,
            max_us: s.latency.max_us,
            is_long_open: s.is_long_open,
            checks: s.checks,
            acknowledged,
            written: gauges.written.since(before),
            gauges,
        };
        before = gauges.written;
        let told = std::iter::once(Told::Sample(sample)).chain(long.map(Told::Long));
        // If the parent is gone, the run ends.
        told.into_iter()
            .try_for_each(|told| tell(&told))
            .map_err(|_| StoreError::Missing("the parent process"))
    };
    opened.run(|probes| -> Result<(), RunError> {
        endure::run(sql, &life.plan, &merges, probes.stop, &mut each)
    })
}

/// A time that no life reaches.
pub(super) const NEVER: Duration = Duration::from_secs(86_400 * 365);
