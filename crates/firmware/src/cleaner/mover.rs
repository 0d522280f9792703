//! The mover: brings what is still needed of an EBLOCK elsewhere, as system actions that race with those of users.
//!
//! ```text
//!   metadata ─► pages whose mapping, or an old version, lies here ─► read ─► relocate, to the stream of their age
//! ```
//!
//! Invariant: the drive's own pages are written anew, as by a checkpoint; all others are relocated (`append`).
//!
//! Source: ELEOS §VI-C (valid pages by metadata). We differ: several actions per EBLOCK, each bounded, so that a step is
//! short; validity is by exact address, so the order of pages does not matter.

use std::collections::BTreeSet;

use lode_base::{EblockId, ExtentId, Lpid, PageBuf};
use lode_command::{Align, CommandError};

use super::choose::{Cleaner, Rest};
use crate::FirmwareError;
use crate::append::{MOVE_BYTES, ValidPage};
use crate::checkpoint::Checkpointer;
use crate::commit::CommitState;
use crate::entry::Entry;
use crate::env::Count;
use crate::gc::{GcStream, Victim};
use crate::read::Reader;
use crate::space::{Descriptor, EBLOCKS_FEW, PageName, Purpose, State, align_at, align_of, read_metadata};
use crate::stream::{GC_CLASSES, Stream};

/// Bytes that are read at a time, about.
const READ_BYTES: usize = 256 << 10;
/// Bytes between two pages that are rather read than passed over.
const READ_GAP_BYTES: usize = 8 << 10;

/// What emptying an EBLOCK came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emptied {
    Whole,
    /// There is more to move.
    InPart,
    /// Something cannot be moved.
    Never,
}

/// Each page once, in order. Of several versions one may be to be aligned: where it lies says which.
fn each_once(pages: &mut Vec<(Lpid, bool)>) {
    pages.sort_unstable();
    pages.dedup_by(|later, first| {
        first.1 |= later.0 == first.0 && later.1;
        later.0 == first.0
    });
}

impl Cleaner {
    /// Empties an EBLOCK, `whole` or one step of it. The EBLOCK stays until that is over.
    pub(super) fn empty(
        &mut self,
        drive: Checkpointer<'_>,
        victim: &Victim,
        whole: bool,
    ) -> Result<Emptied, FirmwareError> {
        drive.state().eblocks_mut().enter(victim.eblock);
        let emptied = self.empty_entered(drive, victim, whole);
        drive.state().eblocks_mut().leave(victim.eblock);
        emptied
    }

    fn empty_entered(
        &mut self,
        drive: Checkpointer<'_>,
        chosen: &Victim,
        whole: bool,
    ) -> Result<Emptied, FirmwareError> {
        let (g, victim) = (drive.env().geometry(), chosen.eblock);
        let d = drive.state().eblocks().descriptor(victim);
        // One that is only to make room makes none when something stays.
        let rest_moves = matches!(d.state, State::Failed { .. }) || self.is_weak(victim);
        let left = self.rest.take().filter(|r| (r.victim, r.generation) == (victim, d.generation));
        let users = match left {
            Some(rest) => rest.pages,
            None => self.names_in(drive, victim, &d)?,
        };
        if let Some(m) = drive.medium().model() {
            m.think(u64::from(m.profile().cores.lookup_cycles) * users.len() as u64);
        }
        let mut valid: Vec<ValidPage> = Vec::new();
        let mut has_versions = false;
        for (lpid, aligned) in users {
            let here = |entry: Entry| {
                let align = if aligned { align_at(entry, g) } else { Align::Cell };
                ValidPage { lpid, entry, align }
            };
            match entries_in(drive, victim, lpid) {
                Err(e) if e.is_damage() => self.is_stuck = true,
                entries => {
                    let (newest, old) = entries?;
                    has_versions |= !old.is_empty();
                    valid.extend(newest.into_iter().chain(old).map(here));
                }
            }
        }
        if self.is_stuck && !rest_moves {
            return Ok(Emptied::Never);
        }
        // As they lie, so that neighbours are read together.
        valid.sort_unstable_by_key(|v| v.entry.ppa(g));
        let most = if whole { MOVE_BYTES } else { self.step_bytes_of(chosen) as usize };
        let mut left = &valid[..];
        while !left.is_empty() {
            let mut bytes = 0;
            let fits = |v: &&ValidPage| {
                let before = bytes;
                bytes += v.entry.len_bytes();
                before < most
            };
            let (step, rest) = left.split_at(left.iter().take_while(fits).count());
            left = rest;
            let pages = self.read_valid(drive, step)?;
            if self.is_stuck && !rest_moves {
                return Ok(Emptied::Never);
            }
            if !pages.is_empty() {
                move_pages(drive, chosen.stream, d.age, pages)?;
            }
            if !whole && bytes >= most {
                let name = |v: &ValidPage| (v.lpid, v.align == Align::ReadUnit);
                let mut pages = left.iter().map(name).collect();
                if has_versions {
                    each_once(&mut pages);
                }
                self.rest = Some(Rest { victim, generation: d.generation, pages });
                return Ok(Emptied::InPart);
            }
        }
        let left = drive.state().eblocks().descriptor(victim).live;
        if left > 0 {
            return Ok(Emptied::Never);
        }
        drive.env().count(Count::Victims, 1);
        Ok(Emptied::Whole)
    }

