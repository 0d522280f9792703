//! The write path: a batch is one system action.
//!
//! ```text
//!   check ─► index entries ─► pin pages ─► [provision] ─► program data ─► [stage: number, old addresses] ─► group commit
//!                                             └─ no room: checkpoint, GC            [..]: the sequencer's lock
//! ```
//!
//! A small batch programs nothing: its record has the pages (`inlined`).
//!
//! Invariants: nothing of a batch shows, or counts, before its record is durable, or in the log where the batch is unforced;
//! what was programmed for a batch that
//! failed is needed by nobody. No lock is held while entries are made, pages are read or programmed. Where a program
//! fails, the EBLOCK ends and the batch is provisioned anew. Trims go on when the drive is full.
//!
//! Source: ELEOS §IV, §VII.

mod build_index;

use std::collections::HashSet;
use std::sync::Arc;

use lode_base::{CELL_BYTES, ExtentId, Lpid, OwnerId, PAGE_BYTES_MIN, PageBuf, SessionId};
use lode_command::{Batch, CommandError, PageWrite, Reply};
use lode_program::{IndexEntry, IndexRule};

use crate::FirmwareError;
use crate::append::ProgramError;
use crate::commit::{Action, Freed, Pins, Slot};
use crate::compute::entry_of;
use crate::core::{Core, Counts, Sequencer};
use crate::entry::Entry;
use crate::pages::{Rules, pages_bytes};
use crate::planted::{self, Planted};
use crate::record::{Commit, LoggedWrite, Record};
use crate::space::{EBLOCKS_FEW, Item, Job, PageName, Provision, Purpose, page_bytes_max};
use crate::stream::Stream;
use crate::upkeep::ALLOCATED_BYTES;
use lode_base::fast::FastSet;

/// Programs of one action that may fail, each in another EBLOCK.
const RETRIES: u32 = 8;
/// Hot and cold pages of a batch go to EBLOCKs of their own when each are this many WBLOCKs a channel.
const SPLIT_WBLOCKS: u64 = 16;

/// The index entries of a batch, and what they were made from.
struct Prepared {
    rules: Arc<Rules>,
    owners: Vec<Option<OwnerId>>,
    entries: Vec<Option<Box<[u8]>>>,
}

/// A batch that was begun: staged, or answered at once.
pub(crate) enum Begun {
    Staged(Arc<Slot>),
    Answered(Reply),
}

/// What `find` answers, asked once for each run of pages of one extent: most batches hold few extents.
pub(crate) fn by_extent<T: Copy>(mut find: impl FnMut(ExtentId) -> T) -> impl FnMut(ExtentId) -> T {
    let mut known = None;
    move |e| match known {
        Some((last, found)) if last == e => found,
        _ => known.insert((e, find(e))).1,
    }
}

fn invalid(what: impl Into<String>) -> CommandError {
    CommandError::Invalid(what.into())
}

impl Core {
    /// Carries a batch out up to its staging. Others may be begun before it is finished.
    pub(crate) fn begin(&self, mut batch: Batch) -> Result<Begun, CommandError> {
        let _span = tracing::trace_span!("batch", pages = batch.writes.len()).entered();
        self.check_writable()?;
        self.check_batch(&batch)?;
        if !batch.index_rules.is_empty() {
            self.check_content()?;
        }
        if batch.is_empty() {
            let (view, commit) = match batch.pin.then(|| self.versions.open()) {
                Some((view, commit)) => (Some(view), commit),
                None => (None, self.versions.newest()),
            };
            return Ok(Begun::Answered(Reply::Committed { commit, view }));
        }
        batch.trims.retain(|l| !batch.releases.contains(&l.extent()));
        let mut prepared = self.prepare(&batch)?;
        {
            let w = self.seq.lock();
            self.check_order(&w, &batch)?;
        }
        let pins = self.pin_batch(&batch, &prepared)?;
        self.seq.lock().under_way += 1;
        self.begin_pinned(&batch, &mut prepared, pins)
            .inspect_err(|_| self.seq.lock().under_way -= 1)
            .map(Begun::Staged)
    }

