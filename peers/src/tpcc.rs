//! Runs TPC-C on Lode and on SQLite with the same driver, in turn.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lode_workload::disk::Disk;
use lode_workload::harness::{Probes, Schedule};
use lode_workload::store::StoreResult;
use lode_workload::tpcc::store::TpccStore;
use lode_workload::tpcc::{KvTpcc, Plan, Report, Sizes, check, load, run as run_tpcc};
use lode_workload::upkeep::Upkeep;

use crate::stores::lode;
use crate::stores::sqlite_tpcc::SqliteTpcc;
use crate::{Failure, MB};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory whose file system is measured
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Warehouses
    #[arg(long, default_value = "4")]
    warehouses: u16,
    /// Terminals, one thread each; several numbers run one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,8,16")]
    terminals: Vec<u16>,
    /// Seconds to measure, for each run
    #[arg(long, default_value = "10")]
    seconds: f64,
    /// Seconds to run before the measurement
    #[arg(long, default_value = "3")]
    warm_up: f64,
    /// Measured rounds
    #[arg(long, default_value = "3")]
    rounds: u32,
    /// Megabytes of cache of each store
    #[arg(long, default_value = "2048")]
    cache: u64,
    /// Write JSON, one object per line
    #[arg(long)]
    json: bool,
}

const SEED: u64 = 42;

/// Runs a store: from a plan and probes to a report.
type Run<'a> = Box<dyn Fn(&Plan, &Probes<'_>) -> Result<Report, Failure> + 'a>;

pub(crate) fn run(args: &Args, stop: &dyn Fn() -> bool) -> Result<(), Failure> {
    let dir = tempfile::tempdir_in(&args.dir)?;
    let (lode_dir, sqlite_dir) = (dir.path().join("lode"), dir.path().join("sqlite"));
    std::fs::create_dir(&lode_dir)?;
    std::fs::create_dir(&sqlite_dir)?;
    let cache_bytes = (args.cache * MB) as usize;
    let (store, upkeep) = lode::database(&lode_dir, cache_bytes)?;
    let (lode, sqlite) = (KvTpcc::new(store)?, SqliteTpcc::new(&sqlite_dir, cache_bytes)?);
    let sizes = Sizes::standard(args.warehouses);
    let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros() as i64;
    let over = std::sync::atomic::AtomicBool::new(false);
    let loads: [(&str, &dyn Fn() -> StoreResult); 2] =
        [("Lode", &|| load(&lode, &sizes, SEED, date)), ("SQLite", &|| load(&sqlite, &sizes, SEED, date))];
    for (name, load) in loads {
        let start = std::time::Instant::now();
        load()?;
        eprintln!("{name}: loaded {} warehouses in {:.1} s", args.warehouses, start.elapsed().as_secs_f64());
    }
    upkeep.settle()?;
    let runs: [(&str, Run<'_>); 2] = [
        ("Lode", Box::new(|plan, probes| beside(&*upkeep, &over, || run_tpcc(&lode, plan, probes, &|_| {})))),
        ("SQLite", Box::new(|plan, probes| Ok(run_tpcc(&sqlite, plan, probes, &|_| {})?))),
    ];
    let disk = Disk::under(dir.path());
    let mut table = Vec::new();
    for terminals in &args.terminals {
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..args.rounds {
            for (which, (name, run)) in runs.iter().enumerate() {
                let plan = Plan {
                    sizes,
                    terminals: *terminals,
                    schedule: Schedule {
                        warm_up: Duration::from_secs_f64(args.warm_up),
                        length: Duration::from_secs_f64(args.seconds),
                        interval: Duration::from_secs(1),
                    },
                    seed: SEED,
                    run: u64::from(round) << 16 | u64::from(*terminals),
                    queue_at_hot_rows: true,
                    arrivals_a_second: None,
                };
                let settle = || if which == 0 { upkeep.settle() } else { Ok(()) };
                let probes = Probes {
                    disk: &|| disk.as_ref().and_then(Disk::bytes_written),
                    causes: &|| if which == 0 { upkeep.causes() } else { None },
                    settle: &settle,
                    stop,
                };
                let report = run(&plan, &probes)?;
                rates[which].push(report.measured.rate);
                tell(args, name, *terminals, &report)?;
            }
        }
        let [lode, sqlite] = rates.map(median);
        table.push((*terminals, lode, sqlite));
    }
    consistent("Lode", &lode, &sizes)?;
    consistent("SQLite", &sqlite, &sizes)?;
    let best = |which: fn(&(u16, f64, f64)) -> f64| table.iter().map(which).fold(0.0, f64::max);
    let (lode, sqlite) = (best(|r| r.1), best(|r| r.2));
    if args.json {
        println!(
            "{}",
            serde_json::json!({
                "workload": "tpcc", "row": "total", "lode": lode, "sqlite": sqlite, "ratio": lode / sqlite,
                "medians": table,
            })
        );
        return Ok(());
    }
    println!("{:>9} {:>12} {:>12} {:>7}", "terminals", "Lode/s", "SQLite/s", "ratio");
    for (terminals, lode, sqlite) in &table {
        println!("{terminals:>9} {lode:>12.0} {sqlite:>12.0} {:>7.2}", lode / sqlite);
    }
    println!("best: {lode:.0} to {sqlite:.0} transactions a second, {:.2} times", lode / sqlite);
    Ok(())
}

/// Runs `run` while the store's background work runs on another thread.
pub(crate) fn beside<R, E: Into<Failure> + Send>(
    upkeep: &dyn Upkeep,
    over: &std::sync::atomic::AtomicBool,
    run: impl FnOnce() -> Result<R, E>,
) -> Result<R, Failure> {
    use std::sync::atomic::Ordering;
    over.store(false, Ordering::Relaxed);
    std::thread::scope(|s| {
        let background = s.spawn(|| upkeep.background(over));
        let result = run();
        over.store(true, Ordering::Relaxed);
        background.join().expect("background work does not panic")?;
        result.map_err(Into::into)
    })
}

fn consistent(name: &str, store: &impl TpccStore, sizes: &Sizes) -> Result<(), Failure> {
    let found = check(store, sizes)?;
    match found.told.first() {
        None => {
            eprintln!("{name}: all consistency conditions hold");
            Ok(())
        }
        Some(first) => Err(format!("{name}: {} violations, the first: {first}", found.count).into()),
    }
}

fn tell(args: &Args, name: &str, terminals: u16, r: &Report) -> Result<(), Failure> {
    if args.json {
        let mut json = serde_json::to_value(r)?;
        json["workload"] = "tpcc".into();
        json["store"] = name.into();
        json["terminals"] = terminals.into();
        println!("{json}");
        return Ok(());
    }
    let m = &r.measured;
    println!(
        "{name:<7} {terminals:>3} terminals: {:>8.0} transactions/s, {:>8.0} New-Orders/min, p50 {:.0} us, p99 {:.0} us \
         (New-Order), {} conflicts, {} bytes to the disk a transaction",
        m.rate,
        r.new_orders_a_minute,
        m.latencies[0].p50_us,
        m.latencies[0].p99_us,
        m.conflicts,
        m.disk_bytes_an_operation.map_or_else(|| "-".into(), |b| format!("{b:.0}")),
    );
    Ok(())
}

pub(crate) fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}
