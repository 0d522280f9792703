//! SQL over an embedded database: statements, rows, a transaction.
//!
//! ```text
//!   Database ─► session (any number, on any threads) ─► execute, collect ─► Arrow record batches
//! ```
//!
//! `cargo run -p lode --features sql --example sql`

use std::io::{self, Write};

use lode::sql::SessionOptions;
use lode::sql::arrow::util::display::array_value_to_string;
use lode::{Database, Division, Options};

pub(crate) async fn run(out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    // In memory, for an example. `Database::open_with(path, options)` has the same in a file. The division gives most of the
    // memory to queries; without SQL, trees have it.
    let db = Database::in_memory(Options { division: Division::Queries, ..Options::default() })?;
    let session = db.session(&SessionOptions::default())?;

    // Each statement is a transaction of its own, durable when it returns.
    session
        .execute(
            "CREATE TABLE trips (id BIGINT PRIMARY KEY, city TEXT NOT NULL, fare INT);
             INSERT INTO trips VALUES (1, 'Oslo', 120), (2, 'Bergen', 80), (3, 'Oslo', 45)",
        )
        .await?;

    // Or several in one.
    session.execute("BEGIN; UPDATE trips SET fare = fare + 5 WHERE city = 'Oslo'; COMMIT").await?;

    // Rows come as Arrow record batches. The drive leaves out pages and rows that cannot match.
    let query = "SELECT city || ': ' || sum(fare) AS line FROM trips GROUP BY city ORDER BY city";
    for batch in session.collect(query).await? {
        for row in 0..batch.num_rows() {
            writeln!(out, "{}", array_value_to_string(batch.column(0), row)?)?;
        }
    }

    // An error has its SQLSTATE.
    let error =
        session.execute("INSERT INTO trips VALUES (1, 'Oslo', 7)").await.expect_err("1 is there already");
    writeln!(out, "{}: {error}", error.sqlstate())?;
    Ok(())
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(run(&mut io::stdout()))
}
