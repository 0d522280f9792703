//! Runs the same queries over the same rows in Parquet files, with plain DataFusion in the same process.
//!
//! ```text
//!   data ─► Parquet files in a temporary directory ─► SessionContext (DataFusion's defaults) ┐
//!   data ─► drive ──────────────────────────────────► Session ────────────────────────────────┴─► best of n, ratio
//! ```
//!
//! Both have the same number of partitions, and both warm up with one unmeasured run. The two alternate query by
//! query, so that other load of the machine affects both.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use datafusion::execution::context::SessionContext;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{ParquetReadOptions, SessionConfig};
use lode_sql::{Offload, QueryCounts, Session};
use serde::Serialize;

use super::Scale;
use super::answers::Answer;
use super::data::generate;
use super::queries::{QUERIES, Query};
use super::run::run;
use super::schema::TABLES;
use crate::BenchError;

/// The times of a query.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Number of the query.
    pub query: usize,
    /// The number of rows in its answer.
    pub rows: usize,
    /// Lode's best time, in milliseconds.
    pub lode_ms: f64,
    /// DataFusion's best time on Parquet, in milliseconds. `None` without a comparison.
    pub parquet_ms: Option<f64>,
    /// `lode_ms / parquet_ms`.
    pub ratio: Option<f64>,
    /// Pages that the scans considered.
    pub pages: u64,
    /// The pages of these that the page index skipped.
    pub pages_skipped: u64,
    /// Bytes from the drive to the host.
    pub link_bytes_up: u64,
}

/// Plain DataFusion over Parquet files.
pub struct ParquetPeer {
    context: SessionContext,
    /// The size of all files, in bytes.
    pub bytes: u64,
}

impl ParquetPeer {
    /// Writes the eight tables as Parquet files into `dir`, with the usual defaults (Snappy, dictionaries, row groups
    /// of 1,048,576 rows), and registers them.
    pub async fn write(scale: Scale, dir: &Path, partitions: usize) -> Result<Self, BenchError> {
        let context =
            SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions));
        let mut bytes = 0;
        for table in &TABLES {
            let path = dir.join(table.name).with_extension("parquet");
            bytes += write_file(table.name, scale, &path)?;
            let name = path.display().to_string();
            let register = context.register_parquet(table.name, name, ParquetReadOptions::default()).await;
            register.map_err(|source| BenchError::DataFusion {
                doing: format!("opening {}", table.name),
                source,
            })?;
        }
        Ok(Self { context, bytes })
    }

    /// Runs a query and collects its answer.
    pub async fn run(&self, query: &Query, scale: Scale) -> Result<(Duration, Answer), BenchError> {
        let failed =
            |source| BenchError::DataFusion { doing: format!("Q{} on Parquet", query.number), source };
        let start = Instant::now();
        let frame = self.context.sql(&query.sql(scale)).await.map_err(failed)?;
        let schema = frame.schema().inner().clone();
        let batches = frame.collect().await.map_err(failed)?;
        let wall = start.elapsed();
        let answer = Answer::of(&schema, &batches).map_err(|e| failed(e.into()))?;
        Ok((wall, answer))
    }
}

fn write_file(table: &str, scale: Scale, path: &Path) -> Result<u64, BenchError> {
    let at = |source: std::io::Error| BenchError::File { path: PathBuf::from(path), source };
    let other = |e: datafusion::parquet::errors::ParquetError| at(std::io::Error::other(e));
    let batches = generate(table, scale);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let file = File::create(path).map_err(at)?;
    let mut writer = ArrowWriter::try_new(file, batches.schema(), Some(properties)).map_err(other)?;
    for batch in batches {
        writer.write(&batch.map_err(|e| at(std::io::Error::other(e)))?).map_err(other)?;
    }
    writer.close().map_err(other)?;
    Ok(std::fs::metadata(path).map_err(at)?.len())
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The scale of the data.
    pub scale: Scale,
    /// Lode's offload level.
    pub offload: Offload,
    /// The number of measured runs, after an unmeasured one. The best run counts.
    pub runs: usize,
}

/// Measures the 22 queries on `session` and, if there is one, on `peer`. Their answers must agree.
pub async fn measure(
    session: &Session,
    peer: Option<&ParquetPeer>,
    plan: Plan,
    mut each: impl FnMut(&Measured) -> Result<(), BenchError>,
) -> Result<Vec<Measured>, BenchError> {
    let mut all = Vec::with_capacity(QUERIES.len());
    for query in &QUERIES {
        let mut lode = Vec::new();
        let mut parquet = Vec::new();
        let mut counts = QueryCounts::default();
        let mut rows = 0;
        for _ in 0..=plan.runs {
            let ours = run(session, query, plan.scale, plan.offload).await?;
            lode.push(ours.wall);
            (rows, counts) = (ours.answer.row_count(), ours.counts);
            if let Some(peer) = peer {
                let (wall, answer) = peer.run(query, plan.scale).await?;
                ours.answer.compare(query, &answer)?;
                parquet.push(wall);
            }
        }
        let best = |walls: &[Duration]| walls.iter().skip(1).min().map(|w| w.as_secs_f64() * 1e3);
        let (lode_ms, parquet_ms) = (best(&lode).unwrap_or_default(), best(&parquet));
        let measured = Measured {
            query: query.number,
            rows,
            lode_ms,
            parquet_ms,
            ratio: parquet_ms.map(|p| lode_ms / p),
            pages: counts.pages,
            pages_skipped: counts.pages_skipped,
            link_bytes_up: counts.link_bytes_up,
        };
        each(&measured)?;
        all.push(measured);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_peer_gives_the_shipped_answers() {
        let scale = Scale::new(0.01).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let peer = ParquetPeer::write(scale, dir.path(), 2).await.unwrap();
        for query in &QUERIES {
            let (_, answer) = peer.run(query, scale).await.unwrap();
            let expected = Answer::shipped(query, scale).unwrap().unwrap();
            answer.compare(query, &expected).unwrap();
        }
    }
}
