//! Fig. 10: a B-tree under YCSB, on batches and on blocks.
//!
//! Claims, setup and expected shapes: [`THROUGHPUT_FIGURE`], [`BYTES_FIGURE`], [`COLLECTION_FIGURE`].
//!
//! The paper runs 300 s on 10^7 records. Here there are 10^6 records unless the user asks for more. A fixed number of
//! operations is measured, after as many operations to warm the cache, so that every system does the same work. A
//! second run of (a) and (b) with a quarter of the records shows whether a ratio depends on the number of records. A
//! ratio that does is not compared with the published one. (c) always depends on the number of records, because with
//! fewer records a channel has fewer erase units. With a quarter of a million records, a channel would have two.

use lode_base::{Profile, VirtualDuration};

use super::btree::{BTree, RECORD_BYTES, leaves};
use super::rig::{Rig, Setup, System};
use super::shared::{curves, row};
use crate::BenchError;
use crate::drive_host::DriveError;
use crate::gc::workload::{Picker, Skew};
use crate::paper::figure::{Figure, Plot};
use crate::paper::plot::{Axis, Heading};
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::{Run, SizeOption};

/// The number of records of the B-tree. The default is a tenth of the paper's number. With fewer records than
/// allowed, a channel would have less than two erase units under GC.
const RECORDS: SizeOption = SizeOption {
    name: "records",
    about: "Records of the B-tree of figure 10, 250000 to 10000000 (the paper's number); time and memory grow with it",
    default: 1_000_000,
    allowed: 250_000..=10_000_000,
};

const SETUP: &str = "The platform in modelled time. Records of 8 + 100 bytes, 19 updates for each read, keys by YCSB's zipf, \
                     scattered; a cache of 10 to 100 % of the records' bytes; buffers of 1 MB. A second run has a quarter \
                     of the records. A ratio that depends on the number of records is not compared.";

/// Fig. 10a.
pub const THROUGHPUT_FIGURE: Figure = Figure {
    name: "fig10a",
    about: "Fig. 10a: operations of a B-tree per second over the size of its cache",
    claim: "Batches reach 1.12 to 1.97 times the operations of blocks. Variable pages reach no fewer than fixed ones.",
    setup: SETUP,
    expected: "Batches lie above the paper's blocks at every size of the cache.",
    differs: "Variable pages are some 5 % slower than fixed ones, where the paper sees no degradation. A page of variable size may lie \
              in two read units, which costs the channel a second transfer.",
    sizes: &[RECORDS],
    rows: throughput,
    plot: Some(Plot { draw: plot_throughput, by: &[Method::Executed] }),
};

/// Fig. 10b.
pub const BYTES_FIGURE: Figure = Figure {
    name: "fig10b",
    about: "Fig. 10b: bytes that the B-tree writes to the drive",
    claim: "Variable pages write about 30 % fewer bytes than fixed ones.",
    setup: SETUP,
    expected: "Variable pages save the free space of the leaves, which are ln 2 full on average.",
    differs: "",
    sizes: &[RECORDS],
    rows: bytes,
    plot: Some(Plot { draw: plot_bytes, by: &[Method::Executed] }),
};

/// Fig. 10c.
pub const COLLECTION_FIGURE: Figure = Figure {
    name: "fig10c",
    about: "Fig. 10c: what garbage collection costs the B-tree, at a cache of 10 %",
    claim: "With GC, batches lose 5.2 % of their operations per second. Blocks, whose host reads whole segments, lose 42.3 %.",
    setup: "As figure 10a with a cache of 10 %, on a device of ten times the records' bytes, which is filled first. GC begins \
            when a tenth is free. The same operations also run on a device that is never full.",
    expected: "Batches lose less than blocks.",
    differs: "Both sides lose less than published. The loss depends on the number of EBLOCKs on a channel: 84 on the paper's device, \
              8 on ours for a million records. With more records both sides lose less. Our store reads its segments with all \
              channels at work.",
    sizes: &[RECORDS],
    rows: collection,
    plot: None,
};

const SYSTEMS: [System; 5] =
    [System::BatchVariable, System::BatchFixed, System::BlockPipelined, System::BlockPacked, System::Block];
