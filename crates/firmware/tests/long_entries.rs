//! Index entries of more than 2,000 bytes, whose index pages are of parts of extents: beside rules with short entries, through power cuts,
//! GC, checkpoints, views and a small index cache, held against entries that are made of the pages.
//!
//! `LODE_SEEDS=1000` tries more seeds.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::*;
use lode_base::{ExtentId, Geometry, Lpid, OwnerId, PageBuf, VirtualTime};
use lode_command::{
    Answer, Batch, Command, CommandError, Device, Outcome, PageRange, Reply, ScanCounts, ScanTask, Skip,
    Until,
};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::{Medium, Power};
use lode_page::decode_page;
use lode_program::index::bloom::BLOOM;
use lode_program::index::range::RANGE;
use lode_program::index::{KeptColumn, kept};
use lode_program::{ColumnSource, IndexRule};

const OWNER: u32 = 9;

/// A rule with a range of the first column, and a filter of so many bytes of the other.
fn with_filter(bytes: u16) -> IndexRule {
    let filter = KeptColumn { column: 1, form: bytes.to_le_bytes().into() };
    IndexRule::of_kinds(schema(), vec![(&RANGE, kept(&[0])), (&BLOOM, vec![filter])]).unwrap()
}

struct Columns(Vec<lode_page::Column>);

impl ColumnSource for Columns {
    type Error = ();
    fn rows(&self) -> usize {
        self.0[0].rows()
    }
    fn column(&mut self, column: u16) -> Result<lode_page::Column, ()> {
        Ok(self.0[usize::from(column)].clone())
    }
}

/// The entry that a rule makes of a page.
fn made(rule: &IndexRule, lpid: Lpid, page: &[u8]) -> Vec<u8> {
    let (_, columns) = decode_page(lpid, &PageBuf::copy_from(page)).unwrap();
    rule.entry(&mut Columns(columns)).unwrap().encode()
}

#[derive(Clone, Default)]
struct State {
    commit: u64,
    pages: BTreeMap<Lpid, Vec<u8>>,
    rule: Option<IndexRule>,
    /// Pages that certainly have an entry by the rule.
    indexed: BTreeSet<Lpid>,
    extents: Vec<ExtentId>,
}

struct Model {
    random: Random,
    now: State,
    after: Option<State>,
    views: Vec<(lode_base::ViewId, State)>,
    refused: u32,
    longest: usize,
}

impl Model {
    fn rule(&mut self) -> Option<IndexRule> {
        match self.random.below(6) {
            0 => None,
            1 => Some(rule()),
            2 => Some(with_filter(600)),
            3 => Some(with_filter(31_000)),
            _ => Some(with_filter(2_200 + self.random.below(2) as u16 * 6_000)),
        }
    }

    fn batch(&mut self) -> Batch {
        let mut b = Batch::default();
        let extents = self.now.extents.clone();
        let count = if self.random.below(6) == 0 { 40 } else { 1 + self.random.below(5) };
        let mut taken = BTreeSet::new();
        for _ in 0..count {
            // Pages of some groups, first and last ones among them.
            let page = [0, 31, 32, 500, 1023][self.random.below(5) as usize] ^ self.random.below(4) as u16;
            let Some(extent) = extents.get(self.random.below(4) as usize % extents.len().max(1)) else {
                continue;
            };
            let lpid = extent.page(page);
            if !taken.insert(lpid) {
                continue;
            }
            if self.random.below(5) == 0 {
                b.trims.push(lpid);
            } else {
                let n = self.random.below(1000) as i64;
                let rows = 1 + self.random.below(300) as i64;
                b.writes.push(table_page(lpid, OWNER, &(n..n + rows).collect::<Vec<_>>()));
            }
        }
        if extents.len() > 3 && self.random.below(4) == 0 {
            let extent = extents[self.random.below(extents.len() as u64) as usize];
            b.writes.retain(|p| p.lpid.extent() != extent);
            b.releases.push(extent);
        }
        if self.random.below(8) == 0 {
            b.index_rules.push((OwnerId::new(OWNER), self.rule()));
        }
        b.pin = self.views.len() < 3 && self.random.below(10) == 0;
        b
    }

