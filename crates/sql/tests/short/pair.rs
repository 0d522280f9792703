//! Two databases with the same statements: one with short statements, one without.

use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use futures::StreamExt;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions, SqlError, StatementResult};

/// Which way a statement is expected to have taken.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(dead_code)]
pub(crate) enum Took {
    Short,
    General,
    Either,
}

pub(crate) struct Pair {
    pub(crate) short: Session,
    pub(crate) general: Session,
    queries: [Queries; 2],
}

#[allow(dead_code)]
pub(crate) fn session() -> Session {
    queries().session(&SessionOptions { target_partitions: 1, ..SessionOptions::default() }).unwrap()
}

fn queries() -> Queries {
    let db = Database::open(Arc::new(Drive::in_memory(256 << 20)), DatabaseOptions::default()).unwrap();
    Queries::new(db, 1 << 30).unwrap()
}

#[allow(dead_code)]
impl Pair {
    pub(crate) fn new() -> Self {
        Self::of([queries(), queries()])
    }

    /// Another session of each database.
    pub(crate) fn beside(&self) -> Self {
        Self::of(self.queries.clone())
    }

    fn of(queries: [Queries; 2]) -> Self {
        let options = SessionOptions { target_partitions: 1, ..SessionOptions::default() };
        let general = queries[1].session(&options).unwrap();
        general.set_short_statements(false);
        // It blocks its thread, as the shell's does.
        let short = queries[0].session(&SessionOptions { may_block: true, ..options }).unwrap();
        Self { short, general, queries }
    }

    /// Runs a statement in both, and compares what comes out. Returns whether it was a short one.
    pub(crate) async fn same(&self, sql: &str, took: Took) -> bool {
        let short = shown(self.short.execute(sql).await).await;
        let general = shown(self.general.execute(sql).await).await;
        self.compare(sql, took, &short, &general)
    }

    pub(crate) fn compare(&self, sql: &str, took: Took, short: &str, general: &str) -> bool {
        assert_eq!(short, general, "{sql}");
        assert_eq!(self.short.transaction_status(), self.general.transaction_status(), "{sql}");
        assert!(!self.general.last_counts().short, "{sql}");
        let was = self.short.last_counts().short;
        match took {
            Took::Short => assert!(was, "not short: {sql}: {short}"),
            Took::General => assert!(!was, "short: {sql}: {short}"),
            Took::Either => {}
        }
        was
    }

    /// Runs a statement in both.
    pub(crate) async fn both(&self, sql: &str) {
        self.short.execute(sql).await.unwrap();
        self.general.execute(sql).await.unwrap();
    }

    /// Compares all rows of all tables.
    pub(crate) async fn same_tables(&self) {
        for table in ["t", "keys", "two", "float", "parent", "child", "two_parent", "strict"] {
            let sql = format!("SELECT * FROM {table} ORDER BY 1, 2, 3, 4");
            let sql = if table.len() > 4 { format!("SELECT * FROM {table} ORDER BY 1, 2") } else { sql };
            self.same(&sql, Took::Either).await;
        }
    }
}

/// All that a script answers, as text.
pub(crate) async fn shown(results: Result<Vec<StatementResult>, SqlError>) -> String {
    let mut out = String::new();
    let results = match results {
        Ok(results) => results,
        Err(e) => return format!("{}: {e}", e.sqlstate()),
    };
    for result in results {
        out += &shown_one(Ok(result)).await;
    }
    out
}

pub(crate) async fn shown_one(result: Result<StatementResult, SqlError>) -> String {
    let (schema, mut stream) = match result {
        Ok(StatementResult::Rows { schema, stream }) => (schema, stream),
        Ok(other) => return format!("{other:?}\n"),
        Err(e) => return format!("{}: {e}", e.sqlstate()),
    };
    let mut out = format!("{schema:?}\n");
    while let Some(batch) = stream.next().await {
        let batch = match batch.map_err(SqlError::from) {
            Ok(batch) => batch,
            Err(e) => return format!("{}: {e}", e.sqlstate()),
        };
        assert_eq!(batch.schema(), schema);
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| match c.is_null(row) {
                true => "NULL".to_owned(),
                false => format!("{:?}", array_value_to_string(c, row).unwrap()),
            });
            out += &values.collect::<Vec<_>>().join(", ");
            out.push('\n');
        }
    }
    out
}
