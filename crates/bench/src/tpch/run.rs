//! Runs a query at an offload level and measures it.

use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use futures::TryStreamExt;
use lode_sql::{ModelledTime, Offload, QueryCounts, Session, SqlError, StatementResult};

use super::Scale;
use super::answers::Answer;
use super::queries::Query;
use crate::BenchError;

/// One run of one query.
#[derive(Clone, Debug)]
pub struct Run {
    /// The answer.
    pub answer: Answer,
    /// The wall time from the statement's text to its last row.
    pub wall: Duration,
    /// The counts of the scans.
    pub counts: QueryCounts,
    /// The modelled time, with a modelled device.
    pub modelled: Option<ModelledTime>,
}

/// Runs a query and collects its answer.
pub async fn run(
    session: &Session,
    query: &Query,
    scale: Scale,
    offload: Offload,
) -> Result<Run, BenchError> {
    let failed = |source: SqlError| BenchError::sql(format!("Q{}", query.number), source);
    session.set_offload(offload);
    let sql = query.sql(scale);
    let start = Instant::now();
    let (schema, batches) = collect(session, &sql).await.map_err(failed)?;
    let wall = start.elapsed();
    let modelled = session.last_modelled();
    let counts = session.last_counts();
    let answer = Answer::of(&schema, &batches).map_err(|e| failed(e.into()))?;
    Ok(Run { answer, wall, counts, modelled })
}

async fn collect(session: &Session, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>), SqlError> {
    match session.execute(sql).await?.pop() {
        Some(StatementResult::Rows { schema, stream }) => Ok((schema, stream.try_collect().await?)),
        _ => panic!("a query of TPC-H is one SELECT"),
    }
}
