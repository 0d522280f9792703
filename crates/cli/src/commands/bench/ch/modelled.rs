//! `lode bench ch --profile`: the same on a modelled device, in its time.

use std::time::Duration;

use lode::{Database, Division, Memory, Options};
use lode_base::{Profile, VirtualDuration};
use lode_bench::replay::resized;
use lode_bench::sql::LodeSql;
use lode_bench::sql::modelled_ch::{self, DATE, LAG, Plan, Report, Run, Transactions};
use lode_workload::sql::ch::{self, Asked};
use lode_workload::sql::tpcc::{self as sql_tpcc, Schema};
use lode_workload::tpcc::Sizes;

use super::{Args, check, fill, query_times};
use crate::commands::bench::embedded::{failed, run_failed};
use crate::commands::bench::oltp::{QUICK, tell};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, count};

pub(super) fn run(args: &Args, profile: &Profile) -> CliResult {
    if args.place.is_named() {
        let what = "with --profile the drive is one in memory: leave out --drive";
        return Err(CliError::Usage(what.into()));
    }
    let profile = match args.capacity {
        Some(bytes) => resized(profile, bytes).map_err(|e| CliError::Failed(e.to_string()))?,
        None => profile.clone(),
    };
    let (memory_bytes, division) = (args.place.memory(), Division::Queries);
    let options = Options { memory_bytes, division, profile: Some(profile), lag: LAG, ..Options::default() };
    let database = Database::in_memory(options)?;
    let query_bytes = Memory::divided(memory_bytes, division).query_bytes;
    let sql = LodeSql::new((*database).clone(), query_bytes, args.place.dir())?;
    bench(args, &database, &sql.with_durability(&args.durability))
}

fn bench(args: &Args, database: &Database, sql: &LodeSql) -> CliResult {
    let schedule = args.times.schedule();
    let modelled = |time: Duration| match args.quick {
        // As long as each query takes once.
        true => VirtualDuration::ZERO,
        false => VirtualDuration::from_ps(u64::try_from(time.as_nanos() * 1000).unwrap_or(u64::MAX)),
    };
    let plan = Plan {
        sizes: if args.quick { QUICK } else { Sizes::standard(args.warehouses) },
        terminals: args.terminals,
        seed: args.seed,
        warm_up: modelled(schedule.warm_up),
        length: modelled(schedule.length),
    };
    tell("loading");
    sql_tpcc::load(sql, Schema::default(), &plan.sizes, args.seed, DATE).map_err(failed)?;
    ch::load(sql, args.seed).map_err(failed)?;
    if let Some(percent) = args.fill {
        tell("filling the drive");
        fill(database.drive(), sql, percent, args.seed).map_err(failed)?;
    }
    let used = database.drive().map(|drive| drive.info());
    let used = used.map_or(0.0, |i| i.live_bytes as f64 / i.usable_bytes as f64);
    tell("running");
    let report = modelled_ch::run(sql, &plan, &|| interrupt::signal().is_some()).map_err(run_failed)?;
    check(sql, &plan.sizes, report.runs.iter().filter_map(|run| run.analyst.as_ref()))?;
    match args.json {
        true => json(args, &report, used),
        false => println_quietly(&text(args, &report, used)),
    }
}

fn json(args: &Args, report: &Report, used: f64) -> CliResult {
    for run in &report.runs {
        let mut row = serde_json::json!(run);
        row["workload"] = "modelled ch".into();
        println_quietly(&row.to_string())?;
    }
    let row = serde_json::json!({
        "workload": "modelled ch", "row": "total", "profile": args.modelled.name(), "warehouses": args.warehouses,
        "terminals": args.terminals, "durability": args.durability, "used": used, "alone": report.alone,
        "beside": report.beside, "kept": report.kept, "queries_an_hour": report.queries_an_hour,
        "queries_kept": report.queries_kept, "consistent": true,
    });
    println_quietly(&row.to_string())
}

fn text(args: &Args, report: &Report, used: f64) -> String {
    format!(
        "{}{}{}On the modelled device {}, {:.0} % full: {:.1} transactions a modelled second alone, {:.1} beside queries, \
         {:.1} % of that; {:.0} queries a modelled hour, {:.1} % of those alone.\nAll consistency conditions hold, in the \
         snapshots of queries too.",
        runs(report),
        times(report),
        parts(report),
        args.modelled.name(),
        used * 100.0,
        report.alone,
        report.beside,
        report.kept * 100.0,
        report.queries_an_hour,
        report.queries_kept * 100.0,
    )
}

fn runs(report: &Report) -> String {
    let mut table = TextTable::new(&[
        "run",
        ">modelled s",
        ">transactions/s",
        ">p50 ms",
        ">p99 ms",
        ">most ms",
        ">retries",
        ">queries/h",
        ">merges",
        ">merged",
    ]);
    for Run { row, transactions, analyst, merged } in &report.runs {
        let of = transactions.as_ref();
        let ms = |us: Option<f64>| us.map_or("-".into(), |us| format!("{:.3}", us / 1e3));
        let seconds = of.map(|t| t.seconds).or(analyst.as_ref().map(|a| a.seconds)).unwrap_or(0.0);
        table.row([
            (*row).to_string(),
            format!("{seconds:.3}"),
            of.map_or("-".into(), |t| format!("{:.1}", t.rate)),
            ms(of.map(|t| t.latency.p50_us)),
            ms(of.map(|t| t.latency.p99_us)),
            ms(of.map(|t| t.latency.max_us)),
            of.map_or("-".into(), |t| count(t.conflicts)),
            analyst.as_ref().map_or("-".into(), |a| format!("{:.0}", a.queries_an_hour)),
            count(merged.merges),
            bytes(merged.written_bytes),
        ]);
    }
    table.render()
}

fn times(report: &Report) -> String {
    let asked: Vec<&Asked> = report.runs.iter().filter_map(|run| run.analyst.as_ref()).collect();
    query_times(asked[0], asked[1], 3)
}

/// What the time of a transaction was spent on.
fn parts(report: &Report) -> String {
    let all: Vec<&Transactions> = report.runs.iter().filter_map(|run| run.transactions.as_ref()).collect();
    let mut table = TextTable::new(&["us of a transaction", ">alone", ">beside queries", ">alone again"]);
    let mut row = |name: &str, us: &dyn Fn(&Transactions) -> f64| {
        let [alone, beside, again] =
            [0, 1, 2].map(|i| all.get(i).map_or("-".into(), |t| format!("{:.2}", us(t))));
        table.row([name.to_string(), alone, beside, again]);
    };
    let names = all.first().map_or(&[][..], |t| &t.parts_us);
    for (i, (name, _)) in names.iter().enumerate() {
        row(name, &|t| t.parts_us[i].1);
    }
    row("of link: behind others", &|t| t.behind_us);
    table.render()
}
