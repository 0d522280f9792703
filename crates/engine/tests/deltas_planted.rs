//! Faults planted in tables with deltas: histories from seeds, against a plain model of snapshot isolation, find each of them.
//!
//! ```text
//!   seed ─► steps in one thread: transactions interleaved, merges with commits inside, old snapshots, opens
//!        ─► what is read, and how each commit ends ─► as the model has it? no, or a panic ─► the fault is found
//! ```
//!
//! `cargo test -p lode-engine --features planted --test deltas_planted -- --nocapture` prints the table.

#[path = "deltas_planted/model.rs"]
mod model;
#[path = "deltas_planted/statements.rs"]
mod statements;
mod support;
#[path = "deltas_planted/within.rs"]
mod within;
#[path = "deltas_planted/world.rs"]
mod world;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use lode_engine::{PlantedInTables, plant_in_tables};
use model::shows;
use support::sound;
use world::{Met, World};

/// Seeds that pass without a fault, of which some fail with each.
const SEEDS: u64 = 24;
const STEPS: u32 = 60;
/// The most characters of a failure in the table of faults.
const FAILURE_CHARS: usize = 90;

fn history(seed: u64) -> Met {
    let mut w = World::new(seed);
    (0..STEPS).for_each(|_| w.step());
    for open in std::mem::take(&mut w.open).into_iter().flatten() {
        w.commit(open);
    }
    w.old.iter().for_each(|(s, state)| shows(s, state, &mut w.random));
    sound(&w.db);
    w.reopen();
    shows(&w.db.snapshot().unwrap(), &w.committed, &mut w.random);
    w.met
}

thread_local! {
    /// Whether panics of this thread are expected, and not printed.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// How a seed fails with a fault.
fn failure(seed: u64, fault: PlantedInTables) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let printed = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !EXPECTED.get() {
                printed(info);
            }
        }));
    });
    EXPECTED.set(true);
    plant_in_tables(Some(fault));
    let outcome = catch_unwind(AssertUnwindSafe(|| history(seed)));
    plant_in_tables(None);
    EXPECTED.set(false);
    let message = |e: Box<dyn Any + Send>| match e.downcast::<String>() {
        Ok(message) => *message,
        Err(e) => e.downcast::<&str>().map_or("a panic".into(), |m| (*m).into()),
    };
    outcome.err().map(message)
}

#[test]
fn no_seed_fails_without_a_fault() {
    let mut all = Met::default();
    let seeds = match std::env::var("LODE_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().unwrap();
            seed..seed + 1
        }
        Err(_) => 0..std::env::var("LODE_SEEDS").map_or(SEEDS, |n| n.parse().unwrap()),
    };
    for seed in seeds {
        let met = catch_unwind(|| history(seed)).unwrap_or_else(|_| panic!("seed {seed} fails"));
        all.commits += met.commits;
        all.conflicts += met.conflicts;
        all.broken += met.broken;
        all.within += met.within;
        all.failed += met.failed;
        all.rewritten += met.rewritten;
        all.twice += met.twice;
        all.cut += met.cut;
    }
    println!("{all:?}");
    let all =
        [all.commits, all.conflicts, all.broken, all.within, all.failed, all.rewritten, all.twice, all.cut];
    assert!(all.iter().all(|n| *n > 0) || std::env::var("LODE_SEED").is_ok(), "something was never met");
}

#[test]
fn every_planted_fault_is_found() {
    let mut unfound = Vec::new();
    for &(fault, about) in PlantedInTables::ALL {
        match (0..SEEDS).find_map(|seed| Some((seed, failure(seed, fault)?))) {
            Some((seed, how)) => {
                let how: String = how.chars().filter(|c| *c != '\n').take(FAILURE_CHARS).collect();
                println!("| {fault:?} | {about} | {} | {} |", seed + 1, how.replace('|', "/"));
            }
            None => unfound.push(fault),
        }
    }
    assert_eq!(unfound, [], "not found in {SEEDS} seeds");
}
