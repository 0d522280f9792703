//! Random batches, views, trims and power cuts at any operation of the medium, compared with maps in memory. No
//! acknowledged batch is lost, and an unacknowledged batch is stored whole or not at all.
//!
//! ```text
//!   steps ─► cut inside one ─► recover the drive ─► open the store ─► the last state, or the one that was under way
//! ```
//!
//! `LODE_SEEDS=1000` tries more seeds. A failure names its seed, and `LODE_SEED=7` tries only that seed.

mod common;

use std::collections::{BTreeMap, HashMap};

use common::*;
use lode_base::{ExtentId, Lpid, ViewId};
use lode_command::{Batch, Command, Reply};
use lode_firmware::{Drive, Unrecovered};
use lode_flash::Medium;
use lode_lss::{BlockOptions, Cleaning, Lss};

type Pages = HashMap<Lpid, Vec<u8>>;

#[derive(Clone, Default)]
struct State {
    pages: Pages,
    extents: BTreeMap<ExtentId, u32>,
}

struct Model {
    random: Random,
    now: State,
    after: Option<State>,
    views: Vec<(ViewId, Pages)>,
    /// Allocated extents that no batch has logged yet.
    fresh: Vec<ExtentId>,
}

impl Model {
    fn lpid(&mut self) -> Option<Lpid> {
        let of: Vec<_> = self.now.extents.keys().copied().collect();
        let at = self.random.below(of.len().max(1) as u64) as usize;
        Some(of.get(at)?.page(self.random.below(40) as u16))
    }

    fn batch(&mut self) -> Batch {
        let mut b = Batch::default();
        for _ in 0..1 + self.random.below(12) {
            let Some(l) = self.lpid() else { continue };
            if b.trims.contains(&l) || b.writes.iter().any(|p| p.lpid == l) {
                continue;
            }
            if self.random.below(6) == 0 {
                b.trims.push(l);
            } else {
                let most = if self.random.below(20) == 0 { 60_000 } else { 5000 };
                let len = 64 + self.random.below(most) as usize;
                b.writes.push(page(l, &self.random.bytes(len)));
            }
        }
        if self.now.extents.len() > 3 && self.random.below(15) == 0 {
            let at = self.random.below(self.now.extents.len() as u64) as usize;
            let e = *self.now.extents.keys().nth(at).unwrap();
            b.writes.retain(|p| p.lpid.extent() != e);
            b.trims.retain(|l| l.extent() != e);
            b.releases.push(e);
        }
        b.pin = self.random.below(10) == 0 && self.views.len() < 3;
        b
    }

    /// Runs one command. `after` is set while a command is under way that changes the acknowledged state.
    fn step(&mut self, d: &Lss, is_cut: &dyn Fn() -> bool) {
        self.after = None;
        match self.random.below(20) {
            0 | 1 if self.now.extents.len() < 5 => {
                let e = allocate(d, 7, 1)[0];
                assert!(self.now.extents.insert(e, 7).is_none(), "{e} is handed out twice");
                self.fresh.push(e);
            }
            2 if self.views.len() < 3 => self.views.push((open_view(d).0, self.now.pages.clone())),
            3 if !self.views.is_empty() => {
                let at = self.random.below(self.views.len() as u64) as usize;
                close_view(d, self.views.swap_remove(at).0);
            }
            4 if self.random.below(4) == 0 => {
                // A failure means that the power was cut.
                let done = run(d, Command::Checkpoint);
                assert!(done.is_ok() || is_cut(), "{done:?}");
            }
            _ => {
                let b = self.batch();
                if b.is_empty() {
                    return;
                }
                let mut after = self.now.clone();
                b.trims.iter().for_each(|l| drop(after.pages.remove(l)));
                for e in &b.releases {
                    after.extents.remove(e);
                    after.pages.retain(|l, _| l.extent() != *e);
                }
                after.pages.extend(b.writes.iter().map(|p| (p.lpid, p.data.to_vec())));
                self.after = Some(after.clone());
                match write(d, b) {
                    Ok((_, view)) => {
                        self.views.extend(view.map(|v| (v, after.pages.clone())));
                        if !is_cut() {
                            (self.now, self.after) = (after, None);
                            self.fresh.clear();
                        }
                    }
                    Err(e) => assert!(is_cut(), "{e}"),
                }
            }
        }
    }

