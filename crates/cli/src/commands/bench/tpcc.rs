//! `lode bench tpcc`: TPC-C through the embedded API.

use std::io::Write;
use std::time::SystemTime;

use lode_workload::tpcc::rows::{C, D, I, O, W};
use lode_workload::tpcc::{KvTpcc, Plan, Report, Sizes, TransactionKind, check, load, run as run_tpcc};

use super::embedded::{DatabasePlace, Embedded, Times, causes_text, failed};
use super::peers;
use crate::error::{CliError, CliResult};
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, count};

/// Run TPC-C through the embedded API, and check its consistency afterwards
#[derive(clap::Args)]
#[command(
    long_about = "Run TPC-C through the embedded API, in wall time: the five transactions with the standard's mix, \
        terminals without think times, one thread each, every commit durable. Rows are values under \
        order-preserving keys, and \
        secondary indexes are trees.\n\n\
        Loads the warehouses first, unless the drive that --drive names holds them. Afterwards the twelve \
        consistency conditions of the standard are checked over all rows; a violation is a failure. The figures are \
        not audited, and are not tpmC.\n\n\
        With --peers, the same driver runs Lode and SQLite in turn (lode-peers, which scripts/build_peers.sh \
        builds).",
    after_long_help = "EXAMPLES\n    lode bench tpcc --warehouses 4 --terminals 16 --seconds 30\n    \
        lode bench tpcc --drive tpcc.lode --warehouses 1 --json\n    lode bench tpcc --drive tpcc.lode --check-only\n    \
        lode bench tpcc --drive tcp://127.0.0.1:4780\n    \
        lode bench tpcc --peers --warehouses 4\n\nJSON\n    \
        One object: rate (transactions per second), new_orders_a_minute, rolled_back, conflicts, latencies (by \
        kind, in microseconds), timeline (rates of intervals), disk_bytes_an_operation (bytes written to the disk, \
        by any process, per transaction, including background work), causes (bytes that the drive programmed), \
        resident_bytes (at the beginning, at the end, and the maximum), consistent. For a drive that is served \
        elsewhere, disk_bytes_an_operation and causes are null."
)]
pub(super) struct Args {
    /// Warehouses
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(W).range(1..=30_000))]
    warehouses: W,

    /// Terminals, one thread each
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    terminals: u16,

    /// Districts per warehouse
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(D).range(1..=10))]
    districts: D,

    /// Customers per district, and as many orders at the beginning
    #[arg(long, value_name = "N", default_value = "3000", value_parser = clap::value_parser!(C).range(1..=60_000))]
    customers: C,

    /// Items
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(I).range(1..=10_000_000))]
    items: I,

    /// The seed of all random choices: of the data and of the requests
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Do not queue terminals at the rows of warehouses and districts: they conflict, and all but one retry
    #[arg(long)]
    retry: bool,

    /// Only check what is on the drive
    #[arg(long, requires = "drive")]
    check_only: bool,

    /// Write a line for each New-Order once it is committed: warehouse, district, order
    #[arg(long, conflicts_with_all = ["json", "check_only"])]
    acknowledge: bool,

    /// Run Lode and SQLite in turn
    #[arg(long, conflicts_with_all = ["drive", "acknowledge", "check_only", "retry"])]
    peers: bool,

    /// Write JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    times: Times,

    #[command(flatten)]
    place: DatabasePlace,
}

pub(super) fn run(args: &Args) -> CliResult {
    if args.peers {
        let words = std::env::args_os().skip_while(|w| w != "tpcc").skip(1).filter(|w| w != "--peers");
        return peers::run("tpcc", words);
    }
    let opened = Embedded::open(&args.place)?;
    let result = bench(args, &opened);
    // A drive named by the user keeps the data.
    match result {
        Ok(()) => opened.close(),
        Err(e) => Err(e),
    }
}

