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

use lode_base::{CELL_BYTES, EblockId, Lpid, PageBuf, Ppa};
use lode_command::{Align, CommandError};

use crate::FirmwareError;
use crate::action::{Action, Freed};
use crate::append::Item;
use crate::core::{Core, Counts, EBLOCKS_FEW, Sequencer};
use crate::gc::Cleaner;
use crate::gc::cleaner::{Emptied, MOVE_BYTES};
use crate::log::Record;
use crate::map::Entry;
use crate::metadata::{self, PageName};
use crate::planted::{self, Planted};
use crate::room::Room;
use crate::summary::{State, Stream};

/// Bytes that are read at a time, about; and bytes between two pages that are rather read than passed over.
const READ_BYTES: usize = 256 << 10;
const READ_GAP_BYTES: usize = 8 << 10;

/// A page that lies in the victim.
#[derive(Clone, Copy)]
pub(crate) struct Valid {
    pub(crate) lpid: Lpid,
    pub(crate) entry: Entry,
}

impl Core {
    /// Empties an EBLOCK, `whole` or one step of it, which stays until that is over.
    pub(super) fn empty(
        &self,
        cleaner: &mut Cleaner,
        victim: EblockId,
        whole: bool,
    ) -> Result<Emptied, FirmwareError> {
        self.seq.lock().space.summary.enter(victim);
        let emptied = self.empty_held(cleaner, victim, whole);
        self.seq.lock().space.summary.leave(victim);
        emptied
    }

