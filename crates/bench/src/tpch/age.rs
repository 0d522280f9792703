//! Ages TPC-H by rounds of its refresh functions, and measures its queries and its size on the way.
//!
//! ```text
//!   loaded ─► (RF1, RF2) a round ─► ... ─► checkpoint: queries at once ─► rest ─► queries, sizes ─► next rounds
//!                                          last: rows beside the generator's, foreign keys, answers
//! ```
//!
//! Nothing calls VACUUM: what restores the tables is the background work of the database's holder.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use lode_firmware::Drive;
use lode_sql::{Offload, Session, SqlError};
use serde::Serialize;

use super::answers::Answer;
use super::queries::QUERIES;
use super::refresh::{Digest, ROUNDS_MAX, Refresh, rows_after};
use super::run::run;
use super::{Scale, TABLES};
use crate::BenchError;

/// How often a database at rest is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a drive without deltas programs nothing before it counts as at rest. It begins to collect after 5 s without a batch
/// (`DriveOptions::rest_steps`).
const QUIET: Duration = Duration::from_secs(8);

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The scale of the data.
    pub scale: Scale,
    /// The number of rounds, at most [`ROUNDS_MAX`].
    pub rounds: u32,
    /// The queries run after the load, after the first and the last round, and after each round that this divides.
    pub queries_every: u32,
    /// The most time at rest before the queries.
    pub rest: Duration,
    /// The number of measured runs of a query, after an unmeasured one. The best run counts.
    pub runs: usize,
    /// How much the drive does.
    pub offload: Offload,
}

impl Plan {
    /// Whether the queries run after this round.
    fn has_checkpoint(&self, round: u32) -> bool {
        round <= 1 || round == self.rounds || round.is_multiple_of(self.queries_every)
    }
}

/// The database that ages. Its holder does background work meanwhile.
#[derive(Clone, Copy)]
pub struct Aging<'a> {
    /// A session. The database holds the loaded tables.
    pub session: &'a Session,
    /// The drive below it.
    pub drive: &'a Drive,
    /// The file of the drive's image, if it has one.
    pub image: Option<&'a Path>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sizes {
    /// Bytes of live pages on the drive, its own included.
    pub live_bytes: u64,
    /// Bytes that the image takes on disk. `None` if it is no file.
    pub disk_bytes: Option<u64>,
    /// Bytes of the drive's log since its last checkpoint.
    pub log_bytes: u64,
    /// Bytes that the drive programmed since it was opened.
    pub programmed_bytes: u64,
    /// Rows of deltas: newest images of rows, and rows of pages that they hide.
    pub delta_rows: u64,
    /// Pages of `lineitem`.
    pub lineitem_pages: u64,
}

/// What was measured after a round.
#[derive(Clone, Debug, Serialize)]
pub struct Checkpoint {
    /// The rounds so far. 0 is the load.
    pub round: u32,
    /// Rows of `orders`.
    pub orders: u64,
    /// Rows of `lineitem`.
    pub lineitems: u64,
    /// Milliseconds of a round since the checkpoint before.
    pub refresh_ms: f64,
    /// What there was right after the round.
    pub before: Sizes,
    /// Milliseconds of the 22 queries, each run once, right after the round.
    pub at_once_ms: f64,
    /// Seconds at rest.
    pub rest_s: f64,
    /// Whether all deltas were merged and the drive was quiet at the end of the rest.
    pub is_at_rest: bool,
    /// What there was after the rest.
    pub after: Sizes,
    /// Milliseconds of each query after the rest, the best of its runs.
    pub query_ms: Vec<f64>,
    /// Their sum.
    pub queries_ms: f64,
}

/// The result of all rounds.
pub struct Aged {
    /// All checkpoints, the load's first.
    pub checkpoints: Vec<Checkpoint>,
    /// The answers after the last round.
    pub answers: Vec<Answer>,
}

/// The last checkpoint beside that of the first round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    /// Milliseconds of the 22 queries.
    pub queries: f64,
    /// The greatest of the queries.
    pub query_max: f64,
    /// Bytes of live pages.
    pub live_bytes: f64,
    /// Bytes on disk. `None` if the image is no file.
    pub disk_bytes: Option<f64>,
}

impl Aged {
    /// The checkpoint after the first round.
    pub fn first(&self) -> &Checkpoint {
        &self.checkpoints[1.min(self.checkpoints.len() - 1)]
    }

