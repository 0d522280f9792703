//! A drive on a modelled device: what its commands take there.

mod common;

use std::sync::Arc;

use common::*;
use lode_base::{ExtentId, Geometry, PageBuf, Part, Profile, Split, ViewId, VirtualDuration, VirtualTime};
use lode_command::{
    Align, Answer, Batch, Command, Completion, Device, Outcome, PageRange, PageWrite, Queue, ReadRequest,
    Reply, ScanTask, Skip, Until,
};
use lode_firmware::{Drive, DriveOptions, ScanPlacement};
use lode_flash::Medium;
use lode_flash::timing::{Model, Operations};
use lode_page::{DataType, Value};
use lode_program::{Aggregation, Call, CompareOp, Expr, Program};

fn profile(change: impl FnOnce(&mut Profile)) -> Profile {
    let mut p = Profile::find("isp-adms11").unwrap();
    change(&mut p);
    p
}

struct Timed {
    drive: Drive,
    model: Arc<Model>,
}

fn timed(profile: Profile, options: DriveOptions) -> Timed {
    let model = Arc::new(Model::new(profile));
    let medium = Medium::memory(model.profile().geometry).with_model(model.clone());
    Timed { drive: Drive::format(medium, options).unwrap(), model }
}

impl Timed {
    /// When nothing is under way any more.
    fn idle_at(&self) -> VirtualTime {
        self.model.latest()
    }

    /// A command alone: when it ended after it was submitted, what on, and what it came to.
    fn alone(&self, c: Command) -> (VirtualDuration, Split, Reply) {
        let at = self.idle_at();
        let mut q = self.drive.open_queue(1).unwrap();
        q.submit(at, c).unwrap();
        let mut out = Vec::new();
        q.complete(at, Until::One, &mut out).unwrap();
        let Completion { at: end, split, outcome, .. } = out.pop().unwrap();
        assert!(out.is_empty());
        let Outcome::Done(reply) = outcome else { panic!("a unit") };
        assert_eq!(split.total(), end - at, "the parts add up");
        (end - at, split, reply.unwrap())
    }

    fn extents(&self, count: u32) -> Vec<ExtentId> {
        match self.alone(Command::AllocateExtents { owner: lode_base::OwnerId::new(1), count }).2 {
            Reply::Extents(e) => e,
            r => panic!("{r:?}"),
        }
    }

    /// Writes batches, `depth` of them under way at a time: from the first submission to the last completion.
    fn writes(&self, batches: Vec<Batch>, depth: u32) -> VirtualDuration {
        let begin = self.idle_at();
        *self.writes_ending(batches, depth).last().unwrap() - begin
    }

    /// The same: when each ended.
    fn writes_ending(&self, batches: Vec<Batch>, depth: u32) -> Vec<VirtualTime> {
        let begin = self.idle_at();
        let mut q = self.drive.open_queue(depth).unwrap();
        let (mut now, mut ends, mut under_way) = (begin, Vec::new(), 0);
        let mut out = Vec::new();
        let mut wait = |q: &mut Box<dyn Queue>, now: &mut VirtualTime| {
            q.complete(*now, Until::One, &mut out).unwrap();
            for c in out.drain(..) {
                assert!(matches!(c.outcome, Outcome::Done(Ok(Reply::Committed { .. }))), "{:?}", c.outcome);
                *now = (*now).max(c.at);
                ends.push(c.at);
            }
        };
        for b in batches {
            if under_way == depth {
                wait(&mut q, &mut now);
                under_way -= 1;
            }
            q.submit(now, Command::Write(b)).unwrap();
            under_way += 1;
        }
        for _ in 0..under_way {
            wait(&mut q, &mut now);
        }
        ends.sort();
        ends
    }

