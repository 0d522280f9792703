//! Room: reserves space before anything is written, or reports that there is none.
//!
//! ```text
//!   free EBLOCKs:  │ batches ............ │ drive's own pages, log, recovery │ GC │
//!                  └─ none left: reclaim, GC, checkpoint, wait for reads ─► still none: OutOfSpace
//! ```
//!
//! Invariants: batches never take what the log, a checkpoint or GC needs to make room again, so that a full drive takes
//! trims, and goes on when something was trimmed. The log since the newest checkpoint stays within its bound, but for the
//! records of batches that are in flight at a time.

use lode_base::{ExtentId, OwnerId, VirtualTime};
use lode_command::{CommandError, Reply};

use crate::FirmwareError;
use crate::cleaner::Cleaner;
use crate::core::{Core, Sequencer};
use crate::gc::Urgency;
use crate::log::LogWriter;
use crate::own::TABLE_PIECE_ENTRIES;
use crate::space::{Budget, Item, Plan, Provision, Purpose, page_bytes_max};
use crate::stream::Stream;

/// Turns to let reads end, when EBLOCKs wait for them and the drive is full.
const TURNS_FOR_READS: u32 = 10_000;
/// How often what is not a batch waits for that.
const WAITS: u32 = 8;

/// Bytes that the record of an allocation takes in the log.
pub(crate) const ALLOCATED_BYTES: usize = 17;

/// Whether the tables have room for more extents.
enum TablesRoom {
    Fits,
    /// Once there are more free EBLOCKs: bytes that the tables grow by.
    Later(u64),
    /// Not beside what the drive holds.
    Never(u64),
}

impl Core {
    /// Provisions pages, once there is room; a batch's record takes about `record_bytes` in the log.
    pub(crate) fn provision(
        &self,
        stream: Stream,
        items: &[Item],
        purpose: Purpose,
        record_bytes: usize,
    ) -> Result<Provision, FirmwareError> {
        let of_batch = matches!(purpose, Purpose::Batch { .. });
        let mut tries = 0;
        loop {
            let mut w = self.seq.lock();
            let plan = Plan::new(&w.space, stream, items);
            let fits = self.budget(&w).fits(&plan, purpose);
            if fits && (!of_batch || self.log_fits(&w, record_bytes)) {
                let provisioned = plan.provision(&mut w.space, &self.medium, items);
                // EBLOCKs that could not be erased were retired.
                self.check_spares(&w);
                return provisioned.map_err(|e| self.no_eblock(e));
            }
            let full = self.budget(&w).out_of_space(plan.bytes);
            drop(w);
            tries += 1;
            if !of_batch {
                // Failed or finished actions may have left EBLOCKs empty, and reads under way may hold the only others.
                if tries <= WAITS && (self.reclaim()? || self.wait_for_reads(false)?) {
                    continue;
                }
                let what = match purpose {
                    Purpose::Gc => "GC",
                    Purpose::Inlined => "inlined pages",
                    _ => "the drive's own pages",
                };
                return Err(FirmwareError::Full { path: self.medium.path().into(), what });
            }
            if tries > 4 * self.geometry().eblock_count() + 16 || !self.make_room(record_bytes)? {
                return Err(FirmwareError::Refused(full));
            }
        }
    }

    /// Hands out extents, where the tables have room for them: their pieces, those of the homes of their mapping and index
    /// pages, the log that tells of them, and the reserve with all that.
    ///
    /// # Errors
    /// [`CommandError::OutOfSpace`] when there is none: then nothing changed.
    pub(crate) fn allocate(&self, owner: OwnerId, count: u32) -> Result<Reply, CommandError> {
        self.check_writable()?;
        if count == 0 || count > 1 << 20 || owner.raw() == u32::MAX {
            return Err(CommandError::Invalid(format!("{count} extents for {owner:?}")));
        }
        self.allocation_log_room(count)?;
        let mut tries = 0;
        loop {
            let w = self.seq.lock();
            // The newest commit is asked for first: what is released after that rests, whatever views open meanwhile.
            let newest = self.versions.newest().raw();
            let shown = self.versions.oldest().map_or(newest, |oldest| oldest.min(newest));
            let Some(chosen) = self.extents.write().choose(count, shown) else {
                return Err(CommandError::Invalid(format!("{count} extents beyond those that rest")));
            };
            let needed_bytes = match self.tables_room(&w, &chosen) {
                TablesRoom::Fits => {
                    self.extents.write().hand_out(owner, &chosen);
                    return Ok(Reply::Extents(chosen));
                }
                TablesRoom::Never(needed) => {
                    tries = u64::MAX;
                    needed
                }
                TablesRoom::Later(needed) => needed,
            };
            let free_bytes = self.budget(&w).free_bytes().min(needed_bytes.saturating_sub(1));
            drop(w);
            let full = CommandError::OutOfSpace { free_bytes, needed_bytes };
            if tries > 4 * u64::from(self.geometry().eblock_count()) + 16 || !self.make_room(0)? {
                return Err(full);
            }
            tries += 1;
        }
    }

