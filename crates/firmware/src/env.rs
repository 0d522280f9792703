//! What every part of the drive works with: its medium and options, whether it still takes writes, and what it counts.
//!
//! ```text
//!   takes writes ── a failure that leaves open what is durable, no spares, a close ──► read-only, until it is opened again
//! ```
//!
//! Invariant: the first reason for being read-only is the cause, and stays.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::Geometry;
use lode_base::epochs::Epochs;
use lode_base::profile::{ScanUnit, ScanUnitKind};
use lode_command::{CommandError, Identity};
use lode_flash::Medium;
use lode_program::matcher::Limits;

use crate::space::page_bytes_max;
use crate::{DriveOptions, FirmwareError};

/// Most reads at a time; further ones wait. A read may count twice (once while it loads a mapping page).
const READERS_MAX: usize = 1024;

pub(crate) struct Env {
    medium: Medium,
    options: DriveOptions,
    identity: Identity,
    epochs: Epochs,
    read_only: OnceLock<String>,
    counts: [AtomicU64; Count::ALL],
}

/// What is counted since the drive was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// Bytes of pages that batches wrote.
    UserBytes,
    /// Bytes of pages that GC moved.
    MovedBytes,
    /// EBLOCKs that GC emptied.
    Victims,
    /// Programs that failed.
    ProgramFailures,
    /// Groups that the log took.
    Groups,
    /// Actions in them.
    Actions,
    /// Checkpoints that became durable.
    Checkpoints,
}

impl Count {
    const ALL: usize = Self::Checkpoints as usize + 1;
}

impl Env {
    pub(crate) fn new(medium: Medium, options: DriveOptions) -> Self {
        medium.limit_tags(options.tag_cache_bytes);
        let g = *medium.geometry();
        let most = page_bytes_max(&g).min(lode_base::PAGE_BYTES_LIMIT - 1);
        let identity = Identity {
            model: format!("Lode drive, {}", medium.path().display()),
            geometry: g,
            page_bytes_max: options.page_bytes_max.min(most as u32),
            batch_bytes_max: options.batch_bytes_max,
            batch_pages_max: options.batch_pages_max,
            queue_depth_max: options.queue_depth_max,
            views_max: options.views_max,
            sessions_max: options.sessions_max,
            in_flight_max: options.in_flight_max.max(1),
            durable: medium.is_durable(),
            matcher: medium.model().and_then(|m| limits(&m.profile().scan_unit)),
        };
        Self {
            medium,
            options,
            identity,
            epochs: Epochs::new(READERS_MAX),
            read_only: OnceLock::new(),
            counts: [const { AtomicU64::new(0) }; Count::ALL],
        }
    }

    #[inline]
    pub(crate) fn medium(&self) -> &Medium {
        &self.medium
    }

    #[inline]
    pub(crate) fn geometry(&self) -> &Geometry {
        self.medium.geometry()
    }

    #[inline]
    pub(crate) fn options(&self) -> &DriveOptions {
        &self.options
    }

    #[inline]
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The reads under way.
    #[inline]
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Whether the drive takes writes.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.read_only.get().is_none()
    }

    /// Why the drive takes no writes, if it takes none.
    pub(crate) fn why_read_only(&self) -> Option<&str> {
        self.read_only.get().map(String::as_str)
    }

    /// Refuses to write once the drive is read-only.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<(), FirmwareError> {
        match self.read_only.get() {
            None => Ok(()),
            Some(why) => Err(FirmwareError::ReadOnly(why.clone())),
        }
    }

    /// Makes the drive read-only.
    pub(crate) fn stop(&self, why: impl Into<String>) {
        // The first reason is the cause; a later one says nothing new.
        let _ = self.read_only.set(why.into());
    }

    /// Makes the drive read-only for a failure.
    pub(crate) fn fatal(&self, e: &FirmwareError) {
        self.stop(e.to_string());
    }

    /// Takes note of background work that failed: if it failed for want of space it is tried again, and what is damaged is
    /// told to whoever asks for it. Any other failure makes the drive read-only.
    pub(crate) fn note(&self, e: &FirmwareError) {
        if !e.is_no_space() && !e.is_damage() && !matches!(e, FirmwareError::ReadOnly(_)) {
            self.fatal(e);
        }
    }

    /// Refuses what needs the bytes of pages, on a medium that does not keep them.
    pub(crate) fn check_content(&self) -> Result<(), CommandError> {
        match self.medium.keeps_user_data() {
            true => Ok(()),
            false => Err(CommandError::NoContent),
        }
    }

    /// Does work that nobody waits for: on a modelled device it takes resources, but no time of the step under way.
    #[inline]
    pub(crate) fn beside(&self, work: impl FnOnce()) {
        let step = self.medium.model().map(|m| m.step());
        work();
        if let (Some(m), Some(step)) = (self.medium.model(), step) {
            m.resume(step);
        }
    }

    #[inline]
    pub(crate) fn count(&self, what: Count, n: u64) {
        self.counts[what as usize].fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self, what: Count) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }
}

/// What the scan units of a modelled device take, if they are pattern matchers.
fn limits(unit: &ScanUnit) -> Option<Limits> {
    let limits = Limits { keys: unit.keys, key_bytes: unit.key_bytes };
    (unit.kind == ScanUnitKind::Matcher).then_some(limits)
}