    /// Scans pages; from the submission to the last completion, the host taking each unit as it comes.
    fn scan(&self, view: ViewId, program: Arc<Program>, pages: Vec<PageRange>) -> (VirtualDuration, u64) {
        let begin = self.idle_at();
        let mut q = self.drive.open_queue(4).unwrap();
        let task = ScanTask {
            view,
            pages,
            program,
            answer: Answer::Rows,
            unit_pages: 1024,
            limit_rows: None,
            hidden: None,
            matcher: None,
            skip: Skip::Levels,
        };
        q.submit(begin, Command::Scan(task)).unwrap();
        let (mut now, mut out) = (begin, Vec::new());
        loop {
            q.complete(now, Until::One, &mut out).unwrap();
            let c = out.pop().unwrap();
            assert!(c.split.total() > VirtualDuration::ZERO && c.at >= now);
            now = c.at;
            match c.outcome {
                Outcome::Unit(_) => {}
                Outcome::Done(Ok(Reply::Scanned(counts))) => return (now - begin, counts.rows_out),
                o => panic!("{o:?}"),
            }
        }
    }
}

/// Pages of whole read units.
fn pages(extent: ExtentId, first: u16, count: u16, bytes: usize) -> Vec<PageWrite> {
    let data = PageBuf::copy_from(&vec![5; bytes]);
    let page = |n| PageWrite { lpid: extent.page(n), data: data.clone(), align: Align::ReadUnit };
    (first..first + count).map(page).collect()
}

#[test]
fn a_read_alone_takes_the_sum_of_its_parts_to_the_picosecond() {
    let p = profile(|_| {});
    let t = timed(p.clone(), DriveOptions::default());
    let extent = t.extents(1)[0];
    t.writes(vec![Batch { writes: pages(extent, 0, 8, 4096), ..Batch::default() }], 1);
    let lpid = extent.page(3);
    let read = Command::Read { view: None, pages: vec![ReadRequest { lpid, range: None }] };
    let (took, split, _) = t.alone(read);
    let cycles = u64::from(p.cores.command_cycles + p.cores.lookup_cycles);
    let core = p.cores.clock.time(u64::from(p.cores.command_cycles)) + p.cores.clock.time(cycles)
        - p.cores.clock.time(u64::from(p.cores.command_cycles));
    let bus = p.bus.command + p.bus.rate.time(8192);
    // The command of 64 bytes and its page list of 16; the page, and a completion of 16 bytes.
    let dram = |bytes: u64| p.dram.rate.time(bytes);
    let down = p.link.command + p.link.down.time(80).max(dram(80));
    let up = p.link.up.time(4096) + p.link.up.time(16) + p.link.completion;
    assert_eq!(took, down + core + bus + p.nand.read + up);
    assert_eq!(
        (split.of(Part::Media), split.of(Part::Bus), split.of(Part::Device)),
        (p.nand.read, bus, core)
    );
}

/// Else a flush behind it would make durable what no time was charged for.
#[test]
fn an_unforced_batch_takes_what_a_forced_one_takes() {
    let took = |unforced: bool, bytes: usize| {
        let t = timed(profile(|_| {}), DriveOptions::default());
        let extent = t.extents(1)[0];
        let (took, ..) = t.alone(Command::Write(Batch {
            writes: pages(extent, 0, 4, bytes),
            unforced,
            ..Batch::default()
        }));
        t.alone(Command::Flush);
        took
    };
    for bytes in [100, 20_000] {
        assert_eq!(took(true, bytes), took(false, bytes));
    }
}

#[test]
fn two_runs_take_the_same_to_the_picosecond() {
    let run = || {
        let t = timed(profile(|_| {}), DriveOptions::default());
        let extent = t.extents(2);
        let batches = (0..20u16).map(|n| {
            let writes = pages(extent[usize::from(n % 2)], n * 13, 11, 5000 + usize::from(n) * 100);
            Batch { writes, ..Batch::default() }
        });
        let took = t.writes(batches.collect(), 4);
        (took, t.idle_at(), t.model.operations())
    };
    let (a, b): ((_, _, Operations), _) = (run(), run());
    assert_eq!(a, b);
    assert!(a.2.programs > 0 && a.2.core_cycles > 0);
}

/// Rows of a table, of about 8 KB a page.
fn table(t: &Timed, extents: &[ExtentId], pages: u16) -> Vec<PageRange> {
    let mut batches = Vec::new();
    for e in extents {
        for first in (0..pages).step_by(64) {
            let writes = (first..pages.min(first + 64)).map(|p| {
                let mut w = table_page(e.page(p), 1, &(0..500).map(|v| v + i64::from(p)).collect::<Vec<_>>());
                w.align = Align::ReadUnit;
                w
            });
            batches.push(Batch { writes: writes.collect(), ..Batch::default() });
        }
    }
    t.writes(batches, 8);
    extents.iter().map(|&extent| PageRange { extent, first: 0, count: pages }).collect()
}