    /// Whether the tables, and what is kept for them, have room for extents that have no owner yet.
    fn tables_room(&self, w: &Sequencer, chosen: &[ExtentId]) -> TablesRoom {
        let (owners_bytes, pieces) = self.extents.read().media_bytes_with(chosen);
        // A page in the last of them makes both tables of homes that long.
        let numbers = chosen.last().map_or(0, |e| e.raw() + 1);
        let entries = numbers.saturating_sub(self.map.table_entries())
            + numbers.saturating_sub(self.index.table_entries());
        let now = self.budget(w);
        let then = Budget { owners_bytes, homes_bytes: 2 * 8 * entries, ..now };
        let needed = then.own_bytes().saturating_sub(now.own_bytes()).max(1);
        // The root names every piece of every table.
        let root_bytes = 8 * (pieces + 2 * numbers.div_ceil(TABLE_PIECE_ENTRIES as u64));
        if root_bytes > page_bytes_max(self.geometry()) as u64 / 4 {
            return TablesRoom::Never(needed);
        }
        let (usable, reserve) = (then.usable_bytes(), then.reserve_eblocks());
        // A few more extents mostly take no EBLOCK more: a drive that is full has them, too.
        if usable == now.usable_bytes() && reserve == now.reserve_eblocks() {
            return TablesRoom::Fits;
        }
        if usable < now.held_bytes() || usable == 0 {
            return TablesRoom::Never(needed);
        }
        if reserve > w.space.free_eblocks() { TablesRoom::Later(needed) } else { TablesRoom::Fits }
    }

    /// Sees to it that the next group has room for as many allocations as wait for it.
    fn allocation_log_room(&self, count: u32) -> Result<(), CommandError> {
        let bytes = |count: usize| 256 + ALLOCATED_BYTES * count;
        let most = self.log_bytes_max() / 4;
        let group = |count| LogWriter::group_bytes(self.geometry(), self.options.log_copies, bytes(count));
        let mut waiting = self.extents.read().unlogged_count();
        if waiting > 0 && group(waiting + count as usize) > most {
            self.log_room(bytes(waiting))?;
            let w = self.seq.lock();
            self.check_writable()?;
            self.log_nothing(w)?;
            waiting = self.extents.read().unlogged_count();
        }
        let needed_bytes = group(waiting + count as usize);
        if needed_bytes > most {
            return Err(CommandError::OutOfSpace { free_bytes: most, needed_bytes });
        }
        // A few go with whatever comes next.
        if bytes(waiting + count as usize) <= self.geometry().wblock_bytes() as usize {
            return Ok(());
        }
        self.log_room(bytes(waiting + count as usize))
    }

    fn no_eblock(&self, e: FirmwareError) -> FirmwareError {
        if !e.is_no_space() {
            self.fatal(&e);
        }
        e
    }

    fn log_fits(&self, w: &Sequencer, record_bytes: usize) -> bool {
        let changes = w.space.changes_count() as u64 * 48;
        let bytes = record_bytes as u64 + w.staged_bytes + changes;
        let group = LogWriter::group_bytes(self.geometry(), self.options.log_copies, bytes as usize);
        w.log_bytes + group <= self.log_bytes_max()
    }

    /// Sees to it that a record has room in the log.
    pub(crate) fn log_room(&self, record_bytes: usize) -> Result<(), CommandError> {
        // What a checkpoint itself writes is log that only the next one lets go.
        let mut in_vain = 0;
        loop {
            let before = {
                let w = self.seq.lock();
                if self.log_fits(&w, record_bytes) {
                    return Ok(());
                }
                (w.commit, w.log_bytes)
            };
            // Without room for the checkpoint, GC makes some.
            while !self.checkpoint_fits()? && self.or_full(self.collect(Urgency::Full))? {}
            let w = self.seq.lock();
            // The log was cut short, or other batches had what room there was.
            let went_on = w.log_bytes < before.1 || w.commit > before.0;
            in_vain += u32::from(!went_on);
            if in_vain > 1 && !self.log_fits(&w, record_bytes) {
                let needed_bytes = record_bytes as u64;
                let left = self.log_bytes_max().saturating_sub(w.log_bytes);
                let free_bytes = left.min(needed_bytes.saturating_sub(1));
                return Err(CommandError::OutOfSpace { free_bytes, needed_bytes });
            }
        }
    }

