//! Scrub: reads all that counts, repairs what has a second copy, and moves what is hard to read while it can be read.
//!
//! ```text
//!   checkpoint slots, log ── one copy is damaged ─► a checkpoint: both are written anew, and the log begins after it
//!   own pages ── damaged, but in memory ─► written anew          pages ── hard to read ─► their EBLOCK is emptied
//!   pages that cannot be read: reported, each by its name; no other page suffers
//! ```
//!
//! Batches and reads go on meanwhile. Source: the design ("redundancy where it is cheap").

use lode_base::ExtentId;
use lode_command::CommandError;
use lode_flash::Medium;

use crate::core::Core;
use crate::entry::Entry;
use crate::env::Env;
use crate::log::check_log;
use crate::own::{OwnKind, PageCache, Resident, TABLES, read_page};
use crate::pages::Pages;
use crate::planted::{self, Planted};
use crate::{FirmwareError, ScrubReport};

/// Scrubs the drive.
pub(crate) fn scrub(core: &Core) -> Result<ScrubReport, FirmwareError> {
    Scrub { core }.run()
}

/// A scrub under way.
#[derive(Clone, Copy)]
struct Scrub<'a> {
    core: &'a Core,
}

impl<'a> Scrub<'a> {
    fn env(self) -> &'a Env {
        self.core.env()
    }

    fn pages(self) -> &'a Pages {
        self.core.pages()
    }

    fn medium(self) -> &'a Medium {
        self.core.env().medium()
    }

    fn run(self) -> Result<ScrubReport, FirmwareError> {
        self.env().check_writable()?;
        let mut report = ScrubReport::default();
        self.records(&mut report)?;
        self.cache(self.pages().map(), &mut report)?;
        self.cache(self.pages().index(), &mut report)?;
        self.tables(&mut report);
        for extent in (0..self.pages().extents_end()).map_while(ExtentId::new) {
            self.extent(extent, &mut report);
        }
        if report.mended > 0 {
            self.core.upkeep().checkpoint(false)?;
        }
        while self.core.upkeep().refresh()? {
            report.refreshed += 1;
        }
        report.mended += self.medium().repairs();
        Ok(report)
    }

    /// The checkpoint slots and the log: if a copy is damaged, a checkpoint writes both again.
    fn records(self, report: &mut ScrubReport) -> Result<(), FirmwareError> {
        let _background = self.core.upkeep().lock();
        let slots = self.medium().read_checkpoint_records()?;
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
            let checkpointer = self.core.checkpointer();
            checkpointer.checkpoints().forget_last();
            checkpointer.checkpoint(false)?;
        }
        Ok(())
    }

    /// How many log pages are whole in their second copy only.
    fn log_health(self) -> Result<u64, FirmwareError> {
        let Some(last) = self.core.checkpointer().checkpoints().last() else { return Ok(0) };
        let written = self.core.state().log_position().lsn - 1;
        let end = check_log(self.medium(), &last.log, written)?;
        if end.lsn < written {
            let what = format!("page {} of the log cannot be read, but it was durable", end.lsn + 1);
            return Err(FirmwareError::damaged(self.medium().path(), what));
        }
        Ok(end.repaired)
    }

    /// The written pages of a cache: one that cannot be read is written again if it is in memory.
    fn cache<T: Resident>(self, cache: &PageCache<T>, report: &mut ScrubReport) -> Result<(), FirmwareError> {
        for n in cache.at_home_in(|_| true) {
            let _epoch = self.env().epochs().enter();
            let Some(home) = cache.home(n) else { continue };
            if self.own(T::KIND, n, home, report) || cache.home(n) != Some(home) {
                continue;
            }
            if cache.is_resident(n) {
                cache.rewrite(self.medium(), self.env().epochs(), n)?;
                report.mended += 1;
            } else {
                report.lost.push(format!("{} {n}: none of the pages that it names can be found", T::KIND));
            }
        }
        Ok(())
    }

    /// All tables are in memory: a piece that cannot be read is written again.
    fn tables(self, report: &mut ScrubReport) {
        let pieces: Vec<(OwnKind, usize, Entry)> = {
            let state = self.core.state();
            TABLES.iter().flat_map(|&k| state.tables().pieces(k).map(move |(p, home)| (k, p, home))).collect()
        };
        for (kind, piece, home) in pieces {
            let _epoch = self.env().epochs().enter();
            if !self.own(kind, piece as u64, home, report) {
                let (mut state, checkpointer) = (self.core.state(), self.core.checkpointer());
                if state.tables().home(kind, piece) == Some(home) {
                    checkpointer.mark_pieces(&mut state, &[(kind, piece)]);
                    checkpointer.checkpoints().forget_last();
                    report.mended += 1;
                }
            }
        }
    }

    fn own(self, kind: OwnKind, number: u64, home: Entry, report: &mut ScrubReport) -> bool {
        report.pages += 1;
        report.bytes += home.len_bytes() as u64;
        read_page(self.medium(), kind, number, home).is_ok()
    }

    fn extent(self, extent: ExtentId, report: &mut ScrubReport) {
        let map = || self.pages().map_page(self.env(), extent).ok().flatten();
        // A mapping page that cannot be read was reported already.
        let mapped: Vec<u16> = map().map_or_else(Vec::new, |m| m.mapped().map(|(page, _)| page).collect());
        for page in mapped {
            let _epoch = self.env().epochs().enter();
            // The mapping page may have been evicted since, and a newer copy of it changed.
            let Some(entry) = map().and_then(|m| m.load(page)) else { continue };
            let lpid = extent.page(page);
            report.pages += 1;
            report.bytes += entry.len_bytes() as u64;
            match self.core.reader().read_range(lpid, entry, 0..entry.len_bytes() as u32) {
                Ok(_) => {}
                Err(e @ CommandError::Uncorrectable { .. }) => {
                    planted::unless(Planted::ScrubSilent, || report.lost.push(e.to_string()));
                }
                Err(e) => report.lost.push(format!("page {lpid}: {e}")),
            }
        }
    }
}
