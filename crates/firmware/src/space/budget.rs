//! The budget of space: what batches may take, and what is reserved for everything else.
//!
//! ```text
//!   EBLOCKs of the drive
//!   │ pages of batches ...............│ over-provisioning │ log │ own pages, twice │ GC │ inlined │ spares │
//!   └──────── usable bytes ───────────┘
//!
//!   free EBLOCKs now
//!   │ batches may open .....│ log until the next checkpoint │ own pages once more │ GC, inlined │ 1 that may fail │
//!                           └───────────────────────── reserve ─────────────────────────────────────────────────┘
//! ```
//!
//! Invariants: a batch never takes the reserve, so a full drive takes trims, and goes on once something was trimmed. Each
//! of the others may take its own part of the reserve, and leaves the parts of those that it depends on ([`Purpose`]).
//!
//! All of this is arithmetic over what it is given: nothing here is changed.

use lode_base::Geometry;
use lode_command::CommandError;

use super::EBLOCKS_FEW;
use super::eblocks::Eblocks;
use super::lanes::Lanes;
use super::plan::Plan;
use crate::DriveOptions;
use crate::planted::at;
use crate::stream::{GC_CLASSES, Stream};

/// Fewest log pages between two checkpoints: a checkpoint itself takes some.
const LOG_PAGES_MIN: u64 = 24;

/// What pages are written for: it says how much of the reserve they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A batch. It takes nothing of the reserve; if it `shrinks` what the drive holds, it may take the EBLOCK that is kept
    /// for the first one that fails.
    Batch { shrinks: bool },
    /// The drive's own pages.
    Own,
    /// Own pages that recovery writes before there is a log.
    Unlogged,
    /// Pages that GC moves.
    Gc,
    /// Inlined pages that move to EBLOCKs.
    Inlined,
}

/// How far the log is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogUse {
    /// Bytes of log since the newest checkpoint.
    pub(crate) bytes: u64,
    /// The WBLOCK of its EBLOCK that the next log page goes to.
    pub(crate) wblock: u32,
}

/// What space is computed from.
#[derive(Clone, Copy)]
pub(crate) struct Budget<'a> {
    pub(crate) options: &'a DriveOptions,
    pub(crate) eblocks: &'a Eblocks,
    pub(crate) log: LogUse,
    /// Bytes that all mapping and index pages take on the medium.
    pub(crate) mapping_bytes: u64,
    /// Bytes that the table of owners takes.
    pub(crate) owners_bytes: u64,
    /// Bytes that further entries of the tables of homes take: for an allocation under consideration.
    pub(crate) homes_bytes: u64,
    /// Bytes of inlined pages.
    pub(crate) inlined_bytes: u64,
    /// Whether the drive inlines small batches.
    pub(crate) inlines: bool,
    /// Whether recovery is not over.
    pub(crate) recovering: bool,
}

/// Bytes of log that may be written between two checkpoints.
pub(crate) fn log_bytes_max(options: &DriveOptions, g: &Geometry) -> u64 {
    let page = u64::from(options.log_copies) * u64::from(g.wblock_bytes());
    options.checkpoint_log_bytes.min(g.capacity_bytes() / 16).max(LOG_PAGES_MIN * page)
}

/// EBLOCKs that may fail before the drive is read-only.
pub(crate) fn spare_eblocks(options: &DriveOptions, g: &Geometry) -> u32 {
    options.spare_eblocks.unwrap_or((g.eblock_count() / 32).clamp(1, 64))
}

