//! Reads, views, index entries, and the comparison of everything.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use lode_base::{ExtentId, Lpid, ViewId};
use lode_command::{Command, CommandError, IndexedPage, PageRange, ReadRequest, Reply};

use super::resolve::any_page;
use super::{Done, REFUSED_FULL, ROWS, World};
use crate::content::is_long;
use crate::failure::{FailureKind, wrong};
use crate::oracle::{Page, State};
use crate::random::Random;

/// The number of pages that are compared with one command.
const PAGES_AT_A_TIME: usize = 16;
/// Joins draw from other random numbers than the entries before them.
const JOIN_SALT: u64 = 0x1013;

impl World<'_> {
    /// Reads pages at the newest commit and in views: whole, in part, and beyond their end.
    pub(super) fn read(&mut self, seed: u64, pages: u32) -> Done {
        let mut r = Self::random(seed);
        for _ in 0..pages {
            if self.faults.is_cut() {
                return Ok(());
            }
            let at = r.below(self.oracle.views.len() as u64 + 1) as usize;
            let (view, state) = match self.oracle.views.get(at) {
                Some((view, state)) => (Some(*view), state.clone()),
                None => (None, self.oracle.now.clone()),
            };
            let mapped = r.once_in(3).then(|| r.below(state.pages.len().max(1) as u64) as usize);
            let lpid = mapped.and_then(|at| state.pages.keys().nth(at).copied());
            let lpid = lpid.or_else(|| any_page(&self.oracle.now, self.scenario.slots, &mut r));
            let Some(lpid) = lpid else { return Ok(()) };
            let len = state.pages.get(&lpid).map_or(100, |p| p.len);
            let range = match r.below(8) {
                0 => {
                    let from = r.between(0, len.into()) as u32;
                    Some(from..len + 1 + r.below(100) as u32)
                }
                1..=3 => {
                    let from = r.between(0, len.into()) as u32;
                    Some(from..r.between(from.into(), len.into()) as u32)
                }
                _ => None,
            };
            let whole = range.is_none();
            self.read_one(view, &state, lpid, range)?;
            if let Some(page) = state.pages.get(&lpid).filter(|p| p.aligned && whole) {
                self.is_aligned(view, lpid, page.len)?;
            }
        }
        Ok(())
    }

    /// Checks that a page that begins on a read unit is read with as few read units as it fills.
    fn is_aligned(&mut self, view: Option<ViewId>, lpid: Lpid, len: u32) -> Done {
        let unit = self.scenario.geometry.rblock_bytes();
        let fewest = u64::from(len.next_multiple_of(unit));
        let mut got = 0;
        // Reads with retries do not count. Nor do reads that had to read a mapping page from another place.
        for _ in 0..4 {
            let nothing = self.bytes_read(view, lpid, 0)?;
            got = self.bytes_read(view, lpid, len)?.saturating_sub(nothing);
            self.harm.look(&self.faults);
            if got <= fewest || self.faults.is_cut() || self.harm.hit_any() {
                return Ok(());
            }
        }
        wrong(
            FailureKind::Answer,
            format!("reading page {lpid} takes {got} bytes; it is aligned, and has {len}"),
        )
    }

    /// The bytes read from the medium for a read of a page.
    fn bytes_read(&self, view: Option<ViewId>, lpid: Lpid, len: u32) -> Done<u64> {
        let before = self.drive.info().media_bytes_read;
        let pages = vec![ReadRequest { lpid, range: Some(0..len) }];
        // The answer was checked before.
        let _ = self.run(Command::Read { view, pages })?;
        Ok(self.drive.info().media_bytes_read - before)
    }

    /// Reads a page or a part of one, and compares it with `state`.
    fn read_one(
        &mut self,
        view: Option<ViewId>,
        state: &State,
        lpid: Lpid,
        range: Option<Range<u32>>,
    ) -> Done {
        let expected = state.pages.get(&lpid);
        let request = ReadRequest { lpid, range: range.clone() };
        let answer = self.run(Command::Read { view, pages: vec![request] })?;
        if self.faults.is_cut() {
            return Ok(());
        }
        let at = || match view {
            Some(v) => format!("page {lpid} at {v:?}, commit {}", state.commit),
            None => format!("page {lpid}"),
        };
        match (answer, expected) {
            (Ok(Reply::Pages(got)), Some(page)) => {
                let range = range.unwrap_or(0..page.len);
                if range.end > page.len {
                    return wrong(FailureKind::Answer, format!("{}: bytes {range:?} of {}", at(), page.len));
                }
                match got.len() == 1 && page.content.is(lpid, page.owner, range.clone(), &got[0]) {
                    true => Ok(()),
                    false => wrong(FailureKind::WrongBytes, format!("{}, bytes {range:?}", at())),
                }
            }
            (Ok(Reply::Pages(_)), None) => {
                wrong(FailureKind::WrongBytes, format!("{} exists, and should not", at()))
            }
            (Err(CommandError::Unmapped(l)), None) if l == lpid => Ok(()),
            (Err(CommandError::Unmapped(_)), Some(_)) => {
                wrong(FailureKind::Lost, format!("{} is missing", at()))
            }
            (Err(CommandError::Invalid(_)), Some(page)) if range.is_some_and(|r| r.end > page.len) => Ok(()),
            (answer, _) => self.failed(&format!("reading {}", at()), answer),
        }
    }

    /// Compares all pages of a state.
    fn compare(&mut self, view: Option<ViewId>, state: &State) -> Done {
        let all: Vec<(&Lpid, &Page)> = state.pages.iter().collect();
        for some in all.chunks(PAGES_AT_A_TIME) {
            let pages = some.iter().map(|(l, _)| ReadRequest { lpid: **l, range: None }).collect();
            let answer = self.run(Command::Read { view, pages })?;
            if self.faults.is_cut() {
                return Ok(());
            }
            let same = |got: &[lode_base::PageBuf]| {
                got.len() == some.len()
                    && some.iter().zip(got).all(|((l, p), got)| p.content.is(**l, p.owner, 0..p.len, got))
            };
            if !matches!(answer, Ok(Reply::Pages(ref got)) if same(got)) {
                // Reads the pages one by one to find the wrong one.
                some.iter().try_for_each(|(l, _)| self.read_one(view, state, **l, None))?;
            }
        }
        Ok(())
    }

    /// Compares all pages at the newest commit and in all views, and all extents.
    pub(super) fn compare_all(&mut self) -> Done {
        let now = self.oracle.now.clone();
        self.compare(None, &now)?;
        for (view, state) in self.oracle.views.clone() {
            self.compare(Some(view), &state)?;
        }
        self.extents()
    }

    /// Compares the list of extents with their owners and numbers of pages.
    pub(super) fn extents(&mut self) -> Done {
        let list = match self.run(Command::ListExtents)? {
            Ok(Reply::ExtentList(list)) => list,
            answer => return self.failed("listing extents", answer),
        };
        if self.faults.is_cut() {
            return Ok(());
        }
        self.harm.look(&self.faults);
        let now = self.oracle.now.clone();
        let mut listed = BTreeMap::new();
        for info in list {
            let expected =
                now.extents.get(&info.extent).map(|x| (x.owner, now.pages_of(info.extent).count()));
            let counted = info.pages_mapped.map(|n| n as usize);
            let told = counted.is_some() || self.harm.hit_data();
            let right = expected
                .is_some_and(|(owner, pages)| owner == info.owner && counted.is_none_or(|n| n == pages));
            if !(told && right) {
                let what = format!("{info:?}; expected owner and pages: {expected:?}");
                return wrong(FailureKind::WrongBytes, what);
            }
            listed.insert(info.extent, ());
        }
        match now.extents.keys().find(|e| !listed.contains_key(e)) {
            Some(e) => wrong(FailureKind::Lost, format!("{e:?} has no owner")),
            None => Ok(()),
        }
    }

    /// After a reopen, finds out which allocations of unwritten extents were lost.
    pub(super) fn forget_extents(&mut self) -> Done {
        let list = match self.run(Command::ListExtents)? {
            Ok(Reply::ExtentList(list)) => list,
            answer => return self.failed("listing extents", answer),
        };
        let there: Vec<ExtentId> = list.iter().map(|i| i.extent).collect();
        let now = Rc::make_mut(&mut self.oracle.now);
        now.extents.retain(|e, x| x.written || there.contains(e));
        Ok(())
    }

    pub(super) fn open_view(&mut self) -> Done {
        match self.run(Command::OpenView)? {
            Ok(Reply::View { view, commit }) => {
                let expected = self.oracle.now.commit;
                if commit.raw() != expected {
                    return wrong(
                        FailureKind::Answer,
                        format!("a view shows commit {commit}, not {expected}"),
                    );
                }
                self.opened(view)
            }
            answer => self.failed("opening a view", answer),
        }
    }

    /// Records a view opened at the newest commit. Beyond the limit, the oldest is closed.
    pub(super) fn opened(&mut self, view: ViewId) -> Done {
        if self.oracle.views.len() == self.device.identity().views_max as usize {
            let oldest = (0..self.oracle.views.len())
                .min_by_key(|&i| (self.oracle.views[i].1.commit, i))
                .expect("there are some");
            let (oldest, state) = self.oracle.views.remove(oldest);
            if let Some(lpid) = state.pages.keys().next() {
                let pages = vec![ReadRequest { lpid: *lpid, range: None }];
                match self.run(Command::Read { view: Some(oldest), pages })? {
                    Err(CommandError::ViewClosed(v)) if v == oldest => {}
                    answer => {
                        let what = format!("a view past the limit answered {answer:?}");
                        return wrong(FailureKind::Answer, what);
                    }
                }
            }
        }
        self.oracle.views.push((view, self.oracle.now.clone()));
        Ok(())
    }

    pub(super) fn close_view(&mut self, which: u64) -> Done {
        if self.oracle.views.is_empty() {
            return Ok(());
        }
        let at = (which % self.oracle.views.len() as u64) as usize;
        let (view, _) = self.oracle.views.remove(at);
        match self.run(Command::CloseView(view))? {
            Ok(Reply::Done) => {}
            answer => return self.failed("closing a view", answer),
        }
        match self.run(Command::CloseView(view))? {
            Err(CommandError::ViewClosed(v)) if v == view => Ok(()),
            answer => self.failed("closing a view twice", answer),
        }
    }

    pub(super) fn build_index(&mut self) -> Done {
        let rule = self.oracle.now.rules.get(&ROWS).cloned();
        match (self.run(Command::BuildIndex(lode_base::OwnerId::new(ROWS.raw())))?, rule) {
            _ if self.faults.is_cut() => Ok(()),
            (Err(CommandError::NoIndexRule(_)), None) => Ok(()),
            (Ok(Reply::Indexed { .. }), Some(rule)) => {
                let now = Rc::make_mut(&mut self.oracle.now);
                for (lpid, page) in now.pages.iter_mut().filter(|(_, p)| p.owner == ROWS) {
                    if page.indexed_by != Some(rule.number) {
                        page.indexed_by = Some(rule.number);
                        self.oracle.indexed_last.push(*lpid);
                    }
                }
                Ok(())
            }
            (Err(CommandError::OutOfSpace { .. }), Some(_)) => {
                self.coverage.met(REFUSED_FULL);
                self.make_room()
            }
            (answer, _) => self.failed("building the index", answer),
        }
    }

    /// A view, opened now or before, and what it shows.
    pub(super) fn some_view(&mut self, r: &mut Random) -> Done<Option<(ViewId, Rc<State>)>> {
        let at = r.below(self.oracle.views.len() as u64 + 1) as usize;
        if at == self.oracle.views.len() {
            self.open_view()?;
        }
        Ok(self.oracle.views.get(at).cloned().filter(|_| !self.faults.is_cut()))
    }

    /// Checks the index entries of an extent in a view: without a rule there are none, otherwise those of the pages.
    pub(super) fn read_index(&mut self, seed: u64) -> Done {
        let mut r = Self::random(seed);
        self.check_entries(&mut r)?;
        if self.faults.is_cut() { Ok(()) } else { self.joins(&mut Self::random(seed ^ JOIN_SALT)) }
    }

    fn check_entries(&mut self, r: &mut Random) -> Done {
        let Some((view, state)) = self.some_view(r)? else { return Ok(()) };
        let extents = state.extents_of(ROWS);
        let Some(&extent) = r.pick(&extents) else { return Ok(()) };
        let pages = vec![PageRange { extent, first: 0, count: 1024 }];
        let entries = match self.run(Command::ReadIndex { view, pages })? {
            Ok(Reply::IndexEntries(entries)) => entries,
            answer => return self.failed("reading the index", answer),
        };
        if self.faults.is_cut() {
            return Ok(());
        }
        let shown: Vec<(Lpid, &Page)> = state.pages_of(extent).collect();
        if !entries.iter().map(|e| e.lpid).eq(shown.iter().map(|p| p.0)) {
            return wrong(
                FailureKind::WrongBytes,
                format!("the index of {extent:?} is not of the pages that it has"),
            );
        }
        let rule_then = state.rules.get(&ROWS);
        let rule_now = self.oracle.now.rules.get(&ROWS);
        // Long entries of an extent that was released since are not kept for views.
        let is_kept = self.oracle.now.extents_of(ROWS).contains(&extent);
        for (IndexedPage { lpid, len_bytes, entry }, (_, page)) in entries.iter().zip(shown) {
            if *len_bytes != page.len {
                let what =
                    format!("page {lpid} at commit {} has {} bytes, not {len_bytes}", state.commit, page.len);
                return wrong(FailureKind::WrongBytes, what);
            }
            let ended = self.oracle.now.ended_rules.iter().filter(|(end, _)| *end > state.commit);
            let mut rules = ended.map(|(_, r)| r).chain(rule_now);
            let mut fits = |e: &lode_program::IndexEntry| rules.any(|r| page.content.has_entry(&r.rule, e));
            let sure = page.indexed_by.is_some()
                && page.indexed_by == rule_then.map(|r| r.number)
                && page.indexed_by == rule_now.map(|r| r.number)
                && (is_kept || rule_now.is_none_or(|r| !is_long(&r.rule)));
            let is_long = entry.as_ref().is_some_and(|e| e.encoded_bytes() > 2000);
            self.coverage.met_times("long index entries answered", is_long.into());
            match entry {
                Some(_) if rule_now.is_none_or(|r| r.number > state.commit) => {
                    let what = format!("page {lpid} at commit {} has an entry of a later rule", state.commit);
                    return wrong(FailureKind::WrongBytes, what);
                }
                Some(e) if !fits(e) => {
                    let what = format!("the index entry of page {lpid} at commit {}", state.commit);
                    return wrong(FailureKind::WrongBytes, what);
                }
                None if sure => {
                    let what = format!("page {lpid} at commit {} has no index entry", state.commit);
                    return wrong(FailureKind::Lost, what);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
