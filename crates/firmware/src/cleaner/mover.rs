//! The mover: brings what is still needed of an EBLOCK elsewhere, as system actions that race with those of users.
//!
//! ```text
//!   metadata ─► pages whose mapping, or an old version, lies here ─► read ─► program (stream of its age) ─► stage:
//!               where the page is still the same, its address changes; else the copy may serve an old version, or nobody
//! ```
//!
//! Invariants: a move never takes the place of a newer write: whether the page is still the same is decided when the
//! move is staged, in the order of all actions; old bytes are let go only once the new address is durable; alignment
//! and redo bits are kept. The drive's own pages are written anew, as by a checkpoint.
//!
//! Source: ELEOS §VI-C (valid pages by metadata, conditional installation). We differ: several actions an EBLOCK, each
//! bounded, so that a step is short; validity is by exact address, so the order of pages does not matter.

use std::collections::BTreeSet;

use lode_base::{EblockId, Lpid, PageBuf};
use lode_command::{Align, CommandError};

use super::choose::{Cleaner, Emptied, MOVE_BYTES, Rest};
use crate::FirmwareError;
use crate::commit::{Action, Freed, Overlay};
use crate::core::{Core, Counts, Sequencer};
use crate::entry::Entry;
use crate::gc::{GcStream, Victim};
use crate::record::Record;
use crate::space::{
    Descriptor, EBLOCKS_FEW, Item, PageName, Purpose, State, align_at, align_of, read_metadata,
};
use crate::stream::Stream;

/// Bytes that are read at a time, about; and bytes between two pages that are rather read than passed over.
const READ_BYTES: usize = 256 << 10;
const READ_GAP_BYTES: usize = 8 << 10;

/// A page that lies in the victim.
#[derive(Clone, Copy)]
pub(crate) struct Valid {
    pub(crate) lpid: Lpid,
    pub(crate) entry: Entry,
    /// How it is to be aligned, there and wherever it goes.
    pub(crate) align: Align,
}

/// Each page once, in order. Of several versions one may be to be aligned: where it lies says which.
fn each_once(pages: &mut Vec<(Lpid, bool)>) {
    pages.sort_unstable();
    pages.dedup_by(|later, first| {
        first.1 |= later.0 == first.0 && later.1;
        later.0 == first.0
    });
}

/// A page moves to where its copy is.
fn stage(overlay: &mut Overlay, moved: &mut Vec<(Lpid, Entry)>, lpid: Lpid, entry: Entry) {
    overlay.set(lpid, Some(entry));
    moved.push((lpid, entry));
}

/// As [`stage`], but only one page of a move: the fault `MoveForgets`.
fn stage_the_first(overlay: &mut Overlay, moved: &mut Vec<(Lpid, Entry)>, lpid: Lpid, entry: Entry) {
    if moved.is_empty() {
        stage(overlay, moved, lpid, entry);
    }
}

impl Core {
    /// Empties an EBLOCK, `whole` or one step of it, which stays until that is over.
    pub(super) fn empty(
        &self,
        cleaner: &mut Cleaner,
        victim: &Victim,
        whole: bool,
    ) -> Result<Emptied, FirmwareError> {
        self.seq.lock().space.enter(victim.eblock);
        let emptied = self.empty_held(cleaner, victim, whole);
        self.seq.lock().space.leave(victim.eblock);
        emptied
    }