    /// The pages of users that may lie in an EBLOCK, each once, and whether it is to be aligned. Own pages that lie there
    /// are written anew.
    fn names_in(
        &mut self,
        drive: Checkpointer<'_>,
        victim: EblockId,
        d: &Descriptor,
    ) -> Result<Vec<(Lpid, bool)>, FirmwareError> {
        let words = drive.state().eblocks().unwritten_of(victim).map(<[u64]>::to_vec);
        let words: Vec<u64> = match words {
            Some(words) => words,
            None => match read_metadata(drive.medium(), victim, d.data_end, d.metadata) {
                Ok(words) => words,
                // Without it, the mapping says what lies here.
                Err(_) => words_in(drive, victim)?,
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
            match drive.rewrite_own(victim, own) {
                Err(e) if e.is_damage() => self.is_stuck = true,
                rewritten => rewritten?,
            }
        }
        each_once(&mut users);
        Ok(users)
    }

    /// Reads pages of an EBLOCK, which are in the order in which they lie there; those that cannot be read stay.
    fn read_valid(
        &mut self,
        drive: Checkpointer<'_>,
        valid: &[ValidPage],
    ) -> Result<Vec<(ValidPage, PageBuf)>, FirmwareError> {
        let (medium, g) = (drive.medium(), drive.env().geometry());
        let reader = Reader::new(drive.env(), drive.pages());
        let start = |v: &ValidPage| g.locate(v.entry.ppa(g)).1 as usize;
        let end = |v: &ValidPage| start(v) + v.entry.len_bytes();
        let near = |a: &ValidPage, b: &ValidPage| start(b) <= end(a) + READ_GAP_BYTES;
        let mut pages = Vec::with_capacity(valid.len());
        for near in valid.chunk_by(near) {
            let mut left = near;
            while let Some(first) = left.first() {
                let count = left.iter().take_while(|v| end(v) <= start(first) + READ_BYTES).count().max(1);
                let (run, rest) = left.split_at(count);
                left = rest;
                let len = run.iter().map(end).max().unwrap_or(0) - start(first);
                if let Ok(data) = medium.read(first.entry.ppa(g), len as u32) {
                    let part = |v: &ValidPage| data.slice(start(v) - start(first)..end(v) - start(first));
                    pages.extend(run.iter().map(|v| (*v, part(v))));
                    continue;
                }
                // Something there is damaged, needed or not.
                for v in run {
                    match reader.read_range(v.lpid, v.entry, 0..v.entry.len_bytes() as u32) {
                        Ok(data) => pages.push((*v, data)),
                        // It stays, and says so to whoever reads it.
                        Err(CommandError::Uncorrectable { .. }) => self.is_stuck = true,
                        Err(e) => return Err(FirmwareError::damaged(medium.path(), e.to_string())),
                    }
                }
            }
        }
        Ok(pages)
    }
}

/// Where versions of a page lie in an EBLOCK: the newest, and old ones that a view shows.
fn entries_in(
    drive: Checkpointer<'_>,
    victim: EblockId,
    lpid: Lpid,
) -> Result<(Option<Entry>, Vec<Entry>), FirmwareError> {
    let here = |e: &Entry| e.eblock(drive.env().geometry()) == Some(victim);
    let newest = drive.pages().newest(drive.env(), lpid)?.filter(here);
    let mut old: Vec<Entry> = Vec::new();
    for version in drive.pages().versions().entries_of(lpid).into_iter().filter(here) {
        if newest.iter().chain(&old).all(|f| !f.same_place(version)) {
            old.push(version);
        }
    }
    Ok((newest, old))
}

/// Words of the pages that lie in an EBLOCK, found through the whole mapping.
fn words_in(drive: Checkpointer<'_>, victim: EblockId) -> Result<Vec<u64>, FirmwareError> {
    let (g, pages) = (drive.env().geometry(), drive.pages());
    let here = |e: Entry| e.eblock(g) == Some(victim);
    let mut words: Vec<u64> = drive.own_names_in(victim).into_iter().map(PageName::word).collect();
    for extent in (0..pages.extents_end()).map_while(ExtentId::new) {
        let Some(map) = pages.map_page(drive.env(), extent)? else { continue };
        let mapped = map.mapped().filter(|(_, e)| here(*e));
        words.extend(mapped.map(|(p, e)| PageName::User(extent.page(p)).word_at(e, g)));
    }
    let old = pages.versions().all_old().into_iter().filter(|(_, e)| here(*e));
    words.extend(old.map(|(lpid, e)| PageName::User(lpid).word_at(e, g)));
    Ok(words)
}

/// Moves pages of an EBLOCK that was written to at about `age`.
fn move_pages(
    drive: Checkpointer<'_>,
    stream: GcStream,
    age: u64,
    pages: Vec<(ValidPage, PageBuf)>,
) -> Result<(), FirmwareError> {
    let bytes = pages.iter().map(|(_, d)| d.len() as u64).sum::<u64>();
    let stream = {
        let state = drive.state();
        let eblocks = state.eblocks();
        let kept = state.budget(drive.env(), drive.pages()).gc_eblocks() + u32::from(GC_CLASSES);
        let may_open = eblocks.free_eblocks() > kept && eblocks.geometry().eblock_count() >= EBLOCKS_FEW;
        match stream {
            GcStream::Class(c) if may_open || eblocks.gc_class_age(c.raw()).is_some() => Stream::Gc(c.raw()),
            _ => eblocks.gc_stream(age, may_open),
        }
    };
    let mix = |state: &mut CommitState| state.eblocks_mut().mix_age(stream, age, bytes);
    drive.appender().relocate(stream, Purpose::Gc, &pages, mix)?;
    drive.env().count(Count::MovedBytes, bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use lode_base::{ExtentId, Geometry, OwnerId, Ppa, ViewId};
    use lode_command::{Batch, Command, PageWrite, ReadRequest, Reply};
    use lode_flash::{FaultKind, Faults, Medium};

    use super::super::Need;
    use super::*;
    use crate::DriveOptions;
    use crate::check::check;
    use crate::command::run;
    use crate::core::Core;
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
            let Ok(Reply::Extents(extents)) = run(&core, allocate) else { panic!("no extent") };
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
            run(&self.core, Command::Write(Batch { writes, ..Batch::default() })).unwrap();
            self.pages.truncate(self.pages.len().max(n));
            match self.pages.get_mut(n) {
                Some(page) => *page = data,
                None => self.pages.push(data),
            }
        }

        fn read(&self, view: Option<ViewId>, n: usize) -> Result<PageBuf, CommandError> {
            let pages = vec![ReadRequest { lpid: self.lpid(n), range: None }];
            match run(&self.core, Command::Read { view, pages })? {
                Reply::Pages(mut pages) => Ok(pages.remove(0)),
                r => panic!("{r:?}"),
            }
        }

        fn open_view(&self) -> ViewId {
            match run(&self.core, Command::OpenView) {
                Ok(Reply::View { view, .. }) => view,
                r => panic!("{r:?}"),
            }
        }

        fn entry(&self, n: usize) -> Entry {
            let map = self
                .core
                .pages()
                .map()
                .get(self.core.env().medium(), self.core.env().epochs(), self.extent.raw())
                .unwrap();
            map.unwrap().load(n as u16).unwrap()
        }

        fn eblock(&self, n: usize) -> EblockId {
            self.entry(n).eblock(self.core.env().geometry()).unwrap()
        }

        /// What lies there cannot be read any more.
        fn destroy(&self, at: Ppa) {
            self.faults.arm(FaultKind::ReadFailsForGood, 0, 0);
            assert!(self.core.env().medium().read(at, 64).is_err());
        }

        /// The mapping page is on the medium alone, and cannot be read there; answers its EBLOCK.
        fn lose_mapping_page(&self) -> EblockId {
            let (core, number) = (&self.core, self.extent.raw());
            core.upkeep().checkpoint(false).unwrap();
            let home = core.pages().map().home(number).unwrap();
            core.pages().map().make_room();
            assert!(!core.pages().map().is_resident(number));
            self.destroy(home.ppa(core.env().geometry()));
            home.eblock(core.env().geometry()).unwrap()
        }

        fn left(&self, e: EblockId) -> u32 {
            let d = self.core.state().eblocks().descriptor(e);
            d.live + d.pinned
        }

        fn empty(&self, victim: impl Into<Victim>, whole: bool) -> Emptied {
            let mut cleaner = self.core.upkeep().lock();
            cleaner.is_stuck = false;
            let emptied = cleaner.empty(self.core.checkpointer(), &victim.into(), whole).unwrap();
            drop(cleaner);
            self.core.committer().check_invariants();
            assert!(!self.core.state().is_under_way());
            emptied
        }

        fn check(&self) {
            for (n, page) in self.pages.iter().enumerate() {
                assert!(self.read(None, n).as_ref() == Ok(page), "page {n}");
            }
            let problems = check(&self.core).problems;
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
        assert_eq!(r.core.pages().versions().entries_of(r.lpid(30)).len(), 3);
        assert!(r.core.state().eblocks().descriptor(victim).state != State::Free);
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
        r.core.upkeep().lock().step_bytes = 150_000;
        let mut left = Vec::new();
        while r.empty(victim, false) == Emptied::InPart {
            left.push(r.left(victim));
        }
        assert_eq!(r.left(victim), 0);
        let page = r.entry(0).cells_bytes();
        assert_eq!(left, [2, 4, 6, 8, 10].map(|moved| first - moved * page));
        r.check();
    }

    /// Where the metadata of an EBLOCK cannot be read, the mapping says what lies there.
    #[test]
    fn an_eblock_without_metadata_is_emptied_too() {
        let mut r = Rig::new();
        let view = r.open_view();
        let (victim, old) = (r.eblock(0), r.pages[0].clone());
        r.put(0, 1);
        let g = *r.core.env().geometry();
        let d = r.core.state().eblocks().descriptor(victim);
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
        r.core.upkeep().checkpoint(false).unwrap();
        let g = *r.core.env().geometry();
        let home = || r.core.pages().map().home(r.extent.raw()).unwrap().eblock(&g).unwrap();
        let victim = home();
        {
            let mut w = r.core.state();
            assert!(w.eblocks().descriptor(victim).live > 0);
            w.eblocks_mut().end(r.core.env().medium(), victim);
        }
        assert_eq!(r.empty(victim, true), Emptied::Whole);
        assert_eq!(r.left(victim), 0);
        assert_ne!(home(), victim);
        r.check();
    }

    #[test]
    fn what_cannot_be_read_stays_and_the_rest_moves_only_where_it_has_to() {
        let r = Rig::new();
        let victim = r.eblock(0);
        let before = r.left(victim);
        r.destroy(r.entry(2).ppa(r.core.env().geometry()));
        assert_eq!((r.empty(victim, true), r.left(victim)), (Emptied::Never, before));
        r.core.upkeep().lock().note_weak(vec![victim]);
        assert_eq!(r.empty(victim, true), Emptied::Never);
        assert!(r.core.upkeep().lock().is_stuck);
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
            assert!(r.core.upkeep().lock().is_stuck && r.left(victim) == before);
        }
    }