/// Rows whose first column is at least a value.
fn at_least(value: i64) -> Arc<Program> {
    let bound = Expr::Const(Value::Int(value), DataType::BigInt);
    let filter = Expr::compare(CompareOp::GtEq, Expr::Column(0), bound);
    Arc::new(Program::check(schema(), Some(filter), vec![0, 1], false).unwrap())
}

/// A scan in the drive from which next to nothing comes back: bytes that were read, in what time.
fn selective_scan(p: Profile, placement: ScanPlacement) -> (u64, VirtualDuration) {
    let options = DriveOptions { scan_placement: placement, ..DriveOptions::default() };
    let t = timed(p, options);
    let extents = t.extents(8);
    let pages = table(&t, &extents, 512);
    let Reply::View { view, .. } = t.alone(Command::OpenView).2 else { panic!("no view") };
    let before = t.model.operations();
    let (took, rows) = t.scan(view, at_least(i64::MAX), pages);
    assert_eq!(rows, 0);
    (t.model.operations().since(&before).bus_bytes, took)
}

fn mb_per_s((bytes, took): (u64, VirtualDuration)) -> f64 {
    bytes as f64 / took.as_secs_f64() / 1e6
}

#[test]
fn a_scan_in_the_scan_units_takes_what_buses_and_array_give() {
    let p = profile(|p| p.cores.command_cycles = 100);
    let got = mb_per_s(selective_scan(p.clone(), ScanPlacement::ScanUnit));
    let unit = u64::from(p.geometry.rblock_bytes());
    let bus = unit as f64 / (p.bus.command + p.bus.rate.time(unit)).as_secs_f64() / 1e6 * 8.0;
    assert!(got >= 0.97 * bus && got <= bus, "{got} of {bus} MB/s");
    // A core looks at 100 million bus cycles' worth of rows a second, and at no more.
    let core = mb_per_s(selective_scan(p, ScanPlacement::Core));
    assert!(core < got / 1.5, "{core} MB/s by the core, {got} by the scan units");
}

#[test]
fn large_batches_take_what_the_dies_give() {
    let p = profile(|p| {
        p.link.down = lode_base::profile::Rate::from_bytes_per_s(8_000_000_000);
        p.link.protected_bytes = 0;
    });
    let t = timed(p.clone(), DriveOptions::default());
    let extents = t.extents(32);
    let batch = |e: &ExtentId| Batch { writes: pages(*e, 0, 512, 8192), ..Batch::default() };
    let ends = t.writes_ending(extents.iter().map(batch).collect(), 8);
    // The first eight come at once, and wait for one another.
    let took = ends[31] - ends[12];
    let got = 19.0 * 512.0 * 8192.0 / took.as_secs_f64() / 1e6;
    let bus = 8192.0 / (p.bus.command + p.bus.rate.time(8192)).as_secs_f64() / 1e6 * 8.0;
    println!("{got:.1} of {bus:.1} MB/s");
    assert!(got >= 0.97 * bus && got <= bus, "{got} of {bus} MB/s");
}

/// Reads of pages on different channels, submitted together: when each ended.
fn reads_ending(queue_depth: u32, queue_pairs: u32) -> Vec<VirtualDuration> {
    let t = timed(
        profile(|p| (p.link.queue_depth, p.link.queue_pairs) = (queue_depth, queue_pairs)),
        DriveOptions::default(),
    );
    let extent = t.extents(1)[0];
    t.writes(vec![Batch { writes: pages(extent, 0, 64, 8192), ..Batch::default() }], 1);
    let at = t.idle_at();
    let mut q = t.drive.open_queue(8).unwrap();
    for page in 0..8 {
        let pages = vec![ReadRequest { lpid: extent.page(page * 8), range: None }];
        q.submit(at, Command::Read { view: None, pages }).unwrap();
    }
    let mut out = Vec::new();
    for _ in 0..8 {
        q.complete(at, Until::One, &mut out).unwrap();
    }
    assert!(out.iter().all(|c| c.split.total() == c.at - at), "the parts add up");
    out.iter().map(|c| c.at - at).collect()
}

