//! Batches: single ones, several in flight, many in a row, refused ones; and freeing space on a full drive.

use std::rc::Rc;

use lode_base::{CommitNo, Lpid, PageBuf, ViewId};
use lode_command::{Align, Batch, Command, CommandError, IndexedPage, PageWrite, ReadRequest, Reply};

use super::harm::is_damage;
use super::resolve::{any_page, resolve};
use super::{Done, PLAIN, REFUSED_FULL, ROWS, World};
use crate::content::is_long;
use crate::failure::{FailureKind, wrong};
use crate::host;
use crate::oracle::{Change, Page, Pending, State};
use crate::random::mix;
use crate::step::{AlignPlan, BatchPlan, Spread};

/// A drive may be full once the needed data takes its usable space, less a fraction of 1 / this number and an EBLOCK
/// per channel. On a small drive, the drive's own pages and open EBLOCKs take a large part.
const FULL_FROM: u64 = 2;

/// The outcome of a submitted batch.
enum Fate {
    /// It was acknowledged while there was power.
    Committed(CommitNo, Option<ViewId>),
    /// It was refused and had no effect.
    Refused(CommandError),
    /// It may have taken effect after the next open.
    Open,
}

/// Whether a batch that failed with this error can take effect after the next open. It cannot if the drive could not
/// read something that the batch needs.
fn may_be_logged(e: &CommandError) -> bool {
    match e {
        CommandError::Medium(text) => !is_damage(text),
        e => matches!(e, CommandError::MediumFull(_) | CommandError::ReadOnly(_)),
    }
}

