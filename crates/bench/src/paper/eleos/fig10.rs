//! Fig. 10: a B-tree under YCSB, on batches and on blocks.
//!
//! Claims: (a) batches reach 1.12 to 1.97 times the operations of blocks, variable pages no fewer than fixed ones; (b) variable pages
//! write some 30 % fewer bytes; (c) with GC, batches lose 5.2 %, and blocks, whose host reads whole segments, 42.3 %. Setup: the
//! platform in modelled time; 8 + 100-byte records, 19 updates for each read, keys by YCSB's zipf, scattered; cache 10 to 100 % of the
//! records' bytes; buffers of 1 MB. The paper runs 300 s on 10^7 records; here 10^6 and a fixed number of operations,
//! after as many to warm the cache, so that every system does the same work.
//! Expected: batches above blocks; fewer bytes by what leaves lack of being full.

use lode_base::{Profile, VirtualDuration};

use super::btree::{BTree, RECORD_BYTES, leaves};
use super::rig::{Rig, Setup, System};
use super::{Experiment, curves, row};
use crate::BenchError;
use crate::drive_host::DriveError;
use crate::gc::workload::{Picker, Skew};
use crate::paper::plot::{Axis, Heading};
use crate::paper::report::{Row, X};

const SYSTEMS: [System; 5] =
    [System::BatchVariable, System::BatchFixed, System::BlockPipelined, System::BlockPacked, System::Block];
/// Those that batches are held against.
const BLOCKS: [System; 3] = [System::Block, System::BlockPacked, System::BlockPipelined];
const THROUGHPUT: &str = "throughput";
const BYTES: &str = "bytes written an operation";
/// Updates for each read.
const UPDATES: u64 = 19;
/// Seeds of the tree and of the keys.
const SEEDS: (u64, u64) = (5, 9);
/// Erase units where nothing is to be collected.
const EBLOCKS_ENOUGH: u32 = 2048;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
struct Size {
    records: u64,
    operations: u64,
    eblock_bytes: u32,
    segment_blocks: u32,
}

impl Size {
    fn of(x: &Experiment<'_>) -> Self {
        match x.scale.quick {
            true => Self { records: 125_000, operations: 15_000, eblock_bytes: 1 << 20, segment_blocks: 255 },
            false => Self {
                records: 1_000_000,
                operations: 200_000,
                eblock_bytes: x.profile.geometry.eblock_bytes(),
                segment_blocks: 1020,
            },
        }
    }

    fn data_bytes(&self) -> u64 {
        self.records * RECORD_BYTES as u64
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug)]
struct Run {
    operations_a_second: f64,
    bytes_an_operation: f64,
    reads_an_operation: f64,
}

/// An operation of the host's, in memory.
fn operation(profile: &Profile) -> VirtualDuration {
    let h = &profile.host;
    h.sort + h.join + h.other
}

/// A tree on a system.
fn tree(
    x: &Experiment<'_>,
    size: &Size,
    system: System,
    leaves: &[(u64, u32)],
    percent: u64,
    eblock_count: u32,
    store_cleans: bool,
) -> Result<BTree, DriveError> {
    let setup = Setup {
        profile: x.profile.clone(),
        modelled: true,
        eblock_count,
        eblock_bytes: size.eblock_bytes,
        pages: leaves.len() as u64,
        segment_blocks: size.segment_blocks,
        store_cleans,
        power: false,
        loopback: false,
    };
    let rig = Rig::new(system, &setup)?;
    BTree::load(rig, leaves, system.whole_pages(), size.data_bytes() * percent / 100, operation(x.profile))
}

