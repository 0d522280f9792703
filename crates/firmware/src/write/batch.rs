//! A batch, which is one system action: from its beginning to its end.
//!
//! Invariants: what was programmed for a batch that failed is needed by nobody. If rules or owners change while pages are
//! programmed, only index entries are made anew. A small batch programs nothing: its record has the pages (inlined).

use std::sync::Arc;

use lode_base::{CELL_BYTES, CommitNo, EblockId, Lpid, OwnerId, Ppa};
use lode_command::{Batch, CommandError, IndexedPage, PageWrite, Reply, check_answer};
use lode_program::IndexEntry;

use super::allocate::ALLOCATED_BYTES;
use super::check::check;
use super::index_room::index_growth;
use super::writer::Writer;
use crate::FirmwareError;
use crate::commit::{CommitState, Slot};
use crate::pages::{Pins, Rules, by_extent, pages_bytes};
use crate::planted::{self, Planted, at};
use crate::space::{EBLOCKS_FEW, Item, PageName, Provision, Purpose};
use crate::stream::Stream;

/// Hot and cold pages of a batch go to EBLOCKs of their own when each are this many WBLOCKs a channel.
const SPLIT_WBLOCKS: u64 = 16;

/// The index entries of a batch, and what they were made from.
pub(super) struct Prepared {
    pub(super) rules: Arc<Rules>,
    pub(super) owners: Vec<Option<OwnerId>>,
    pub(super) entries: Vec<Option<Box<[u8]>>>,
}

/// A batch that was begun: staged, or answered at once.
pub(crate) enum Begun {
    /// With the entries that it is to be answered with.
    Staged(Arc<Slot>, Vec<IndexedPage>),
    Answered(Reply),
}

/// The pages of a batch that go to one stream, each with its number in the batch.
type Part<'a> = (Stream, Vec<(usize, &'a PageWrite)>);

/// Where the pages of a batch lie, and what is to be undone if the batch is given up.
pub(super) struct Placed {
    /// Of each page its address; none of an inlined one.
    pub(super) places: Vec<Option<Ppa>>,
    pub(super) pins: Pins,
    /// EBLOCKs that count the batch as under way.
    pub(super) eblocks: Vec<EblockId>,
    inlined: bool,
}

