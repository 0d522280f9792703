//! Each profile that is shipped: a drive on its device answers right, and takes the time that the device takes.

use std::sync::Arc;

use lode_base::profile::SHIPPED;
use lode_base::{ExtentId, Lpid, OwnerId, PageBuf, Part, Profile, Split, VirtualDuration, VirtualTime};
use lode_command::{
    Align, Batch, Command, Completion, Device, Outcome, PageWrite, Queue, ReadRequest, Reply, Until,
};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;

struct Timed {
    drive: Drive,
    model: Arc<Model>,
}

fn timed(profile: Profile) -> Timed {
    let model = Arc::new(Model::new(profile));
    let medium = Medium::memory(model.profile().geometry).with_model(model.clone());
    Timed { drive: Drive::format(medium, DriveOptions::default()).unwrap(), model }
}

/// The bytes of a page of its own.
fn page(lpid: Lpid, bytes: usize) -> PageBuf {
    let seed = (lpid.extent().raw() * 1024 + u64::from(lpid.page())).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let words = (0..bytes.div_ceil(8) as u32).flat_map(|i| seed.rotate_left(i % 61).to_le_bytes());
    PageBuf::copy_from(&words.take(bytes).collect::<Vec<_>>())
}

impl Timed {
    /// Commands, `depth` of them under way at a time, from when the device is at rest: how long all of it takes, and what
    /// each came to.
    fn run(&self, commands: Vec<Command>, depth: usize) -> (VirtualDuration, Vec<(Split, Reply)>) {
        let begin = self.model.latest();
        let mut q = self.drive.open_queue(depth as u32).unwrap();
        let (mut now, mut under_way, mut replies) = (begin, 0, Vec::new());
        let mut one = |q: &mut Box<dyn Queue>, now: &mut VirtualTime| {
            let mut out = Vec::new();
            q.complete(*now, Until::One, &mut out).unwrap();
            let Completion { tag, at, split, outcome } = out.pop().unwrap();
            let Outcome::Done(reply) = outcome else { panic!("a unit") };
            *now = (*now).max(at);
            replies.push((tag, (split, reply.unwrap())));
        };
        for c in commands {
            if under_way == depth {
                one(&mut q, &mut now);
                under_way -= 1;
            }
            q.submit(now, c).unwrap();
            under_way += 1;
        }
        (0..under_way).for_each(|_| one(&mut q, &mut now));
        replies.sort_by_key(|r| r.0);
        (now - begin, replies.into_iter().map(|r| r.1).collect())
    }

    fn extents(&self, count: u32) -> Vec<ExtentId> {
        match self.run(vec![Command::AllocateExtents { owner: OwnerId::new(1), count }], 1).1.pop() {
            Some((_, Reply::Extents(e))) => e,
            r => panic!("{r:?}"),
        }
    }

    /// Writes pages of a size, so many in a batch.
    fn write(&self, lpids: &[Lpid], bytes: usize, align: Align, batch: usize) {
        let batches = lpids.chunks(batch).map(|some| {
            let writes =
                some.iter().map(|&lpid| PageWrite { lpid, data: page(lpid, bytes), align }).collect();
            Command::Write(Batch { writes, ..Batch::default() })
        });
        self.run(batches.collect(), 4);
    }

    /// Reads pages, each right, so many in a command: how long all of it takes, and the last command's split.
    fn read(&self, lpids: &[Lpid], bytes: usize, together: usize, depth: usize) -> (VirtualDuration, Split) {
        let commands = lpids.chunks(together).map(|some| {
            let pages = some.iter().map(|&lpid| ReadRequest { lpid, range: None }).collect();
            Command::Read { view: None, pages }
        });
        let (took, replies) = self.run(commands.collect(), depth);
        let split = replies.last().unwrap().0;
        let read: Vec<PageBuf> = replies
            .into_iter()
            .flat_map(|(_, r)| match r {
                Reply::Pages(pages) => pages,
                r => panic!("{r:?}"),
            })
            .collect();
        assert_eq!(read.len(), lpids.len());
        for (&lpid, data) in lpids.iter().zip(&read) {
            assert!(data[..] == page(lpid, bytes)[..], "page {lpid}");
        }
        (took, split)
    }