#[test]
fn what_finds_the_queues_full_waits_in_the_host() {
    let one_by_one = reads_ending(1, 1);
    let alone = one_by_one[0];
    assert!(one_by_one.iter().zip(1..).all(|(took, n)| *took == alone * n), "{one_by_one:?}");
    assert_eq!(reads_ending(2, 2), reads_ending(4, 1));
    let (four, all) = (reads_ending(4, 1), reads_ending(8, 1));
    assert_eq!(four[0], alone);
    assert!(all[7] < four[7] && four[7] < alone * 4, "{all:?} {four:?} {alone:?}");
    assert_eq!(all, reads_ending(32, 1));
}

#[test]
fn an_index_entry_costs_the_core_a_look_at_each_value() {
    let p = profile(|p| p.cores.compare_cycles = 7);
    let cycles_of = |ruled: bool| {
        let t = timed(p.clone(), DriveOptions::default());
        let extent = t.extents(1)[0];
        if ruled {
            let index_rules = vec![(lode_base::OwnerId::new(1), Some(rule()))];
            t.alone(Command::Write(Batch { index_rules, ..Batch::default() }));
        }
        let before = t.model.operations();
        let writes =
            vec![table_page(extent.page(0), 1, &[1, 2, 3]), table_page(extent.page(1), 1, &[9; 100])];
        t.alone(Command::Write(Batch { writes, ..Batch::default() }));
        t.model.operations().since(&before).core_cycles
    };
    let values = 103 * rule().columns().len() as u64;
    let entries = 2 * u64::from(p.cores.index_cycles) + values * 7;
    assert_eq!(cycles_of(true) - cycles_of(false), entries);
}

/// What an aggregation in the drive takes, beside a scan of the rows that it is made of.
#[test]
fn groups_cost_cycles_and_save_the_link() {
    let run = |placement, program: Program, answer| {
        let options = DriveOptions { scan_placement: placement, ..DriveOptions::default() };
        let t = timed(profile(|p| p.cores.command_cycles = 100), options);
        let extents = t.extents(1);
        let pages = table(&t, &extents, 64);
        let Reply::View { view, .. } = t.alone(Command::OpenView).2 else { panic!("no view") };
        let before = t.model.operations();
        let mut q = t.drive.open_queue(1).unwrap();
        let at = t.idle_at();
        let program = Arc::new(program);
        let task = ScanTask {
            view,
            pages,
            program,
            answer,
            unit_pages: 1024,
            limit_rows: None,
            hidden: None,
            matcher: None,
            skip: Skip::Levels,
        };
        q.submit(at, Command::Scan(task)).unwrap();
        let (mut now, mut out, mut bytes) = (at, Vec::new(), 0);
        loop {
            q.complete(now, Until::One, &mut out).unwrap();
            let c = out.pop().unwrap();
            assert_eq!(c.split.total(), c.at - now, "the parts add up");
            now = c.at;
            bytes += c.link_bytes();
            if let Outcome::Done(done) = c.outcome {
                done.unwrap();
                return (t.model.operations().since(&before).core_cycles, bytes, now - at);
            }
        }
    };
    let rows = || Program::check(schema(), None, vec![0, 1], false).unwrap();
    let groups = |group_by: Vec<u16>| {
        let calls = vec![Call::CountRows, Call::Sum(Expr::Column(0))];
        rows().with_aggregation(Aggregation { group_by, calls, groups_max: 1000 }).unwrap()
    };
    let count = 64 * 500;
    for placement in [ScanPlacement::ScanUnit, ScanPlacement::Core] {
        let (cycles, bytes, took) = run(placement, rows(), Answer::Rows);
        let (total, total_bytes, total_took) = run(placement, groups(vec![]), Answer::Aggregate);
        let (by_key, by_key_bytes, _) = run(placement, groups(vec![0]), Answer::Aggregate);
        assert!(
            total_bytes * 100 < bytes && by_key_bytes * 10 < bytes,
            "{total_bytes} {by_key_bytes} {bytes}"
        );
        let c = profile(|_| {}).cores;
        let (emit, add) = (u64::from(c.emit_cycles), u64::from(c.aggregate_cycles));
        match placement {
            // The scan unit adds up; groups are looked up by a core.
            ScanPlacement::ScanUnit => {
                assert_eq!((total, by_key), (cycles, cycles + count * add));
                assert!(total_took < took);
            }
            // A row that is added is not put out; each group is, once.
            ScanPlacement::Core => {
                assert_eq!(total, cycles - count * emit + count * add + emit);
                assert!(by_key > total);
            }
        }
    }
}