    /// Makes room, a step: answers whether something was gained, by this batch or by others.
    fn make_room(&self, record_bytes: usize) -> Result<bool, FirmwareError> {
        let (log_fits, commit, free_eblocks) = {
            let w = self.seq.lock();
            (self.log_fits(&w, record_bytes), w.commit, w.space.free_eblocks())
        };
        if !log_fits {
            return self.or_full(self.log_room(record_bytes).map(|()| true).map_err(FirmwareError::Refused));
        }
        if self.reclaim()? || self.wait_for_reads(false)? {
            return Ok(true);
        }
        if self.or_full(self.collect(Urgency::Full))? {
            return Ok(true);
        }
        self.checkpoint_fits()?;
        self.reclaim()?;
        self.wait_for_reads(true)?;
        let w = self.seq.lock();
        Ok(w.space.free_eblocks() > free_eblocks || w.commit > commit)
    }

    /// Where EBLOCKs wait for it: writes a group that says of the one before that it was durable.
    fn prove(&self) -> Result<(), FirmwareError> {
        let waits = |w: &Sequencer| !w.recovering && w.space.waits_for_proof(w.proven_lsn);
        if !waits(&self.seq.lock()) {
            return Ok(());
        }
        self.flush_log()?;
        {
            let w = self.seq.lock();
            if waits(&w) {
                self.log_nothing(w)?;
            }
        }
        self.reclaim().map(drop)
    }

    /// The same for the newest group of a drive at rest; answers whether there was one.
    fn prove_newest(&self) -> Result<bool, FirmwareError> {
        let is_newest = |w: &Sequencer| w.installed_lsn > w.proven_lsn.max(w.empty_lsn);
        if !is_newest(&self.seq.lock()) {
            return Ok(false);
        }
        self.flush_log()?;
        let w = self.seq.lock();
        let newest = is_newest(&w);
        if newest {
            self.log_nothing(w)?;
        }
        Ok(newest)
    }

    /// Waits, a while, until reads of EBLOCKs that nobody needs have ended, or of `all` of them: whether one is free now
    /// that was not.
    fn wait_for_reads(&self, all: bool) -> Result<bool, FirmwareError> {
        let free = |w: &Sequencer| w.space.free_eblocks();
        let before = free(&self.seq.lock());
        self.prove()?;
        for _ in 0..TURNS_FOR_READS {
            {
                let w = self.seq.lock();
                if w.space.released() == 0 || (!all && free(&w) > before) {
                    break;
                }
            }
            std::thread::yield_now();
            self.reclaim()?;
        }
        Ok(free(&self.seq.lock()) > before)
    }

    /// Writes a checkpoint, if there is room for it.
    fn checkpoint_fits(&self) -> Result<bool, FirmwareError> {
        self.or_full(self.checkpoint(false).map(|()| true))
    }

    /// No EBLOCK is left even for this: nothing was gained.
    fn or_full(&self, r: Result<bool, FirmwareError>) -> Result<bool, FirmwareError> {
        match r {
            Err(FirmwareError::Full { .. } | FirmwareError::Refused(CommandError::OutOfSpace { .. })) => {
                Ok(false)
            }
            r => r,
        }
    }

    /// What is due after a batch of so many bytes: pages that take too much memory are written, and GC goes on where space
    /// is short.
    /// The batch is durable whatever becomes of this: what fails now is tried again.
    pub(crate) fn maintain(&self, bytes: u64) {
        let write_back = self.map.wants_writing() || self.index.wants_writing();
        // What batches left empty is used again before its space goes back, or GC looks for more.
        let (empty, due) = {
            let w = self.seq.lock();
            let empty = w.space.may_reclaim();
            (empty, !empty && self.gc_due(&w))
        };
        if empty && let Err(e) = self.reclaim() {
            return self.note(&e);
        }
        let collect = if empty { self.gc_due(&self.seq.lock()) } else { due };
        let inlined = self.inlined.wants_moving();
        if self.check_writable().is_err() || !(write_back || collect || inlined) {
            return;
        }
        // Whoever has the background already does it.
        let Some(mut cleaner) = self.background.try_lock() else { return };
        cleaner.earn(bytes);
        let moved = if inlined { self.or_full(self.move_inlined().map(|()| true)).map(drop) } else { Ok(()) };
        let done = moved.and_then(|()| self.write_back()).and_then(|()| self.collect_earned(&mut cleaner));
        if let Err(e) = done {
            self.note(&e);
        }
    }