    /// Nothing works more than all of the time.
    fn check_utilisation(&self, name: &str) {
        let over = self.model.latest().as_ps();
        for b in self.model.busy() {
            assert!(b.most_ps <= over, "{name}: {} take {} of {over} ps", b.name, b.most_ps);
            assert!(b.busy_ps <= u128::from(over) * b.parts as u128, "{name}: {}", b.name);
        }
    }
}

/// A read of one page of 4 KB on a device at rest: command, tR, transfer, link; each as the profile has it.
fn read_4k(p: &Profile) -> (VirtualDuration, [VirtualDuration; 3]) {
    let unit = u64::from(p.geometry.rblock_bytes());
    let (command, page_list, completion) = (64, 16, 16);
    // What goes through the memory of the device does so beside the bus and the link.
    let with_dram = |over: VirtualDuration, bytes| over.max(p.dram.rate.time(bytes));
    let core =
        p.cores.clock.time(p.cores.command_cycles.into()) + p.cores.clock.time(p.cores.lookup_cycles.into());
    let down = p.link.command + with_dram(p.link.down.time(command + page_list), command + page_list);
    let bus = p.bus.command + p.bus.rate.time(unit);
    let dram = with_dram(p.bus.rate.time(unit), unit) - p.bus.rate.time(unit);
    let up = with_dram(p.link.up.time(4096), 4096) + with_dram(p.link.up.time(completion), completion);
    (down + core + bus + p.nand.read + dram + up + p.link.completion, [p.nand.read, bus, core])
}

/// All of them, one after the other; each says its name when it fails.
fn for_each(mut check: impl FnMut(&str, Profile)) {
    for (name, _) in SHIPPED {
        check(name, Profile::find(name).unwrap());
    }
}

#[test]
fn a_read_of_4_kb_alone_takes_command_array_transfer_and_link_to_the_picosecond() {
    for_each(|name, mut p| {
        // What was written or read lately would come from memory.
        p.dram.buffer_kb = 0;
        let t = timed(p.clone());
        let extent = t.extents(1)[0];
        let lpids: Vec<Lpid> = (0..64).map(|n| extent.page(n)).collect();
        t.write(&lpids, 4096, Align::ReadUnit, 64);
        let (expected, parts) = read_4k(&p);
        for lpid in [3, 40, 3] {
            let (took, split) = t.read(&[extent.page(lpid)], 4096, 1, 1);
            assert_eq!(took, expected, "{name}");
            assert_eq!(parts, [Part::Media, Part::Bus, Part::Device].map(|part| split.of(part)), "{name}");
        }
        assert_eq!(expected, p.peaks().read_4k, "{name}: as the profile is described");
        t.check_utilisation(name);
    });
}

#[test]
fn pages_of_all_sizes_come_back_in_any_order_and_nothing_works_more_than_all_of_the_time() {
    for_each(|name, p| {
        let t = timed(p);
        let extents = t.extents(3);
        let of = |e: usize, count: u16| (0..count).map(|n| extents[e].page(n)).collect::<Vec<_>>();
        let (small, blocks, large) = (of(0, 300), of(1, 300), of(2, 20));
        t.write(&small, 1900, Align::Cell, 40);
        t.write(&blocks, 4096, Align::ReadUnit, 1);
        t.write(&large, 300_000, Align::ReadUnit, 3);
        // Once more, so that there is something to collect.
        t.write(&blocks[100..200], 4096, Align::Cell, 7);
        let shuffled = |lpids: &[Lpid]| {
            let at = |i: usize| lpids[i * 7919 % lpids.len()];
            (0..lpids.len()).map(at).collect::<Vec<_>>()
        };
        let depth = t.model.profile().link.queue_depth.min(32) as usize;
        t.read(&shuffled(&small), 1900, 5, depth);
        t.read(&shuffled(&blocks), 4096, 1, depth);
        t.read(&shuffled(&large), 300_000, 2, 4);
        t.check_utilisation(name);
    });
}