/// Each resource ten times slower, one at a time: what must move moves, and what must not does not.
#[test]
fn no_path_costs_nothing() {
    struct Took {
        read: Split,
        write: VirtualDuration,
        scan: VirtualDuration,
        overwrite: VirtualDuration,
    }
    let measure = |p: Profile| {
        let t = timed(p, DriveOptions::default());
        let extents = t.extents(2);
        let ranges = table(&t, &extents, 64);
        let lpid = extents[0].page(3);
        let read = t.alone(Command::Read { view: None, pages: vec![ReadRequest { lpid, range: None }] }).1;
        let write =
            t.writes(vec![Batch { writes: pages(extents[0], 200, 100, 8192), ..Batch::default() }], 1);
        let Reply::View { view, .. } = t.alone(Command::OpenView).2 else { panic!("no view") };
        let (scan, _) = t.scan(view, at_least(400), ranges);
        // EBLOCKs that were used are used again.
        let again =
            |_| t.writes(vec![Batch { writes: pages(extents[1], 100, 20, 500_000), ..Batch::default() }], 1);
        let overwrite = (0..6).map(again).sum();
        Took { read, write, scan, overwrite }
    };
    let profile = |change: &dyn Fn(&mut Profile)| {
        profile(|p| {
            p.geometry = Geometry::new(8, 8, 1, 8192, 8192, 1 << 20, 1024).unwrap();
            change(p);
        })
    };
    let base = measure(profile(&|_| {}));
    let ten = |d: &mut VirtualDuration| *d = *d * 10;
    let slow = |r: &mut lode_base::profile::Rate| {
        *r = lode_base::profile::Rate::from_bytes_per_s(r.bytes_per_s() / 10);
    };
    let total = |t: &Took| t.read.total();
    // Array reads.
    let t = measure(profile(&|p| ten(&mut p.nand.read)));
    assert_eq!(total(&t) - total(&base), VirtualDuration::from_ns(9 * 50_000));
    assert!(t.scan > base.scan && t.write == base.write);
    // Programs.
    let t = measure(profile(&|p| ten(&mut p.nand.program)));
    assert!(t.write > base.write && t.read == base.read && t.scan == base.scan);
    // Erasures.
    let t = measure(profile(&|p| ten(&mut p.nand.erase)));
    assert!(t.overwrite > base.overwrite && t.read == base.read && t.scan == base.scan);
    // Buses.
    let t = measure(profile(&|p| slow(&mut p.bus.rate)));
    assert_eq!(t.read.of(Part::Bus) - base.read.of(Part::Bus), VirtualDuration::from_ns(9 * 81_920));
    assert!(t.write > base.write && t.scan > base.scan);
    // Scan units: a read goes past them.
    let t = measure(profile(&|p| slow(&mut p.scan_unit.rate)));
    assert!(t.scan > base.scan && t.read == base.read && t.write == base.write);
    // The device's memory.
    let t = measure(profile(&|p| slow(&mut p.dram.rate)));
    assert!(t.read.of(Part::Dram) > base.read.of(Part::Dram) || total(&t) >= total(&base));
    assert!(t.scan > base.scan);
    // Its cores.
    let t = measure(profile(&|p| {
        p.cores.clock = lode_base::profile::Frequency::from_hz(p.cores.clock.hz() / 10)
    }));
    assert!(
        t.read.of(Part::Device) == base.read.of(Part::Device) * 10
            && t.write > base.write
            && t.scan > base.scan
    );
    // The link, in each direction.
    let t = measure(profile(&|p| slow(&mut p.link.up)));
    assert!(t.read.of(Part::Link) > base.read.of(Part::Link) && t.scan > base.scan);
    let t = measure(profile(&|p| slow(&mut p.link.down)));
    assert!(t.write > base.write);
}