impl Budget<'_> {
    fn geometry(&self) -> &Geometry {
        self.eblocks.geometry()
    }

    fn eblocks_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.geometry().eblock_bytes()))
    }

    /// EBLOCKs that batches may not take: for the log until the next checkpoint, that checkpoint with every own page
    /// written anew, GC, inlined pages, and the first EBLOCK that fails.
    pub(crate) fn reserve_eblocks(&self) -> u32 {
        let moved = u64::from(self.gc_eblocks() + self.inlined_eblocks());
        let reserve = self.log_eblocks() + self.own_eblocks() + moved + 1;
        reserve.min(u64::from(u32::MAX)) as u32
    }

    /// EBLOCKs that the log may still take before the next checkpoint, or takes when it begins anew after a crash.
    pub(crate) fn log_eblocks(&self) -> u64 {
        let g = self.geometry();
        let here = g.wblocks_per_eblock().saturating_sub(self.log.wblock);
        let here = u64::from(here) * u64::from(g.wblock_bytes());
        let left = log_bytes_max(self.options, g).saturating_sub(self.log.bytes + here);
        self.eblocks_of(left).max(1) + 2
    }

    /// EBLOCKs that writing every own page anew takes, beside those that are open for them.
    pub(crate) fn own_eblocks(&self) -> u64 {
        self.eblocks_of(self.own_bytes().saturating_sub(self.eblocks.left_bytes(Stream::Drive))) + 1
    }

    /// Bytes that writing every own page anew takes at most.
    pub(crate) fn own_bytes(&self) -> u64 {
        let tables = self.owners_bytes + u64::from(self.eblocks.used_ever()) * 32;
        let open = self.eblocks.unwritten_words() * 8;
        // Pages that are written one by one each fill WBLOCKs.
        2 * (self.mapping_bytes + tables + open) + self.homes_bytes
    }

    /// EBLOCKs that only GC may take.
    pub(crate) fn gc_eblocks(&self) -> u32 {
        1 + u32::from(Lanes::count_of(self.geometry()))
    }

    /// EBLOCKs that only inlined pages may take.
    pub(crate) fn inlined_eblocks(&self) -> u32 {
        if self.inlines { Lanes::count_of(self.geometry()).into() } else { 0 }
    }

    /// Whether a plan fits, and leaves what it must of the reserve.
    pub(crate) fn fits(&self, plan: &Plan, purpose: Purpose) -> bool {
        let (free, new) = (u64::from(self.eblocks.free_eblocks()), u64::from(plan.new_eblocks));
        let fits = |kept: u64| new == 0 || new + kept <= free;
        match purpose {
            Purpose::Batch { shrinks } => {
                let reserve: u64 =
                    if new == 0 { 0 } else { at!(ReserveEaten => 0, self.reserve_eblocks().into()) };
                match shrinks {
                    true => fits(reserve.saturating_sub(1)),
                    false => fits(reserve) && self.held_bytes() + plan.bytes <= self.usable_bytes(),
                }
            }
            // Before recovery is over the log takes nothing yet.
            Purpose::Own if self.recovering => fits(1),
            Purpose::Own => fits(self.log_eblocks()),
            Purpose::Gc => {
                let inlined = if self.inlined_bytes > 0 { self.inlined_eblocks() } else { 0 };
                fits(self.log_eblocks() + self.own_eblocks() + u64::from(inlined))
            }
            Purpose::Inlined if self.recovering => fits(1 + self.own_eblocks()),
            // Afterwards nothing is inlined, and GC has its part again.
            Purpose::Inlined => fits(self.log_eblocks() + self.own_eblocks()),
            Purpose::Unlogged => fits(3 + self.own_eblocks()),
        }
    }

    /// Bytes of pages that the drive takes at most: beyond them GC would gain too little.
    pub(crate) fn usable_bytes(&self) -> u64 {
        let g = self.geometry();
        // What the log may still take, what it holds (the page that is written, two spares), and what recovery takes.
        let log = self.eblocks_of(log_bytes_max(self.options, g)) + 5;
        // The own pages as they lie, and once more as they are written anew.
        let own = (self.eblocks_of(self.own_bytes()) + 1) * 3 / 2 + 1;
        let few = g.eblock_count() < EBLOCKS_FEW;
        let open = u64::from(self.eblocks.lanes()) * if few { 2 } else { 2 + u64::from(GC_CLASSES) };
        let moved = self.gc_eblocks() + self.inlined_eblocks();
        // Those that failed and the next that does, or all that may.
        let lost = (self.eblocks.retired() + 1).max(spare_eblocks(self.options, g)) + self.eblocks.stuck();
        let reserve = log + own + open + u64::from(moved + lost);
        let eblocks = u64::from(g.eblock_count()).saturating_sub(reserve);
        eblocks * u64::from(g.eblock_bytes()) / 100
            * u64::from(100 - self.options.over_provision_percent.min(90))
    }

    /// Bytes that batches can still write, about.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.usable_bytes().saturating_sub(self.held_bytes())
    }

    /// Bytes of log that a drive at rest leaves alone: what a checkpoint may write. So checkpoints at rest at most double what
    /// the log wrote, and the log takes at most as much as the own pages.
    pub(crate) fn log_at_rest(&self) -> u64 {
        self.own_bytes().max(self.least_at_rest())
    }

    /// Bytes of erased space that keep their place in the image file at rest, in whole EBLOCKs: they are written over faster than
    /// new space is taken. A thirty-second of what is held, beside a sixteenth of garbage (`cleaner/tidy.rs`), leaves an image
    /// at rest below a tenth beyond what it holds.
    pub(crate) fn erased_at_rest(&self) -> u64 {
        let eblock = u64::from(self.geometry().eblock_bytes());
        self.held_bytes() / 32 / eblock * eblock
    }

    /// Bytes that a drive at rest does nothing for: about the log that a checkpoint itself writes.
    pub(crate) fn least_at_rest(&self) -> u64 {
        LOG_PAGES_MIN * u64::from(self.options.log_copies) * u64::from(self.geometry().wblock_bytes())
    }

    /// Whether the EBLOCK that the log is in has more log than a drive at rest leaves alone, and the log may take another.
    pub(crate) fn log_moves_on(&self) -> bool {
        let here = u64::from(self.log.wblock) * u64::from(self.geometry().wblock_bytes());
        here > self.log_at_rest() && self.eblocks.free_eblocks() > self.reserve_eblocks() + 1
    }

    /// EBLOCKs that are free.
    pub(crate) fn free_eblocks(&self) -> u32 {
        self.eblocks.free_eblocks()
    }

    /// Why `needed_bytes` of pages do not fit.
    pub(crate) fn out_of_space(&self, needed_bytes: u64) -> CommandError {
        let eblocks = u64::from(self.eblocks.free_eblocks()).saturating_sub(self.reserve_eblocks().into());
        let free_bytes = self.free_bytes().min(eblocks * u64::from(self.geometry().eblock_bytes()));
        // The free bytes may be scattered so that these do not fit: never report as many as they need.
        let free_bytes = free_bytes.min(needed_bytes.saturating_sub(1));
        CommandError::OutOfSpace { free_bytes, needed_bytes }
    }

    /// Bytes of pages that take space, or will.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.eblocks.live_bytes() + self.eblocks.pinned_bytes() + self.inlined_bytes
    }
}
