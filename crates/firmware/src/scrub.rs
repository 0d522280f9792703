//! Scrubbing: reads all that counts, mends what has a second copy, and moves what is hard to read while it can be read.
//!
//! ```text
//!   checkpoint slots, log ── one copy is damaged ─► a checkpoint: both are written anew, and the log begins after it
//!   own pages ── damaged, but in memory ─► written anew          pages ── hard to read ─► their EBLOCK is emptied
//!   pages that can not be read: told, each by its name; nothing else suffers
//! ```
//!
//! Batches and reads go on meanwhile. Source: the design ("redundancy where it is cheap").

use lode_base::ExtentId;
use lode_command::CommandError;

use crate::cleaner::Need;
use crate::core::Core;
use crate::entry::Entry;
use crate::own::{OwnKind, PageCache, Resident, TABLES, read_page};
use crate::planted::{self, Planted};
use crate::{FirmwareError, ScrubReport};

impl Core {
    /// Reads all that counts, and mends what can be mended.
    pub(crate) fn scrub(&self) -> Result<ScrubReport, FirmwareError> {
        self.check_writable()?;
        let mut report = ScrubReport::default();
        self.scrub_records(&mut report)?;
        self.scrub_cache(&self.map, &mut report)?;
        self.scrub_cache(&self.index, &mut report)?;
        self.scrub_tables(&mut report);
        for n in 0..self.map.numbers() {
            if let Some(extent) = ExtentId::new(n) {
                self.scrub_extent(extent, &mut report);
            }
        }
        if report.mended > 0 {
            self.checkpoint(false)?;
        }
        while self.refresh()? {
            report.refreshed += 1;
        }
        report.mended += self.medium.repairs();
        Ok(report)
    }

    /// The checkpoint slots and the log: what is damaged in one copy is written anew by a checkpoint.
    fn scrub_records(&self, report: &mut ScrubReport) -> Result<(), FirmwareError> {
        let _background = self.background.lock();
        let slots = self.medium.read_checkpoint_records()?;
        let torn = slots.iter().filter(|s| s.is_none()).count() as u64;
        let log = self.log_health();
        let (repaired, broken) = match &log {
            Ok(repaired) => (*repaired, false),
            Err(_) => (0, true),
        };
        if let Err(e) = log {
            report.lost.push(format!("{e}; what it says is still in memory, and is written anew"));
        }
        if torn + repaired > 0 || broken {
            report.mended += torn + repaired;
            self.seq.lock().last_checkpoint = None;
            self.checkpoint_now(false)?;
        }
        Ok(())
    }

    /// Pages of the log that are whole in their second copy only.
    fn log_health(&self) -> Result<u64, FirmwareError> {
        let Some(last) = self.seq.lock().last_checkpoint else { return Ok(0) };
        let written = self.seq.lock().log_position.lsn - 1;
        let end = crate::log::check_log(&self.medium, &last.0, written)?;
        if end.lsn < written {
            let what = format!("page {} of the log cannot be read, but it was durable", end.lsn + 1);
            return Err(FirmwareError::damaged(self.medium.path(), what));
        }
        Ok(end.repaired)
    }

    /// The written pages of a cache: one that can not be read is written anew where memory has it.
    fn scrub_cache<T: Resident>(
        &self,
        cache: &PageCache<T>,
        report: &mut ScrubReport,
    ) -> Result<(), FirmwareError> {
        for n in cache.at_home_in(|_| true) {
            let _epoch = self.epochs.enter();
            let Some(home) = cache.home(n) else { continue };
            if self.scrub_own(T::KIND, n, home, report) || cache.home(n) != Some(home) {
                continue;
            }
            if cache.is_resident(n) {
                cache.rewrite(&self.medium, &self.epochs, n)?;
                report.mended += 1;
            } else {
                report.lost.push(format!("{} {n}: none of the pages that it names can be found", T::KIND));
            }
        }
        Ok(())
    }

    /// The tables are in memory whole: a piece that can not be read is written anew.
    fn scrub_tables(&self, report: &mut ScrubReport) {
        let pieces: Vec<(OwnKind, usize, Entry)> = {
            let w = self.seq.lock();
            TABLES.iter().flat_map(|&k| w.tables.pieces(k).map(move |(p, home)| (k, p, home))).collect()
        };
        for (kind, piece, home) in pieces {
            let _epoch = self.epochs.enter();
            if !self.scrub_own(kind, piece as u64, home, report) {
                let mut w = self.seq.lock();
                if w.tables.home(kind, piece) == Some(home) {
                    self.mark_pieces(&mut w, &[(kind, piece)]);
                    w.last_checkpoint = None;
                    report.mended += 1;
                }
            }
        }
    }

    fn scrub_own(&self, kind: OwnKind, number: u64, home: Entry, report: &mut ScrubReport) -> bool {
        report.pages += 1;
        report.bytes += home.len_bytes() as u64;
        read_page(&self.medium, kind, number, home).is_ok()
    }

    fn scrub_extent(&self, extent: ExtentId, report: &mut ScrubReport) {
        let map = || self.map.get(&self.medium, &self.epochs, extent.raw()).ok().flatten();
        // One that can not be read was told already.
        let mapped: Vec<u16> = map().map_or_else(Vec::new, |m| m.mapped().map(|(page, _)| page).collect());
        for page in mapped {
            let _epoch = self.epochs.enter();
            // The mapping page may have left memory since, and what was loaded anew changed.
            let Some(entry) = map().and_then(|m| m.load(page)) else { continue };
            let lpid = extent.page(page);
            report.pages += 1;
            report.bytes += entry.len_bytes() as u64;
            match self.read_range(lpid, entry, 0..entry.len_bytes() as u32) {
                Ok(_) => {}
                Err(e @ CommandError::Uncorrectable { .. }) => {
                    planted::unless(Planted::ScrubSilent, || report.lost.push(e.to_string()));
                }
                Err(e) => report.lost.push(format!("page {lpid}: {e}")),
            }
        }
    }

    /// Empties one EBLOCK that failed or is hard to read; false when there is none.
    fn refresh(&self) -> Result<bool, FirmwareError> {
        let mut cleaner = self.background.lock();
        self.empty_step(&mut cleaner, Need::Refresh)
    }
}
