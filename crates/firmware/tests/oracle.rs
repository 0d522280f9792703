//! Random batches, reads, views, checkpoints, closes and power cuts, held against maps in memory.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use common::*;
use lode_base::{ExtentId, Geometry, Lpid, OwnerId, ViewId};
use lode_command::{Align, Batch, Command, CommandError, PageWrite, ReadRequest, Reply};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::Medium;

type State = HashMap<Lpid, Vec<u8>>;

struct Model {
    random: Random,
    state: State,
    views: Vec<(ViewId, State)>,
    extents: BTreeMap<ExtentId, u32>,
    commit: u64,
    refused: u32,
}

fn options() -> DriveOptions {
    // Small budgets, so that pages leave memory and checkpoints are frequent.
    DriveOptions {
        map_cache_bytes: 40 << 10,
        index_cache_bytes: 8 << 10,
        checkpoint_log_bytes: 200 << 10,
        views_max: 5,
        erased_kept: 3,
        ..DriveOptions::default()
    }
}

impl Model {
    fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            state: State::new(),
            views: Vec::new(),
            extents: BTreeMap::new(),
            commit: 0,
            refused: 0,
        }
    }

    fn lpid(&mut self) -> Lpid {
        let at = self.random.below(self.extents.len() as u64) as usize;
        let extent = *self.extents.keys().nth(at).unwrap();
        extent.page(self.random.below(24) as u16)
    }

    fn step(&mut self, d: &Drive) {
        match self.random.below(20) {
            0 => {
                let e = allocate(d, 7, 1)[0];
                for (_, state) in &self.views {
                    assert!(
                        state.keys().all(|l| l.extent() != e),
                        "{e} is handed out while a view shows its pages"
                    );
                }
                assert!(self.extents.insert(e, 7).is_none(), "{e} is handed out twice");
            }
            1 if self.views.len() < 4 => {
                let (view, commit) = open_view(d);
                assert_eq!(commit.raw(), self.commit);
                self.views.push((view, self.state.clone()));
            }
            2 if !self.views.is_empty() => {
                let at = self.random.below(self.views.len() as u64) as usize;
                close_view(d, self.views.swap_remove(at).0);
            }
            3..=6 => self.reads(d),
            _ if self.extents.is_empty() => {
                self.extents.insert(allocate(d, 7, 1)[0], 7);
            }
            _ => self.batch(d),
        }
    }

    fn batch(&mut self, d: &Drive) {
        let mut b = Batch::default();
        let mut after = self.state.clone();
        let mut seen = Vec::new();
        let large = self.random.below(12) == 0;
        for _ in 0..1 + self.random.below(if large { 30 } else { 5 }) {
            let lpid = self.lpid();
            if seen.contains(&lpid) {
                continue;
            }
            seen.push(lpid);
            if self.random.below(4) == 0 {
                b.trims.push(lpid);
                after.remove(&lpid);
            } else {
                let len = 64 + self.random.below(if large { 60_000 } else { 6000 }) as usize;
                let data = self.random.bytes(len);
                let mut p: PageWrite = page(lpid, &data);
                p.align = if self.random.below(3) == 0 { Align::ReadUnit } else { Align::Cell };
                b.writes.push(p);
                after.insert(lpid, data);
            }
        }
        if self.extents.len() > 6 && self.random.below(4) == 0 {
            let at = self.random.below(self.extents.len() as u64) as usize;
            let e = *self.extents.keys().nth(at).unwrap();
            b.writes.retain(|p| p.lpid.extent() != e);
            b.releases.push(e);
            after.retain(|l, _| l.extent() != e);
        }
        let released = b.releases.clone();
        if b.is_empty() {
            return;
        }
        b.pin = self.views.len() < 4 && self.random.below(10) == 0;
        match write(d, b) {
            Ok((commit, view)) => {
                self.commit += 1;
                assert_eq!(commit.raw(), self.commit);
                self.state = after;
                self.extents.retain(|e, _| !released.contains(e));
                self.views.extend(view.map(|v| (v, self.state.clone())));
            }
            Err(CommandError::OutOfSpace { .. }) => {
                self.refused += 1;
                for (view, _) in self.views.drain(..) {
                    close_view(d, view);
                }
                // Half of all goes, or all, so that there is room again.
                let even = |l: &Lpid| l.raw().is_multiple_of(2);
                let any = self.state.keys().any(even);
                let trims: Vec<Lpid> = self.state.keys().copied().filter(|l| !any || even(l)).collect();
                trims.iter().for_each(|l| drop(self.state.remove(l)));
                self.commit += u64::from(!trims.is_empty());
                write(d, Batch { trims, ..Batch::default() }).expect("trims go on when the drive is full");
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn reads(&mut self, d: &Drive) {
        for _ in 0..6 {
            if self.extents.is_empty() {
                return;
            }
            let lpid = self.lpid();
            assert!(get(d, None, lpid).as_ref() == self.state.get(&lpid), "page {lpid}");
            for (view, state) in &self.views {
                assert!(get(d, Some(*view), lpid).as_ref() == state.get(&lpid), "page {lpid} at {view:?}");
            }
            if let Some(whole) = self.state.get(&lpid) {
                let len = whole.len() as u64;
                let from = self.random.below(len);
                let to = from + self.random.below(len - from + 1);
                let range = Some(from as u32..to as u32);
                match run(d, Command::Read { view: None, pages: vec![ReadRequest { lpid, range }] }) {
                    Ok(Reply::Pages(p)) => {
                        assert!(p[0][..] == whole[from as usize..to as usize], "part of page {lpid}")
                    }
                    r => panic!("{r:?}"),
                }
            }
        }
    }

    /// All is as the model says, after the drive was opened anew.
    fn reopened(&mut self, d: &Drive) {
        self.views.clear();
        assert_eq!(d.info().commit.raw(), self.commit);
        let mut mapped: BTreeMap<ExtentId, u32> = BTreeMap::new();
        for (lpid, data) in &self.state {
            assert!(get(d, None, *lpid).as_ref() == Some(data), "page {lpid}");
            *mapped.entry(lpid.extent()).or_default() += 1;
        }
        // Extents that were handed out and never written may be forgotten, or not.
        let Ok(Reply::ExtentList(list)) = run(d, Command::ListExtents) else { panic!() };
        self.extents.clear();
        for i in list {
            assert_eq!(i.owner, OwnerId::new(7));
            assert_eq!(i.pages_mapped, Some(mapped.remove(&i.extent).unwrap_or(0)));
            self.extents.insert(i.extent, 7);
        }
        assert_eq!(mapped, BTreeMap::new());
        sound(d);
    }
}

/// Seeds from `first` on: `count` of them, or that many times as many with `LODE_SEEDS`.
fn seeds(first: u64, count: u64) -> impl Iterator<Item = u64> {
    let times = std::env::var("LODE_SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(1);
    (0..count * times).map(move |n| first + n * 1000)
}

fn steps(seed: u64, geometry: Geometry, rounds: u32) -> u32 {
    let mut m = Model::new(seed);
    let mut d = Drive::format(Medium::memory(geometry), options()).unwrap();
    for round in 0..rounds {
        for _ in 0..m.random.below(120) {
            m.step(&d);
        }
        if round % 5 == 0 {
            sound(&d);
        }
        if m.random.below(3) == 0 {
            d.clone().close().unwrap();
        }
        d = d
            .after_power_cut()
            .expect("it lies in memory")
            .unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}"));
        m.reopened(&d);
    }
    m.refused
}

#[test]
fn a_drive_is_what_the_maps_say_through_power_cuts() {
    for seed in seeds(0, 12) {
        steps(seed, Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 40).unwrap(), 30);
    }
}

#[test]
fn channels_and_larger_units_change_nothing() {
    for seed in seeds(100, 4) {
        steps(seed, Geometry::new(4, 1, 1, 4096, 16_384, 1 << 20, 64).unwrap(), 20);
        steps(seed, Geometry::new(1, 1, 1, 16_384, 32_768, 1 << 20, 48).unwrap(), 20);
    }
}

#[test]
fn a_full_drive_refuses_and_goes_on() {
    let refused: u32 =
        seeds(200, 6).map(|s| steps(s, Geometry::new(1, 1, 1, 4096, 4096, 1 << 19, 16).unwrap(), 25)).sum();
    assert!(refused > 0, "it was never full");
}

#[test]
fn a_file_is_what_the_maps_say_whether_it_was_closed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let path: &Path = &dir.path().join("a.lode");
    let mut m = Model::new(77);
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 64).unwrap();
    let mut d = Drive::create_file(path, geometry, options(), 1).unwrap();
    for _ in 0..20 {
        for _ in 0..60 {
            m.step(&d);
        }
        if m.random.below(2) == 0 {
            d.close().unwrap();
        } else {
            drop(d);
        }
        d = Unrecovered::new(Medium::open_file(path).unwrap(), options()).recover().unwrap();
        m.reopened(&d);
    }
}
