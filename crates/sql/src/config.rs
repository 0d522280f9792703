//! DataFusion's settings for scans in a drive.

use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::prelude::SessionConfig;

/// The rows of a batch with much memory, which are DataFusion's, and with little.
const BATCH_ROWS: std::ops::RangeInclusive<usize> = 1024..=8192;
/// A batch has a row for so many bytes of memory. A merge of spilled data holds two batches of each run that it merges, and a sort has a
/// merge in each partition.
const MEMORY_BYTES_A_ROW: usize = 120_000;

/// A sort reserves at most this part of the memory of queries.
const SORT_RESERVATION_PART: usize = 16;

/// The configuration with the settings that Lode's scans need or gain from, and batches for operators with so much memory.
#[must_use]
pub fn configure(mut config: SessionConfig, memory: MemoryLimit) -> SessionConfig {
    let options = config.options_mut();
    if let MemoryLimit::Finite(bytes) = memory {
        let rows = (bytes / MEMORY_BYTES_A_ROW).clamp(*BATCH_ROWS.start(), *BATCH_ROWS.end());
        options.execution.batch_size = ConfigNonZeroUsize::try_new(rows).expect("a batch has rows");
        // What a sort keeps for merging what it spilled: 10 MB are more than a small memory has.
        let reserved = &mut options.execution.sort_spill_reservation_bytes;
        *reserved = (*reserved).min(bytes / SORT_RESERVATION_PART);
    }
    options.execution.collect_statistics = true;
    let optimizer = &mut options.optimizer;
    optimizer.enable_dynamic_filter_pushdown = true;
    // Joins send key sets instead (`key_sets`).
    optimizer.enable_join_dynamic_filter_pushdown = false;
    config
}
