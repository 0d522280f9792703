//! Power cuts at any write or sync, and file systems that are full at any program: in the middle of a batch, of a checkpoint, of recovery; held against maps in memory.
//!
//! ```text
//!   steps ─► cut inside one ─► recover (cut again, and again) ─► all that was acknowledged, the last step whole or not
//! ```
//!
//! `LODE_SEEDS=1000` tries more seeds; a failure names its seed, and `LODE_SEED=7` tries that one only.

mod common;

use std::collections::{BTreeMap, HashMap};

use common::*;
use lode_base::{ExtentId, Geometry, Lpid, ViewId};
use lode_command::{Align, Batch, Command, CommandError, ExtentInfo, Reply};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::{Medium, Power};

const PLAIN: u32 = 3;
const INDEXED: u32 = 9;

/// What is acknowledged.
#[derive(Clone, Default)]
struct State {
    commit: u64,
    pages: HashMap<Lpid, Vec<u8>>,
    extents: BTreeMap<ExtentId, u32>,
}

struct Model {
    random: Random,
    now: State,
    /// What the step that is under way makes of it.
    after: Option<State>,
    views: Vec<(ViewId, HashMap<Lpid, Vec<u8>>)>,
    case: Case,
    refused: u32,
}

struct Case {
    geometry: Geometry,
    options: DriveOptions,
    extents_max: u64,
    /// Pages of an extent that are used.
    slots: u64,
    /// Whether checkpoints are asked for: else they come when the log is long.
    checkpoints: bool,
    /// Whether the file system is full now and then.
    fills: bool,
    page_bytes_max: u64,
    cuts: u32,
    steps: u64,
}

fn case(seed: u64) -> Case {
    let geometry =
        |channels, wblock, eblocks| Geometry::new(channels, 1, 1, 4096, wblock, 1 << 20, eblocks).unwrap();
    let options = |map_kb: usize, log_kb: u64| DriveOptions {
        map_cache_bytes: map_kb << 10,
        index_cache_bytes: 8 << 10,
        checkpoint_log_bytes: log_kb << 10,
        views_max: 4,
        erased_kept: 2,
        ..DriveOptions::default()
    };
    let case = |geometry, options, extents_max, page_bytes_max| Case {
        geometry,
        options,
        extents_max,
        slots: 16,
        checkpoints: true,
        fills: seed % 2 == 1,
        page_bytes_max,
        cuts: 6,
        steps: 60,
    };
    match seed % 7 {
        0 => case(geometry(1, 4096, 40), options(40, 200), 6, 5000),
        // Checkpoints every few batches.
        1 => case(geometry(1, 4096, 24), options(40, 40), 12, 30_000),
        // Long logs in EBLOCKs that batches had before.
        2 => Case {
            steps: 400,
            slots: 3,
            checkpoints: false,
            ..case(geometry(1, 32_768, 40), options(4000, 4000), 2, 60_000)
        },
        // Full.
        3 => case(geometry(1, 4096, 16), options(40, 100), 8, 200_000),
        4 => case(geometry(4, 16_384, 48), options(80, 300), 8, 40_000),
        // Full, and mapping pages are written back all the time.
        5 => Case {
            steps: 300,
            checkpoints: false,
            ..case(geometry(1, 4096, 24), options(10, 2000), 60, 40_000)
        },
        // Mapping pages are written back all the time.
        _ => Case { steps: 200, ..case(geometry(1, 4096, 24), options(10, 2000), 60, 3000) },
    }
}

impl Model {
    fn lpid(&mut self, owner: u32) -> Option<Lpid> {
        let of: Vec<_> = self.now.extents.iter().filter(|(_, o)| **o == owner).map(|(e, _)| *e).collect();
        let at = self.random.below(of.len().max(1) as u64) as usize;
        Some(of.get(at)?.page(self.random.below(self.case.slots) as u16))
    }

    /// One command, or a few. `after` is set while one is under way that changes what is acknowledged.
    fn step(&mut self, d: &Drive, power: &Power) {
        self.after = None;
        match self.random.below(24) {
            0 | 1 if (self.now.extents.len() as u64) < self.case.extents_max => {
                let owner = if self.random.below(4) == 0 { INDEXED } else { PLAIN };
                let e = allocate(d, owner, 1)[0];
                assert!(self.now.extents.insert(e, owner).is_none(), "{e} is handed out twice");
            }
            2 if self.views.len() < 3 => {
                let (view, commit) = open_view(d);
                assert_eq!(commit.raw(), self.now.commit);
                self.views.push((view, self.now.pages.clone()));
            }
            3 if !self.views.is_empty() => {
                let at = self.random.below(self.views.len() as u64) as usize;
                close_view(d, self.views.swap_remove(at).0);
            }
            4 if self.case.checkpoints => match run(d, Command::Checkpoint) {
                Ok(_) => {}
                Err(e) => Self::failed(power, &e),
            },
            9 if self.case.fills => power.full_after(self.random.below(12)),
            5 => match run(d, Command::BuildIndex(lode_base::OwnerId::new(INDEXED))) {
                Ok(Reply::Indexed { .. })
                | Err(CommandError::NoIndexRule(_) | CommandError::OutOfSpace { .. }) => {}
                Err(e) => Self::failed(power, &e),
                r => panic!("{r:?}"),
            },
            6 => {
                let rule = (self.random.below(3) > 0).then(rule);
                let batch =
                    Batch { index_rules: vec![(lode_base::OwnerId::new(INDEXED), rule)], ..Batch::default() };
                self.commit(d, power, batch);
            }
            7 | 8 => self.reads(d),
            _ => {
                if let Some(batch) = self.batch() {
                    self.commit(d, power, batch);
                }
            }
        }
    }