/// The systems with which batches are compared.
const BLOCKS: [System; 3] = [System::Block, System::BlockPacked, System::BlockPipelined];
const THROUGHPUT: &str = "throughput";
const BYTES: &str = "bytes written an operation";
/// The number of updates for each read.
const UPDATES: u64 = 19;
/// Seeds of the tree and of the keys.
const SEEDS: (u64, u64) = (5, 9);
/// Erase units of a device on which GC has nothing to collect, for a million records.
const EBLOCKS_ENOUGH: u64 = 2048;
/// The first run has this many times as many records as the second one.
const FEWER: u64 = 4;
/// The greatest difference of a ratio of the second run, relative to that of the first.
const SCALES_DIFFER: f64 = 0.05;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
struct Size {
    records: u64,
    operations: u64,
    eblock_bytes: u32,
    segment_blocks: u32,
    /// Erase units of a device on which GC has nothing to collect.
    enough: u32,
}

impl Size {
    fn of(run: &Run<'_>) -> Self {
        let records = run.size(&RECORDS);
        let enough = (records * EBLOCKS_ENOUGH).div_ceil(RECORDS.default).max(EBLOCKS_ENOUGH) as u32;
        match run.quick() {
            true => Self {
                records: 125_000,
                operations: 15_000,
                eblock_bytes: 1 << 20,
                segment_blocks: 255,
                enough,
            },
            false => Self {
                records,
                operations: records / 5,
                eblock_bytes: run.profile().geometry.eblock_bytes(),
                segment_blocks: 1020,
                enough,
            },
        }
    }

    /// The size of the second run: fewer records, and operations in proportion. A quick run has no second run.
    fn fewer(self, run: &Run<'_>) -> Option<Self> {
        let fewer = Self { records: self.records / FEWER, operations: self.operations / FEWER, ..self };
        (!run.quick()).then_some(fewer)
    }

    fn data_bytes(&self) -> u64 {
        self.records * RECORD_BYTES as u64
    }
}

/// The rates that a system achieved.
#[derive(Clone, Copy, Debug)]
struct Rates {
    operations_a_second: f64,
    bytes_an_operation: f64,
    reads_an_operation: f64,
}

/// The host's time for an operation in memory.
fn operation(profile: &Profile) -> VirtualDuration {
    let h = &profile.host;
    h.sort + h.join + h.other
}