    /// The checkpoint after the last round.
    pub fn last(&self) -> &Checkpoint {
        self.checkpoints.last().expect("the load has a checkpoint")
    }

    /// The last beside the first.
    pub fn ratios(&self) -> Ratios {
        let (first, last) = (self.first(), self.last());
        let of = |a: u64, b: u64| a as f64 / b.max(1) as f64;
        let each = last.query_ms.iter().zip(&first.query_ms).map(|(l, f)| l / f);
        Ratios {
            queries: last.queries_ms / first.queries_ms,
            query_max: each.fold(0.0, f64::max),
            live_bytes: of(last.after.live_bytes, first.after.live_bytes),
            disk_bytes: last.after.disk_bytes.zip(first.after.disk_bytes).map(|(l, f)| of(l, f)),
        }
    }
}

/// Runs the rounds. After the last one it compares the rows with the generator's, and looks for line items without an order.
///
/// # Errors
/// If a statement fails, rows are not what they must be, or `each` says so.
///
/// # Panics
/// If there are more than [`ROUNDS_MAX`] rounds.
pub async fn age(
    aging: Aging<'_>,
    plan: Plan,
    mut each: impl FnMut(&Checkpoint) -> Result<(), BenchError>,
) -> Result<Aged, BenchError> {
    assert!(plan.rounds <= ROUNDS_MAX, "the keys' gaps are enough for {ROUNDS_MAX} rounds");
    let refresh = Refresh::new(aging.session, plan.scale).await?;
    let mut aged = Aged { checkpoints: Vec::new(), answers: Vec::new() };
    let (mut refreshed, mut rounds) = (Duration::ZERO, 0);
    for round in 0..=plan.rounds {
        if round > 0 {
            let start = Instant::now();
            refresh.insert(round).await?;
            refresh.delete(round).await?;
            refreshed += start.elapsed();
            rounds += 1;
        }
        if plan.has_checkpoint(round) {
            let refresh_ms = refreshed.as_secs_f64() * 1e3 / f64::from(rounds.max(1));
            let (checkpoint, answers) = aging.checkpoint(plan, round, refresh_ms).await?;
            each(&checkpoint)?;
            aged.checkpoints.push(checkpoint);
            aged.answers = answers;
            (refreshed, rounds) = (Duration::ZERO, 0);
        }
    }
    aging.verify(plan.scale, plan.rounds).await?;
    Ok(aged)
}