    fn pin_batch(&self, batch: &Batch, prepared: &Prepared) -> Result<Pins, FirmwareError> {
        let writes = batch.writes.iter().zip(&prepared.entries).map(|(p, e)| (p.lpid, e.is_some()));
        let trims = batch.trims.iter().map(|l| l.extent());
        self.pin(writes, trims.chain(batch.releases.iter().copied()))
    }

    /// Waits until a begun batch is durable; of one that is unforced, until it is in the log.
    pub(crate) fn end(&self, begun: Begun) -> Result<Reply, CommandError> {
        let slot = match begun {
            Begun::Answered(reply) => return Ok(reply),
            Begun::Staged(slot) => slot,
        };
        let done = self.finish(&slot)?;
        self.beside(|| self.maintain(done.bytes));
        Ok(Reply::Committed { commit: lode_base::CommitNo::new(done.commit), view: done.view })
    }

    /// Carries out a batch.
    pub(crate) fn write(&self, batch: Batch) -> Result<Reply, CommandError> {
        let begun = self.begin(batch)?;
        self.end(begun)
    }

    fn check_batch(&self, batch: &Batch) -> Result<(), CommandError> {
        let id = &self.identity;
        let pages = batch.writes.len() + batch.trims.len();
        if pages as u64 > u64::from(id.batch_pages_max) {
            return Err(invalid(format!(
                "a batch of {pages} pages; at most {} are taken",
                id.batch_pages_max
            )));
        }
        let bytes = batch.payload_bytes() as u64;
        if bytes > id.batch_bytes_max {
            return Err(invalid(format!(
                "a batch of {bytes} bytes; at most {} are taken",
                id.batch_bytes_max
            )));
        }
        let releases: FastSet<ExtentId> = batch.releases.iter().copied().collect();
        if releases.len() < batch.releases.len() {
            return Err(invalid("an extent is released twice in one batch"));
        }
        for p in &batch.writes {
            let (lpid, len) = (p.lpid, p.data.len());
            if !(PAGE_BYTES_MIN..=id.page_bytes_max as usize).contains(&len) {
                let max = id.page_bytes_max;
                return Err(invalid(format!(
                    "page {lpid} has {len} bytes; {PAGE_BYTES_MIN} to {max} are taken"
                )));
            }
            if !releases.is_empty() && releases.contains(&lpid.extent()) {
                return Err(invalid(format!("page {lpid} is written in an extent that is released")));
            }
        }
        let mut lpids: Vec<Lpid> = Vec::with_capacity(pages);
        lpids.extend(batch.writes.iter().map(|p| p.lpid).chain(batch.trims.iter().copied()));
        // Most batches come in order.
        if !lpids.is_sorted() {
            lpids.sort_unstable();
        }
        if let Some(twice) = lpids.windows(2).find(|w| w[0] == w[1]) {
            return Err(invalid(format!("page {} comes twice in one batch", twice[0])));
        }
        let mut owners = HashSet::new();
        if let Some((owner, _)) = batch.index_rules.iter().find(|(owner, _)| !owners.insert(*owner)) {
            return Err(invalid(format!("{owner:?} gets two index rules in one batch")));
        }
        let wide = batch.index_rules.iter().find(|(_, r)| {
            r.as_ref()
                .is_some_and(|r| crate::pages::page_bytes(r.entry_bytes()) > page_bytes_max(self.geometry()))
        });
        match wide {
            Some((owner, _)) => {
                Err(invalid(format!("the index entries of {owner:?} are too wide for an EBLOCK")))
            }
            None => Ok(()),
        }
    }

    /// The rules that pages are indexed by once all that is staged is installed.
    fn prepare(&self, batch: &Batch) -> Result<Prepared, CommandError> {
        let rules = self.seq.lock().staged_rules.clone();
        // The number of a rule does not matter here: the entry is set under the number that it is staged with.
        let with = match batch.index_rules.is_empty() {
            true => rules.clone(),
            false => Arc::new(rules.with(&batch.index_rules, 0)),
        };
        let owners = self.owners(batch);
        let entry = |(p, owner): (&PageWrite, &Option<OwnerId>)| {
            let Some(r) = owner.and_then(|o| with.get(o)) else { return Ok(None) };
            Ok(Some(self.entry_made(&r.rule, p.lpid, &p.data)?.into_bytes()))
        };
        let entries = batch.writes.iter().zip(&owners).map(entry).collect::<Result<_, CommandError>>()?;
        Ok(Prepared { rules, owners, entries })
    }