    /// Moves what batches have earned, while it is due.
    fn collect_earned(&self, cleaner: &mut Cleaner) -> Result<(), FirmwareError> {
        while self.gc_due(&self.seq.lock()) && cleaner.begin_step() {
            if !self.collect_step(cleaner, Urgency::Paid)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes note of a background step that failed: for want of space it is tried again, and what is damaged is told to
    /// whoever asks for it.
    pub(crate) fn note(&self, e: &FirmwareError) {
        if !e.is_no_space() && !e.is_damage() && !matches!(e, FirmwareError::ReadOnly(_)) {
            self.fatal(e);
        }
    }

    /// Frees EBLOCKs that nobody needs and nobody reads. Answers whether any is free, or waits, that was not before.
    pub(crate) fn reclaim(&self) -> Result<bool, FirmwareError> {
        let mut w = self.seq.lock();
        for e in self.versions.take_freed() {
            w.space.unpin(e);
            self.forget_inlined(std::iter::once(e));
        }
        let before = w.space.free_eblocks();
        // A recovery that is cut begins again with the same log.
        let lsn = if w.recovering { 0 } else { w.installed_lsn };
        let released = w.space.release_empty(&self.epochs, lsn);
        let proven = w.proven_lsn;
        w.space.free_released(&self.medium, &self.epochs, proven, self.options.erased_kept)?;
        Ok(released || w.space.free_eblocks() > before)
    }

    /// Gives the space of what holds nothing back to the file system, once nothing more will be written.
    pub(crate) fn give_back(&self) -> Result<(), FirmwareError> {
        let log = self.log.lock();
        self.seq.lock().space.discard_all(&self.medium)?;
        // One in which a program failed has ended.
        let candidates = log.position().candidates;
        let mut ahead = candidates.iter().filter(|s| self.medium.next_wblock(s.eblock) <= s.wblock);
        ahead.try_for_each(|s| Ok(self.medium.discard_behind(s.eblock, s.wblock)?))
    }

    /// A bounded step in the background.
    pub(crate) fn work(&self, _: VirtualTime) -> Result<lode_command::Progress, FirmwareError> {
        use lode_command::Progress;
        self.check_writable()?;
        let reclaimed = self.reclaim()?;
        let due = self.seq.lock().log_bytes > self.log_bytes_max() / 2;
        if due && self.checkpoint_fits()? {
            return Ok(Progress::More);
        }
        if self.collect(Urgency::Background)? {
            return Ok(Progress::More);
        }
        // While batches come, what is garbage grows by itself.
        if !self.is_idle() {
            return Ok(Progress::Done);
        }
        if self.or_full(self.tidy())? {
            return Ok(Progress::More);
        }
        let proved = self.prove_newest()?;
        let gives_back = self.seq.lock().space.keeps_too_much(self.options.erased_kept);
        Ok(if reclaimed || proved || gives_back { Progress::Done } else { Progress::Idle })
    }
}

#[cfg(test)]
mod tests {
    use lode_base::Geometry;
    use lode_command::Align;
    use lode_flash::Medium;

    use super::*;
    use crate::DriveOptions;
    use crate::own::OwnKind;
    use crate::space::PageName;

    /// A drive that holds nothing yet.
    fn core() -> Core {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 40).unwrap();
        crate::recovery::format(Medium::memory(g), DriveOptions::default()).unwrap()
    }

    /// Checkpoints and GC failed where EBLOCKs were about to be free, because a reader had not had its turn.
    #[test]
    fn pages_of_the_drive_wait_for_reads_under_way() {
        let core = core();
        let word = PageName::Own(OwnKind::Map, 0).word();
        let item = || Item { len: 700_000, align: Align::Cell, word };
        let own = || core.provision(Stream::Drive, &[item(), item()], Purpose::Own, 0);
        let mut reading = Some(core.epochs.enter());
        let released = {
            let w = &mut *core.seq.lock();
            let mut taken = Vec::new();
            while u64::from(w.space.free_eblocks()) > core.budget(w).log_eblocks() {
                taken.extend(w.space.take_for_log(&core.medium).unwrap());
            }
            taken.truncate(4);
            taken.iter().for_each(|&(e, _)| w.space.release(&core.epochs, e, 0));
            taken.len() as u32
        };
        assert!(released == 4 && matches!(own(), Err(FirmwareError::Full { .. })));
        std::thread::scope(|s| {
            let reading = reading.take();
            s.spawn(move || {
                (0..100).for_each(|_| std::thread::yield_now());
                drop(reading);
            });
            let p = own().unwrap();
            assert!(!p.jobs.is_empty());
        });
    }

    #[test]
    fn what_reads_still_hold_is_room_to_gc() {
        let core = core();
        let _reading = core.epochs.enter();
        let w = &mut *core.seq.lock();
        let mut taken = Vec::new();
        while !core.gc_due(w) {
            taken.extend(w.space.take_for_log(&core.medium).unwrap());
        }
        let (e, _) = taken.pop().unwrap();
        w.space.release(&core.epochs, e, 0);
        assert!(w.space.released() == 1 && !core.gc_due(w));
    }
}
