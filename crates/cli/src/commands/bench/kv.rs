//! `lode bench kv`: page batches, updates, reads, scans and commits, through Lode alone or together with other
//! stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lode::{AnyDrive, CAPACITY_BYTES};
use lode_base::VirtualTime;
use lode_command::{Budget, Device};
use lode_engine::{Database, DatabaseOptions, EngineError};
use lode_firmware::DriveOptions;
use lode_workload::harness::RunError;
use lode_workload::kv::{
    Case, Contest, Contestant, DeviceContest, Entry, Options, Sizes, Space, plain, run as race, table,
};
use lode_workload::lode::LodeStore;
use lode_workload::store::{OneTree, StoreError};
use lode_workload::upkeep::Steps;

use super::embedded::{SERVED, causes, parse_seconds, run_failed};
use super::peers;
use crate::drive_file::format;
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;

/// Race page batches, updates, reads, scans and commits with other stores
#[derive(clap::Args)]
#[command(
    long_about = "Races of key-value stores, in wall time: (A) batches of 1 MiB of pages of 64 to 3,760 bytes, in turn and \
        at random; (B) 95 % updates and 5 % reads, records by Zipf's law with 0.99, 512 per commit; (C) cached point reads \
        on 1 and 2 threads; (D) a scan; (E) durable commits of 100 bytes on 1 and 8 threads. Every commit is durable \
        when it returns. Rates include the time until a store's background work is done. The bytes written to the \
        disk come from /proc/diskstats.\n\n\
        On recycled space, the file system's space was written before, and each store's data was overwritten several \
        times. On fresh space (A only), stores are new.\n\n\
        Lode takes part twice in A: its drive, which gets batches, and its embedded API. With --peers, RocksDB, \
        LMDB, redb, fjall and SQLite take their turns in the same process (lode-peers, which scripts/build_peers.sh \
        builds).\n\n\
        With --drive, only the embedded API runs, in a new tree on a drive that is served elsewhere. The tree is \
        dropped afterwards. The bytes that the drive programs and the bytes written to its disk are then not known.",
    after_long_help = "EXAMPLES\n    lode bench kv\n    lode bench kv --peers --data 512 --seconds 5\n    \
        lode bench kv --cases AB --space recycled --json\n    \
        lode bench kv --drive tcp://127.0.0.1:4780\n\nJSON ROWS\n    \
        One object per line for each case and store: rate (in the case's unit, per second), burst (without the \
        remaining background work), mb_a_second, latencies (microseconds), write_amplification (at the disk, \
        including writes of other processes), programmed (as the store reports), causes, settings."
)]
pub(super) struct Args {
    /// The directory whose file system is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// A drive that is served elsewhere, instead of new stores in --dir
    #[arg(long, value_name = "tcp://HOST:PORT", conflicts_with_all = ["peers", "dir", "space"])]
    drive: Option<PathBuf>,

    /// Megabytes of pages, and of records
    #[arg(long, value_name = "MB", default_value = "256", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    data: u64,

    /// Seconds of a store's turn in a round
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_seconds)]
    seconds: Duration,

    /// Measured rounds
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// How often the data is overwritten before writes are measured on recycled space
    #[arg(long, value_name = "N", default_value = "2")]
    age: u32,

    /// Megabytes of cache of each store
    #[arg(long, value_name = "MB", default_value = "2048", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cache: u64,

    /// Letters of the cases to run; by default all
    #[arg(long, value_name = "LETTERS", default_value = "", hide_default_value = true, value_parser = Case::parse_letters)]
    cases: String,

    /// The space to write to: recycled, fresh or both
    #[arg(long, value_name = "SPACE", default_value = "both", value_parser = ["recycled", "fresh", "both"])]
    space: String,

    /// Also run other stores
    #[arg(long)]
    peers: bool,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// The seed of all random choices.
const SEED: u64 = 42;
/// About how many bytes a step of background work may write.
const STEP_BYTES: u64 = 1 << 20;
/// The name of the benchmark's tree on a served drive.
const SERVED_TREE: &str = "lode bench kv";