    fn applied(&self, batch: &Batch) -> State {
        let mut s = self.now.clone();
        s.commit += 1;
        for (_, rule) in &batch.index_rules {
            s.rule = rule.clone();
            s.indexed.clear();
        }
        for lpid in &batch.trims {
            s.pages.remove(lpid);
            s.indexed.remove(lpid);
        }
        for extent in &batch.releases {
            s.extents.retain(|e| e != extent);
            s.pages.retain(|l, _| l.extent() != *extent);
            s.indexed.retain(|l| l.extent() != *extent);
        }
        for p in &batch.writes {
            s.pages.insert(p.lpid, p.data.to_vec());
            s.indexed.remove(&p.lpid);
            if s.rule.is_some() {
                s.indexed.insert(p.lpid);
            }
        }
        s
    }

    fn commit(&mut self, d: &Drive, power: &Power, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        let after = self.applied(&batch);
        self.after = Some(after.clone());
        match write(d, batch) {
            Ok((commit, view)) => {
                assert_eq!(commit.raw(), after.commit);
                self.views.extend(view.map(|v| (v, after.clone())));
                if !power.is_cut() {
                    self.now = after;
                    self.after = None;
                }
            }
            Err(CommandError::OutOfSpace { .. }) => {
                self.after = None;
                self.refused += 1;
                if !power.is_cut() {
                    self.trim_half(d, power);
                }
            }
            Err(CommandError::ReadOnly(_)) => power.cut(),
            Err(e) => panic!("{e}"),
        }
    }

    /// Trims go on when the drive is full.
    fn trim_half(&mut self, d: &Drive, power: &Power) {
        self.views.drain(..).for_each(|(view, _)| close_view(d, view));
        let trims: Vec<Lpid> = self.now.pages.keys().copied().filter(|l| l.raw() % 2 == 0).collect();
        let refused = self.refused;
        self.commit(d, power, Batch { trims, ..Batch::default() });
        assert_eq!(self.refused, refused, "trims go on");
    }

    fn step(&mut self, d: &Drive, power: &Power) {
        self.after = None;
        match self.random.below(16) {
            0 if self.now.extents.len() < 5 => {
                match run(d, Command::AllocateExtents { owner: OwnerId::new(OWNER), count: 1 }) {
                    Ok(Reply::Extents(e)) => self.now.extents.extend(e),
                    Err(CommandError::OutOfSpace { .. }) => {}
                    Err(CommandError::ReadOnly(_)) => power.cut(),
                    r => panic!("{r:?}"),
                }
            }
            1 => match run(d, Command::Checkpoint) {
                Ok(_) | Err(CommandError::OutOfSpace { .. }) => {}
                Err(CommandError::ReadOnly(_)) => power.cut(),
                Err(e) => panic!("{e}"),
            },
            2 => match run(d, Command::BuildIndex(OwnerId::new(OWNER))) {
                Ok(_) if !power.is_cut() => self.now.indexed = self.now.pages.keys().copied().collect(),
                Ok(_) | Err(CommandError::NoIndexRule(_) | CommandError::OutOfSpace { .. }) => {}
                Err(CommandError::ReadOnly(_)) => power.cut(),
                Err(e) => panic!("{e}"),
            },
            3 if self.views.len() < 3 => {
                let (view, commit) = open_view(d);
                assert_eq!(commit.raw(), self.now.commit);
                self.views.push((view, self.now.clone()));
            }
            4 if !self.views.is_empty() => {
                let at = self.random.below(self.views.len() as u64) as usize;
                close_view(d, self.views.swap_remove(at).0);
            }
            5 | 6 => self.entries(d),
            _ => {
                let batch = self.batch();
                self.commit(d, power, batch);
            }
        }
    }

    /// Every entry that is answered is the one that the rule makes of the page that the view shows; pages that have one are answered with it.
    fn entries(&mut self, d: &Drive) {
        let (newest, _) = open_view(d);
        let mut views = self.views.clone();
        views.push((newest, self.now.clone()));
        for (view, state) in &views {
            for extent in &state.extents {
                let entries = index_entries(d, *view, *extent);
                let shown = state.pages.iter().filter(|(l, _)| l.extent() == *extent);
                assert!(entries.iter().map(|e| e.0).eq(shown.map(|(l, _)| *l)), "pages of {extent}");
                for (lpid, entry) in entries {
                    match (entry, &state.rule) {
                        (Some(entry), Some(rule)) => {
                            self.longest = self.longest.max(entry.encoded_bytes());
                            let expected = made(rule, lpid, &state.pages[&lpid]);
                            assert_eq!(entry.encode(), expected, "the entry of page {lpid}");
                        }
                        (Some(_), None) => panic!("page {lpid} has an entry of no rule"),
                        (None, _) => {
                            let sure = *view == newest && state.indexed.contains(&lpid);
                            assert!(!sure, "page {lpid} has no entry");
                        }
                    }
                }
            }
        }
        close_view(d, newest);
    }