    fn empty_held(
        &self,
        cleaner: &mut Cleaner,
        chosen: &Victim,
        whole: bool,
    ) -> Result<Emptied, FirmwareError> {
        let victim = chosen.eblock;
        let d = self.seq.lock().space.descriptor(victim);
        // One that is only to make room makes none when something stays.
        let rest_moves = matches!(d.state, State::Failed { .. }) || cleaner.weak.contains(&victim);
        let left = cleaner.rest.take().filter(|r| (r.victim, r.generation) == (victim, d.generation));
        let users = match left {
            Some(rest) => rest.pages,
            None => self.names_in(cleaner, victim, &d)?,
        };
        if let Some(m) = self.medium.model() {
            m.think(u64::from(m.profile().cores.lookup_cycles) * users.len() as u64);
        }
        let mut valid: Vec<Valid> = Vec::new();
        let mut has_versions = false;
        for (lpid, aligned) in users {
            let here = |entry: Entry| {
                let align = if aligned { align_at(entry, self.geometry()) } else { Align::Cell };
                Valid { lpid, entry, align }
            };
            match self.entries_in(victim, lpid) {
                Err(e) if e.is_damage() => cleaner.is_stuck = true,
                entries => {
                    let (newest, old) = entries?;
                    has_versions |= !old.is_empty();
                    valid.extend(newest.into_iter().chain(old).map(here));
                }
            }
        }
        if cleaner.is_stuck && !rest_moves {
            return Ok(Emptied::Never);
        }
        // As they lie, so that neighbours are read together.
        valid.sort_unstable_by_key(|v| v.entry.ppa(self.geometry()));
        let most = if whole { MOVE_BYTES } else { cleaner.step_bytes_of(chosen) as usize };
        let mut left = &valid[..];
        while !left.is_empty() {
            let mut bytes = 0;
            let fits = |v: &&Valid| {
                let before = bytes;
                bytes += v.entry.len_bytes();
                before < most
            };
            let (step, rest) = left.split_at(left.iter().take_while(fits).count());
            left = rest;
            let pages = self.read_valid(cleaner, step)?;
            if cleaner.is_stuck && !rest_moves {
                return Ok(Emptied::Never);
            }
            if !pages.is_empty() {
                self.move_pages(chosen.stream, d.age, pages)?;
            }
            if !whole && bytes >= most {
                let name = |v: &Valid| (v.lpid, v.align == Align::ReadUnit);
                let mut pages = left.iter().map(name).collect();
                if has_versions {
                    each_once(&mut pages);
                }
                cleaner.rest = Some(Rest { victim, generation: d.generation, pages });
                return Ok(Emptied::InPart);
            }
        }
        let left = self.seq.lock().space.descriptor(victim).live;
        if left > 0 {
            return Ok(Emptied::Never);
        }
        Counts::add(&self.counts.victims, 1);
        Ok(Emptied::Whole)
    }

    /// The pages of users that may lie in an EBLOCK, each once, and whether it is to be aligned. Pages of the drive's own that
    /// lie there are written anew.
    fn names_in(
        &self,
        cleaner: &mut Cleaner,
        victim: EblockId,
        d: &Descriptor,
    ) -> Result<Vec<(Lpid, bool)>, FirmwareError> {
        let words = self.seq.lock().space.unwritten_of(victim).map(<[u64]>::to_vec);
        let words: Vec<u64> = match words {
            Some(words) => words,
            None => match read_metadata(&self.medium, victim, d.data_end, d.metadata) {
                Ok(words) => words,
                // Without it, the mapping says what lies here.
                Err(_) => self.words_in(victim)?,
            },
        };
        let (mut users, mut own) = (Vec::with_capacity(words.len()), BTreeSet::new());
        for word in words {
            match PageName::from_word(word) {
                Some(PageName::User(lpid)) => users.push((lpid, align_of(word) == Align::ReadUnit)),
                Some(PageName::Own(kind, number)) => drop(own.insert((kind, number))),
                None => {}
            }
        }
        if !own.is_empty() {
            match self.rewrite_own(victim, own) {
                Err(e) if e.is_damage() => cleaner.is_stuck = true,
                rewritten => rewritten?,
            }
        }
        each_once(&mut users);
        Ok(users)
    }

    /// Reads pages of an EBLOCK, which are in the order in which they lie there; those that can not be read stay.
    fn read_valid(
        &self,
        cleaner: &mut Cleaner,
        valid: &[Valid],
    ) -> Result<Vec<(Valid, PageBuf)>, FirmwareError> {
        let g = self.geometry();
        let start = |v: &Valid| g.locate(v.entry.ppa(g)).1 as usize;
        let end = |v: &Valid| start(v) + v.entry.len_bytes();
        let near = |a: &Valid, b: &Valid| start(b) <= end(a) + READ_GAP_BYTES;
        let mut pages = Vec::with_capacity(valid.len());
        for near in valid.chunk_by(near) {
            let mut left = near;
            while let Some(first) = left.first() {
                let count = left.iter().take_while(|v| end(v) <= start(first) + READ_BYTES).count().max(1);
                let (run, rest) = left.split_at(count);
                left = rest;
                let len = run.iter().map(end).max().unwrap_or(0) - start(first);
                if let Ok(data) = self.medium.read(first.entry.ppa(g), len as u32) {
                    let part = |v: &Valid| data.slice(start(v) - start(first)..end(v) - start(first));
                    pages.extend(run.iter().map(|v| (*v, part(v))));
                    continue;
                }
                // Something there is damaged, needed or not.
                for v in run {
                    match self.read_range(v.lpid, v.entry, 0..v.entry.len_bytes() as u32) {
                        Ok(data) => pages.push((*v, data)),
                        // It stays, and says so to whoever reads it.
                        Err(CommandError::Uncorrectable { .. }) => cleaner.is_stuck = true,
                        Err(e) => return Err(FirmwareError::damaged(self.medium.path(), e.to_string())),
                    }
                }
            }
        }
        Ok(pages)
    }