fn bench(args: &Args, opened: &Embedded) -> CliResult {
    let tpcc = KvTpcc::new(opened.store.clone()).map_err(failed)?;
    let (sizes, seed) = match tpcc.loaded().map_err(failed)? {
        Some(loaded) => loaded,
        None if args.check_only => return Err(CliError::file(&opened.path, "holds no TPC-C")),
        None => prepare(args, opened, &tpcc)?,
    };
    if args.check_only {
        return consistent(&tpcc, &sizes, true);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let plan = Plan {
        sizes,
        terminals: args.terminals,
        schedule: args.times.schedule(),
        seed,
        run: now.as_nanos() as u64,
        queue_at_hot_rows: !args.retry,
        arrivals_a_second: None,
    };
    let acknowledged = |order: (W, D, O)| {
        if args.acknowledge {
            let (w, d, o) = order;
            let mut out = std::io::stdout().lock();
            // If the reader of the lines is gone, the run continues to its end.
            let _ = out.write_all(format!("{w} {d} {o}\n").as_bytes()).and_then(|()| out.flush());
        }
    };
    let report = opened.run(|probes| run_tpcc(&tpcc, &plan, probes, &acknowledged))?;
    consistent(&tpcc, &sizes, false)?;
    if args.json {
        let mut row = serde_json::to_value(&report).unwrap_or_default();
        row["workload"] = "tpcc".into();
        row["sizes"] = serde_json::to_value(sizes).unwrap_or_default();
        row["terminals"] = args.terminals.into();
        row["consistent"] = true.into();
        return println_quietly(&row.to_string());
    }
    if args.acknowledge {
        return Ok(());
    }
    let note = opened.note().map_or_else(String::new, |n| format!("\n{n}"));
    println_quietly(&(text(args, &sizes, &report) + &note))
}

/// Loads the data that the arguments describe.
fn prepare(
    args: &Args,
    opened: &Embedded,
    tpcc: &KvTpcc<lode_workload::lode::LodeStore>,
) -> CliResult<(Sizes, u64)> {
    let sizes = Sizes {
        warehouses: args.warehouses,
        districts: args.districts,
        customers: args.customers,
        items: args.items,
    };
    let start = SystemTime::now();
    let date = start.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64);
    opened.run(|_| {
        Ok(load(tpcc, &sizes, args.seed, date).and_then(|()| tpcc.set_loaded(&sizes, args.seed))?)
    })?;
    if !args.json && !args.acknowledge {
        let seconds = start.elapsed().unwrap_or_default().as_secs_f64();
        println_quietly(&format!("Loaded {} warehouses in {seconds:.1} s.", count(sizes.warehouses.into())))?;
    }
    Ok((sizes, args.seed))
}

fn consistent(tpcc: &KvTpcc<lode_workload::lode::LodeStore>, sizes: &Sizes, tell: bool) -> CliResult {
    let found = check(tpcc, sizes).map_err(failed)?;
    match found.told.first() {
        Some(first) => {
            let others = found.count - 1;
            Err(CliError::Failed(format!("TPC-C is not consistent: {first}, and {others} more")))
        }
        None if tell => println_quietly("All consistency conditions hold."),
        None => Ok(()),
    }
}

fn text(args: &Args, sizes: &Sizes, r: &Report) -> String {
    let m = &r.measured;
    let mut table =
        TextTable::new(&["transaction", ">count", ">p50 ms", ">p90 ms", ">p99 ms", ">p99.9 ms", ">most ms"]);
    for (kind, p) in TransactionKind::ALL.iter().zip(&m.latencies) {
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        table.row([
            kind.name().into(),
            count(p.count),
            ms(p.p50_us),
            ms(p.p90_us),
            ms(p.p99_us),
            ms(p.p999_us),
            ms(p.max_us),
        ]);
    }
    let disk = m.disk_bytes_an_operation.map_or_else(|| "-".into(), |b| bytes(b as u64));
    let rates: Vec<String> = m.timeline.iter().map(|r| format!("{r:.0}")).collect();
    format!(
        "{}\nTPC-C, {} warehouses, {} terminals, no think times: {:.0} transactions a second, {:.0} New-Orders a minute.\n\
         rolled back  {}\nconflicts    {}\nto the disk  {disk} a transaction\nby the drive {}\nover time    {}\n\
         All consistency conditions hold.",
        table.render(),
        sizes.warehouses,
        args.terminals,
        m.rate,
        r.new_orders_a_minute,
        count(r.rolled_back),
        count(m.conflicts),
        causes_text(m.causes),
        rates.join(" "),
    )
}