    fn batch(&mut self) -> Option<Batch> {
        let mut b = Batch::default();
        for _ in 0..1 + self.random.below(6) {
            let owner = if self.random.below(4) == 0 { INDEXED } else { PLAIN };
            let Some(lpid) = self.lpid(owner) else { continue };
            if b.trims.contains(&lpid) || b.writes.iter().any(|p| p.lpid == lpid) {
                continue;
            }
            if self.random.below(5) == 0 {
                b.trims.push(lpid);
            } else if owner == INDEXED {
                let n = self.random.below(1000) as i64;
                b.writes.push(table_page(lpid, INDEXED, &[n, n + 5, n + 2]));
            } else {
                let len = 64 + self.random.below(self.case.page_bytes_max) as usize;
                let mut p = page(lpid, &self.random.bytes(len));
                p.align = if self.random.below(3) == 0 { Align::ReadUnit } else { Align::Cell };
                b.writes.push(p);
            }
        }
        if self.now.extents.len() > 3 && self.random.below(12) == 0 {
            let at = self.random.below(self.now.extents.len() as u64) as usize;
            let e = *self.now.extents.keys().nth(at).unwrap();
            b.writes.retain(|p| p.lpid.extent() != e);
            b.releases.push(e);
        }
        b.pin = self.views.len() < 3 && self.random.below(12) == 0;
        (!b.is_empty()).then_some(b)
    }

    fn commit(&mut self, d: &Drive, power: &Power, batch: Batch) {
        let mut after = self.now.clone();
        after.commit += 1;
        batch.trims.iter().for_each(|l| drop(after.pages.remove(l)));
        for e in &batch.releases {
            after.extents.remove(e);
            after.pages.retain(|l, _| l.extent() != *e);
        }
        after.pages.extend(batch.writes.iter().map(|p| (p.lpid, p.data.to_vec())));
        self.after = Some(after.clone());
        match write(d, batch) {
            Ok((commit, view)) => {
                assert_eq!(commit.raw(), after.commit);
                self.views.extend(view.map(|v| (v, after.pages.clone())));
                if !power.is_cut() {
                    self.now = after;
                    self.after = None;
                }
            }
            Err(CommandError::OutOfSpace { .. }) => {
                self.refused += 1;
                self.after = None;
                if !power.is_cut() {
                    self.views.drain(..).for_each(|(view, _)| close_view(d, view));
                    // Half of all goes, so that there is room again.
                    let trims: Vec<Lpid> =
                        self.now.pages.keys().copied().filter(|l| l.raw() % 2 == 0).collect();
                    let refused = self.refused;
                    if !trims.is_empty() {
                        self.commit(d, power, Batch { trims, ..Batch::default() });
                    }
                    assert_eq!(self.refused, refused, "trims go on when it is full");
                }
            }
            Err(e) => {
                Self::failed(power, &e);
                if !power.is_cut() {
                    self.after = None;
                }
            }
        }
    }

    /// A full file system undoes what is under way, and no more; half a log group takes a recovery.
    fn failed(power: &Power, e: &CommandError) {
        match e {
            CommandError::ReadOnly(_) => power.cut(),
            CommandError::MediumFull(_) => {}
            e => panic!("{e}"),
        }
    }

    fn reads(&mut self, d: &Drive) {
        for owner in [PLAIN, PLAIN, INDEXED] {
            let Some(lpid) = self.lpid(owner) else { continue };
            assert_eq!(get(d, None, lpid).as_ref(), self.now.pages.get(&lpid), "page {lpid}");
            for (view, pages) in &self.views {
                assert_eq!(get(d, Some(*view), lpid).as_ref(), pages.get(&lpid), "page {lpid} at {view:?}");
            }
        }
    }