/// So many operations.
fn operate(
    x: &Experiment<'_>,
    tree: &mut BTree,
    keys: &mut Picker,
    operations: u64,
) -> Result<Run, DriveError> {
    let (begin, before) = (tree.rig().now(), tree.counts());
    for n in 0..operations {
        if n % 4096 == 0 {
            x.go_on()?;
        }
        let key = keys.next_page();
        match n % (UPDATES + 1) {
            UPDATES => tree.read(key).map(drop)?,
            _ => tree.update(key)?,
        }
    }
    let after = tree.counts();
    let each = |n: u64| n as f64 / operations as f64;
    Ok(Run {
        operations_a_second: operations as f64 / tree.rig().now().since(begin).as_secs_f64(),
        bytes_an_operation: each(after.bytes - before.bytes),
        reads_an_operation: each(after.reads - before.reads),
    })
}

fn run(
    x: &Experiment<'_>,
    size: &Size,
    system: System,
    leaves: &[(u64, u32)],
    percent: u64,
) -> Result<Run, DriveError> {
    let mut tree = tree(x, size, system, leaves, percent, EBLOCKS_ENOUGH, false)?;
    let mut keys = Picker::new(Skew::Zipf, size.records, SEEDS.1);
    operate(x, &mut tree, &mut keys, size.operations)?;
    operate(x, &mut tree, &mut keys, size.operations)
}