    fn recovered(&mut self, d: &Drive) {
        self.views.clear();
        let commit = d.info().commit.raw();
        if let Some(after) = self.after.take()
            && commit == after.commit
        {
            self.now = after;
        }
        assert_eq!(commit, self.now.commit, "commits");
        // Extents that were handed out and never written to may be forgotten.
        let Ok(Reply::ExtentList(list)) = run(d, Command::ListExtents) else { panic!() };
        self.now.extents = list.iter().map(|i| i.extent).collect();
        for (lpid, data) in &self.now.pages {
            assert!(get(d, None, *lpid).as_ref() == Some(data), "page {lpid} is another one");
        }
        sound(d);
        self.entries(d);
    }
}

fn recover(random: &mut Random, mut power: Power, options: &DriveOptions) -> (Drive, Power) {
    loop {
        let (medium, next) = power.restored(random.next()).unwrap();
        power = next;
        if random.below(3) == 0 {
            power.cut_after(random.below(20));
        }
        let drive = Unrecovered::new(medium, options.clone()).recover().unwrap_or_else(|e| panic!("{e}"));
        if !power.is_cut() {
            power.cut_after(u64::MAX);
            return (drive, power);
        }
    }
}

fn life(seed: u64) -> (u32, usize) {
    let eblocks = [22, 30, 120][seed as usize % 3];
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 2 << 20, eblocks).unwrap();
    let options = DriveOptions {
        index_cache_bytes: [64 << 10, 4 << 20][seed as usize % 2],
        checkpoint_log_bytes: 6 << 20,
        views_max: 6,
        erased_kept: 2,
        ..DriveOptions::default()
    };
    let mut m = Model {
        random: Random::of_seed(seed),
        now: State::default(),
        after: None,
        views: Vec::new(),
        refused: 0,
        longest: 0,
    };
    let (medium, mut power) = Medium::with_power(geometry);
    let mut d = Drive::format(medium, options.clone()).unwrap();
    for _ in 0..5 {
        for _ in 0..m.random.below(50) {
            if !power.is_cut() {
                m.step(&d, &power);
            }
        }
        match m.random.below(4) {
            _ if power.is_cut() => {}
            0 => {
                m.after = None;
                d.clone().close().unwrap();
            }
            _ => {
                power.cut_after(m.random.below(80));
                while !power.is_cut() {
                    m.step(&d, &power);
                }
            }
        }
        (d, power) = recover(&mut m.random, power, &options);
        m.recovered(&d);
    }
    (m.refused, m.longest)
}