    /// The drive has every acknowledged batch, and the one that was under way whole or not at all.
    fn recovered(&mut self, d: &Drive) {
        self.views.clear();
        let commit = d.info().commit.raw();
        if let Some(after) = self.after.take()
            && commit == after.commit
        {
            self.now = after;
        }
        assert_eq!(commit, self.now.commit, "commits");
        let Ok(Reply::ExtentList(list)) = run(d, Command::ListExtents) else { panic!() };
        let mut mapped: BTreeMap<ExtentId, u32> = BTreeMap::new();
        for (lpid, data) in &self.now.pages {
            assert!(get(d, None, *lpid).as_ref() == Some(data), "page {lpid} is another one");
            *mapped.entry(lpid.extent()).or_default() += 1;
        }
        let mut found = BTreeMap::new();
        for i in list {
            assert_eq!(i.pages_mapped, Some(mapped.remove(&i.extent).unwrap_or(0)), "pages of {}", i.extent);
            found.insert(i.extent, i.owner.raw());
        }
        assert_eq!(mapped, BTreeMap::new(), "extents with pages are there");
        // Extents that were handed out and never written to may be forgotten.
        for (e, owner) in &found {
            assert_eq!(self.now.extents.get(e), Some(owner), "owner of {e}");
        }
        self.now.extents = found;
        sound(d);
    }
}

/// Recovers, with cuts in the middle of it; the power of the drive that came of it.
fn recover(random: &mut Random, mut power: Power, options: &DriveOptions) -> (Drive, Power) {
    loop {
        let (medium, next) = power.restored(random.next()).unwrap();
        power = next;
        if random.below(3) == 0 {
            power.cut_after(random.below(12));
        }
        let drive = Unrecovered::new(medium, options.clone()).recover().unwrap_or_else(|e| panic!("{e}"));
        if !power.is_cut() {
            power.cut_after(u64::MAX);
            return (drive, power);
        }
    }
}

fn cuts(seed: u64) -> u32 {
    let c = case(seed);
    let mut m = Model {
        random: Random(seed),
        now: State::default(),
        after: None,
        views: Vec::new(),
        case: case(seed),
        refused: 0,
    };
    let (medium, mut power) = Medium::with_power(c.geometry);
    let mut d = Drive::format(medium, c.options.clone()).unwrap();
    for _ in 0..c.cuts {
        let steps = m.random.below(c.steps);
        for _ in 0..steps {
            if !power.is_cut() {
                m.step(&d, &power);
            }
        }
        if power.is_cut() {
            // It was left read-only.
        } else if m.random.below(4) == 0 {
            m.after = None;
            power.cut_after(m.random.below(40));
            if let Err(e) = d.clone().close() {
                assert!(e.to_string().contains("no storage space"), "{e}");
            }
            // Where closing took less, power goes once it is over.
        } else {
            power.cut_after(m.random.below(60));
            while !power.is_cut() {
                m.step(&d, &power);
            }
        }
        (d, power) = recover(&mut m.random, power, &c.options);
        m.recovered(&d);
    }
    m.refused
}

fn seeds(default: u64) -> Vec<u64> {
    let of = |name| std::env::var(name).ok().and_then(|v: String| v.parse::<u64>().ok());
    match of("LODE_SEED") {
        Some(seed) => vec![seed],
        None => (0..of("LODE_SEEDS").unwrap_or(default)).collect(),
    }
}

#[test]
fn acknowledged_batches_survive_cuts_anywhere() {
    let mut refused = 0;
    let seeds = seeds(60);
    for &seed in &seeds {
        let tried = std::panic::catch_unwind(|| cuts(seed));
        refused += tried.unwrap_or_else(|_| panic!("seed {seed} failed"));
    }
    assert!(refused > 0 || seeds.len() < 60, "it was never full");
}

/// Mapping pages that leave memory between two checkpoints take none of the room that those need.
#[test]
fn a_full_drive_keeps_room_for_its_own_pages() {
    let mut random = Random(1);
    let options = DriveOptions { map_cache_bytes: 40 << 10, ..DriveOptions::default() };
    let medium = Medium::memory(Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 64).unwrap());
    let mut d = Drive::format(medium, options).unwrap();
    let extents = allocate(&d, PLAIN, 200);
    let mut large = Vec::new();
    for n in 0.. {
        let lpid = extents[n % extents.len()].page((n / extents.len()) as u16);
        match put(&d, lpid, &[n as u8; 100_000]) {
            Ok(_) => large.push(lpid),
            Err(CommandError::OutOfSpace { .. }) => break,
            Err(e) => panic!("{e}"),
        }
    }
    let mut refused = 0;
    for n in 0..1500 {
        let mut b = Batch::default();
        for _ in 0..8 {
            let extent = extents[random.below(extents.len() as u64) as usize];
            let lpid = extent.page(1000 + random.below(20) as u16);
            if b.writes.iter().all(|p| p.lpid != lpid) {
                b.writes.push(page(lpid, &[1; 64]));
            }
        }
        match write(&d, b) {
            Ok(_) => {}
            Err(CommandError::OutOfSpace { .. }) => {
                refused += 1;
                let trims = vec![large.swap_remove(random.below(large.len() as u64) as usize)];
                write(&d, Batch { trims, ..Batch::default() }).expect("trims go on");
            }
            Err(e) => panic!("batch {n}: {e}"),
        }
        if n % 300 == 299 {
            d = d.after_power_cut().unwrap().unwrap();
            let trims = vec![large.pop().unwrap()];
            write(&d, Batch { trims, ..Batch::default() }).expect("trims go on after a power cut");
            sound(&d);
        }
    }
    assert!(refused > 0);
}