/// A tree on a system.
fn tree(
    run: &Run<'_>,
    size: &Size,
    system: System,
    leaves: &[(u64, u32)],
    percent: u64,
    eblock_count: u32,
    store_cleans: bool,
) -> Result<BTree, DriveError> {
    let setup = Setup {
        profile: run.profile().clone(),
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
    BTree::load(
        rig,
        leaves,
        system.whole_pages(),
        size.data_bytes() * percent / 100,
        operation(run.profile()),
    )
}

/// Runs `operations` operations.
fn operate(run: &Run<'_>, tree: &mut BTree, keys: &mut Picker, operations: u64) -> Result<Rates, DriveError> {
    let (begin, before) = (tree.rig().now(), tree.counts());
    for n in 0..operations {
        if n % 4096 == 0 {
            run.go_on()?;
        }
        let key = keys.next_page();
        match n % (UPDATES + 1) {
            UPDATES => tree.read(key).map(drop)?,
            _ => tree.update(key)?,
        }
    }
    let after = tree.counts();
    let each = |n: u64| n as f64 / operations as f64;
    Ok(Rates {
        operations_a_second: operations as f64 / tree.rig().now().since(begin).as_secs_f64(),
        bytes_an_operation: each(after.bytes - before.bytes),
        reads_an_operation: each(after.reads - before.reads),
    })
}

fn measure(
    run: &Run<'_>,
    size: &Size,
    system: System,
    leaves: &[(u64, u32)],
    percent: u64,
) -> Result<Rates, DriveError> {
    let mut tree = tree(run, size, system, leaves, percent, size.enough, false)?;
    let mut keys = Picker::new(Skew::Zipf, size.records, SEEDS.1);
    operate(run, &mut tree, &mut keys, size.operations)?;
    operate(run, &mut tree, &mut keys, size.operations)
}

fn cache_sizes(run: &Run<'_>) -> &'static [u64] {
    if run.quick() { &[10, 50, 100] } else { &[10, 20, 40, 60, 80, 100] }
}

/// The rates of several systems with each size of the cache.
struct Sweep {
    size: Size,
    /// The filled share of the leaves.
    full: f64,
    /// The size of the cache in percent of the records, and the rates of each system.
    at: Vec<(u64, Vec<(System, Rates)>)>,
}

impl Sweep {
    fn new(run: &Run<'_>, size: Size, systems: &[System]) -> Result<Self, DriveError> {
        let leaves = leaves(size.records, SEEDS.0);
        let held: u64 = leaves.iter().map(|l| u64::from(l.1)).sum();
        let full = held as f64 * RECORD_BYTES as f64 / (leaves.len() as f64 * 4096.0);
        let mut at = Vec::new();
        for &percent in cache_sizes(run) {
            let measured = |&s: &System| Ok((s, measure(run, &size, s, &leaves, percent)?));
            at.push((percent, systems.iter().map(measured).collect::<Result<_, DriveError>>()?));
        }
        Ok(Self { size, full, at })
    }

    /// The ratio of two systems, by the size of the cache.
    fn ratios(&self, a: System, b: System, of: fn(&Rates) -> f64) -> impl Iterator<Item = (u64, f64)> {
        let of =
            move |runs: &[(System, Rates)], s| runs.iter().find(|r| r.0 == s).map_or(f64::NAN, |r| of(&r.1));
        self.at.iter().map(move |(percent, runs)| (*percent, of(runs, a) / of(runs, b)))
    }

    fn least_and_greatest(&self, a: System, b: System, of: fn(&Rates) -> f64) -> [f64; 2] {
        self.ratios(a, b, of).fold([f64::INFINITY, 0.0], |[l, g], (_, r)| [l.min(r), g.max(r)])
    }
}

/// The row of the first run, and that of the second run if there was one. If the two differ, neither is compared with
/// the published value.
fn at_both_scales(mut first: Row, fewer: Option<(u64, f64)>, differs: impl Fn(f64, f64) -> bool) -> Vec<Row> {
    let Some((records, ours)) = fewer else { return vec![first] };
    let mut note = format!("the same with {records} records");
    if differs(first.ours, ours) {
        note += ", and it differs";
        if let Some(published) = first.published.take() {
            first.note = format!(
                "published: {published}; not compared, as it differs with the number of records; {}",
                first.note
            );
        }
    }
    let second = Row {
        published: None,
        metric: format!("{}, fewer records", first.metric),
        ours,
        note,
        ..first.clone()
    };
    vec![first, second]
}

fn ratios_differ(first: f64, second: f64) -> bool {
    (second / first - 1.0).abs() > SCALES_DIFFER
}

/// (a) Operations a second.
fn throughput(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let sweep = Sweep::new(run, Size::of(run), &SYSTEMS)?;
    let fewer = sweep.size.fewer(run).map(|size| Sweep::new(run, size, &SYSTEMS)).transpose()?;
    let of = |r: &Rates| r.operations_a_second;
    let mut rows = Vec::new();
    for (percent, runs) in &sweep.at {
        for (system, r) in runs {
            let note = format!(
                "{} records, {} operations; {:.3} reads of the drive per operation",
                sweep.size.records, sweep.size.operations, r.reads_an_operation
            );
            rows.push(row(system.name(), at(*percent), THROUGHPUT, "ops/s", of(r), &note));
        }
    }
    for block in BLOCKS {
        let series = format!("Batch (VP) to {}", block.name());
        let ratios = sweep.ratios(System::BatchVariable, block, of);
        rows.extend(
            ratios.map(|(percent, r)| row(&series, at(percent), "ratio", "", r, "of operations per second")),
        );
    }
    for block in BLOCKS {
        let series = format!("Batch (VP) to {}", block.name());
        let is_papers = block == System::Block;
        let note = match block {
            System::Block => {
                "pages of 4 KB, packets one by one, each with a program and a commit; most of the rest is reads, which are the same for all"
            }
            System::BlockPacked => "packets one by one, of packed pages, so fewer packets",
            _ => {
                "packed pages, packets side by side, which share commits: the interface allows this, the paper's device did not do it"
            }
        };
        let ours = sweep.least_and_greatest(System::BatchVariable, block, of);
        let seconds = fewer.as_ref().map(|f| f.least_and_greatest(System::BatchVariable, block, of));
        for (i, (metric, published, aim)) in
            [("least ratio", 1.12, Aim::AtLeast), ("greatest ratio", 1.97, Aim::Equal)]
                .into_iter()
                .enumerate()
        {
            let published = is_papers.then_some(published);
            let first = Row { published, aim, ..row(&series, X::None, metric, "", ours[i], note) };
            let second = fewer.as_ref().zip(seconds).map(|(f, ours)| (f.size.records, ours[i]));
            rows.extend(at_both_scales(first, second, ratios_differ));
        }
    }
    let (variable, fixed) = (System::BatchVariable, System::BatchFixed);
    let note = "the least over the cache sizes; the paper: no degradation. A page of variable size may lie in two read units, \
                which costs the channel a second transfer";
    let ours = sweep.least_and_greatest(variable, fixed, of)[0];
    let first = Row {
        published: Some(1.0),
        aim: Aim::AtLeast,
        ..row("Batch (VP) to Batch (FP)", X::None, "least ratio", "", ours, note)
    };
    let second = fewer.map(|f| (f.size.records, f.least_and_greatest(variable, fixed, of)[0]));
    rows.extend(at_both_scales(first, second, ratios_differ));
    Ok(rows)
}

/// (b) Bytes written.
fn bytes(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    const SYSTEMS: [System; 2] = [System::BatchVariable, System::BatchFixed];
    let sweep = Sweep::new(run, Size::of(run), &SYSTEMS)?;
    let fewer = sweep.size.fewer(run).map(|size| Sweep::new(run, size, &SYSTEMS)).transpose()?;
    let mut rows = Vec::new();
    for (percent, runs) in &sweep.at {
        for (system, r) in runs {
            let note = format!("bytes in the write buffers; leaves are {:.1} % full", sweep.full * 100.0);
            rows.push(row(system.name(), at(*percent), BYTES, "bytes", r.bytes_an_operation, &note));
        }
    }
    let saved = |s: &Sweep| {
        let sum = |i: usize| s.at.iter().map(|(_, runs)| runs[i].1.bytes_an_operation).sum::<f64>();
        (1.0 - sum(0) / sum(1)) * 100.0
    };
    // If everything fits in the cache, nothing is written.
    let least = |s: &Sweep| {
        let ratios = s.ratios(SYSTEMS[0], SYSTEMS[1], |r| r.bytes_an_operation);
        ratios.map(|(_, r)| r).filter(|r| r.is_finite()).fold(f64::INFINITY, |l, r| l.min((1.0 - r) * 100.0))
    };
    let differ = |first: f64, second: f64| ratios_differ(100.0 - first, 100.0 - second);
    let first = Row {
        published: Some(30.0),
        ..row(
            "Batch (VP) to Batch (FP)",
            X::None,
            "fewer bytes",
            "%",
            saved(&sweep),
            "over all cache sizes; the paper says about 30 %",
        )
    };
    rows.extend(at_both_scales(first, fewer.as_ref().map(|f| (f.size.records, saved(f))), differ));
    let note =
        "with a small cache, the pages with most records are written most, and they are fuller than others";
    let first = row("Batch (VP) to Batch (FP)", X::None, "fewer bytes, the least", "%", least(&sweep), note);
    rows.extend(at_both_scales(first, fewer.as_ref().map(|f| (f.size.records, least(f))), differ));
    Ok(rows)
}

/// (c) The cost of GC.
fn collection(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    const PERCENT: u64 = 10;
    let size = Size::of(run);
    let leaves = leaves(size.records, SEEDS.0);
    let eblock = u64::from(size.eblock_bytes);
    let channels = u64::from(run.profile().geometry.channels());
    // Each channel has the same number of EBLOCKs.
    let ten_times = (10 * size.data_bytes()).div_ceil(eblock).next_multiple_of(channels) as u32;
    let mut rows = Vec::new();
    for system in SYSTEMS {
        // The tree is updated until the device is full, and then for a quarter of its capacity under GC.
        let mut on = tree(run, &size, system, &leaves, PERCENT, ten_times, true)?;
        let mut keys = Picker::new(Skew::Zipf, size.records, SEEDS.1);
        let mut before = 0;
        let capacity = u64::from(ten_times) * eblock;
        while on.rig().drive().info().media_bytes_written < capacity + capacity / 4 {
            operate(run, &mut on, &mut keys, size.operations / 4)?;
            before += size.operations / 4;
        }
        let info = on.rig().drive().info();
        let store = on.rig().store().map(|s| s.info());
        let with = operate(run, &mut on, &mut keys, size.operations)?;
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
        let mut off = tree(run, &size, system, &leaves, PERCENT, size.enough, false)?;
        let mut keys = Picker::new(Skew::Zipf, size.records, SEEDS.1);
        operate(run, &mut off, &mut keys, before)?;
        let without = operate(run, &mut off, &mut keys, size.operations)?;
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
        let (published, aim) = match system {
            System::BatchVariable => (Some(5.2), Aim::AtMost),
            System::Block => (Some(42.3), Aim::Equal),
            _ => (None, Aim::Equal),
        };
        // A run with GC may be faster by chance.
        rows.push(Row { published, aim, ..row(system.name(), X::None, "loss", "%", loss.max(0.0), &note) });
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
/// When it cannot be drawn.
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
/// When it cannot be drawn.
pub fn plot_bytes(rows: &[Row]) -> Result<String, BenchError> {
    let heading = Heading {
        title: "ELEOS Fig. 10b: what the B-tree writes".into(),
        subtitle: "Bytes handed to the drive in write buffers of 1 MB".into(),
    };
    curves(rows, BYTES, heading, cache_axis(), "bytes per operation", 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::run::{Scale, Stop};

    #[test]
    fn no_update_is_lost_on_any_system() {
        let profile = Profile::find("eleos-cnex").unwrap();
        let scale = Scale { quick: true, ..Scale::default() };
        let run = Run::new(&profile, &scale, &Stop::never());
        let size = Size {
            records: 20_000,
            operations: 20_000,
            eblock_bytes: 1 << 20,
            segment_blocks: 255,
            enough: 64,
        };
        let leaves = leaves(size.records, 1);
        for system in SYSTEMS {
            let mut tree = tree(&run, &size, system, &leaves, 20, 64, true).unwrap();
            let mut keys = Picker::new(Skew::Zipf, size.records, 3);
            operate(&run, &mut tree, &mut keys, size.operations).unwrap();
            let updates: u64 = (0..size.records).map(|k| tree.read(k).unwrap()).sum();
            assert_eq!(updates, size.operations * UPDATES / (UPDATES + 1), "{}", system.name());
            assert!(tree.counts().reads > 0 && tree.counts().flushes > 0, "{}", system.name());
        }
    }

    #[test]
    fn a_ratio_that_depends_on_the_number_of_records_is_compared_with_nothing() {
        let first = Row { published: Some(1.97), ..row("a to b", X::None, "least ratio", "", 1.9, "note") };
        let rows = |second| at_both_scales(first.clone(), second, ratios_differ);
        assert_eq!(rows(None), std::slice::from_ref(&first), "one scale says nothing of it");
        let same = rows(Some((5, 1.82)));
        assert_eq!(same[0], first);
        assert_eq!((same[1].metric.as_str(), same[1].ours), ("least ratio, fewer records", 1.82));
        let differ = rows(Some((5, 1.79)));
        assert!(differ.iter().all(|r| r.published.is_none()), "{differ:?}");
        assert!(
            differ[0].note.contains("published: 1.97; not compared") && differ[1].note.contains("it differs")
        );
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