#[test]
fn a_sequential_read_gets_what_array_buses_and_link_give_and_no_more() {
    for_each(|name, p| {
        let t = timed(p.clone());
        let pages: u16 = 64;
        let bytes = 1 << 19;
        let extent = t.extents(1)[0];
        let lpids: Vec<Lpid> = (0..pages).map(|n| extent.page(n)).collect();
        t.write(&lpids, bytes, Align::ReadUnit, 8);
        let (took, _) = t.read(&lpids, bytes, 1, 32);
        let got = f64::from(pages) * bytes as f64 / took.as_secs_f64();
        let limit = p.peaks().sequential_read().bytes_per_s() as f64;
        println!("{name}: {:.0} of {:.0} MB/s", got / 1e6, limit / 1e6);
        assert!(got <= limit, "{name}: {got} of {limit}");
        // Of 32 MB, the first and the last of which are read alone. An EBLOCK that lies on one die is read from one die.
        assert!(!p.striped || got >= 0.7 * limit, "{name}: {got} of {limit}");
        t.check_utilisation(name);
    });
}

/// The same device with few and small EBLOCKs, so that little data fills it.
fn small(p: &Profile) -> Profile {
    let g = &p.geometry;
    let places = if p.striped { g.channels() } else { g.channels() * g.ways() * g.planes() };
    let stripe = g.wblock_bytes() * if p.striped { g.ways() * g.planes() } else { 4 };
    // Whole stripes, and a multiple of 1 MB.
    let eblock_bytes = (1..).map(|mb| mb << 20).find(|b: &u32| b.is_multiple_of(stripe)).unwrap();
    let count = 64u32.next_multiple_of(places);
    let (planes, rblock, wblock) = (g.planes(), g.rblock_bytes(), g.wblock_bytes());
    let geometry =
        lode_base::Geometry::new(g.channels(), g.ways(), planes, rblock, wblock, eblock_bytes, count)
            .unwrap();
    Profile { geometry, ..p.clone() }
}

#[test]
fn what_is_overwritten_is_collected_and_all_pages_are_right() {
    for_each(|name, p| {
        let t = timed(small(&p));
        let live = t.drive.info().usable_bytes / 2;
        let page_bytes = 20_000;
        let count = (live / page_bytes as u64) as u32;
        let extents = t.extents(count.div_ceil(1024));
        let lpid = |n: u32| extents[(n / 1024) as usize].page((n % 1024) as u16);
        let all: Vec<Lpid> = (0..count).map(lpid).collect();
        t.write(&all, page_bytes, Align::Cell, 50);
        let erased = t.model.operations().erases;
        // Twice over, in no order.
        let some: Vec<Lpid> = (0..2 * count).map(|n| lpid((n * 7919 + n / count) % count)).collect();
        for batch in some.chunks(500) {
            let mut batch = batch.to_vec();
            batch.sort_unstable();
            batch.dedup();
            t.write(&batch, page_bytes, Align::Cell, 50);
        }
        assert!(t.model.operations().erases > erased, "{name}");
        t.read(&all, page_bytes, 20, 8);
        t.check_utilisation(name);
    });
}

/// A commit that is small enough for the log: forced to a WBLOCK, or durable in the protected buffer.
#[test]
fn a_small_commit_programs_nothing_where_the_device_has_a_protected_buffer() {
    let mut with_buffer = 0;
    for_each(|name, p| {
        let t = timed(p.clone());
        let lpid = t.extents(1)[0].page(0);
        t.write(&[lpid], 100, Align::Cell, 1);
        let (begin, programs) = (t.model.latest(), t.model.operations().programs);
        t.write(&[lpid], 100, Align::Cell, 1);
        let took = t.model.latest() - begin;
        let programmed = t.model.operations().programs > programs;
        assert_eq!(
            (took >= p.nand.program, programmed),
            (p.link.protected_bytes == 0, p.link.protected_bytes == 0),
            "{name}"
        );
        with_buffer += u32::from(p.link.protected_bytes > 0);
    });
    assert!(with_buffer > 0);
}

#[test]
fn two_runs_take_the_same_to_the_picosecond() {
    for_each(|name, p| {
        let run = || {
            let t = timed(p.clone());
            let extent = t.extents(1)[0];
            let lpids: Vec<Lpid> = (0..200).map(|n| extent.page(n)).collect();
            t.write(&lpids, 5000, Align::Cell, 16);
            (t.read(&lpids, 5000, 3, 8), t.model.latest(), t.model.operations())
        };
        let (a, b) = (run(), run());
        assert!(a.0.0 == b.0.0 && a.0.1.total() == b.0.1.total() && (a.1, a.2) == (b.1, b.2), "{name}");
    });
}