    #[test]
    fn a_lost_mapping_page_keeps_no_page_of_another_in_a_bad_eblock() {
        let r = Rig::new();
        let allocate = Command::AllocateExtents { owner: OwnerId::new(1), count: 1 };
        let Ok(Reply::Extents(other)) = run(&r.core, allocate) else { panic!("no extent") };
        let lpid = other[0].page(0);
        let writes = vec![PageWrite { lpid, data: bytes(0, 9), align: Align::Cell }];
        run(&r.core, Command::Write(Batch { writes, ..Batch::default() })).unwrap();
        let victim = r.eblock(31);
        let here = || usize::from(entries_in(r.core.checkpointer(), victim, lpid).unwrap().0.is_some());
        assert_eq!(here(), 1);
        r.lose_mapping_page();
        r.core.upkeep().lock().note_weak(vec![victim]);
        assert_eq!(r.empty(victim, true), Emptied::Never);
        assert_eq!(here(), 0, "it is brought to safety");
        let pages = vec![ReadRequest { lpid, range: None }];
        let Ok(Reply::Pages(read)) = run(&r.core, Command::Read { view: None, pages }) else {
            panic!("no page")
        };
        assert!(read == [bytes(0, 9)]);
        // Without its metadata either, nothing says what lies there: it stays, and who asks for room is not told so.
        let victim = EblockId::new(victim.raw() - 1);
        let (d, g) = (r.core.state().eblocks().descriptor(victim), *r.core.env().geometry());
        assert!(d.metadata > 0);
        r.destroy(g.ppa(victim, d.data_end * g.wblock_bytes()).unwrap());
        let e = r.core.upkeep().lock().empty(r.core.checkpointer(), &Victim::new(victim), true).unwrap_err();
        assert!(e.is_damage(), "{e}");
        r.core.upkeep().lock().note_weak(vec![victim]);
        assert!(!r.core.upkeep().collect(crate::gc::Urgency::Full).unwrap());
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
                let d = r.core.state().eblocks().descriptor(r.eblock(n));
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
        let mut cleaner = r.core.upkeep().lock();
        let mut steps = 0;
        while r.left(victim) > 0 {
            steps += 1;
            assert!(cleaner.empty_step(r.core.checkpointer(), Need::Room(Urgency::Paid)).unwrap());
        }
        drop(cleaner);
        assert_eq!(steps, there.len().div_ceil(2), "each moves two pages of 100,000 bytes");
        for n in there {
            let d = r.core.state().eblocks().descriptor(r.eblock(n));
            assert_eq!(d.stream(), Some(Stream::Gc(2)), "page {n}");
        }
        r.check();
    }

    #[test]
    fn a_move_without_room_leaves_all_as_it_was() {
        let r = Rig::new();
        let valid = ValidPage { lpid: r.lpid(0), entry: r.entry(0), align: Align::Cell };
        r.faults.full_after(0);
        let pages = [(valid, r.pages[0].clone())];
        let e = r
            .core
            .appender()
            .relocate(Stream::Gc(0), Purpose::Gc, &pages, |_| panic!("nothing was copied"))
            .unwrap_err();
        assert!(e.is_no_space(), "{e}");
        assert!(!r.core.state().is_under_way());
        r.core.committer().check_invariants();
        r.faults.full_after(0);
        let e =
            r.core.upkeep().lock().empty(r.core.checkpointer(), &Victim::new(r.eblock(0)), true).unwrap_err();
        assert!(e.is_no_space(), "{e}");
        r.faults.disarm_all();
        r.check();
    }
}