    /// Where versions of a page lie in an EBLOCK: the newest, and old ones that a view shows.
    fn entries_in(&self, victim: EblockId, lpid: Lpid) -> Result<(Option<Entry>, Vec<Entry>), FirmwareError> {
        let here = |e: &Entry| e.eblock(self.geometry()) == Some(victim);
        let (extent, page) = (lpid.extent().raw(), lpid.page());
        let newest = match self.map.look(extent, |m| m.load(page)) {
            Some(newest) => newest,
            None => self.map.get(&self.medium, &self.epochs, extent)?.and_then(|m| m.load(page)),
        };
        let newest = newest.filter(here);
        let mut old: Vec<Entry> = Vec::new();
        for version in self.versions.entries_of(lpid).into_iter().filter(here) {
            if newest.iter().chain(&old).all(|f| !f.same_place(version)) {
                old.push(version);
            }
        }
        Ok((newest, old))
    }

    /// Words of the pages that lie in an EBLOCK, found through the whole mapping.
    fn words_in(&self, victim: EblockId) -> Result<Vec<u64>, FirmwareError> {
        let g = self.geometry();
        let here = |e: Entry| e.eblock(g) == Some(victim);
        let mut words: Vec<u64> = self.own_names_in(victim).into_iter().map(PageName::word).collect();
        for n in 0..self.map.numbers() {
            let (Some(map), Some(extent)) =
                (self.map.get(&self.medium, &self.epochs, n)?, lode_base::ExtentId::new(n))
            else {
                continue;
            };
            let mapped = map.mapped().filter(|(_, e)| here(*e));
            words.extend(mapped.map(|(p, e)| PageName::User(extent.page(p)).word_at(e, g)));
        }
        let old = self.versions.all_old().into_iter().filter(|(_, e)| here(*e));
        words.extend(old.map(|(lpid, e)| PageName::User(lpid).word_at(e, g)));
        Ok(words)
    }

    /// Moves pages of an EBLOCK that was written to at about `age`.
    fn move_pages(
        &self,
        stream: GcStream,
        age: u64,
        pages: Vec<(Valid, PageBuf)>,
    ) -> Result<(), FirmwareError> {
        let bytes = pages.iter().map(|(_, d)| d.len() as u64).sum::<u64>();
        let stream = {
            let w = self.seq.lock();
            let room =
                w.space.free_eblocks() > self.budget(&w).gc_eblocks() + u32::from(crate::stream::GC_CLASSES);
            let room = room && self.geometry().eblock_count() >= EBLOCKS_FEW;
            match stream {
                GcStream::Class(c) if room || w.space.gc_class_age(c.raw()).is_some() => Stream::Gc(c.raw()),
                _ => w.space.gc_stream(age, room),
            }
        };
        self.relocate(stream, Purpose::Gc, &pages, |w| w.space.mix_age(stream, age, bytes))?;
        Counts::add(&self.counts.moved_bytes, bytes);
        Ok(())
    }