    fn reads(&mut self, d: &Lss) {
        let mut asked: Vec<Lpid> = (0..30).filter_map(|_| self.lpid()).collect();
        asked.extend(self.now.pages.keys().take(10));
        for l in asked {
            assert_eq!(get(d, None, l), self.now.pages.get(&l).cloned(), "{l}");
            for (v, pages) in &self.views {
                assert_eq!(get(d, Some(*v), l), pages.get(&l).cloned(), "{l} at {v}");
            }
        }
    }
}

/// Reads the whole state of a store.
fn held(d: &Lss) -> State {
    let Ok(Reply::ExtentList(list)) = run(d, Command::ListExtents) else { panic!("no list") };
    let mut state = State::default();
    for e in list {
        state.extents.insert(e.extent, e.owner.raw());
        let pages: Vec<(Lpid, Vec<u8>)> =
            (0..40).map(|p| e.extent.page(p)).filter_map(|l| Some((l, get(d, None, l)?))).collect();
        assert_eq!(e.pages_mapped, Some(pages.len() as u32));
        state.pages.extend(pages);
    }
    state
}

fn one(seed: u64) {
    let cleaning = if seed.is_multiple_of(2) { Cleaning::OldestWhole } else { Cleaning::CostBenefit };
    let options = options(cleaning, seed % 3 == 1);
    let packets = BlockOptions {
        packet_blocks: 4,
        in_flight: if seed % 5 < 2 { 8 } else { 1 },
        ..BlockOptions::default()
    };
    let (medium, power) = Medium::with_power(geometry());
    let mut power = power;
    let mut drive = Drive::format(medium, drive_options()).unwrap();
    let mut lss = format(&drive, packets, options.clone());
    let mut m = Model {
        random: Random(seed),
        now: State::default(),
        after: None,
        views: Vec::new(),
        fresh: Vec::new(),
    };
    for _ in 0..5 {
        for _ in 0..60 + m.random.below(120) {
            m.step(&lss, &|| false);
            lss.check_invariants();
        }
        m.reads(&lss);
        power.cut_after(m.random.below(120));
        for _ in 0..400 {
            if power.is_cut() {
                break;
            }
            m.step(&lss, &|| power.is_cut());
        }
        assert!(power.is_cut(), "nothing was written");
        drop(lss);
        drop(drive);
        let (medium, p) = power.restored(seed).unwrap();
        power = p;
        drive = Unrecovered::new(medium, drive_options()).recover().unwrap();
        lss = open(&drive, packets, options.clone()).unwrap();
        lss.check_invariants();
        let found = held(&lss);
        // A power cut loses the allocations that no batch has logged.
        let same = |s: &State, told: bool| {
            let mut extents = s.extents.clone();
            if !told {
                extents.retain(|e, _| !m.fresh.contains(e));
            }
            s.pages == found.pages && extents == found.extents
        };
        // A checkpoint may have logged these allocations.
        let before = same(&m.now, false) || same(&m.now, true);
        let after = m.after.as_ref().is_some_and(|a| same(a, true));
        assert!(before || after, "{} pages, {} acknowledged", found.pages.len(), m.now.pages.len());
        (m.now, m.after) = (found, None);
        m.views.clear();
        m.fresh.clear();
    }
    let sound = drive.check();
    assert!(sound.problems.is_empty(), "{:?}", sound.problems);
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    if let Some(seed) = number("LODE_SEED") {
        return one(seed);
    }
    for seed in 0..number("LODE_SEEDS").unwrap_or(30) {
        let run = std::panic::catch_unwind(|| one(seed));
        if let Err(e) = run {
            println!("LODE_SEED={seed} shows it again");
            std::panic::resume_unwind(e);
        }
    }
}
