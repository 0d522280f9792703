//! `lode bench joins`: the planner's order of random joins beside the best of many.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use lode_bench::joins::{Joined, Plan, run as run_plan};
use lode_sql::{Offload, Session};

use crate::drive_file::{Resources, create};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::TextTable;

/// Join 4 to 8 random tables as planned, and in many forced orders
#[derive(clap::Args)]
#[command(
    long_about = "Join 4 to 8 random tables as planned, and in many forced orders.\n\n\
        A seed makes tables with skewed and correlated values, and queries on them. Each query runs as planned, in the order of FROM, \
        and in up to 40 other orders, each warm. Of the plan and of the best order, which then run in turn, the least of ten times counts; of others, of five. An order that takes \
        half as long again is run once, and is stopped at ten times. All answers must agree. Times are those of running, beside what \
        planning takes. The ratio is the planned time to that of the best order; below 1 where the plan joins joins, which no forced order does.",
    after_long_help = "EXAMPLES\n    lode bench joins\n    lode bench joins --queries 100 --seed 7\n    \
        lode bench joins --json > joins.jsonl\n\nJSON ROWS\n    One object per line for each query: number, tables, the \
        milliseconds planning_ms, planned_ms, from_ms (null if it was stopped), best_ms; ratio, best_order, orders, stopped, sql."
)]
pub(super) struct Args {
    /// How many queries
    #[arg(long, value_name = "N", default_value_t = 50)]
    queries: usize,

    /// Run query N alone, and show its plan and that of the best order with what each operator did
    #[arg(long, value_name = "N", conflicts_with = "json")]
    explain: Option<usize>,

    /// The size of the tables: 1 is up to a million rows each
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    scale: f64,

    /// The most forced orders of a query
    #[arg(long, value_name = "N", default_value_t = 40)]
    orders: usize,

    /// What decides tables and queries
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    resources: Resources,
}

/// A plan that takes at most this many times the best order's time counts as good.
const GOOD_MAX: f64 = 1.2;
/// A query that runs for less than this is not counted: that is less than to plan it takes.
const SHORT: Duration = Duration::from_millis(5);
/// The largest scale.
const SCALE_MAX: f64 = 100.0;

pub(super) fn run(args: Args) -> CliResult {
    if !(args.scale > 0.0 && args.scale <= SCALE_MAX) {
        return Err(CliError::Usage(format!("--scale must be above 0 and at most {SCALE_MAX}")));
    }
    if args.queries == 0 || args.orders == 0 {
        return Err(CliError::Usage("--queries and --orders must be at least 1".into()));
    }
    if args.explain.is_some_and(|n| n >= args.queries) {
        return Err(CliError::Usage(format!(
            "--explain must be below {}, the number of queries",
            args.queries
        )));
    }
    let dir = tempfile::tempdir().map_err(|e| CliError::Failed(format!("temporary directory: {e}")))?;
    let path = dir.path().join("joins.lode");
    let opened = create(&path, args.resources, Offload::Auto)?;
    let plan = Plan {
        queries: args.queries,
        only: args.explain,
        scale: args.scale,
        orders: args.orders,
        seed: args.seed,
    };
    let mut table = TextTable::new(&[
        ">query",
        ">tables",
        ">planning",
        ">planned",
        ">FROM",
        ">best",
        ">ratio",
        ">orders",
        "best order",
    ]);
    let mut ratios: Vec<f64> = Vec::new();
    let mut explained = None;
    let mut short = 0;
    let mut unordered: Vec<f64> = Vec::new();
    let mut printed: CliResult = Ok(());
    let session = Arc::clone(&opened.session);
    let ran = args.resources.block_on(run_joins(&session, &plan, &mut |joined| {
        if args.explain.is_some() {
            explained = Some(joined.clone());
        }
        if joined.planned < SHORT {
            short += 1;
        } else {
            ratios.push(joined.ratio());
        }
        if let Some(took) = joined.unordered.filter(|_| joined.planned >= SHORT) {
            unordered.push(took.as_secs_f64() / joined.planned.as_secs_f64());
        }
        if !args.json {
            table.row(cells(joined));
            return ControlFlow::Continue(());
        }
        printed = println_quietly(&json(joined));
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }));
    ran?;
    printed?;
    if args.json {
        return Ok(());
    }
    println_quietly(table.render().trim_end())?;
    if let Some(joined) = explained {
        return args.resources.block_on(shown(&session, &joined));
    }
    let good = ratios.iter().filter(|r| **r <= GOOD_MAX).count();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    println_quietly(&format!(
        "\nTimes in milliseconds. {short} queries run for less than {} ms as planned and are not counted. Of the others the plan takes at most {GOOD_MAX} times the best order's time in {good} of {}; \
         geometric mean {:.2}, worst {worst:.2}. In the order of FROM {} queries take {:.1} times as long as planned (geometric mean), \
         the other {} are stopped at 10 times.",
        SHORT.as_millis(),
        ratios.len(),
        mean(&ratios),
        unordered.len(),
        mean(&unordered),
        ratios.len() - unordered.len()
    ))
}

/// Prints a query and its plans.
async fn shown(session: &Session, of: &Joined) -> CliResult {
    let analyze = format!("EXPLAIN ANALYZE {}", of.sql);
    println_quietly(&format!("\n{}\n\nAs planned:", of.sql))?;
    println_quietly(&plan_of(session, &analyze).await?)?;
    let order = format!("SET lode.join_order = '{}'", of.best_order);
    session.execute(&order).await?;
    println_quietly(&format!("\n{order}:"))?;
    println_quietly(&plan_of(session, &analyze).await?)
}

/// The plan that EXPLAIN answers.
async fn plan_of(session: &Session, sql: &str) -> CliResult<String> {
    let rows = session.collect(sql).await?;
    let texts = rows.iter().flat_map(|batch| batch.column(1).as_string::<i32>().iter().flatten());
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

async fn run_joins(
    session: &Session,
    plan: &Plan,
    said: &mut dyn FnMut(&Joined) -> ControlFlow<()>,
) -> CliResult {
    Ok(run_plan(session, plan, &|| interrupt::signal().is_some(), said).await?)
}

/// The geometric mean; 1 of nothing.
fn mean(of: &[f64]) -> f64 {
    (of.iter().map(|r| r.ln()).sum::<f64>() / of.len().max(1) as f64).exp()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn cells(of: &Joined) -> Vec<String> {
    let text = |time: Duration| format!("{:.2}", ms(time));
    let orders = match of.stopped {
        0 => of.orders.to_string(),
        stopped => format!("{} + {stopped} stopped", of.orders),
    };
    vec![
        of.number.to_string(),
        of.tables.to_string(),
        text(of.planning),
        text(of.planned),
        of.unordered.map_or("stopped".into(), text),
        text(of.best),
        format!("{:.2}", of.ratio()),
        orders,
        of.best_order.clone(),
    ]
}

fn json(of: &Joined) -> String {
    serde_json::json!({
        "workload": "joins", "number": of.number, "tables": of.tables, "planning_ms": ms(of.planning), "planned_ms": ms(of.planned),
        "from_ms": of.unordered.map(ms), "best_ms": ms(of.best), "ratio": of.ratio(), "best_order": of.best_order,
        "orders": of.orders, "stopped": of.stopped, "sql": of.sql,
    })
    .to_string()
}