    /// The entry of a page. On a modelled device a core looks at each value that it is made of.
    pub(crate) fn entry_made(
        &self,
        rule: &IndexRule,
        lpid: Lpid,
        page: &PageBuf,
    ) -> Result<IndexEntry, CommandError> {
        let entry = entry_of(rule, lpid, page)?;
        if let Some(m) = self.medium.model() {
            let c = &m.profile().cores;
            let values = u64::from(entry.rows()) * rule.columns().len() as u64;
            m.think(u64::from(c.index_cycles) + values * u64::from(c.compare_cycles));
        }
        Ok(entry)
    }

    fn owners(&self, batch: &Batch) -> Vec<Option<OwnerId>> {
        let extents = self.extents.read();
        let mut owner = by_extent(|e| extents.owner(e));
        batch.writes.iter().map(|p| owner(p.lpid.extent())).collect()
    }

    fn is_current(&self, w: &Sequencer, batch: &Batch, p: &Prepared) -> bool {
        Arc::ptr_eq(&p.rules, &w.staged_rules) && p.owners == self.owners(batch)
    }

    /// Whether the batch may come next: its extents have owners, and its session is that far.
    fn check_order(&self, w: &Sequencer, batch: &Batch) -> Result<(), CommandError> {
        if let Some(s) = batch.session {
            if w.overlay.is_closing(s.session) {
                return Err(CommandError::NoSuchSession(s.session));
            }
            w.sessions.check(s)?;
        }
        let extents = self.extents.read();
        let mut touched = batch.writes.iter().map(|p| p.lpid.extent()).chain(batch.releases.iter().copied());
        let mut is_gone = by_extent(|e| extents.owner(e).is_none() || w.overlay.is_released(e));
        match touched.find(|&e| is_gone(e)) {
            Some(e) => Err(CommandError::NoSuchExtent(e)),
            None => Ok(()),
        }
    }

    fn begin_pinned(
        &self,
        batch: &Batch,
        prepared: &mut Prepared,
        mut pins: Pins,
    ) -> Result<Arc<Slot>, CommandError> {
        let inlined = self.inlines(batch);
        let parts = if inlined { Vec::new() } else { self.parts(batch, &pins) };
        let mut places: Vec<Option<lode_base::Ppa>> = vec![None; batch.writes.len()];
        let mut eblocks = Vec::new();
        let record_bytes = self.record_bytes(batch, prepared) + if inlined { pages_bytes(batch) } else { 0 };
        let give_up = |pins: &Pins, eblocks: Vec<lode_base::EblockId>| {
            self.unpin(pins);
            if inlined {
                self.inlined.give_up(batch.writes.iter().map(|p| &p.data));
            }
            let mut w = self.seq.lock();
            planted::unless(Planted::GivenUpNotLeft, || {
                eblocks.into_iter().for_each(|e| w.space.leave(e));
            });
        };
        if parts.is_empty()
            && let Err(e) = self.log_room(record_bytes)
        {
            give_up(&pins, eblocks);
            return Err(e);
        }
        for (stream, pages) in parts {
            let item = |&(_, p): &(usize, &PageWrite)| Item {
                len: p.data.len(),
                align: p.align,
                word: PageName::User(p.lpid).aligned_word(p.align),
            };
            let items: Vec<Item> = pages.iter().map(item).collect();
            let data: Vec<&[u8]> = pages.iter().map(|(_, p)| &p.data[..]).collect();
            let append =
                |shrinks| self.append(stream, &items, &data, Purpose::Batch { shrinks }, record_bytes);
            let placed = append(false).or_else(|e| match e {
                FirmwareError::Refused(CommandError::OutOfSpace { .. }) if self.shrinks(batch, &pins) => {
                    append(true)
                }
                e => Err(e),
            });
            match placed {
                Ok(p) => {
                    eblocks.extend(p.eblocks);
                    pages.iter().zip(p.places).for_each(|(&(at, _), place)| places[at] = Some(place));
                }
                Err(e) => {
                    give_up(&pins, eblocks);
                    return Err(e.into());
                }
            }
        }
        assert!(inlined || places.iter().all(Option::is_some), "every page has a place");
        loop {
            let mut w = self.seq.lock();
            let checked =
                self.check_writable().map_err(CommandError::from).and_then(|()| self.check_order(&w, batch));
            if let Err(e) = checked {
                drop(w);
                give_up(&pins, eblocks);
                return Err(e);
            }
            if self.is_current(&w, batch, prepared) {
                return Ok(self.stage_batch(&mut w, batch, prepared, &places, pins, eblocks));
            }
            drop(w);
            // Rules or owners changed while the pages were programmed: only entries are made anew.
            let again = self.prepare(batch).and_then(|p| Ok((self.pin_batch(batch, &p)?, p)));
            self.unpin(&std::mem::take(&mut pins));
            match again {
                Ok((p, made)) => (pins, *prepared) = (p, made),
                Err(e) => {
                    give_up(&pins, eblocks);
                    return Err(e);
                }
            }
        }
    }

