//! Thousands of seeds of a database of trees on all cores. `LODE_SEEDS=20000` tries more of them; `LODE_SEED=7` tries that
//! one, and shows the shortest replay of its failure; `LODE_ONLY=3-5,9` takes those of its steps alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lode_sim::{KvFound, KvOptions, parse_ranges, run_kv, search_kv, shrink_kv};

/// Seeds of an ordinary run of the tests.
const SEEDS: u64 = 2000;
/// Seeds of a soak.
const SOAK_SEEDS: u64 = 50_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn one(seed: u64) {
    let only = std::env::var("LODE_ONLY").ok().map(|list| parse_ranges(&list).expect("a list of steps"));
    let options = KvOptions { only, ..KvOptions::default() };
    if let Some(replay) = shrink_kv(&run_kv(seed, &options), 400) {
        panic!("{replay}");
    }
}

fn many(begin: u64, end: u64) -> KvFound {
    let options = KvOptions::default();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (next, failed) = (AtomicU64::new(begin), AtomicBool::new(false));
    let mut found = KvFound::default();
    std::thread::scope(|s| {
        let work = || {
            let found = search_kv(&next, end, &options, 1, &|| failed.load(Ordering::Relaxed));
            failed.fetch_or(!found.failures.is_empty(), Ordering::Relaxed);
            found
        };
        let workers: Vec<_> = (0..threads).map(|_| s.spawn(work)).collect();
        workers.into_iter().for_each(|w| found.add(w.join().expect("a worker does not panic")));
    });
    if let Some(first) = found.failures.first() {
        panic!("{}", shrink_kv(first, 400).expect("it failed"));
    }
    for (name, count) in found.coverage.table() {
        println!("{count:>10}  {name}");
    }
    found
}

#[test]
fn no_seed_fails() {
    if let Some(seed) = number("LODE_SEED") {
        return one(seed);
    }
    let seeds = number("LODE_SEEDS").unwrap_or(SEEDS);
    let found = many(0, seeds);
    if seeds >= SEEDS {
        assert_eq!(found.coverage.missing(), Vec::<String>::new(), "never met");
    }
}

#[test]
#[ignore = "a soak: minutes"]
fn no_seed_of_many_fails() {
    many(SEEDS, number("LODE_SEEDS").unwrap_or(SOAK_SEEDS));
}
