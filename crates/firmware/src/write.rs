//! The write path: a batch is one system action.
//!
//! ```text
//!   check ─► index entries ─► [lock] ─► touch pages ─► room? ─► program data ─► append record ─► ONE sync ─► install
//! ```
//!
//! Invariants: nothing of a batch shows, or counts, before its record is durable; what was programmed for a
//! batch that failed is needed by nobody. No lock is held while index entries are made. Trims go on when the
//! drive is full.
//!
//! Source: ELEOS §IV. System actions are forced one at a time here.

use std::collections::HashSet;
use std::sync::Arc;

use lode_base::{ExtentId, Lpid, OwnerId, PAGE_BYTES_MIN, ViewId};
use lode_command::{Align, Batch, CommandError, Reply};

use crate::FirmwareError;
use crate::append::Layout;
use crate::compute::entry_of;
use crate::core::{Core, Writer};
use crate::index::Rules;
use crate::log::{Commit, LogWriter, LoggedWrite, Record};
use crate::map::Entry;
use crate::summary::{State, Stream};

/// Turns to let reads end, when EBLOCKs wait for them and the drive is full.
const TURNS_FOR_READS: u32 = 10_000;

/// The index entries of a batch, and what they were made from.
struct Prepared {
    rules: Arc<Rules>,
    owners: Vec<Option<OwnerId>>,
    entries: Vec<Option<Box<[u8]>>>,
}

fn invalid(what: impl Into<String>) -> CommandError {
    CommandError::Invalid(what.into())
}

impl Core {
    /// Carries out a batch.
    pub(crate) fn write(&self, mut batch: Batch) -> Result<Reply, CommandError> {
        self.check_writable()?;
        self.check_batch(&batch)?;
        if batch.is_empty() {
            let (view, commit) = match batch.pin.then(|| self.versions.open()) {
                Some((view, commit)) => (Some(view), commit),
                None => (None, self.versions.newest()),
            };
            return Ok(Reply::Committed { commit, view });
        }
        // Rules and owners may change while entries are made, which takes no lock: then they are made again.
        let (mut w, prepared) = loop {
            let prepared = self.prepare(&batch)?;
            let w = self.writer.lock();
            if self.is_current(&batch, &prepared) {
                break (w, prepared);
            }
        };
        self.check_writable()?;
        self.check_extents(&batch)?;
        batch.trims.retain(|l| !batch.releases.contains(&l.extent()));
        let (commit, view) = self.write_locked(&mut w, &batch, prepared.entries)?;
        Ok(Reply::Committed { commit: lode_base::CommitNo::new(commit), view })
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
        let releases: HashSet<ExtentId> = batch.releases.iter().copied().collect();
        if releases.len() < batch.releases.len() {
            return Err(invalid("an extent is released twice in one batch"));
        }
        let mut seen: HashSet<Lpid> = HashSet::with_capacity(pages);
        for p in &batch.writes {
            let (lpid, len) = (p.lpid, p.data.len());
            if !(PAGE_BYTES_MIN..=id.page_bytes_max as usize).contains(&len) {
                let max = id.page_bytes_max;
                return Err(invalid(format!(
                    "page {lpid} has {len} bytes; {PAGE_BYTES_MIN} to {max} are taken"
                )));
            }
            if releases.contains(&lpid.extent()) {
                return Err(invalid(format!("page {lpid} is written in an extent that is released")));
            }
        }
        for lpid in batch.writes.iter().map(|p| p.lpid).chain(batch.trims.iter().copied()) {
            if !seen.insert(lpid) {
                return Err(invalid(format!("page {lpid} comes twice in one batch")));
            }
        }
        let mut owners = HashSet::new();
        match batch.index_rules.iter().find(|(owner, _)| !owners.insert(*owner)) {
            Some((owner, _)) => Err(invalid(format!("{owner:?} gets two index rules in one batch"))),
            None => Ok(()),
        }
    }

    fn prepare(&self, batch: &Batch) -> Result<Prepared, CommandError> {
        let rules = self.rules.read().clone();
        // The number of a rule does not matter here: the entry is set under the number that it is installed
        // with.
        let with = match batch.index_rules.is_empty() {
            true => rules.clone(),
            false => Arc::new(rules.with(&batch.index_rules, 0)),
        };
        let owners = self.owners(batch);
        let entry = |(p, owner): (&lode_command::PageWrite, &Option<OwnerId>)| {
            let Some(r) = owner.and_then(|o| with.get(o)) else { return Ok(None) };
            Ok(Some(entry_of(&r.rule, p.lpid, &p.data)?.encode().into()))
        };
        let entries = batch.writes.iter().zip(&owners).map(entry).collect::<Result<_, CommandError>>()?;
        Ok(Prepared { rules, owners, entries })
    }

    fn owners(&self, batch: &Batch) -> Vec<Option<OwnerId>> {
        let extents = self.extents.read();
        batch.writes.iter().map(|p| extents.owner(p.lpid.extent())).collect()
    }

    fn is_current(&self, batch: &Batch, p: &Prepared) -> bool {
        Arc::ptr_eq(&p.rules, &self.rules.read()) && p.owners == self.owners(batch)
    }

    fn check_extents(&self, batch: &Batch) -> Result<(), CommandError> {
        let extents = self.extents.read();
        let written = batch.writes.iter().map(|p| p.lpid.extent());
        match written.chain(batch.releases.iter().copied()).find(|&e| extents.owner(e).is_none()) {
            Some(e) => Err(CommandError::NoSuchExtent(e)),
            None => Ok(()),
        }
    }

