//! Table II of `lode paper eleos` without SQL around it, which builds in a minute.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]

#[path = "../../bench/src/drive_host.rs"]
mod drive_host;
#[path = "../../bench/src/paper/eleos/pages.rs"]
mod pages;
#[path = "../../bench/src/random.rs"]
mod random;
#[path = "../../bench/src/paper/eleos/rig.rs"]
mod rig;
#[path = "../../bench/src/paper/eleos/workload.rs"]
mod workload;

use lode_base::Profile;
use rig::{Rig, Setup, System};

/// How long this thread has been on a core, in nanoseconds.
fn core_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the system tells");
    stat.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = pages::pool(1);
    println!("mean {}", pages::mean_bytes(&pool));
    let modelled = std::env::args().any(|a| a == "modelled");
    let setup = Setup {
        profile: Profile::find("eleos-cnex")?,
        modelled,
        eblock_count: 64,
        eblock_bytes: 8 << 20,
        pages: 16384,
        store_whole_blocks: true,
        segment_blocks: 1020,
        store_cleans: true,
    };
    let all = [
        System::BatchVariable,
        System::BatchFixed,
        System::Block,
        System::BlockPipelined,
        System::BlockPages,
        System::BlockSequence,
    ];
    let only = std::env::var("ONLY").unwrap_or_default();
    let rounds: usize = std::env::var("ROUNDS").map_or(5, |v| v.parse().unwrap());
    let n: u64 = std::env::var("PAGES").map_or(50_000, |v| v.parse().unwrap());
    let mut rigs = Vec::new();
    for s in all.into_iter().filter(|s| only.is_empty() || s.name() == only) {
        let mut rig = Rig::new(s, &setup)?;
        let whole = s.whole_pages() || s == System::Block;
        let mut writes = workload::Writes::new(&pool, setup.pages, 3);
        // All of the medium is touched before.
        let warm = if modelled { 50_000 } else { 600 << 20 >> if whole { 12 } else { 11 } };
        workload::write(&mut rig, &mut writes, 1 << 20, whole, warm)?;
        rigs.push((rig, writes, whole, Vec::new(), 0.0));
    }
    for _ in 0..rounds {
        for (rig, writes, whole, rates, mb) in &mut rigs {
            let (t, v) = (core_ns(), rig.now());
            let (pages, bytes) = workload::write(rig, writes, 1 << 20, *whole, n)?;
            let secs = if modelled { rig.now().since(v).as_secs_f64() } else { (core_ns() - t) as f64 / 1e9 };
            rates.push(pages as f64 / secs);
            *mb = bytes as f64 / pages as f64;
        }
    }
    for (rig, _, _, rates, mb) in &mut rigs {
        rates.sort_by(f64::total_cmp);
        let rate = rates[rates.len() / 2];
        println!(
            "{:22} {:>12.0} pages/s {:>8.1} MB/s  {:?}",
            rig.system.name(),
            rate,
            rate * *mb / 1e6,
            rates.iter().map(|r| (r / 1e3) as u64).collect::<Vec<_>>()
        );
        if std::env::args().any(|a| a == "info") {
            println!(
                "{:?} {:?}\n{:?}",
                rig.store().map(|s| s.info()),
                rig.store().map(|s| s.counts()),
                rig.drive().info()
            );
        }
    }
    Ok(())
}