    fn empty_held(
        &self,
        cleaner: &mut Cleaner,
        victim: EblockId,
        whole: bool,
    ) -> Result<Emptied, FirmwareError> {
        let (d, names) = {
            let w = self.seq.lock();
            let names = w
                .space
                .metadata_of(victim)
                .map(|words| words.iter().filter_map(|&w| PageName::from_word(w)).collect());
            (w.space.summary.get(victim), names)
        };
        // One that is only to make room makes none when something stays.
        let rest_moves = matches!(d.state, State::Failed { .. }) || cleaner.weak.contains(&victim);
        let names: Vec<PageName> = match names {
            Some(names) => names,
            None => match metadata::read(&self.medium, victim, d.data_end, d.metadata) {
                Ok(names) => names,
                // Without it, the mapping says what lies here.
                Err(_) => self.names_in(victim)?,
            },
        };
        let (mut users, mut own) = (BTreeSet::new(), BTreeSet::new());
        for name in names {
            match name {
                PageName::User(lpid) => drop(users.insert(lpid)),
                PageName::Own(kind, number) => drop(own.insert((kind, number))),
            }
        }
        if !own.is_empty() {
            match self.rewrite_own(victim, own) {
                Err(e) if e.is_damage() => cleaner.is_stuck = true,
                rewritten => rewritten?,
            }
        }
        let mut valid: Vec<Valid> = Vec::new();
        for lpid in users {
            match self.entries_in(victim, lpid) {
                Err(e) if e.is_damage() => cleaner.is_stuck = true,
                entries => valid.extend(entries?.into_iter().map(|entry| Valid { lpid, entry })),
            }
        }
        if cleaner.is_stuck && !rest_moves {
            return Ok(Emptied::Never);
        }
        // As they lie, so that neighbours are read together.
        valid.sort_unstable_by_key(|v| v.entry.ppa(self.geometry()));
        let most = if whole { MOVE_BYTES } else { cleaner.step_bytes as usize };
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
                self.move_pages(d.age, pages)?;
            }
            if !whole && bytes >= most {
                return Ok(Emptied::InPart);
            }
        }
        let left = self.seq.lock().space.summary.get(victim).live;
        if left > 0 {
            return Ok(Emptied::Never);
        }
        Counts::add(&self.counts.victims, 1);
        Ok(Emptied::Whole)
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
    fn entries_in(&self, victim: EblockId, lpid: Lpid) -> Result<Vec<Entry>, FirmwareError> {
        let here = |e: &Entry| e.eblock(self.geometry()) == Some(victim);
        let map = self.map.get(&self.medium, &self.epochs, lpid.extent().raw())?;
        let newest = map.and_then(|m| m.load(lpid.page()));
        let mut found: Vec<Entry> = newest.into_iter().filter(here).collect();
        for old in self.versions.entries_of(lpid).into_iter().filter(here) {
            if found.iter().all(|f| !f.same_place(old)) {
                found.push(old);
            }
        }
        Ok(found)
    }

    /// Names of the pages that lie in an EBLOCK, found through the whole mapping.
    fn names_in(&self, victim: EblockId) -> Result<Vec<PageName>, FirmwareError> {
        let here = |e: Entry| e.eblock(self.geometry()) == Some(victim);
        let mut names = self.own_names_in(victim);
        for n in 0..self.map.numbers() {
            let (Some(map), Some(extent)) =
                (self.map.get(&self.medium, &self.epochs, n)?, lode_base::ExtentId::new(n))
            else {
                continue;
            };
            names.extend(map.mapped().filter(|(_, e)| here(*e)).map(|(p, _)| PageName::User(extent.page(p))));
        }
        names.extend(
            self.versions
                .all_old()
                .into_iter()
                .filter(|(_, e)| here(*e))
                .map(|(lpid, _)| PageName::User(lpid)),
        );
        Ok(names)
    }

    /// Moves pages of an EBLOCK that was written to at about `age`.
    fn move_pages(&self, age: u64, pages: Vec<(Valid, PageBuf)>) -> Result<(), FirmwareError> {
        let bytes = pages.iter().map(|(_, d)| d.len() as u64).sum::<u64>();
        let stream = {
            let w = self.seq.lock();
            let room =
                w.space.free_eblocks() > self.gc_reserve_eblocks() + u32::from(crate::summary::GC_CLASSES);
            w.space.gc_stream(age, room && self.geometry().eblock_count() >= EBLOCKS_FEW)
        };
        self.relocate(stream, Room::Gc, &pages, |w| w.space.mix_age(stream, age, bytes))?;
        Counts::add(&self.counts.moved_bytes, bytes);
        Ok(())
    }

    /// Copies pages, and changes their entries where they are still the same. When they are copied, `copied` is told.
    pub(crate) fn relocate(
        &self,
        stream: Stream,
        room: Room,
        pages: &[(Valid, PageBuf)],
        copied: impl FnOnce(&mut Sequencer),
    ) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        let pins = self.pin_maps(pages.iter().map(|(v, _)| v.lpid.extent()))?;
        let aligned = |ppa: Ppa| (ppa.cell() * CELL_BYTES as u64).is_multiple_of(g.rblock_bytes().into());
        let align = |e: Entry| match e.place(&g).is_some_and(aligned) {
            true if planted::is(Planted::MoveUnaligned) => Align::Cell,
            true => Align::ReadUnit,
            false => Align::Cell,
        };
        let item = |(v, data): &(Valid, PageBuf)| Item {
            len: data.len(),
            align: align(v.entry),
            word: PageName::User(v.lpid).word(),
        };
        let items: Vec<Item> = pages.iter().map(item).collect();
        let data: Vec<&[u8]> = pages.iter().map(|(_, d)| &d[..]).collect();
        self.seq.lock().under_way += 1;
        let placed = self.append(stream, &items, &data, room);
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
            let newer = planted::is(Planted::MoveOverNewer);
            match now.filter(|now| now.same_place(v.entry) || newer) {
                Some(now) => {
                    let redo = now.redo() || planted::is(Planted::MoveMarksRedo);
                    let entry = Entry::new(*ppa, v.entry.len_bytes(), redo);
                    freed.add(&g, now);
                    if planted::is(Planted::MoveForgets) && !moved.is_empty() {
                        continue;
                    }
                    w.overlay.set(v.lpid, Some(entry));
                    moved.push((v.lpid, entry));
                }
                None => copies.push((v.lpid, v.entry, Entry::new(*ppa, v.entry.len_bytes(), v.entry.redo()))),
            }
        }
        let record = Record::Moved { pages: moved, freed: freed.into_vec() };
        let action = Action { record, pins, eblocks: placed.eblocks, copies, ..Action::default() };
        self.carry_out(w, action).map(drop).map_err(FirmwareError::Refused)
    }
}
