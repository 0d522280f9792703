//! What deltas cost queries while nothing merges them: the 22 queries of TPC-H on tables with `changes = 'pages'`, with an
//! empty delta, and with a part of the rows in the delta.
//!
//! ```text
//!   load ─► UPDATE of every n-th row to what it is ─► 22 queries, all variants in turn ─► ratio of the least times
//! ```
//!
//! The updates leave the answers as they are, so all variants must answer the same.
//!
//! `cargo run --release --workspace --example deltas -- [SCALE [ROUNDS]]`

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use lode_bench::tpch::answers::Answer;
use lode_bench::tpch::data::load;
use lode_bench::tpch::run::run as run_query;
use lode_bench::tpch::schema::Layout;
use lode_bench::tpch::{QUERIES, Scale};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions};

/// A key of each large table, by which rows are chosen.
const TABLES: [(&str, &str, &str); 5] = [
    ("lineitem", "l_orderkey", "l_comment"),
    ("orders", "o_orderkey", "o_comment"),
    ("partsupp", "ps_partkey", "ps_comment"),
    ("part", "p_partkey", "p_comment"),
    ("customer", "c_custkey", "c_comment"),
];
/// Rows that one statement changes, about; a statement of more rows writes pages.
const ROWS: u64 = 8192;

struct Variant {
    name: &'static str,
    /// Where changes go, and how many rows make one changed row.
    changes: &'static str,
    one_of: Option<u64>,
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "pages", changes: "pages", one_of: None },
    Variant { name: "empty", changes: "delta", one_of: None },
    Variant { name: "1 %", changes: "delta", one_of: Some(100) },
    Variant { name: "5 %", changes: "delta", one_of: Some(20) },
];

async fn made(variant: &Variant, scale: Scale) -> Result<Session, Box<dyn Error>> {
    let drive = Drive::in_memory((4.0 * scale.factor().max(0.25)) as u64 * (1 << 30));
    let options = DatabaseOptions { pool_bytes: 1 << 30, ..DatabaseOptions::default() };
    // Nobody calls `Database::work`, so nothing is merged.
    let queries = Queries::new(Database::open(Arc::new(drive), options)?, 2 << 30)?;
    let session = queries.session(&SessionOptions { target_partitions: 1, ..SessionOptions::default() })?;
    session.execute(&format!("SET lode.default_changes = {}", variant.changes)).await?;
    load(&session, scale, Layout::Column, Arc::new(|_| ControlFlow::Continue(()))).await?;
    let Some(one_of) = variant.one_of else { return Ok(session) };
    for (table, key, set) in TABLES {
        let rows = count(&session, &format!("SELECT count(*) FROM {table}")).await?;
        let last = count(&session, &format!("SELECT max({key}) FROM {table}")).await?;
        let step = (last * ROWS * one_of / rows).max(1);
        for from in (0..=last).step_by(step as usize) {
            let sql = format!(
                "UPDATE {table} SET {set} = {set} WHERE {key} BETWEEN {from} AND {} AND {key} % {one_of} = 1",
                from + step - 1
            );
            session.execute(&sql).await?;
        }
    }
    Ok(session)
}

async fn count(session: &Session, sql: &str) -> Result<u64, Box<dyn Error>> {
    let batches = session.collect(sql).await?;
    let text = lode_sql::arrow::util::display::array_value_to_string(batches[0].column(0), 0)?;
    Ok(text.parse()?)
}

async fn run(scale: Scale, rounds: usize) -> Result<(), Box<dyn Error>> {
    let mut sessions = Vec::new();
    for variant in &VARIANTS {
        sessions.push(made(variant, scale).await?);
    }
    let mut totals = [Duration::ZERO; VARIANTS.len()];
    print!("query");
    VARIANTS.iter().for_each(|v| print!("  {:>8} ms", v.name));
    println!("   ratios to pages");
    for query in &QUERIES {
        let mut least = [Duration::MAX; VARIANTS.len()];
        let mut first: Option<Answer> = None;
        for _ in 0..=rounds {
            for (session, least) in sessions.iter().zip(&mut least) {
                let run = run_query(session, query, scale, Offload::default()).await?;
                *least = run.wall.min(*least);
                match &first {
                    None => first = Some(run.answer),
                    Some(first) => run.answer.compare(query, first).map_err(|e| e.to_string())?,
                }
            }
        }
        print!("{:>5}", query.number);
        least.iter().for_each(|l| print!("  {:>11.2}", l.as_secs_f64() * 1e3));
        let ratio = |l: &Duration| l.as_secs_f64() / least[0].as_secs_f64();
        println!(
            "   {}",
            least[1..].iter().map(|l| format!("{:.2}", ratio(l))).collect::<Vec<_>>().join(" ")
        );
        totals.iter_mut().zip(least).for_each(|(total, least)| *total += least);
    }
    print!("total");
    totals.iter().for_each(|l| print!("  {:>11.2}", l.as_secs_f64() * 1e3));
    let ratio = |l: &Duration| format!("{:.3}", l.as_secs_f64() / totals[0].as_secs_f64());
    println!("   {}", totals[1..].iter().map(ratio).collect::<Vec<_>>().join(" "));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let scale = arguments.next().map_or(Ok(1.0), |n| n.parse())?;
    let rounds = arguments.next().map_or(Ok(3), |n| n.parse())?;
    let scale = Scale::new(scale).ok_or("no such scale")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(scale, rounds))
}
