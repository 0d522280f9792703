//! Times commits, reads and a scan of an embedded database: `cargo run --release -p lode --example kv -- FILE`.

use std::time::Instant;

// The same allocator as in the `lode` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), lode::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "kv.lode".into());
    let options = lode::Options { memory_bytes: 2 << 30, ..lode::Options::default() };
    let db = lode::Database::open_with(&path, options)?;
    let tree = db.create_tree("kv", true)?;
    let cpu = std::cell::Cell::new(cpu_seconds());
    let rate = |what: &str, n: u64, begun: Instant| {
        let seconds = begun.elapsed().as_secs_f64();
        let busy = cpu_seconds() - cpu.replace(cpu_seconds());
        println!(
            "{what:<40} {:>12.0} /s {:>9.2} us of a core each",
            n as f64 / seconds,
            busy * 1e6 / n as f64
        );
    };

    let begun = Instant::now();
    let count = 1_000_000u64;
    for part in 0..count / 1000 {
        let mut txn = db.begin()?;
        for i in 0..1000 {
            let key = mixed(part * 1000 + i).to_be_bytes();
            txn.put(&tree, &key, &[7; 100])?;
        }
        txn.commit()?;
    }
    rate("puts of 100 bytes, 1,000 a commit", count, begun);

    db.drop_tree("loaded", true)?;
    let begun = Instant::now();
    let mut load = db.load_tree("loaded")?;
    load.extend((0..count).map(|n| (n.to_be_bytes(), [7; 100])))?;
    load.finish()?;
    rate("keys loaded in their order, 100 bytes", count, begun);

    for threads in [1, 2] {
        let begun = Instant::now();
        let reads = 1_000_000u64;
        std::thread::scope(|s| {
            for t in 0..threads {
                let (db, tree) = (&*db, &tree);
                s.spawn(move || {
                    for i in 0..reads {
                        let key = mixed(mixed(i + t) % count).to_be_bytes();
                        let txn = db.begin().expect("it begins");
                        assert!(txn.get(tree, &key).expect("it reads").is_some());
                    }
                });
            }
        });
        rate(&format!("reads, {threads} threads"), reads * threads, begun);
    }

    let begun = Instant::now();
    let txn = db.begin()?;
    let mut range = txn.scan::<&[u8]>(&tree, ..)?;
    let mut bytes = 0;
    while let Some((k, v)) = range.next()? {
        bytes += (k.len() + v.len()) as u64;
    }
    rate("bytes scanned", bytes, begun);
    drop(range);
    drop(txn);

    for threads in [1u64, 8] {
        let begun = Instant::now();
        let commits = 4000;
        std::thread::scope(|s| {
            for t in 0..threads {
                let (db, tree) = (&*db, &tree);
                s.spawn(move || {
                    for i in 0..commits {
                        let mut txn = db.begin().expect("it begins");
                        let key = mixed(1 << 40 | t << 32 | i).to_be_bytes();
                        txn.put(tree, &key, &[8; 100]).expect("it fits");
                        txn.commit().expect("it commits");
                    }
                });
            }
        });
        rate(&format!("durable commits, {threads} threads"), commits * threads, begun);
    }

    let values = db.create_tree("values", true)?;
    let begun = Instant::now();
    let (batches, mut bytes) = (2000u64, 0);
    for b in 0..batches {
        let mut txn = db.begin()?;
        for i in 0..512u64 {
            let n = mixed(b * 512 + i);
            let key = (n % 200_000).to_be_bytes();
            let value = vec![i as u8; 64 + (n >> 40) as usize % 3696];
            bytes += value.len() as u64;
            txn.put(&values, &key, &value)?;
        }
        txn.commit()?;
    }
    rate("puts of 64-3,760 bytes, 512 a commit", batches * 512, begun);
    rate("  bytes", bytes, begun);
    println!("{:?}", db.tree_stats());
    let begun = Instant::now();
    db.close()?;
    println!("closed in {:?}", begun.elapsed());
    Ok(())
}

/// The CPU seconds of all threads of this process, or 0 if the system does not tell.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// A pseudorandom number: splitmix64.
fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