#[test]
fn entries_of_any_length_are_those_of_the_pages_through_power_cuts() {
    let seeds = std::env::var("LODE_SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(40);
    let (mut refused, mut longest) = (0, 0);
    for seed in 0..seeds {
        let lived = std::panic::catch_unwind(|| life(seed)).unwrap_or_else(|_| panic!("seed {seed} failed"));
        (refused, longest) = (refused + lived.0, longest.max(lived.1));
    }
    assert!(longest > 31_000, "entries of {longest} bytes at most");
    println!("{refused} batches refused, entries of up to {longest} bytes");
}

/// The counts of a scan for values of one column.
fn scan(d: &Drive, extent: ExtentId, values: (i64, i64)) -> ScanCounts {
    let (view, _) = open_view(d);
    let task = ScanTask {
        view,
        pages: vec![PageRange { extent, first: 0, count: 1024 }],
        program: program(values.0, values.1),
        answer: Answer::Rows,
        unit_pages: 1024,
        limit_rows: None,
        hidden: None,
        matcher: None,
        skip: Skip::Levels,
    };
    let mut q = d.open_queue(1).unwrap();
    q.submit(VirtualTime::ZERO, Command::Scan(task)).unwrap();
    let mut out = Vec::new();
    loop {
        q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
        for c in out.drain(..) {
            if let Outcome::Done(r) = c.outcome {
                close_view(d, view);
                let Ok(Reply::Scanned(counts)) = r else { panic!("{r:?}") };
                return counts;
            }
        }
    }
}

/// An extent of 1,024 pages with entries of 4 KB: excluded at once, by groups, and after a change of one page; also where no part stays in
/// memory.
#[test]
fn unions_of_parts_exclude_extents_and_groups() {
    for index_cache_bytes in [0, 64 << 20] {
        let options = DriveOptions { index_cache_bytes, ..DriveOptions::default() };
        let medium = Medium::memory(Geometry::file(1 << 30).unwrap());
        let mut d = Drive::format(medium, options).unwrap();
        let rules = vec![(OwnerId::new(OWNER), Some(with_filter(4000)))];
        write(&d, Batch { index_rules: rules, ..Batch::default() }).unwrap();
        let extent = allocate(&d, OWNER, 1)[0];
        let of = |page: u16, value: i64| table_page(extent.page(page), OWNER, &[value, value + 9]);
        for group in 0..32 {
            let writes = (group * 32..group * 32 + 32).map(|p| of(p, i64::from(p) * 10)).collect();
            write(&d, Batch { writes, ..Batch::default() }).unwrap();
        }
        for _ in 0..2 {
            for _ in 0..2 {
                let counts = scan(&d, extent, (20_000, 30_000));
                assert_eq!((counts.pages_skipped, counts.pages_read), (1024, 0));
                let counts = scan(&d, extent, (5000, 5010));
                assert_eq!((counts.pages_skipped, counts.pages_read), (1023, 1));
            }
            d = d.after_power_cut().unwrap().unwrap();
        }
        // The union of before would exclude the value.
        assert_eq!(scan(&d, extent, (20_000, 30_000)).pages_read, 0);
        write(&d, Batch { writes: vec![of(700, 25_000)], ..Batch::default() }).unwrap();
        assert_eq!(scan(&d, extent, (20_000, 30_000)).pages_read, 1);
        sound(&d);
    }
}

/// A rule whose index pages would not fit an EBLOCK is refused whole, and the drive goes on.
#[test]
fn entries_that_are_too_long_for_an_eblock_are_refused() {
    let medium = Medium::memory(Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 100).unwrap());
    let d = Drive::format(medium, DriveOptions::default()).unwrap();
    let extent = allocate(&d, OWNER, 1)[0];
    let register = |rule| {
        let writes = vec![table_page(extent.page(0), OWNER, &[1, 2, 3])];
        write(&d, Batch { index_rules: vec![(OwnerId::new(OWNER), Some(rule))], writes, ..Batch::default() })
    };
    let e = register(with_filter(31_000)).unwrap_err().to_string();
    assert!(e.contains("too wide for an EBLOCK"), "{e}");
    assert!(get(&d, None, extent.page(0)).is_none());
    register(with_filter(7000)).unwrap();
    let (view, _) = open_view(&d);
    assert_eq!(
        index_entries(&d, view, extent)[0].1.as_ref().unwrap().encoded_bytes(),
        with_filter(7000).entry_bytes()
    );
    close_view(&d, view);
    sound(&d);
}

/// Where short entries replace long ones, nothing of the long ones stays on the medium; and the other way round.
#[test]
fn what_a_replaced_rule_took_is_given_back() {
    let medium = Medium::memory(Geometry::file(1 << 30).unwrap());
    let d = Drive::format(medium, DriveOptions::default()).unwrap();
    let extents = allocate(&d, OWNER, 2);
    for extent in &extents {
        let writes = (0..300).map(|p| table_page(extent.page(p), OWNER, &[1, 2, 3])).collect();
        write(&d, Batch { writes, ..Batch::default() }).unwrap();
    }
    run(&d, Command::Checkpoint).unwrap();
    let live = |d: &Drive| d.check().bytes;
    let plain = live(&d);
    let index = |rule: Option<IndexRule>| {
        let has = rule.is_some();
        write(&d, Batch { index_rules: vec![(OwnerId::new(OWNER), rule)], ..Batch::default() }).unwrap();
        if has {
            let built = run(&d, Command::BuildIndex(OwnerId::new(OWNER))).unwrap();
            assert!(matches!(built, Reply::Indexed { pages: 600 }), "{built:?}");
        }
        run(&d, Command::Checkpoint).unwrap();
        sound(&d);
        live(&d) - plain
    };
    let short = index(Some(rule()));
    assert!((600 * 20..100_000).contains(&short), "{short} bytes");
    let long = index(Some(with_filter(20_000)));
    assert!((600 * 20_000..620 * 20_000).contains(&long), "{long} bytes");
    let again = index(Some(rule()));
    assert!(again.abs_diff(short) < 10_000, "{again} bytes, and {short} before");
    assert!(index(Some(with_filter(3000))) < 620 * 3100);
    // Released extents take nothing.
    let releases = extents.clone();
    write(&d, Batch { releases, ..Batch::default() }).unwrap();
    run(&d, Command::Checkpoint).unwrap();
    sound(&d);
    assert!(live(&d) < plain, "{} bytes", live(&d));
}