    /// The pages of a batch by stream, each with its number in the batch.
    fn parts<'a>(&self, batch: &'a Batch, pins: &Pins) -> Vec<(Stream, Vec<(usize, &'a PageWrite)>)> {
        let mut pinned = by_extent(|e| &*pins[&e].map);
        if let [only] = &batch.writes[..] {
            let len = only.data.len() as u64;
            let hot = pinned(only.lpid.extent()).load(only.lpid.page()).is_some();
            return vec![(self.user_stream(if hot { len } else { 0 }, len), vec![(0, only)])];
        }
        let is_hot = |(_, p): &(usize, &PageWrite)| pinned(p.lpid.extent()).load(p.lpid.page()).is_some();
        let (hot, cold): (Vec<_>, Vec<_>) = batch.writes.iter().enumerate().partition(is_hot);
        let bytes =
            |pages: &[(usize, &PageWrite)]| pages.iter().map(|(_, p)| p.data.len() as u64).sum::<u64>();
        let (hot_bytes, cold_bytes) = (bytes(&hot), bytes(&cold));
        let g = self.geometry();
        let split = SPLIT_WBLOCKS * u64::from(g.wblock_bytes()) * u64::from(g.channels());
        if hot_bytes.min(cold_bytes) >= split && g.eblock_count() >= EBLOCKS_FEW {
            return vec![(Stream::UserHot, hot), (Stream::UserCold, cold)];
        }
        if batch.writes.is_empty() {
            return Vec::new();
        }
        vec![(self.user_stream(hot_bytes, hot_bytes + cold_bytes), batch.writes.iter().enumerate().collect())]
    }

    /// Whether a batch frees at least what it takes: pages that it replaces, trims or releases.
    fn shrinks(&self, batch: &Batch, pins: &Pins) -> bool {
        let cells = |bytes: usize| bytes.next_multiple_of(CELL_BYTES) as u64;
        let taken: u64 = batch.writes.iter().map(|p| cells(p.data.len())).sum();
        let replaced = batch.writes.iter().map(|p| p.lpid).chain(batch.trims.iter().copied());
        let replaced: u64 = replaced
            .filter_map(|l| pins.get(&l.extent())?.map.load(l.page()))
            .map(|e| cells(e.len_bytes()))
            .sum();
        let released = batch.releases.iter().filter_map(|e| pins.get(e));
        let released: u64 = released.flat_map(|p| p.map.mapped()).map(|(_, e)| cells(e.len_bytes())).sum();
        replaced + released >= taken
    }

    /// Bytes that the record of a batch takes in the log, about.
    fn record_bytes(&self, batch: &Batch, prepared: &Prepared) -> usize {
        let index: usize = prepared.entries.iter().flatten().map(|e| e.len() + 8).sum();
        let rule = |r: &Option<lode_program::IndexRule>| r.as_ref().map_or(0, |r| r.to_bytes().len()) + 8;
        let rules: usize = batch.index_rules.iter().map(|(_, r)| rule(r)).sum();
        let allocated = self.extents.read().unlogged_count();
        256 + 26 * batch.writes.len()
            + index
            + 16 * (batch.trims.len() + batch.releases.len())
            + rules
            + ALLOCATED_BYTES * allocated
    }

    fn stage_batch(
        &self,
        w: &mut Sequencer,
        batch: &Batch,
        prepared: &mut Prepared,
        places: &[Option<lode_base::Ppa>],
        pins: Pins,
        eblocks: Vec<lode_base::EblockId>,
    ) -> Arc<Slot> {
        let g = *self.geometry();
        let number = w.staged_commit + 1;
        let staged_rules = match batch.index_rules.is_empty() {
            true => w.staged_rules.clone(),
            false => Arc::new(w.staged_rules.with(&batch.index_rules, number)),
        };
        let mut freed = Freed::default();
        let mut writes = Vec::with_capacity(batch.writes.len());
        let mut inlined = Vec::new();
        let entries = std::mem::take(&mut prepared.entries);
        let mut pinned = by_extent(|e| &*pins[&e].map);
        for (((p, owner), index), ppa) in batch.writes.iter().zip(&prepared.owners).zip(entries).zip(places) {
            let rule = || owner.and_then(|o| staged_rules.get(o));
            let index = index.and_then(|bytes| Some((rule()?.number, bytes)));
            let entry = match ppa {
                Some(ppa) => Entry::new(*ppa, p.data.len(), index.is_none()),
                None => {
                    // A copy, since the page may be a small part of what the host keeps together.
                    inlined.push(PageBuf::copy_from(&p.data));
                    Entry::inlined(self.inlined.number(), p.data.len(), index.is_none())
                }
            };
            let old = w.overlay.entry(p.lpid, pinned(p.lpid.extent()));
            old.into_iter().for_each(|e| freed.add(&g, e));
            w.overlay.set(p.lpid, Some(entry));
            w.space.advance_clock(entry);
            let wrong = planted::is(Planted::IndexWrongRule);
            let index = index.map(|(rule, bytes)| (if wrong { number } else { rule }, bytes));
            writes.push(LoggedWrite { lpid: p.lpid, entry, index });
        }
        drop(pinned);
        for lpid in &batch.trims {
            if let Some(p) = pins.get(&lpid.extent()) {
                w.overlay.entry(*lpid, &p.map).into_iter().for_each(|e| freed.add(&g, e));
                w.overlay.set(*lpid, None);
            }
        }
        for extent in &batch.releases {
            if let Some(p) = pins.get(extent) {
                for page in 0..lode_base::EXTENT_PAGES as u16 {
                    let lpid = extent.page(page);
                    if let Some(e) = w.overlay.entry(lpid, &p.map) {
                        freed.add(&g, e);
                        w.overlay.set(lpid, None);
                    }
                }
            }
            w.overlay.release(*extent);
        }
        w.staged_commit = number;
        w.staged_rules = staged_rules;
        if let Some(s) = batch.session {
            w.sessions.stage(s);
        }
        let record = Record::Commit(Commit {
            number,
            session: batch.session.map(|s| (s.session, s.wsn)),
            writes,
            trims: batch.trims.clone(),
            releases: batch.releases.clone(),
            rules: batch.index_rules.clone(),
            freed: freed.into_vec(),
            inlined,
        });
        let slot = Arc::default();
        // A modelled device is asked for the time that it takes until a batch is durable: each waits for its own.
        let (pin_view, unforced) = (batch.pin, batch.unforced && self.medium.model().is_none());
        w.stage(Action { record, pins, eblocks, pin_view, copies: Vec::new(), unforced, slot })
    }

    /// Places pages and programs them. Where a program fails, they are placed anew; the EBLOCKs of the answer count the
    /// caller's action as under way.
    pub(crate) fn append(
        &self,
        stream: Stream,
        items: &[Item],
        data: &[&[u8]],
        purpose: Purpose,
        record_bytes: usize,
    ) -> Result<Provision, FirmwareError> {
        let mut failures = 0;
        let mut gave_up = false;
        loop {
            let p = self.provision(stream, items, purpose, record_bytes)?;
            let Some((at, e)) = self.program(&p, data) else { return Ok(p) };
            let mut w = self.seq.lock();
            let failed = match &p.jobs[at] {
                Job::Data { eblock, .. } | Job::Metadata { eblock, .. } => *eblock,
            };
            if planted::is(Planted::FailureIgnored)
                && matches!(&e, ProgramError::Flash(e) if e.is_program_failure())
            {
                return Ok(p);
            }
            w.space.give_back(&self.medium, p);
            match e {
                ProgramError::Ended => {}
                ProgramError::Flash(e) if e.is_no_space() => {
                    if gave_up || !w.space.give_up_open(&self.medium, stream) {
                        drop(w);
                        self.turns.moved();
                        return Err(e.into());
                    }
                    gave_up = true;
                }
                ProgramError::Flash(e) if e.is_program_failure() && failures < RETRIES => {
                    failures += 1;
                    Counts::add(&self.counts.program_failures, 1);
                    self.fail_eblock(&mut w, failed);
                }
                ProgramError::Flash(e) => {
                    let e = FirmwareError::from(e);
                    self.fatal(&e);
                    drop(w);
                    self.turns.moved();
                    return Err(e);
                }
            }
            drop(w);
            self.turns.moved();
            self.check_writable()?;
        }
    }

    /// Nothing more is written to an EBLOCK. Without spares left, the drive is read-only.
    fn fail_eblock(&self, w: &mut Sequencer, e: lode_base::EblockId) {
        w.space.fail(e);
        self.check_spares(w);
    }

    /// Makes the drive read-only when more EBLOCKs failed than there are spares.
    pub(crate) fn check_spares(&self, w: &Sequencer) {
        let (retired, spares) = (w.space.retired(), self.spare_eblocks());
        if retired > spares {
            planted::unless(Planted::SparesIgnored, || {
                self.fatal(&FirmwareError::NoSpares { retired, spares });
            });
        }
    }

    /// Programs what was provisioned; answers the first job that failed.
    fn program(&self, p: &Provision, data: &[&[u8]]) -> Option<(usize, ProgramError)> {
        for (at, job) in p.jobs.iter().enumerate() {
            match self.turns.program(&self.medium, job, data) {
                Ok(()) => {
                    if let Job::Metadata { eblock, bytes, .. } = job {
                        let wblocks = bytes.len() as u32 / self.geometry().wblock_bytes();
                        self.seq.lock().space.closed(*eblock, wblocks);
                    }
                }
                // Its metadata stays in memory, and with the drive's own pages.
                Err(ProgramError::Ended) if matches!(job, Job::Metadata { .. }) => {}
                Err(e) => return Some((at, e)),
            }
        }
        None
    }

    /// Opens a session, durably.
    pub(crate) fn open_session(&self) -> Result<Reply, CommandError> {
        self.log_room(64)?;
        let mut w = self.seq.lock();
        self.check_writable()?;
        let mut salt = u64::from(self.medium.open_epoch()).rotate_left(40);
        for half in self.medium.uuid().as_chunks::<8>().0 {
            salt ^= u64::from_le_bytes(*half);
        }
        let session = w.sessions.draw(salt, self.options.sessions_max)?;
        self.carry_out_small(w, Record::SessionOpened { session })?;
        Ok(Reply::Session { session, highest: 0 })
    }

    /// Closes a session, durably.
    pub(crate) fn close_session(&self, session: SessionId) -> Result<Reply, CommandError> {
        self.log_room(64)?;
        let mut w = self.seq.lock();
        self.check_writable()?;
        w.sessions.highest(session)?;
        if w.overlay.is_closing(session) {
            return Err(CommandError::NoSuchSession(session));
        }
        w.overlay.close(session);
        self.carry_out_small(w, Record::SessionClosed { session })?;
        Ok(Reply::Done)
    }

    /// Carries out an action that writes nothing but its record.
    fn carry_out_small(
        &self,
        mut w: parking_lot::MutexGuard<'_, Sequencer>,
        record: Record,
    ) -> Result<(), CommandError> {
        w.under_way += 1;
        let unforced = planted::is(Planted::SessionUnforced);
        let action = Action { record, unforced, ..Action::default() };
        self.carry_out(w, action).map(drop)
    }
}