    /// Copies pages, and changes their entries where they are still the same. When they are copied, `copied` is told.
    pub(crate) fn relocate(
        &self,
        stream: Stream,
        purpose: Purpose,
        pages: &[(Valid, PageBuf)],
        copied: impl FnOnce(&mut Sequencer),
    ) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        let pins = self.pin_maps(pages.iter().map(|(v, _)| v.lpid.extent()))?;
        let align = |v: &Valid| at!(MoveUnaligned => Align::Cell, v.align);
        let item = |(v, data): &(Valid, PageBuf)| Item {
            len: data.len(),
            align: align(v),
            word: PageName::User(v.lpid).aligned_word(align(v)),
        };
        let items: Vec<Item> = pages.iter().map(item).collect();
        let data: Vec<&[u8]> = pages.iter().map(|(_, d)| &d[..]).collect();
        self.seq.lock().under_way += 1;
        let placed = self.append(stream, &items, &data, purpose, 0);
        let mut w = self.seq.lock();
        let placed = match placed.map_err(|e| (e, self.check_writable())) {
            Ok(placed) => placed,
            Err((e, writable)) => {
                w.under_way -= 1;
                drop(w);
                self.unpin(&pins);
                writable?;
                return Err(e);
            }
        };
        copied(&mut w);
        let (mut moved, mut copies, mut freed) = (Vec::new(), Vec::new(), Freed::default());
        for ((v, _), ppa) in pages.iter().zip(&placed.places) {
            let now = pins.get(&v.lpid.extent()).and_then(|p| w.overlay.entry(v.lpid, &p.map));
            let is_same = |now: &Entry| at!(MoveOverNewer => true, now.same_place(v.entry));
            match now.filter(is_same) {
                Some(now) => {
                    let redo = at!(MoveMarksRedo => true, now.redo());
                    let entry = Entry::new(*ppa, v.entry.len_bytes(), redo);
                    freed.add(&g, now);
                    at!(MoveForgets => stage_the_first, stage)(&mut w.overlay, &mut moved, v.lpid, entry);
                }
                None => copies.push((v.lpid, v.entry, Entry::new(*ppa, v.entry.len_bytes(), v.entry.redo()))),
            }
        }
        let record = Record::Moved { pages: moved, freed: freed.into_vec() };
        let action = Action { record, pins, eblocks: placed.eblocks, copies, ..Action::default() };
        self.carry_out(w, action).map(drop).map_err(FirmwareError::Refused)
    }
}

#[cfg(test)]
mod tests {
    use lode_base::{ExtentId, Geometry, OwnerId, Ppa, ViewId};
    use lode_command::{Batch, Command, PageWrite, ReadRequest, Reply};
    use lode_flash::{FaultKind, Faults, Medium};

    use super::super::Need;
    use super::*;
    use crate::DriveOptions;
    use crate::gc::{Choice, GcPolicy, GcView, Policy, StreamClass, Urgency};
    use crate::space::State;

    impl From<EblockId> for Victim {
        fn from(eblock: EblockId) -> Self {
            Self::new(eblock)
        }
    }

    /// A drive of 40 MB, and what its pages are to hold.
    struct Rig {
        core: Core,
        faults: Faults,
        extent: ExtentId,
        pages: Vec<PageBuf>,
    }

    fn bytes(n: usize, version: u8) -> PageBuf {
        PageBuf::copy_from(&[n.to_le_bytes().as_slice(), &vec![version; 99_992]].concat())
    }

    impl Rig {
        /// One page after the other, which fill three EBLOCKs and begin a fourth.
        fn new() -> Self {
            Self::of(40, DriveOptions { map_cache_bytes: 0, ..DriveOptions::default() })
        }

        fn of(eblocks: u32, options: DriveOptions) -> Self {
            let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, eblocks).unwrap();
            let (medium, faults) = Medium::simulated(g);
            let core = crate::recovery::format(medium, options).unwrap();
            let allocate = Command::AllocateExtents { owner: OwnerId::new(1), count: 1 };
            let Ok(Reply::Extents(extents)) = core.run(allocate) else { panic!("no extent") };
            let mut r = Self { core, faults, extent: extents[0], pages: Vec::new() };
            (0..32).for_each(|n| r.put(n, 0));
            r
        }

        fn lpid(&self, n: usize) -> Lpid {
            self.extent.page(n as u16)
        }

        fn put(&mut self, n: usize, version: u8) {
            let data = bytes(n, version);
            let writes = vec![PageWrite { lpid: self.lpid(n), data: data.clone(), align: Align::Cell }];
            self.core.run(Command::Write(Batch { writes, ..Batch::default() })).unwrap();
            self.pages.truncate(self.pages.len().max(n));
            match self.pages.get_mut(n) {
                Some(page) => *page = data,
                None => self.pages.push(data),
            }
        }