impl Writer<'_> {
    /// Carries out a batch.
    pub(crate) fn write(self, batch: Batch) -> Result<Reply, CommandError> {
        let begun = self.begin(batch)?;
        self.end(begun)
    }

    /// Carries a batch out up to its staging. Others may be begun before it is ended.
    pub(crate) fn begin(self, mut batch: Batch) -> Result<Begun, CommandError> {
        let _span = tracing::trace_span!("batch", pages = batch.writes.len()).entered();
        self.env().check_writable()?;
        check(&batch, self.env().identity())?;
        if !batch.index_rules.is_empty() {
            self.env().check_content()?;
        }
        if batch.is_empty() {
            let versions = self.pages().versions();
            let (view, commit) = match batch.pin.then(|| versions.open()) {
                Some((view, commit)) => (Some(view), commit),
                None => (None, versions.newest()),
            };
            return Ok(Begun::Answered(Reply::Committed { commit, view, entries: Vec::new() }));
        }
        batch.trims.retain(|l| !batch.releases.contains(&l.extent()));
        let mut prepared = self.prepare(&batch)?;
        {
            let state = self.state();
            self.check_order(&state, &batch)?;
            self.check_left(&state, &batch)?;
        }
        if batch.answer_entries {
            let entry_bytes = |e: &Option<Box<[u8]>>| e.as_ref().map_or(0, |e| e.len() as u64);
            let entries = prepared.entries.iter();
            check_answer(entries.map(|e| size_of::<IndexedPage>() as u64 + entry_bytes(e)).sum())?;
        }
        let pins = self.pin_with_room(&batch, &prepared)?;
        self.state().begin_action();
        self.place(&batch, &prepared, pins)
            .and_then(|placed| self.stage_current(&batch, &mut prepared, placed))
            .inspect_err(|_| self.state().give_up_action())
            .map(|(slot, entries)| Begun::Staged(slot, entries))
    }

    /// Waits until a begun batch is durable; of one that is unforced, until it is in the log.
    pub(crate) fn end(self, begun: Begun) -> Result<Reply, CommandError> {
        let (slot, entries) = match begun {
            Begun::Answered(reply) => return Ok(reply),
            Begun::Staged(slot, entries) => (slot, entries),
        };
        let done = self.committer().finish(&slot)?;
        self.env().beside(|| self.upkeep().maintain(done.bytes));
        Ok(Reply::Committed { commit: CommitNo::new(done.commit), view: done.view, entries })
    }

    fn pin(self, batch: &Batch, prepared: &Prepared) -> Result<Pins, FirmwareError> {
        let (trims, releases) = (batch.trims.iter().copied(), batch.releases.iter().copied());
        self.pages().pin(self.env(), writes(batch, prepared), trims, releases)
    }

    /// Pins what a batch touches, where there is room for the index pages of its entries.
    fn pin_with_room(self, batch: &Batch, prepared: &Prepared) -> Result<Pins, CommandError> {
        let pins = self.pin(batch, prepared)?;
        let growth = index_growth(writes(batch, prepared), &pins);
        if growth == 0 {
            return Ok(pins);
        }
        let room = self.index_room(growth, pages_bytes(batch) as u64, self.record_bytes(batch, prepared));
        room.inspect_err(|_| self.pages().unpin(&pins)).map(|()| pins)
    }

    /// The index entries of a batch, by the rules that are in force once all that is staged is installed.
    fn prepare(self, batch: &Batch) -> Result<Prepared, CommandError> {
        let rules = self.state().staged_rules().clone();
        // The number of a rule does not matter here: the entry is set under the number that it is staged with.
        let with = match batch.index_rules.is_empty() {
            true => rules.clone(),
            false => Arc::new(rules.with(&batch.index_rules, 0)),
        };
        if batch.index_rules.iter().any(|(_, rule)| rule.is_some()) {
            let (needed_bytes, max) = (with.len_bytes(), self.env().options().rules_bytes_max);
            if needed_bytes > max.max(rules.len_bytes()) {
                let (old_bytes, free_bytes) = (rules.len_bytes(), max.saturating_sub(rules.len_bytes()));
                let needed_bytes = needed_bytes - old_bytes;
                return Err(CommandError::NoMemory { needed_bytes, free_bytes });
            }
        }
        let owners = self.owners(batch);
        let entry = |(p, owner): (&PageWrite, &Option<OwnerId>)| {
            let Some(r) = owner.and_then(|o| with.get(o)) else { return Ok(None) };
            Ok(Some(self.make_entry(&r.rule, p.lpid, &p.data)?.into_bytes()))
        };
        let entries = batch.writes.iter().zip(&owners).map(entry).collect::<Result<_, CommandError>>()?;
        Ok(Prepared { rules, owners, entries })
    }

    fn owners(self, batch: &Batch) -> Vec<Option<OwnerId>> {
        let extents = self.pages().extents();
        let mut owner = by_extent(|e| extents.owner(e));
        batch.writes.iter().map(|p| owner(p.lpid.extent())).collect()
    }

    fn is_current(self, state: &CommitState, batch: &Batch, p: &Prepared) -> bool {
        Arc::ptr_eq(&p.rules, state.staged_rules()) && p.owners == self.owners(batch)
    }

    /// Whether the batch may come next: its extents have owners, and its session is that far.
    fn check_order(self, state: &CommitState, batch: &Batch) -> Result<(), CommandError> {
        if let Some(s) = batch.session {
            state.check_not_closing(s.session)?;
            at!(SessionNotChecked => Ok(()), state.sessions().check(s))?;
        }
        let extents = self.pages().extents();
        let mut touched = batch.writes.iter().map(|p| p.lpid.extent()).chain(batch.releases.iter().copied());
        let mut is_gone = by_extent(|e| extents.owner(e).is_none() || state.is_released(e));
        match touched.find(|&e| is_gone(e)) {
            Some(e) => Err(CommandError::NoSuchExtent(e)),
            None => Ok(()),
        }
    }

    /// Whether a batch leaves the room that it is to leave.
    fn check_left(self, state: &CommitState, batch: &Batch) -> Result<(), CommandError> {
        if batch.leave_bytes == 0 {
            return Ok(());
        }
        let needed_bytes = batch.leave_bytes.saturating_add(pages_bytes(batch) as u64);
        let budget = state.budget(self.env(), self.pages());
        match budget.free_bytes() < needed_bytes {
            true => Err(budget.out_of_space(needed_bytes)),
            false => Ok(()),
        }
    }

    /// Gives the pages of a batch their places, and programs them; or reserves memory for them, if they are inlined.
    fn place(self, batch: &Batch, prepared: &Prepared, pins: Pins) -> Result<Placed, CommandError> {
        let inlined = self.inlines(batch);
        let parts = if inlined { Vec::new() } else { self.parts(batch, &pins) };
        let record_bytes = self.record_bytes(batch, prepared) + if inlined { pages_bytes(batch) } else { 0 };
        let places = vec![None; batch.writes.len()];
        let mut placed = Placed { places, pins, eblocks: Vec::new(), inlined };
        let done = match parts.is_empty() {
            true => self.upkeep().log_room(record_bytes),
            false => self.append(batch, parts, record_bytes, &mut placed).map_err(CommandError::from),
        };
        match done {
            Ok(()) => {
                assert!(inlined || placed.places.iter().all(Option::is_some), "every page has a place");
                Ok(placed)
            }
            Err(e) => {
                self.give_up(batch, placed);
                Err(e)
            }
        }
    }

    /// Appends the pages of a batch.
    fn append(
        self,
        batch: &Batch,
        parts: Vec<Part<'_>>,
        record_bytes: usize,
        placed: &mut Placed,
    ) -> Result<(), FirmwareError> {
        for (stream, pages) in parts {
            let item = |&(_, p): &(usize, &PageWrite)| Item {
                len: p.data.len(),
                align: p.align,
                word: PageName::User(p.lpid).aligned_word(p.align),
            };
            let items: Vec<Item> = pages.iter().map(item).collect();
            let data: Vec<&[u8]> = pages.iter().map(|(_, p)| &p.data[..]).collect();
            let append = |shrinks| {
                let make_room = &mut || self.upkeep().make_room(record_bytes);
                let purpose = Purpose::Batch { shrinks };
                self.appender().append_in(stream, &items, &data, purpose, record_bytes, make_room)
            };
            let Provision { places, eblocks, .. } = append(false).or_else(|e| match e {
                FirmwareError::Refused(CommandError::OutOfSpace { .. }) if shrinks(batch, &placed.pins) => {
                    append(true)
                }
                e => Err(e),
            })?;
            placed.eblocks.extend(eblocks);
            pages.iter().zip(places).for_each(|(&(at, _), place)| placed.places[at] = Some(place));
        }
        Ok(())
    }

    /// A begun batch is given up before it was staged.
    fn give_up(self, batch: &Batch, placed: Placed) {
        self.pages().unpin(&placed.pins);
        if placed.inlined {
            self.pages().inlined().give_up(batch.writes.iter().map(|p| &p.data));
        }
        planted::unless(Planted::GivenUpNotLeft, || self.appender().leave(placed.eblocks));
    }

    /// Stages a batch by the rules and owners that are in force then.
    fn stage_current(
        self,
        batch: &Batch,
        prepared: &mut Prepared,
        mut placed: Placed,
    ) -> Result<(Arc<Slot>, Vec<IndexedPage>), CommandError> {
        loop {
            let entries = if batch.answer_entries { answered(batch, prepared) } else { Vec::new() };
            let mut state = self.state();
            let writable = self.env().check_writable().map_err(CommandError::from);
            if let Err(e) = writable.and_then(|()| self.check_order(&state, batch)) {
                drop(state);
                self.give_up(batch, placed);
                return Err(e);
            }
            if self.is_current(&state, batch, prepared) {
                return Ok((self.stage(&mut state, batch, prepared, placed), entries));
            }
            drop(state);
            // Rules or owners changed while the pages were programmed.
            let again = self.prepare(batch).and_then(|p| Ok((self.pin_with_room(batch, &p)?, p)));
            self.pages().unpin(&std::mem::take(&mut placed.pins));
            match again {
                Ok((pins, made)) => (placed.pins, *prepared) = (pins, made),
                Err(e) => {
                    self.give_up(batch, placed);
                    return Err(e);
                }
            }
        }
    }

    /// Whether a batch is inlined; then memory is reserved for it.
    fn inlines(self, batch: &Batch) -> bool {
        let (inlined, bytes) = (self.pages().inlined(), pages_bytes(batch));
        if !inlined.takes(batch) {
            return false;
        }
        let state = self.state();
        // There must be space to move it to, whatever comes between.
        let budget = state.budget(self.env(), self.pages());
        let free = state.eblocks().free_eblocks() >= budget.reserve_eblocks();
        let fits = free && budget.held_bytes() + bytes as u64 <= budget.usable_bytes();
        // Without pages there is nothing to inline.
        fits && bytes > 0 && inlined.reserve(batch.writes.iter().map(|p| &p.data))
    }

    /// The pages of a batch by stream.
    fn parts<'a>(self, batch: &'a Batch, pins: &Pins) -> Vec<Part<'a>> {
        let mut pinned = by_extent(|e| pins[&e].map());
        if let [only] = &batch.writes[..] {
            let len = only.data.len() as u64;
            let hot = pinned(only.lpid.extent()).load(only.lpid.page()).is_some();
            return vec![(self.stream_of(if hot { len } else { 0 }, len), vec![(0, only)])];
        }
        let is_hot = |(_, p): &(usize, &PageWrite)| pinned(p.lpid.extent()).load(p.lpid.page()).is_some();
        let (hot, cold): (Vec<_>, Vec<_>) = batch.writes.iter().enumerate().partition(is_hot);
        let bytes =
            |pages: &[(usize, &PageWrite)]| pages.iter().map(|(_, p)| p.data.len() as u64).sum::<u64>();
        let (hot_bytes, cold_bytes) = (bytes(&hot), bytes(&cold));
        let g = self.env().geometry();
        let split = SPLIT_WBLOCKS * u64::from(g.wblock_bytes()) * u64::from(g.channels());
        if hot_bytes.min(cold_bytes) >= split && g.eblock_count() >= EBLOCKS_FEW {
            return vec![(Stream::UserHot, hot), (Stream::UserCold, cold)];
        }
        if batch.writes.is_empty() {
            return Vec::new();
        }
        let stream = self.stream_of(hot_bytes, hot_bytes + cold_bytes);
        vec![(stream, batch.writes.iter().enumerate().collect())]
    }

    /// The stream of pages of which `replaced` of `written` bytes replace others: what is overwritten is hot.
    fn stream_of(self, replaced: u64, written: u64) -> Stream {
        let hot = replaced * 2 >= written || self.env().geometry().eblock_count() < EBLOCKS_FEW;
        if hot { Stream::UserHot } else { Stream::UserCold }
    }

    /// Bytes that the record of a batch takes in the log, about.
    fn record_bytes(self, batch: &Batch, prepared: &Prepared) -> usize {
        let index: usize = prepared.entries.iter().flatten().map(|e| e.len() + 8).sum();
        let rule = |r: &Option<lode_program::IndexRule>| r.as_ref().map_or(0, |r| r.to_bytes().len()) + 8;
        let rules: usize = batch.index_rules.iter().map(|(_, r)| rule(r)).sum();
        let allocated = self.pages().extents().unlogged_count();
        256 + 26 * batch.writes.len()
            + index
            + 16 * (batch.trims.len() + batch.releases.len())
            + rules
            + ALLOCATED_BYTES * allocated
    }
}