/// Pages of 64 bytes whose entries make index pages of 1 MB each: batches are refused before the drive could not write them any more.
#[test]
fn a_drive_keeps_room_for_the_index_pages_of_small_pages() {
    for writes_max in [1, 7, 80] {
        let options = DriveOptions { index_cache_bytes: 4 << 20, ..DriveOptions::default() };
        let medium = Medium::memory(Geometry::new(1, 1, 1, 4096, 4096, 2 << 20, 48).unwrap());
        let mut d = Drive::format(medium, options).unwrap();
        let rules = vec![(OwnerId::new(OWNER), Some(with_filter(31_000)))];
        write(&d, Batch { index_rules: rules, ..Batch::default() }).unwrap();
        let extents = allocate(&d, OWNER, 8);
        let all: Vec<Lpid> =
            extents.iter().flat_map(|e| (0..32).map(|group| e.page(group * 32 + 31))).collect();
        let mut written = Vec::new();
        for (n, some) in all.chunks(writes_max).enumerate() {
            let writes = some.iter().map(|l| table_page(*l, OWNER, &[n as i64])).collect();
            match write(&d, Batch { writes, ..Batch::default() }) {
                Ok(_) => written.extend(some),
                Err(CommandError::OutOfSpace { free_bytes, needed_bytes }) => {
                    assert!(free_bytes < needed_bytes);
                    break;
                }
                Err(e) => panic!("{e}"),
            }
            if n % 3 == 2 {
                run(&d, Command::Checkpoint).unwrap();
            }
        }
        let least = if writes_max < 80 { 7 } else { 0 };
        assert!((least..all.len()).contains(&written.len()), "{} pages", written.len());
        for trims in written.chunks(2).map(<[Lpid]>::to_vec) {
            // The index pages are as large as before: changes go on, and so do trims.
            let writes = vec![table_page(trims[0], OWNER, &[7])];
            write(&d, Batch { writes, ..Batch::default() }).unwrap();
            write(&d, Batch { trims, ..Batch::default() }).unwrap();
            d = d.after_power_cut().unwrap().unwrap();
            assert!(d.info().read_only.is_none());
            run(&d, Command::Checkpoint).unwrap();
        }
        sound(&d);
        let writes = vec![table_page(all[0], OWNER, &[7])];
        write(&d, Batch { writes, ..Batch::default() }).expect("there is room again");
    }
}

/// The versions of all whole structures with this magic in an image: they follow the magic.
fn versions(image: &[u8], magic: &[u8]) -> BTreeSet<u16> {
    let at = image.windows(6).filter(|w| w.starts_with(magic));
    at.map(|w| u16::from_le_bytes([w[4], w[5]])).collect()
}

/// Versions of Lode that do not know long entries open every image without them, and refuse the others by their version.
#[test]
fn versions_rise_with_the_first_long_entry_and_fall_once_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let d = Drive::create_file(
        &path,
        Geometry::new(1, 1, 1, 4096, 4096, 2 << 20, 64).unwrap(),
        DriveOptions::default(),
        3,
    )
    .unwrap();
    let extent = allocate(&d, OWNER, 1)[0];
    let register = |d: &Drive, rule| {
        let writes = vec![table_page(extent.page(0), OWNER, &[1, 2, 3])];
        write(d, Batch { index_rules: vec![(OwnerId::new(OWNER), Some(rule))], writes, ..Batch::default() })
            .unwrap();
    };
    let image = || std::fs::read(&path).unwrap();
    let records = |image: &[u8]| versions(image, b"LCKP");
    register(&d, with_filter(1900));
    run(&d, Command::Checkpoint).unwrap();
    register(&d, rule());
    let before = image();
    assert_eq!((records(&before), versions(&before, b"LLOG")), (BTreeSet::from([2]), BTreeSet::from([2])));
    // The record that has the rule is refused by the version of its log page, before any checkpoint.
    register(&d, with_filter(3000));
    assert_eq!(
        (records(&image()), versions(&image(), b"LLOG")),
        (BTreeSet::from([2]), BTreeSet::from([2, 3]))
    );
    run(&d, Command::Checkpoint).unwrap();
    assert_eq!(records(&image()), BTreeSet::from([3]));
    register(&d, rule());
    d.close().unwrap();
    assert_eq!(records(&image()), BTreeSet::from([3]), "what the log or the tables had is not looked for");
    let d = Drive::open_file(&path, DriveOptions::default()).unwrap();
    register(&d, rule());
    d.close().unwrap();
    assert_eq!(records(&image()), BTreeSet::from([2]));
    let d = Drive::open_file(&path, DriveOptions::default()).unwrap();
    sound(&d);
}