        fn read(&self, view: Option<ViewId>, n: usize) -> Result<PageBuf, CommandError> {
            let pages = vec![ReadRequest { lpid: self.lpid(n), range: None }];
            match self.core.run(Command::Read { view, pages })? {
                Reply::Pages(mut pages) => Ok(pages.remove(0)),
                r => panic!("{r:?}"),
            }
        }

        fn open_view(&self) -> ViewId {
            match self.core.run(Command::OpenView) {
                Ok(Reply::View { view, .. }) => view,
                r => panic!("{r:?}"),
            }
        }

        fn entry(&self, n: usize) -> Entry {
            let map = self.core.map.get(&self.core.medium, &self.core.epochs, self.extent.raw()).unwrap();
            map.unwrap().load(n as u16).unwrap()
        }

        fn eblock(&self, n: usize) -> EblockId {
            self.entry(n).eblock(self.core.geometry()).unwrap()
        }

        /// What lies there can not be read any more.
        fn destroy(&self, at: Ppa) {
            self.faults.arm(FaultKind::ReadFailsForGood, 0, 0);
            assert!(self.core.medium.read(at, 64).is_err());
        }

        /// The mapping page is on the medium alone, and can not be read there; answers its EBLOCK.
        fn lose_mapping_page(&self) -> EblockId {
            let (core, number) = (&self.core, self.extent.raw());
            core.checkpoint(false).unwrap();
            let home = core.map.home(number).unwrap();
            core.map.make_room();
            assert!(!core.map.is_resident(number));
            self.destroy(home.ppa(core.geometry()));
            home.eblock(core.geometry()).unwrap()
        }

        fn left(&self, e: EblockId) -> u32 {
            let d = self.core.seq.lock().space.descriptor(e);
            d.live + d.pinned
        }

        fn empty(&self, victim: impl Into<Victim>, whole: bool) -> Emptied {
            let mut cleaner = self.core.background.lock();
            cleaner.is_stuck = false;
            let emptied = self.core.empty(&mut cleaner, &victim.into(), whole).unwrap();
            drop(cleaner);
            self.core.check_invariants();
            assert_eq!(self.core.seq.lock().under_way, 0);
            emptied
        }

