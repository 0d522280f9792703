//! Thousands of seeds on all cores. `LODE_SEEDS=20000` tries more of them; `LODE_SEED=7` tries that one, and shows the
//! shortest replay of its failure.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lode_sim::{Found, RunOptions, run, search, shrink};

/// Seeds of an ordinary run of the tests.
const SEEDS: u64 = 2000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_seed_fails() {
    let options = RunOptions::default();
    if let Some(seed) = number("LODE_SEED") {
        let outcome = run(seed, &options);
        if let Some(replay) = shrink(&outcome, &options, 400) {
            panic!("{replay}");
        }
        return;
    }
    let end = number("LODE_SEEDS").unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut found = Found::default();
    std::thread::scope(|s| {
        let work = || {
            let found = search(&next, end, &options, 1, &|| failed.load(Ordering::Relaxed));
            failed.fetch_or(!found.failures.is_empty(), Ordering::Relaxed);
            found
        };
        let workers: Vec<_> = (0..threads).map(|_| s.spawn(work)).collect();
        workers.into_iter().for_each(|w| found.add(w.join().expect("a worker does not panic")));
    });
    if let Some(first) = found.failures.first() {
        let replay = shrink(first, &options, 400).expect("it failed");
        panic!("{replay}");
    }
    for (name, count) in found.coverage.table() {
        println!("{count:>10}  {name}");
    }
    if end >= SEEDS {
        assert_eq!(found.coverage.missing(), Vec::<String>::new(), "never met");
    }
}
