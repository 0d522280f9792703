//! Faults planted in the engine's trees, one after the other: the simulation finds each within its budget of seeds, and
//! finds nothing there without it. `cargo test -p lode-sim --features planted --test kv_planted -- --nocapture` prints the
//! table; `LODE_PLANTED=DirtyEvicted` plants that one, and shows the shortest replay; `LODE_SEEDS` tries more seeds, or fewer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lode_engine::{Planted, plant};
use lode_sim::{Failure, KvOptions, run_kv, shrink_kv};

/// Seeds within which a fault is found: as many as an ordinary run of the tests tries.
const SEEDS: u64 = 2000;
/// Characters of a failure in the table.
const FAILURE_CHARS: usize = 110;

/// The first seed that fails with the fault, and not without it; and how.
fn find(fault: Planted) -> Option<(u64, Failure)> {
    let options = KvOptions::default();
    let fails = |fault: Option<Planted>, seed| {
        plant(fault);
        let failure = run_kv(seed, &options).failure;
        plant(None);
        failure
    };
    let found = |seed| Some((seed, fails(Some(fault), seed)?)).filter(|_| fails(None, seed).is_none());
    (0..seeds()).find_map(found)
}

/// Seeds within which a fault is to be found.
fn seeds() -> u64 {
    std::env::var("LODE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS)
}

/// The shortest replay of one fault.
fn replay(name: &str) {
    let of = |f: &&(Planted, &str)| format!("{:?}", f.0) == name;
    let (fault, _) = Planted::ALL.iter().find(of).expect("LODE_PLANTED names a fault");
    let (seed, _) = find(*fault).expect("it is found");
    let options = KvOptions::default();
    plant(Some(*fault));
    let replay = shrink_kv(&run_kv(seed, &options), 400).expect("it fails");
    plant(None);
    println!("{replay}");
}

#[test]
fn every_planted_fault_is_found() {
    if let Ok(name) = std::env::var("LODE_PLANTED") {
        return replay(&name);
    }
    let found: Mutex<Vec<Option<(u64, Failure)>>> = Mutex::new(vec![None; Planted::ALL.len()]);
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                while let Some((fault, _)) = Planted::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = find(*fault);
                    found.lock().expect("no finder panics")[*fault as usize] = one;
                }
            });
        }
    });
    let found = found.into_inner().expect("no finder panics");
    for ((fault, about), found) in Planted::ALL.iter().zip(&found) {
        let (seeds, how) = match found {
            Some((seed, failure)) => ((seed + 1).to_string(), failure.to_string()),
            None => (format!("> {}", seeds()), "not found".into()),
        };
        let how: String = how.chars().take(FAILURE_CHARS).collect();
        println!("| {fault:?} | {about} | {seeds} | {} |", how.replace('|', "/"));
    }
    let unfound: Vec<Planted> =
        Planted::ALL.iter().zip(&found).filter(|(_, f)| f.is_none()).map(|(p, _)| p.0).collect();
    assert!(unfound.is_empty(), "not found in {} seeds: {unfound:?}", seeds());
    assert!(Planted::ALL.len() >= 15, "{} faults are few", Planted::ALL.len());
}