/// A checkpoint that failed half-way leaves nothing out of the log, nor out of the next checkpoint.
#[test]
fn a_checkpoint_that_failed_half_way_counts_for_nothing() {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 24).unwrap();
    let mut failed = 0;
    for n in 0..8 {
        for again in [false, true] {
            let (medium, power) = Medium::with_power(geometry);
            let d = Drive::format(medium, DriveOptions::default()).unwrap();
            let before = allocate(&d, PLAIN, 1)[0].page(0);
            put(&d, before, &[1; 100]).unwrap();
            run(&d, Command::Checkpoint).unwrap();
            let lpid = allocate(&d, PLAIN, 1)[0].page(0);
            power.full_after(n);
            failed += u32::from(run(&d, Command::Checkpoint).is_err());
            power.full_after(u64::MAX);
            if again {
                run(&d, Command::Checkpoint).unwrap();
                sound(&d);
            }
            put(&d, lpid, &[2; 100]).unwrap();
            power.cut();
            let (medium, _) = power.restored(1).unwrap();
            let d = Unrecovered::new(medium, DriveOptions::default()).recover().unwrap();
            assert_eq!(
                (get(&d, None, before), get(&d, None, lpid)),
                (Some(vec![1; 100]), Some(vec![2; 100]))
            );
            sound(&d);
        }
    }
    assert!(failed > 4, "{failed} checkpoints failed");
}

/// What a host sees: who owns which extents, how many pages they have, and some of them.
fn seen(d: &Drive) -> (Vec<ExtentInfo>, Vec<Option<Vec<u8>>>) {
    let Ok(Reply::ExtentList(list)) = run(d, Command::ListExtents) else { panic!("no list") };
    let pages = list.iter().step_by(40).map(|i| get(d, None, i.extent.page(1))).collect();
    (list, pages)
}

/// Tables of more than one piece each: a checkpoint of them is cut at each of its operations, when pages that the log
/// before it speaks of too are on the medium already.
#[test]
fn a_checkpoint_of_tables_of_several_pieces_is_cut_anywhere() {
    let g = Geometry::new(1, 1, 1, 4096, 4096, 64 << 10, 512).unwrap();
    let options = || DriveOptions { checkpoint_log_bytes: 1 << 30, ..DriveOptions::default() };
    let open = |m: Medium| Unrecovered::new(m, options()).recover().unwrap();
    let (medium, power) = Medium::with_power(g);
    let d = Drive::format(medium, options()).unwrap();
    let extents = allocate(&d, 7, 1100);
    // Each fills an EBLOCK, up to those beyond the first 256.
    for n in 0..270 {
        put(&d, extents[n * 4].page(1), &vec![n as u8; 40_000]).unwrap();
    }
    d.close().unwrap();
    power.cut();
    let mut after = 0;
    loop {
        let (medium, power) = power.restored(0).unwrap();
        let d = open(medium);
        assert!(d.info().recovery.clean);
        let releases = vec![extents[0], extents[1040], extents[1072]];
        write(&d, Batch { releases, trims: vec![extents[1076].page(1)], ..Batch::default() }).unwrap();
        let again = allocate(&d, 9, 2);
        put(&d, again[1].page(1), &[9; 700]).unwrap();
        put(&d, extents[1044].page(1), &[9; 50_000]).unwrap();
        write(&d, Batch { releases: vec![again[1]], ..Batch::default() }).unwrap();
        let again = [again[0], allocate(&d, 11, 1)[0]];
        put(&d, again[0].page(1), &[7; 700]).unwrap();
        put(&d, again[1].page(1), &[8; 700]).unwrap();
        let expected = seen(&d);
        power.cut_after(after);
        let checkpoint = run(&d, Command::Checkpoint);
        let cut = power.is_cut();
        assert!(cut || checkpoint.is_ok());
        power.cut();
        for _ in 0..2 {
            let (medium, _) = power.restored(after).unwrap();
            let d = open(medium);
            assert!(seen(&d) == expected, "cut after {after} operations");
            sound(&d);
            d.check_invariants();
        }
        if !cut {
            break;
        }
        after += 1;
    }
    assert!(after > 5, "{after} operations");
}