pub(super) fn run(args: &Args) -> CliResult {
    if args.peers {
        let words = std::env::args_os().skip_while(|w| w != "kv").skip(1).filter(|w| w != "--peers");
        return peers::run("kv", words);
    }
    let dir = tempfile::tempdir_in(&args.dir).map_err(|e| CliError::file(&args.dir, e))?;
    let options = Options {
        dir: dir.path().into(),
        sizes: Sizes::of_bytes(args.data << 20),
        slice: args.seconds.max(Duration::from_millis(1)),
        rounds: args.rounds,
        age: args.age,
        spaces: match args.space.as_str() {
            "recycled" => vec![Space::Recycled],
            "fresh" => vec![Space::Fresh],
            _ => vec![Space::Recycled, Space::Fresh],
        },
        cases: args.cases.clone(),
    };
    let Some(path) = &args.drive else {
        let sizes = options.sizes;
        return tell(args, &options, &[drive(sizes), tree(sizes, args.cache << 20), plain(sizes, SEED)]);
    };
    if lode::drive::address(path).is_none() {
        let what = "--drive takes the address of a served drive; new files are made in --dir";
        return Err(CliError::Usage(format!("{}: {what}", path.display())));
    }
    let served = AnyDrive::open(path, DriveOptions::default())?;
    let entry = served_tree(&served, options.sizes, args.cache << 20);
    tell(args, &Options { spaces: vec![Space::Served], ..options }, &[entry])?;
    database(&served, args.cache << 20)?.drop_tree(SERVED_TREE, true)?;
    if args.json { Ok(()) } else { println_quietly(SERVED) }
}

/// Runs the races and prints their rows.
fn tell(args: &Args, options: &Options, entries: &[Entry]) -> CliResult {
    let mut rows = Vec::new();
    race(options, entries, &|| interrupt::signal().is_some(), &mut |row| {
        if args.json {
            let mut json = serde_json::to_value(row).unwrap_or_default();
            json["workload"] = "kv".into();
            // If the reader of the output is gone, the race ends, as after an interrupt.
            return println_quietly(&json.to_string()).map_err(|_| RunError::Stopped);
        }
        rows.push(row.clone());
        Ok(())
    })
    .map_err(run_failed)?;
    if args.json { Ok(()) } else { println_quietly(table(&rows).trim_end()) }
}

fn store_failed(e: CliError) -> StoreError {
    StoreError::failed(std::io::Error::other(e.message().unwrap_or_default()))
}

fn drive(sizes: Sizes) -> Entry {
    let make = move |dir: &Path| {
        let drive = format(&dir.join("kv.lode"), CAPACITY_BYTES, None).map_err(store_failed)?;
        let device: Arc<dyn Device> = Arc::new(drive.clone());
        let worker = device.clone();
        let step = move || worker.work(VirtualTime::ZERO, Budget { write_bytes: STEP_BYTES });
        let contest = DeviceContest::new(&device, Steps::new(step, causes(Some(&drive))), sizes, SEED)?;
        Ok(Box::new(contest) as Box<dyn Contestant>)
    };
    let settings = "batches straight to the drive; each is synced".into();
    Entry { name: "Lode, its drive".into(), settings, make: Box::new(make) }
}

fn tree(sizes: Sizes, cache_bytes: u64) -> Entry {
    let make = move |dir: &Path| {
        let drive = format(&dir.join("kv.lode"), CAPACITY_BYTES, None).map_err(store_failed)?;
        let store = LodeStore(Database::open(Arc::new(drive.clone()), options(cache_bytes))?);
        let upkeep = store.upkeep(causes(Some(&drive)));
        let contest = Contest::new(OneTree::new(store, "kv", upkeep)?, sizes, SEED);
        Ok(Box::new(contest) as Box<dyn Contestant>)
    };
    let settings = "a tree of the embedded API; each commit is synced".into();
    Entry { name: "Lode".into(), settings, make: Box::new(make) }
}

/// Opens the database on a served drive.
fn database(drive: &AnyDrive, cache_bytes: u64) -> Result<Database, EngineError> {
    Database::open(drive.device(), options(cache_bytes))
}

fn options(cache_bytes: u64) -> DatabaseOptions {
    let frame_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
    DatabaseOptions { frame_bytes, now: Some(Instant::now), ..DatabaseOptions::default() }
}

fn served_tree(drive: &AnyDrive, sizes: Sizes, cache_bytes: u64) -> Entry {
    let drive = drive.clone();
    let make = move |_: &Path| {
        let database = database(&drive, cache_bytes)?;
        // Each group of cases begins with an empty store.
        database.drop_tree(SERVED_TREE, true)?;
        let store = LodeStore(database);
        let upkeep = store.upkeep(causes(None));
        let contest = Contest::new(OneTree::new(store, SERVED_TREE, upkeep)?, sizes, SEED);
        Ok(Box::new(contest) as Box<dyn Contestant>)
    };
    let settings = "a tree of the embedded API, its drive over TCP; each commit is synced".into();
    Entry { name: "Lode, served".into(), settings, make: Box::new(make) }
}
