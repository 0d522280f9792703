//! What tests of queries have in common.

use datafusion::arrow::util::display::array_value_to_string;
use lode_sql::Session;

/// Runs a statement, which must not fail.
pub(crate) async fn run(s: &Session, sql: &str) {
    s.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// The rows of a query, a line each, sorted.
pub(crate) async fn rows(s: &Session, sql: &str) -> Vec<String> {
    let mut lines = lines(s, sql).await;
    lines.sort();
    lines
}

/// The rows of a query, a line each, in its order.
pub(crate) async fn lines(s: &Session, sql: &str) -> Vec<String> {
    let batches = s.collect(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| array_value_to_string(c, row).unwrap());
            lines.push(values.collect::<Vec<_>>().join(","));
        }
    }
    lines
}
