//! DataFusion's settings for scans in a drive.

use datafusion::prelude::SessionConfig;

/// A join sends its keys to the scan if one partition has at most this many values, of at most this many bytes. The
/// drive looks a value up in a list about as fast as the join would, and rows without a match never cross the link.
const JOIN_LIST_VALUES_MAX: usize = 10_000;
const JOIN_LIST_BYTES_MAX: usize = 1 << 20;

/// The configuration with the settings that Lode's scans need or gain from.
#[must_use]
pub fn configure(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    options.execution.collect_statistics = true;
    let optimizer = &mut options.optimizer;
    optimizer.enable_dynamic_filter_pushdown = true;
    optimizer.hash_join_inlist_pushdown_max_distinct_values = JOIN_LIST_VALUES_MAX;
    optimizer.hash_join_inlist_pushdown_max_size = JOIN_LIST_BYTES_MAX;
    config
}