fn cache_sizes(x: &Experiment<'_>) -> &'static [u64] {
    if x.scale.quick { &[10, 50, 100] } else { &[10, 20, 40, 60, 80, 100] }
}

/// (a) Operations a second.
///
/// # Errors
/// When the drive fails.
pub fn throughput(x: &Experiment<'_>) -> Result<Vec<Row>, DriveError> {
    let size = Size::of(x);
    let leaves = leaves(size.records, SEEDS.0);
    let mut rows = Vec::new();
    let mut ratios: Vec<(System, f64)> = Vec::new();
    let mut variable_to_fixed: Vec<f64> = Vec::new();
    for &percent in cache_sizes(x) {
        let mut found = Vec::new();
        for system in SYSTEMS {
            let r = run(x, &size, system, &leaves, percent)?;
            let note = format!(
                "{} records, {} operations; {:.3} reads of the drive an operation",
                size.records, size.operations, r.reads_an_operation
            );
            rows.push(row(system.name(), at(percent), THROUGHPUT, "ops/s", r.operations_a_second, &note));
            found.push((system, r.operations_a_second));
        }
        let of = |s: System| found.iter().find(|f| f.0 == s).map_or(f64::NAN, |f| f.1);
        for block in BLOCKS {
            let ratio = of(System::BatchVariable) / of(block);
            ratios.push((block, ratio));
            let series = format!("Batch (VP) to {}", block.name());
            rows.push(row(&series, at(percent), "ratio", "", ratio, "of operations a second"));
        }
        variable_to_fixed.push(of(System::BatchVariable) / of(System::BatchFixed));
    }
    let least = |all: &mut dyn Iterator<Item = f64>| all.fold(f64::INFINITY, f64::min);
    let most = |all: &mut dyn Iterator<Item = f64>| all.fold(0.0, f64::max);
    for block in BLOCKS {
        let of = || ratios.iter().filter(|r| r.0 == block).map(|r| r.1);
        let series = format!("Batch (VP) to {}", block.name());
        let is_papers = block == System::Block;
        let note = match block {
            System::Block => {
                "pages of 4 KB in packets one by one, a program and a commit each; reads, most of the rest, are the same for all"
            }
            System::BlockPacked => "packets one by one, of packed pages: fewer of them",
            _ => {
                "packed pages in packets side by side, which share commits: the interface allows it, the paper's did not do it"
            }
        };
        let bound = |metric, ours, published: f64| Row {
            published: is_papers.then_some(published),
            ..row(&series, X::None, metric, "", ours, note)
        };
        rows.push(bound("least ratio", least(&mut of()), 1.12));
        rows.push(bound("greatest ratio", most(&mut of()), 1.97));
    }
    let fixed = least(&mut variable_to_fixed.iter().copied());
    let note = "the least over the cache sizes; the paper: no degradation. A page of its own size may lie in two read units, \
                which costs the channel a second transfer";
    rows.push(Row {
        published: Some(1.0),
        ..row("Batch (VP) to Batch (FP)", X::None, "least ratio", "", fixed, note)
    });
    Ok(rows)
}

/// (b) Bytes written.
///
/// # Errors
/// When the drive fails.
pub fn bytes(x: &Experiment<'_>) -> Result<Vec<Row>, DriveError> {
    let size = Size::of(x);
    let leaves = leaves(size.records, SEEDS.0);
    let held: u64 = leaves.iter().map(|l| u64::from(l.1)).sum();
    let full = held as f64 * RECORD_BYTES as f64 / (leaves.len() as f64 * 4096.0);
    let (mut rows, mut fewer, mut all) = (Vec::new(), f64::INFINITY, [0.0; 2]);
    for &percent in cache_sizes(x) {
        let mut found = [0.0; 2];
        for (system, found) in [System::BatchVariable, System::BatchFixed].into_iter().zip(&mut found) {
            let r = run(x, &size, system, &leaves, percent)?;
            let note = format!("what the buffers hold; leaves are {:.1} % full", full * 100.0);
            rows.push(row(system.name(), at(percent), BYTES, "bytes", r.bytes_an_operation, &note));
            *found = r.bytes_an_operation;
        }
        if found[1] > 0.0 {
            fewer = fewer.min(1.0 - found[0] / found[1]);
        }
        all = [all[0] + found[0], all[1] + found[1]];
    }
    let saved = |metric, ours: f64, published, note| Row {
        published,
        ..row("Batch (VP) to Batch (FP)", X::None, metric, "%", ours * 100.0, note)
    };
    let note = "over all cache sizes; the paper says about 30 %";
    rows.push(saved("fewer bytes", 1.0 - all[0] / all[1], Some(30.0), note));
    let note = "with a small cache it is the pages with most records that are written most, and they are fuller than most";
    rows.push(saved("fewer bytes, the least", fewer, None, note));
    Ok(rows)
}

/// (c) What GC costs.
///
/// # Errors
/// When the drive fails.
pub fn collection(x: &Experiment<'_>) -> Result<Vec<Row>, DriveError> {
    const PERCENT: u64 = 10;
    let size = Size::of(x);
    let leaves = leaves(size.records, SEEDS.0);
    let eblock = u64::from(size.eblock_bytes);
    let channels = u64::from(x.profile.geometry.channels());
    // The same on each channel.
    let ten_times = (10 * size.data_bytes()).div_ceil(eblock).next_multiple_of(channels) as u32;
    let mut rows = Vec::new();
    for system in SYSTEMS {
        // Until the device is full, and as much again under GC.
        let mut on = tree(x, &size, system, &leaves, PERCENT, ten_times, true)?;
        let mut keys = Picker::new(Skew::Zipf, size.records, SEEDS.1);
        let mut before = 0;
        let capacity = u64::from(ten_times) * eblock;
        while on.rig().drive().info().media_bytes_written < capacity + capacity / 4 {
            operate(x, &mut on, &mut keys, size.operations / 4)?;
            before += size.operations / 4;
        }
        let info = on.rig().drive().info();
        let store = on.rig().store().map(|s| s.info());
        let with = operate(x, &mut on, &mut keys, size.operations)?;
        let (moved, victims) = {
            let i = on.rig().drive().info();
            (i.gc_bytes_moved - info.gc_bytes_moved, i.gc_victims - info.gc_victims)
        };
        let cleaned = on.rig().store().map(|s| s.info()).zip(store).map_or(String::new(), |(a, b)| {
            format!(
                "; its store cleaned {} segments, reading {} KB and moving {} KB",
                a.cleaned - b.cleaned,
                (a.cleaning_bytes_read - b.cleaning_bytes_read) >> 10,
                (a.cleaning_bytes_moved - b.cleaning_bytes_moved) >> 10
            )
        });
        drop(on);
        // The same operations on a device that is never full.
        let mut off = tree(x, &size, system, &leaves, PERCENT, EBLOCKS_ENOUGH, false)?;
        let mut keys = Picker::new(Skew::Zipf, size.records, SEEDS.1);
        operate(x, &mut off, &mut keys, before)?;
        let without = operate(x, &mut off, &mut keys, size.operations)?;
        let note = format!(
            "capacity ten times the records', GC at a tenth free; the drive emptied {victims} EBLOCKs, moving {} KB{cleaned}",
            moved >> 10
        );
        rows.push(row(
            system.name(),
            X::Name("GC off".into()),
            THROUGHPUT,
            "ops/s",
            without.operations_a_second,
            &note,
        ));
        rows.push(row(
            system.name(),
            X::Name("GC on".into()),
            THROUGHPUT,
            "ops/s",
            with.operations_a_second,
            &note,
        ));
        let loss = (1.0 - with.operations_a_second / without.operations_a_second) * 100.0;
        let published = match system {
            System::BatchVariable => Some(5.2),
            System::Block => Some(42.3),
            _ => None,
        };
        // Faster by chance is no loss.
        rows.push(Row { published, ..row(system.name(), X::None, "loss", "%", loss.max(0.0), &note) });
    }
    Ok(rows)
}

fn at(percent: u64) -> X {
    X::Number(percent as f64)
}

fn cache_axis() -> Axis {
    let ticks = vec![20.0, 40.0, 60.0, 80.0, 100.0];
    Axis { label: "cache (% of the records)".into(), ticks, from: 0.0, to: 105.0, log: false }
}

/// Fig. 10a.
///
/// # Errors
/// When it can not be drawn.
pub fn plot_throughput(rows: &[Row]) -> Result<String, BenchError> {
    let heading = Heading {
        title: "ELEOS Fig. 10a: a B-tree under YCSB".into(),
        subtitle: "Executed in modelled time; 95 % updates, zipf; no GC, no checkpoints".into(),
    };
    curves(rows, THROUGHPUT, heading, cache_axis(), "thousand operations/s", 1e3)
}

/// Fig. 10b.
///
/// # Errors
/// When it can not be drawn.
pub fn plot_bytes(rows: &[Row]) -> Result<String, BenchError> {
    let heading = Heading {
        title: "ELEOS Fig. 10b: what the B-tree writes".into(),
        subtitle: "Bytes handed to the drive in write buffers of 1 MB".into(),
    };
    curves(rows, BYTES, heading, cache_axis(), "bytes an operation", 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::eleos::{PROFILE, Scale};

    #[test]
    fn no_update_is_lost_on_any_system() {
        let profile = Profile::find(PROFILE).unwrap();
        let x = Experiment { profile: &profile, scale: Scale { quick: true }, stop: &|| false };
        let size = Size { records: 20_000, operations: 20_000, eblock_bytes: 1 << 20, segment_blocks: 255 };
        let leaves = leaves(size.records, 1);
        for system in SYSTEMS {
            let mut tree = tree(&x, &size, system, &leaves, 20, 64, true).unwrap();
            let mut keys = Picker::new(Skew::Zipf, size.records, 3);
            operate(&x, &mut tree, &mut keys, size.operations).unwrap();
            let updates: u64 = (0..size.records).map(|k| tree.read(k).unwrap()).sum();
            assert_eq!(updates, size.operations * UPDATES / (UPDATES + 1), "{}", system.name());
            assert!(tree.counts().reads > 0 && tree.counts().flushes > 0, "{}", system.name());
        }
    }

    #[test]
    fn leaves_are_full_by_ln_2() {
        let leaves = leaves(100_000, 7);
        let held: u64 = leaves.iter().map(|l| u64::from(l.1)).sum();
        assert_eq!(held, 100_000);
        let full = held as f64 / (leaves.len() as f64 * 37.0);
        assert!((full - std::f64::consts::LN_2).abs() < 0.02, "{full}");
        assert!(leaves.windows(2).all(|w| w[0].0 + u64::from(w[0].1) == w[1].0), "no key is missing");
    }
}