impl World<'_> {
    /// Writes batches that are in flight together.
    pub(super) fn write(&mut self, plans: &[BatchPlan], reads: u32) -> Done {
        let mut after = self.oracle.now.clone();
        let mut states = vec![after.clone()];
        let mut batches = Vec::new();
        for plan in plans {
            let (mut batch, change) = resolve(plan, &after, self.scenario, self.device.identity());
            batch.answer_entries = mix(plan.seed).is_multiple_of(3);
            if batch.is_empty() {
                continue;
            }
            if after.takes(&change) {
                Rc::make_mut(&mut after).apply(&change);
            }
            if reads > 0 {
                states.push(after.clone());
            }
            batches.push((batch, change));
        }
        let reads_from: Vec<Lpid> =
            batches.iter().flat_map(|(b, _)| b.writes.iter().map(|w| w.lpid)).collect();
        let mut r = Self::random(plans.first().map_or(0, |p| p.seed));
        let reads: Vec<Lpid> = (0..reads).filter_map(|_| r.pick(&reads_from).copied()).collect();
        self.submit(batches, &reads, &states)
    }

    /// Submits batches, with reads between them that may see any of `states`.
    fn submit(&mut self, batches: Vec<(Batch, Change)>, reads: &[Lpid], states: &[Rc<State>]) -> Done {
        if batches.is_empty() {
            return Ok(());
        }
        let depth = self.device.identity().queue_depth_max as usize;
        let (mut changes, mut asked) = (Vec::new(), Vec::new());
        let mut fates: Vec<(lode_command::Tag, Option<Fate>)> = Vec::new();
        let mut lpids = Vec::new();
        let mut q = host::open_queue(&*self.device, batches.len() + reads.len())?;
        let mut reads = reads.iter().copied().take(depth.saturating_sub(batches.len()));
        for (batch, change) in batches {
            asked.push(batch.answer_entries);
            fates.push((host::submit(&mut *q, Command::Write(batch))?, None));
            changes.push(change);
            if let Some(lpid) = reads.next() {
                let pages = vec![ReadRequest { lpid, range: None }];
                lpids.push((host::submit(&mut *q, Command::Read { view: None, pages })?, lpid));
            }
        }
        let mut answers = host::Answers::new();
        let mut entries: Vec<(usize, Vec<IndexedPage>)> = Vec::new();
        let mut bad_reads = Vec::new();
        let faults = self.faults.clone();
        host::complete(&mut *q, fates.len() + lpids.len(), |tag, answer| {
            let cut = faults.is_cut();
            if let Some(at) = fates.iter().position(|f| f.0 == tag) {
                fates[at].1 = match answer {
                    Ok(Reply::Committed { .. }) if cut => Some(Fate::Open),
                    Ok(Reply::Committed { commit, view, entries: of_batch }) => {
                        entries.push((at, of_batch));
                        Some(Fate::Committed(commit, view))
                    }
                    Err(e) => Some(Fate::Refused(e)),
                    answer => {
                        answers.push((tag, answer));
                        Some(Fate::Open)
                    }
                };
            } else if let Some((_, lpid)) = lpids.iter().find(|l| l.0 == tag)
                && !cut
            {
                bad_reads.push((*lpid, answer));
            }
        })?;
        if let Some((_, answer)) = answers.pop() {
            return wrong(FailureKind::Answer, format!("a batch was answered with {answer:?}"));
        }
        for (at, of_batch) in entries {
            self.entries_hold(&of_batch, asked[at], &changes, at)?;
        }
        self.oracle.beside = states.to_vec();
        // A session may have accepted a batch because the batch before it failed. Such a batch is in none of the
        // states.
        let committed =
            |(c, f): (_, &(_, Option<Fate>))| matches!(f.1, Some(Fate::Committed(..))).then_some(c);
        let committed: Vec<&Change> = changes.iter().zip(&fates).filter_map(committed).collect();
        for (lpid, answer) in bad_reads {
            self.read_between(lpid, answer, states, &committed)?;
        }
        self.oracle.beside.clear();
        let fates: Vec<Fate> = fates.into_iter().map(|f| f.1.expect("each was answered")).collect();
        self.settle(changes, fates)
    }

    /// Checks the index entries that batch `at` of some batches was answered with.
    fn entries_hold(&self, entries: &[IndexedPage], asked: bool, changes: &[Change], at: usize) -> Done {
        let rules_of = |owner| {
            let changed = changes.iter().flat_map(|c| &c.rules).filter(move |(o, _)| *o == owner);
            let before = self.oracle.now.rules.get(&owner).map(|r| &r.rule);
            changed.filter_map(|(_, rule)| rule.as_ref()).chain(before)
        };
        let written = &changes[at].writes;
        let is_it = |(e, (lpid, page)): (&IndexedPage, &(Lpid, Page))| {
            let fits = |entry| rules_of(page.owner).any(|rule| page.content.has_entry(rule, entry));
            // Without a change of rules that is under way, each page of an owner with a rule has an entry.
            let is_sure = changes.iter().all(|c| c.rules.is_empty()) && rules_of(page.owner).next().is_some();
            e.lpid == *lpid && e.len_bytes == page.len && e.entry.as_ref().map_or(!is_sure, fits)
        };
        let expected = if asked { written.len() } else { 0 };
        match entries.len() == expected && entries.iter().zip(written).all(is_it) {
            true => Ok(()),
            false => {
                wrong(FailureKind::WrongBytes, "a batch is answered with entries that its pages do not have")
            }
        }
    }

    /// Checks a read between batches: it returns its page as of before or after any of the batches.
    fn read_between(
        &mut self,
        lpid: Lpid,
        answer: Result<Reply, CommandError>,
        states: &[Rc<State>],
        committed: &[&Change],
    ) -> Done {
        let became = |c: &&Change| match c.writes.iter().find(|w| w.0 == lpid) {
            Some(w) => Some(Some(w.1.clone())),
            None if c.trims.contains(&lpid) || c.releases.contains(&lpid.extent()) => Some(None),
            None => None,
        };
        let before = states.iter().map(|s| s.pages.get(&lpid).cloned());
        let versions: Vec<_> = before.chain(committed.iter().filter_map(became)).collect();
        match answer {
            Ok(Reply::Pages(got)) => {
                let is = |p: &crate::oracle::Page| p.content.is(lpid, p.owner, 0..p.len, &got[0]);
                match versions.iter().flatten().any(is) {
                    true => Ok(()),
                    false => wrong(FailureKind::WrongBytes, format!("page {lpid}, read beside batches")),
                }
            }
            Err(CommandError::Unmapped(_)) if versions.contains(&None) => Ok(()),
            answer => self.failed(&format!("reading page {lpid} beside batches"), answer),
        }
    }

    /// Records the outcomes of batches, in the order of submission.
    fn settle(&mut self, changes: Vec<Change>, fates: Vec<Fate>) -> Done {
        let mut full = None;
        // When the drive refused a batch, space that another batch in flight frees may not have been free yet.
        let mut held = self.oracle.needed_bytes();
        // A fault that also hit these batches may lose the batches before them, too, because no complete batch
        // follows.
        let before = self.harm.hits();
        self.harm.look(&self.faults);
        let untouched = self.harm.hits() == before;
        let forced = |(c, f): (&Change, &Fate)| !c.unforced && matches!(f, Fate::Committed(..));
        if untouched && changes.iter().zip(&fates).any(forced) {
            self.oracle.proves();
        }
        for (change, fate) in changes.into_iter().zip(fates) {
            match fate {
                Fate::Committed(commit, view) => {
                    let expected = self.oracle.now.commit + 1;
                    if !self.oracle.now.takes(&change) {
                        let what =
                            format!("commit {commit} is not the next of its session: {:?}", change.session);
                        return wrong(FailureKind::NotAtomic, what);
                    }
                    if commit.raw() != expected {
                        let what = format!("a batch became commit {commit} instead of {expected}");
                        return wrong(FailureKind::NotAtomic, what);
                    }
                    // The drive continued, so the batches that failed before had no effect.
                    self.oracle.pending.clear();
                    self.coverage.met("batches acknowledged");
                    self.coverage.met_times("unforced batches acknowledged", change.unforced.into());
                    self.oracle.apply(&change);
                    held = held.max(self.oracle.needed_bytes());
                    if let Some(view) = view {
                        self.opened(view)?;
                    }
                }
                Fate::Refused(CommandError::OutOfSpace { free_bytes, needed_bytes }) => {
                    let bytes = change.writes.iter().map(|w| u64::from(w.1.media_bytes)).sum();
                    full = Some((free_bytes, needed_bytes, bytes));
                }
                // The host does not get this answer, and nothing of the batch is logged.
                Fate::Refused(e) if self.faults.is_cut() && !may_be_logged(&e) => {}
                Fate::Refused(CommandError::WrongSequence { session, wsn, highest }) => {
                    self.out_of_order(session, wsn, highest)?;
                }
                Fate::Refused(e) => {
                    if !self.faults.is_cut() {
                        self.excused("a batch", &e)?;
                    }
                    if may_be_logged(&e) {
                        self.oracle.pending.push(Pending { change, failed: true });
                    }
                }
                Fate::Open => self.oracle.pending.push(Pending { change, failed: false }),
            }
        }
        match full {
            Some((free, needed, bytes)) if !self.faults.is_cut() && self.read_only.is_none() => {
                self.coverage.met(REFUSED_FULL);
                self.is_full(free, needed, bytes, held)?;
                self.make_room()
            }
            _ => Ok(()),
        }
    }

    /// Checks that the drive is really full, given the needed bytes.
    fn is_full(&self, free_bytes: u64, needed_bytes: u64, batch_bytes: u64, held: u64) -> Done {
        if free_bytes >= needed_bytes {
            let what = format!("{needed_bytes} bytes are refused, with {free_bytes} free");
            return wrong(FailureKind::Full, what);
        }
        // Index pages with long entries may take more than the pages.
        if self.oracle.now.rules.values().any(|r| is_long(&r.rule)) {
            return Ok(());
        }
        let usable = self.drive.info().usable_bytes;
        let g = &self.scenario.geometry;
        let lanes = u64::from(g.eblock_bytes() * (g.channels() + 1));
        if held + batch_bytes + usable / FULL_FROM + lanes < usable {
            let what = format!(
                "a batch of {batch_bytes} bytes needs {needed_bytes}, with {free_bytes} free; {held} of {usable} are held"
            );
            return wrong(FailureKind::Full, what);
        }
        Ok(())
    }

    /// Closes all views and trims about half of the pages. A full drive must accept that.
    pub(super) fn make_room(&mut self) -> Done {
        while !self.oracle.views.is_empty() {
            self.close_view(0)?;
        }
        let half = |l: &&Lpid| crate::random::mix(l.raw() ^ self.oracle.now.commit).is_multiple_of(2);
        let mut trims: Vec<Lpid> = self.oracle.now.pages.keys().filter(half).copied().collect();
        if trims.is_empty() {
            trims = self.oracle.now.pages.keys().copied().collect();
        }
        for part in trims.chunks(self.device.identity().batch_pages_max as usize) {
            let before = self.coverage.times(REFUSED_FULL);
            let batch = Batch { trims: part.to_vec(), ..Batch::default() };
            let change = Change { trims: part.to_vec(), ..Change::default() };
            match self.run(Command::Write(batch))? {
                _ if self.faults.is_cut() => {
                    self.oracle.pending.push(Pending { change, failed: false });
                    return Ok(());
                }
                Err(CommandError::OutOfSpace { .. }) => {
                    return wrong(FailureKind::Full, "a full drive refuses a batch of trims");
                }
                Ok(Reply::Committed { commit, view, .. }) => {
                    self.settle(vec![change], vec![Fate::Committed(commit, view)])?
                }
                Err(e) => self.settle(vec![change], vec![Fate::Refused(e)])?,
                answer => return self.failed("a batch of trims", answer),
            }
            if self.faults.is_cut() || self.read_only.is_some() {
                return Ok(());
            }
            assert_eq!(self.coverage.times(REFUSED_FULL), before, "a full drive never refuses trims");
        }
        Ok(())
    }

    /// Writes new pages until the drive is `percent` full or refuses.
    pub(super) fn fill(&mut self, seed: u64, percent: u32, unforced: bool) -> Done {
        let target = self.scenario.geometry.capacity_bytes() * u64::from(percent) / 100;
        let refused = self.coverage.times(REFUSED_FULL);
        let mut r = Self::random(seed);
        // The length of pages is chosen so that the existing pages suffice.
        let pages = (self.oracle.now.extents.len() as u64 * u64::from(self.scenario.slots)).max(1);
        let max = self.device.identity().page_bytes_max;
        let longest = (target / pages * 2).clamp(1000, max.into()) as u32;
        while self.oracle.now.live_bytes() < target
            && self.coverage.times(REFUSED_FULL) == refused
            && !self.faults.is_cut()
            && self.read_only.is_none()
        {
            let commit = self.oracle.now.commit;
            let plan = BatchPlan {
                seed: r.next(),
                writes: (1 << 20) / longest + 1,
                bytes: (longest / 2, longest),
                trims: 0,
                releases: 0,
                spread: Spread::New,
                align: if r.once_in(2) { AlignPlan::Cells } else { AlignPlan::Units },
                rule: None,
                pin: false,
                session: None,
                unforced,
            };
            self.write(&[plan], 0)?;
            if self.oracle.now.commit == commit {
                break;
            }
        }
        Ok(())
    }

    /// Overwrites existing pages.
    pub(super) fn overwrite(&mut self, seed: u64, batches: u32, hot: bool, unforced: bool) -> Done {
        let mut r = Self::random(seed);
        let spread = if hot { Spread::Hot } else { Spread::Uniform };
        for _ in 0..batches {
            if self.faults.is_cut() || self.read_only.is_some() {
                break;
            }
            let plan = BatchPlan {
                seed: r.next(),
                writes: r.between(4, 24) as u32,
                bytes: (64, self.scenario.page_bytes.max(64)),
                trims: 0,
                releases: 0,
                spread,
                align: AlignPlan::Mixed,
                rule: None,
                pin: false,
                session: None,
                unforced,
            };
            self.write(&[plan], 0)?;
        }
        Ok(())
    }

    /// Writes a batch that contradicts itself or exceeds the drive's limits, which must be refused as a whole.
    pub(super) fn refused(&mut self, seed: u64) -> Done {
        let mut r = Self::random(seed);
        let Some(lpid) = any_page(&self.oracle.now, self.scenario.slots, &mut r) else { return Ok(()) };
        let id = self.device.identity().clone();
        let page = |lpid, len: usize| PageWrite {
            lpid,
            data: PageBuf::copy_from(&vec![7; len]),
            align: Align::Cell,
        };
        let nobody = (0..).map(|n| lode_base::ExtentId::new(n).expect("small numbers are extents"));
        let mut nobody = nobody.filter(|e| !self.oracle.now.extents.contains_key(e));
        let nobody = nobody.next().expect("there are many");
        let plain = self.oracle.now.extents_of(PLAIN).first().map(|e| e.page(0)).unwrap_or(lpid);
        let sound = page(plain, 100);
        let other = plain.extent().page(1);
        let batch = match r.below(7) {
            0 => Batch { writes: vec![sound, page(plain, 200)], ..Batch::default() },
            1 => Batch { writes: vec![page(plain, 63)], ..Batch::default() },
            2 => {
                Batch { writes: vec![sound, page(other, id.page_bytes_max as usize + 1)], ..Batch::default() }
            }
            3 => Batch { writes: vec![sound, page(nobody.page(3), 100)], ..Batch::default() },
            4 => Batch { releases: vec![nobody], trims: vec![plain], ..Batch::default() },
            5 => Batch { writes: vec![sound], trims: vec![plain], ..Batch::default() },
            _ => {
                let extent = self.oracle.now.extents_of(ROWS).first().copied();
                let Some(extent) = extent.filter(|_| self.oracle.now.rules.contains_key(&ROWS)) else {
                    return Ok(());
                };
                // A page that is not a table page has no index entry.
                Batch { writes: vec![sound, page(extent.page(0), 500)], ..Batch::default() }
            }
        };
        match self.run(Command::Write(batch))? {
            Err(CommandError::Invalid(_) | CommandError::NoSuchExtent(_) | CommandError::BadPage { .. }) => {
                Ok(())
            }
            _ if self.faults.is_cut() => {
                // If it took effect after all, the commit number shows it.
                Ok(())
            }
            Ok(answer) => {
                wrong(FailureKind::Answer, format!("an invalid batch was answered with {answer:?}"))
            }
            answer => self.failed("an invalid batch", answer),
        }
    }
}