    fn write_locked(
        &self,
        w: &mut Writer,
        batch: &Batch,
        entries: Vec<Option<Box<[u8]>>>,
    ) -> Result<(u64, Option<ViewId>), CommandError> {
        let indexed = || batch.writes.iter().zip(&entries).map(|(p, e)| (p.lpid, e.is_some()));
        let touch = || self.touch(indexed(), &batch.trims, &batch.releases);
        // Once, so that room is made for what becomes dirty, and again, since a checkpoint may have made it
        // clean.
        touch()?;
        let allocated = self.extents.read().unlogged().len();

        let index_bytes: usize = entries.iter().flatten().map(|e| e.len()).sum();
        let rule_bytes =
            |r: &Option<lode_program::IndexRule>| r.as_ref().map_or(0, |r| r.to_bytes().len()) + 8;
        let record_bytes = 64
            + 18 * batch.writes.len()
            + index_bytes
            + 8 * (batch.trims.len() + batch.releases.len())
            + batch.index_rules.iter().map(|(_, r)| rule_bytes(r)).sum::<usize>()
            + 17 * allocated;
        let pages: Vec<_> = batch.writes.iter().map(|p| (p.data.len(), p.align)).collect();
        let items: Vec<&[u8]> = batch.writes.iter().map(|p| &p.data[..]).collect();
        let commit = w.commit;
        let mut gave_up = false;
        let (places, touched) = loop {
            let layout = self.make_room(w, &pages, record_bytes)?;
            let touched = touch()?;
            match w.space.write(&self.medium, Stream::User, &items, &layout, commit) {
                Ok(places) => break (places, touched),
                Err(e) if e.is_no_space() && !gave_up && w.space.give_up_open(Stream::User, commit) => {
                    gave_up = true;
                }
                Err(e) => return Err(self.failed(e).into()),
            }
        };

        let place = |((p, ppa), index): ((&lode_command::PageWrite, _), Option<Box<[u8]>>)| LoggedWrite {
            lpid: p.lpid,
            entry: Entry::new(ppa, p.data.len(), index.is_none()),
            index,
        };
        let record = Record::Commit(Commit {
            number: w.commit + 1,
            writes: batch.writes.iter().zip(places).zip(entries).map(place).collect(),
            trims: batch.trims.clone(),
            releases: batch.releases.clone(),
            rules: batch.index_rules.clone(),
        });
        self.force(w, &record)?;

        let Record::Commit(c) = &record else { unreachable!("it was just made") };
        let view = self.install(w, c, &touched, batch.pin);
        // The batch is durable whatever becomes of this: without space, pages stay dirty and are written
        // later.
        if let Err(e) = self.write_back(w) {
            self.failed(e);
        }
        Ok((c.number, view))
    }

    /// Sees to it that pages of these lengths, and a record of about `record_bytes`, have room; answers where
    /// they go.
    pub(crate) fn make_room(
        &self,
        w: &mut Writer,
        pages: &[(usize, Align)],
        record_bytes: usize,
    ) -> Result<Layout, CommandError> {
        self.reclaim(w).map_err(|e| self.failed(e))?;
        let mut checkpointed = false;
        loop {
            let layout = w.space.layout(&self.medium, Stream::User, pages);
            let opened = layout.new_eblocks as usize + w.space.opened.len();
            let group_bytes = LogWriter::group_bytes(self.geometry(), record_bytes + 20 * opened);
            let log_fits = w.log.bytes + group_bytes <= self.log_bytes_max();
            // A batch that only takes things away may use the reserve.
            let reserve = if pages.is_empty() { 0 } else { self.reserve_eblocks(w) };
            let fits = layout.new_eblocks == 0 || layout.new_eblocks + reserve <= w.space.free_eblocks();
            if log_fits && fits {
                return Ok(layout);
            }
            if checkpointed {
                let free_bytes = self.free_bytes(w);
                return Err(CommandError::OutOfSpace {
                    free_bytes,
                    needed_bytes: layout.bytes + group_bytes,
                });
            }
            self.checkpoint(w, false).map_err(|e| self.failed(e))?;
            self.reclaim(w).map_err(|e| self.failed(e))?;
            for _ in 0..TURNS_FOR_READS {
                if !w.space.has_retired() {
                    break;
                }
                std::thread::yield_now();
                self.reclaim(w).map_err(|e| self.failed(e))?;
            }
            checkpointed = true;
        }
    }

    /// Writes a record to the log, after those of EBLOCKs that were opened and extents that were handed out,
    /// and makes all of it durable.
    pub(crate) fn force(&self, w: &mut Writer, record: &Record) -> Result<(), CommandError> {
        let allocated = self.extents.read().unlogged();
        let mut group = Vec::new();
        w.space.opened.iter().for_each(|o| Record::Opened(*o).encode(&mut group));
        allocated.iter().for_each(|&(owner, extent)| Record::Allocated { owner, extent }.encode(&mut group));
        record.encode(&mut group);
        let before = w.log.place();
        let Writer { space, log, .. } = w;
        let appended = log.append(&self.medium, &group, || space.take(&self.medium, State::Log, 0));
        if let Err(e) = appended {
            // Where nothing of the group was programmed, the log goes on as before.
            let untouched = log.place().lsn == before.lsn
                && self.medium.next_wblock(log.place().eblock) == log.place().wblock;
            if !(e.is_no_space() && untouched) {
                self.fatal(&e);
            }
            return Err(e.into());
        }
        if let Err(e) = self.medium.sync() {
            let e = FirmwareError::Flash(e);
            self.fatal(&e);
            return Err(CommandError::ReadOnly(e.to_string()));
        }
        w.log.synced();
        w.space.opened.clear();
        self.extents.write().logged(allocated.len());
        Ok(())
    }
}
