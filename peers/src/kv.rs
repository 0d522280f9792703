//! Races of key-value stores.

use std::path::PathBuf;
use std::time::Duration;

use lode_workload::harness::RunError;
use lode_workload::kv::{Case, Options, Sizes, Space, plain, run as race, table};

use crate::{Failure, MB, stores};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory whose file system is measured
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Megabytes of pages, and of records
    #[arg(long, default_value = "256")]
    data: u64,
    /// Seconds of a store's turn in a round
    #[arg(long, default_value = "3")]
    seconds: f64,
    /// Measured rounds
    #[arg(long, default_value = "3")]
    rounds: u32,
    /// How often the data is overwritten before writes are measured
    #[arg(long, default_value = "2")]
    age: u32,
    /// Megabytes of cache of each store
    #[arg(long, default_value = "2048")]
    cache: u64,
    /// Letters of the cases: ABCDE
    #[arg(long, default_value = "", value_parser = Case::parse_letters)]
    cases: String,
    /// recycled, fresh or both
    #[arg(long, default_value = "both")]
    space: String,
    /// Names of stores, separated by commas; by default all
    #[arg(long, value_delimiter = ',')]
    stores: Vec<String>,
    /// Write JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// The seed of all random choices.
const SEED: u64 = 42;

pub(crate) fn run(args: &Args, stop: &dyn Fn() -> bool) -> Result<(), Failure> {
    let spaces = match args.space.as_str() {
        "both" => vec![Space::Recycled, Space::Fresh],
        "recycled" => vec![Space::Recycled],
        "fresh" => vec![Space::Fresh],
        other => return Err(format!("{other} is no space: recycled, fresh or both").into()),
    };
    let dir = tempfile::tempdir_in(&args.dir)?;
    let options = Options {
        dir: dir.path().into(),
        sizes: Sizes::of_bytes(args.data * MB),
        slice: Duration::from_secs_f64(args.seconds),
        rounds: args.rounds,
        age: args.age,
        spaces,
        cases: args.cases.clone(),
    };
    let mut entries = stores::all(options.sizes, (args.cache * MB) as usize, SEED);
    entries.push(plain(options.sizes, SEED));
    if let Some(name) = args.stores.iter().find(|name| entries.iter().all(|e| e.name != **name)) {
        let all: Vec<&str> = entries.iter().map(|e| &e.name[..]).collect();
        return Err(format!("{name} is no store: there are {}", all.join("; ")).into());
    }
    if !args.stores.is_empty() {
        entries.retain(|e| args.stores.contains(&e.name));
    }
    let mut rows = Vec::new();
    race(&options, &entries, stop, &mut |row| {
        if args.json {
            let mut json = serde_json::to_value(row).map_err(lode_workload::store::StoreError::failed)?;
            json["workload"] = "kv".into();
            println!("{json}");
        } else {
            eprintln!("{}, {}: {} {}/s", row.case, row.store, row.rate.round(), row.unit);
            rows.push(row.clone());
        }
        Ok::<(), RunError>(())
    })?;
    if !args.json {
        print!("{}", table(&rows));
        println!("Settings:");
        entries.iter().for_each(|e| println!("  {:<16} {}", e.name, e.settings));
    }
    Ok(())
}