/// The pages that a batch writes, and the bytes of the index entry that each gets.
fn writes<'a>(batch: &'a Batch, prepared: &'a Prepared) -> impl Iterator<Item = (Lpid, Option<usize>)> + 'a {
    let entries = prepared.entries.iter().map(|e| e.as_ref().map(|e| e.len()));
    batch.writes.iter().map(|p| p.lpid).zip(entries)
}

/// The pages of a batch with the entries that they get.
fn answered(batch: &Batch, prepared: &Prepared) -> Vec<IndexedPage> {
    let entry = |bytes: &[u8]| IndexEntry::from_bytes(bytes).expect("an entry that was just made");
    let of = |(p, bytes): (&PageWrite, &Option<Box<[u8]>>)| IndexedPage {
        entry: bytes.as_deref().map(entry),
        ..IndexedPage::unknown(p)
    };
    let (from, entries) = (usize::from(planted::is(Planted::EntriesRotated)), prepared.entries.iter());
    batch.writes.iter().zip(entries.cycle().skip(from)).map(of).collect()
}

/// Whether a batch frees at least what it takes: pages that it replaces, trims or releases.
fn shrinks(batch: &Batch, pins: &Pins) -> bool {
    let cells = |bytes: usize| bytes.next_multiple_of(CELL_BYTES) as u64;
    let taken: u64 = batch.writes.iter().map(|p| cells(p.data.len())).sum();
    let replaced = batch.writes.iter().map(|p| p.lpid).chain(batch.trims.iter().copied());
    let replaced: u64 = replaced
        .filter_map(|l| pins.get(&l.extent())?.map().load(l.page()))
        .map(|e| cells(e.len_bytes()))
        .sum();
    let released = batch.releases.iter().filter_map(|e| pins.get(e));
    let released: u64 = released.flat_map(|p| p.map().mapped()).map(|(_, e)| cells(e.len_bytes())).sum();
    replaced + released >= taken
}