        fn check(&self) {
            for (n, page) in self.pages.iter().enumerate() {
                assert!(self.read(None, n).as_ref() == Ok(page), "page {n}");
            }
            let problems = self.core.check().problems;
            assert!(problems.is_empty(), "{problems:?}");
        }
    }

    #[test]
    fn all_that_is_needed_is_moved_and_what_views_show_with_it() {
        let mut r = Rig::new();
        // Three versions of page 30 lie in one EBLOCK, and the newest in another.
        let mut views = Vec::new();
        for version in 1..4 {
            r.put(30, version);
            views.push((r.open_view(), r.pages[30].clone()));
        }
        let victim = r.eblock(30);
        while r.eblock(30) == victim {
            r.put(30, 4);
            r.put(31, 5);
        }
        assert_eq!(r.core.versions.entries_of(r.lpid(30)).len(), 3);
        assert!(r.core.seq.lock().space.descriptor(victim).state != State::Free);
        assert_eq!(r.empty(victim, true), Emptied::Whole);
        assert_eq!(r.left(victim), 0, "nothing is left for a view");
        for (view, page) in views {
            assert!(r.read(Some(view), 30) == Ok(page));
        }
        r.check();
    }

    #[test]
    fn a_step_moves_about_what_it_may() {
        let r = Rig::new();
        let victim = r.eblock(0);
        let first = r.left(victim);
        r.core.background.lock().step_bytes = 150_000;
        let mut left = Vec::new();
        while r.empty(victim, false) == Emptied::InPart {
            left.push(r.left(victim));
        }
        assert_eq!(r.left(victim), 0);
        let page = r.entry(0).cells_bytes();
        assert_eq!(left, [2, 4, 6, 8, 10].map(|moved| first - moved * page));
        r.check();
    }

    /// Where the metadata of an EBLOCK can not be read, the mapping says what lies there.
    #[test]
    fn an_eblock_without_metadata_is_emptied_too() {
        let mut r = Rig::new();
        let view = r.open_view();
        let (victim, old) = (r.eblock(0), r.pages[0].clone());
        r.put(0, 1);
        let g = *r.core.geometry();
        let d = r.core.seq.lock().space.descriptor(victim);
        assert!(matches!(d.state, State::Used { .. }) && d.metadata > 0);
        // The metadata begins there.
        r.destroy(g.ppa(victim, d.data_end * g.wblock_bytes()).unwrap());
        assert_eq!(r.empty(victim, true), Emptied::Whole);
        assert_eq!(r.left(victim), 0);
        assert!(r.read(Some(view), 0) == Ok(old));
        r.check();
    }

    #[test]
    fn pages_of_the_drive_are_written_elsewhere() {
        let r = Rig::new();
        r.core.checkpoint(false).unwrap();
        let g = *r.core.geometry();
        let home = || r.core.map.home(r.extent.raw()).unwrap().eblock(&g).unwrap();
        let victim = home();
        {
            let mut w = r.core.seq.lock();
            assert!(w.space.descriptor(victim).live > 0);
            w.space.end(&r.core.medium, victim);
        }
        assert_eq!(r.empty(victim, true), Emptied::Whole);
        assert_eq!(r.left(victim), 0);
        assert_ne!(home(), victim);
        r.check();
    }

    #[test]
    fn what_can_not_be_read_stays_and_the_rest_moves_only_where_it_has_to() {
        let r = Rig::new();
        let victim = r.eblock(0);
        let before = r.left(victim);
        r.destroy(r.entry(2).ppa(r.core.geometry()));
        assert_eq!((r.empty(victim, true), r.left(victim)), (Emptied::Never, before));
        r.core.background.lock().weak.insert(victim);
        assert_eq!(r.empty(victim, true), Emptied::Never);
        assert!(r.core.background.lock().is_stuck);
        // What lies in the same read unit as the damage stays with it.
        let stayed: Vec<usize> = (0..32).filter(|&n| r.eblock(n) == victim).collect();
        assert_eq!(r.left(victim), stayed.len() as u32 * r.entry(2).cells_bytes());
        assert!(stayed.contains(&2) && stayed.len() <= 2, "{stayed:?}");
        for n in 0..32 {
            let read = r.read(None, n);
            let told = matches!(read, Err(CommandError::Uncorrectable { .. })) && stayed.contains(&n);
            assert!(told || read.as_ref() == Ok(&r.pages[n]), "page {n}");
        }
    }

    /// A mapping page that is lost keeps neither the EBLOCK that it lies in from being told, nor those of its pages.
    #[test]
    fn a_lost_mapping_page_leaves_eblocks_where_they_are() {
        let r = Rig::new();
        let users = r.eblock(0);
        let own = r.lose_mapping_page();
        for victim in [users, own] {
            let before = r.left(victim);
            assert_eq!(r.empty(victim, true), Emptied::Never);
            assert!(r.core.background.lock().is_stuck && r.left(victim) == before);
        }
    }

    #[test]
    fn a_lost_mapping_page_keeps_no_page_of_another_in_a_bad_eblock() {
        let r = Rig::new();
        let allocate = Command::AllocateExtents { owner: OwnerId::new(1), count: 1 };
        let Ok(Reply::Extents(other)) = r.core.run(allocate) else { panic!("no extent") };
        let lpid = other[0].page(0);
        let writes = vec![PageWrite { lpid, data: bytes(0, 9), align: Align::Cell }];
        r.core.run(Command::Write(Batch { writes, ..Batch::default() })).unwrap();
        let victim = r.eblock(31);
        let here = || usize::from(r.core.entries_in(victim, lpid).unwrap().0.is_some());
        assert_eq!(here(), 1);
        r.lose_mapping_page();
        r.core.background.lock().weak.insert(victim);
        assert_eq!(r.empty(victim, true), Emptied::Never);
        assert_eq!(here(), 0, "it is brought to safety");
        let pages = vec![ReadRequest { lpid, range: None }];
        let Ok(Reply::Pages(read)) = r.core.run(Command::Read { view: None, pages }) else {
            panic!("no page")
        };
        assert!(read == [bytes(0, 9)]);
        // Without its metadata either, nothing says what lies there: it stays, and who asks for room is not told so.
        let victim = EblockId::new(victim.raw() - 1);
        let (d, g) = (r.core.seq.lock().space.descriptor(victim), *r.core.geometry());
        assert!(d.metadata > 0);
        r.destroy(g.ppa(victim, d.data_end * g.wblock_bytes()).unwrap());
        let e = r.core.empty(&mut r.core.background.lock(), &Victim::new(victim), true).unwrap_err();
        assert!(e.is_damage(), "{e}");
        r.core.background.lock().weak.insert(victim);
        assert!(!r.core.collect(crate::gc::Urgency::Full).unwrap());
    }

    #[test]
    fn pages_go_to_the_stream_that_the_policy_names_in_steps_that_it_allows() {
        for (eblocks, class) in [(256, 0), (256, 2), (40, 2)] {
            let mut r = Rig::of(eblocks, DriveOptions::default());
            let class = StreamClass::new(class).unwrap();
            let victim = Victim {
                stream: GcStream::Class(class),
                step_bytes_max: Some(150_000),
                ..Victim::new(r.eblock(0))
            };
            let there: Vec<usize> = (0..32).filter(|&n| r.eblock(n) == victim.eblock).collect();
            let mut steps = 1;
            while r.empty(victim, false) == Emptied::InPart {
                steps += 1;
            }
            assert_eq!(steps, there.len() / 2 + 1, "each moves two pages of 100,000 bytes");
            // A drive of few EBLOCKs opens no further one for a class.
            let expected = if eblocks < EBLOCKS_FEW { Stream::Gc(0) } else { Stream::Gc(class.raw()) };
            for &n in &there {
                let d = r.core.seq.lock().space.descriptor(r.eblock(n));
                assert_eq!(d.stream(), Some(expected), "page {n} of {eblocks} EBLOCKs");
            }
            r.check();
            // One that is open is written to, however little is free.
            let open = Victim { stream: GcStream::Class(StreamClass::new(0).unwrap()), ..victim };
            r.put(31, 1);
            assert_eq!(r.empty(Victim { eblock: r.eblock(11), ..open }, true), Emptied::Whole);
            r.check();
        }
    }

    #[test]
    fn what_a_policy_says_of_its_victim_holds_until_that_is_empty() {
        struct Picky;
        impl Policy for Picky {
            fn choose(&mut self, view: &GcView<'_>) -> Choice {
                let Choice::Empty(most) = view.most_available() else { return Choice::Decline };
                let stream = GcStream::Class(StreamClass::new(2).unwrap());
                Choice::Empty(Victim { stream, step_bytes_max: Some(150_000), ..most })
            }
        }
        let gc_policy = GcPolicy::custom("picky", || Picky);
        let mut r = Rig::of(256, DriveOptions { gc_policy, ..DriveOptions::default() });
        let victim = r.eblock(0);
        (0..2).for_each(|n| r.put(n, 1));
        let there: Vec<usize> = (0..32).filter(|&n| r.eblock(n) == victim).collect();
        let mut cleaner = r.core.background.lock();
        let mut steps = 0;
        while r.left(victim) > 0 {
            steps += 1;
            assert!(r.core.empty_step(&mut cleaner, Need::Room(Urgency::Paid)).unwrap());
        }
        drop(cleaner);
        assert_eq!(steps, there.len().div_ceil(2), "each moves two pages of 100,000 bytes");
        for n in there {
            let d = r.core.seq.lock().space.descriptor(r.eblock(n));
            assert_eq!(d.stream(), Some(Stream::Gc(2)), "page {n}");
        }
        r.check();
    }

    #[test]
    fn a_move_without_room_leaves_all_as_it_was() {
        let r = Rig::new();
        let valid = Valid { lpid: r.lpid(0), entry: r.entry(0), align: Align::Cell };
        r.faults.full_after(0);
        let pages = [(valid, r.pages[0].clone())];
        let e = r
            .core
            .relocate(Stream::Gc(0), Purpose::Gc, &pages, |_| panic!("nothing was copied"))
            .unwrap_err();
        assert!(e.is_no_space(), "{e}");
        assert_eq!(r.core.seq.lock().under_way, 0);
        r.core.check_invariants();
        r.faults.full_after(0);
        let e = r.core.empty(&mut r.core.background.lock(), &Victim::new(r.eblock(0)), true).unwrap_err();
        assert!(e.is_no_space(), "{e}");
        r.faults.disarm_all();
        r.check();
    }
}