impl Aging<'_> {
    async fn checkpoint(
        &self,
        plan: Plan,
        round: u32,
        refresh_ms: f64,
    ) -> Result<(Checkpoint, Vec<Answer>), BenchError> {
        let before = self.sizes()?;
        let mut at_once = Duration::ZERO;
        for query in &QUERIES {
            at_once += run(self.session, query, plan.scale, plan.offload).await?.wall;
        }
        let (rest, is_at_rest) = self.rest(plan.rest).await?;
        let after = self.sizes()?;
        let (mut query_ms, mut answers) = (Vec::new(), Vec::new());
        for query in &QUERIES {
            let mut best = Duration::MAX;
            for measured in 0..=plan.runs {
                let run = run(self.session, query, plan.scale, plan.offload).await?;
                match measured {
                    0 => answers.push(run.answer),
                    _ => best = best.min(run.wall),
                }
            }
            query_ms.push(best.as_secs_f64() * 1e3);
        }
        let checkpoint = Checkpoint {
            round,
            orders: self.count("SELECT count(*) FROM orders").await?,
            lineitems: self.count("SELECT count(*) FROM lineitem").await?,
            refresh_ms,
            before,
            at_once_ms: at_once.as_secs_f64() * 1e3,
            rest_s: rest.as_secs_f64(),
            is_at_rest,
            after,
            queries_ms: query_ms.iter().sum(),
            query_ms,
        };
        Ok((checkpoint, answers))
    }

    fn sizes(&self) -> Result<Sizes, BenchError> {
        let info = self.drive.info();
        let engine = |e: lode_engine::EngineError| failed("sizes", e.into());
        let snapshot = self.session.database().snapshot().map_err(engine)?;
        let mut delta_rows = 0;
        for table in snapshot.tables() {
            let (shown, hidden) = snapshot.delta_rows(table).map_err(engine)?;
            delta_rows += shown + hidden;
        }
        Ok(Sizes {
            live_bytes: info.live_bytes,
            disk_bytes: self.image.and_then(|path| std::fs::metadata(path).ok()).map(|m| m.blocks() * 512),
            log_bytes: info.log_bytes,
            programmed_bytes: info.media_bytes_written,
            delta_rows,
            lineitem_pages: snapshot.table("lineitem").map_or(0, |t| t.pages()),
        })
    }

    /// Waits until all deltas are merged and the drive is quiet, at most so long. Returns the time, and whether it came to that.
    async fn rest(&self, most: Duration) -> Result<(Duration, bool), BenchError> {
        let start = Instant::now();
        let mut quiet = (Instant::now(), self.sizes()?.programmed_bytes);
        loop {
            if start.elapsed() >= most {
                return Ok((start.elapsed(), false));
            }
            tokio::time::sleep(LOOK.min(most)).await;
            let sizes = self.sizes()?;
            if sizes.delta_rows > 0 || sizes.programmed_bytes != quiet.1 {
                quiet = (Instant::now(), sizes.programmed_bytes);
            } else if quiet.0.elapsed() >= QUIET {
                return Ok((start.elapsed(), true));
            }
        }
    }

    async fn count(&self, sql: &str) -> Result<u64, BenchError> {
        let batches = self.session.collect(sql).await.map_err(|e| failed(sql, e))?;
        let rows = batches.iter().find(|b| b.num_rows() > 0).expect("a count is a row");
        Ok(rows.column(0).as_primitive::<Int64Type>().value(0) as u64)
    }

    /// Compares `orders` and `lineitem` with the generator's rows after so many rounds.
    async fn verify(&self, scale: Scale, rounds: u32) -> Result<(), BenchError> {
        for table in ["orders", "lineitem"] {
            let sql = format!("SELECT * FROM {table}");
            let batches = self.session.collect(&sql).await.map_err(|e| failed(&sql, e))?;
            let differs = |e: datafusion::arrow::error::ArrowError| failed(&sql, e.into());
            let got = Digest::of(batches.into_iter().map(Ok)).map_err(differs)?;
            let expected = Digest::of(rows_after(table, scale, rounds)).map_err(differs)?;
            if got != expected {
                let rows = (got.rows, expected.rows);
                let text =
                    format!("{table} holds {} rows, which are not the {} it must have", rows.0, rows.1);
                return Err(BenchError::Refresh(text));
            }
        }
        let orphans = "SELECT count(*) FROM lineitem LEFT ANTI JOIN orders ON l_orderkey = o_orderkey";
        let childless = "SELECT count(*) FROM orders LEFT ANTI JOIN lineitem ON l_orderkey = o_orderkey";
        for (what, sql) in
            [("line items without an order", orphans), ("orders without a line item", childless)]
        {
            match self.count(sql).await? {
                0 => {}
                n => return Err(BenchError::Refresh(format!("{n} {what}"))),
            }
        }
        Ok(())
    }
}

/// Writes all tables as Parquet files, and the answers to `answers/q1.csv` and so on, into a directory.
/// `scripts/check_aged_answers.py` compares them with another engine's.
///
/// # Errors
/// If a file cannot be written.
pub async fn export(session: &Session, answers: &[Answer], dir: &Path) -> Result<(), BenchError> {
    let at = |path: PathBuf| move |source: io::Error| BenchError::File { path, source };
    let to = dir.join("answers");
    std::fs::create_dir_all(&to).map_err(at(to.clone()))?;
    for table in &TABLES {
        let path = dir.join(table.name).with_extension("parquet");
        let text = path.display().to_string().replace('\'', "''");
        let sql = format!("COPY {} TO '{text}' (FORMAT parquet)", table.name);
        session.execute(&sql).await.map_err(|e| failed(&sql, e))?;
    }
    for (query, answer) in QUERIES.iter().zip(answers) {
        let path = to.join(format!("q{}.csv", query.number));
        std::fs::write(&path, answer.to_csv()).map_err(at(path))?;
    }
    Ok(())
}

fn failed(doing: &str, source: SqlError) -> BenchError {
    BenchError::sql(doing, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_at_the_ends_and_between() {
        let plan = Plan {
            scale: Scale::new(0.01).unwrap(),
            rounds: 25,
            queries_every: 10,
            rest: Duration::ZERO,
            runs: 1,
            offload: Offload::Auto,
        };
        let rounds: Vec<u32> = (0..=25).filter(|r| plan.has_checkpoint(*r)).collect();
        assert_eq!(rounds, [0, 1, 10, 20, 25]);
    }
}
