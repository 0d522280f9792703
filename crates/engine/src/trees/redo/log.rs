//! Where redo pages lie: one after the other in extents of their own, trimmed from the front.

use std::collections::VecDeque;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, OwnerId};
use lode_command::{Align, Batch, PageWrite};

use super::page::{self, Bodies, RedoPage};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::storage::extents::Extents;
use crate::trees::tree::Csn;

/// The owner of redo extents. No table has so high a number. The highest number is no owner to a drive.
pub(crate) const REDO_OWNER: OwnerId = OwnerId::new(u32::MAX - 1);

/// A redo page that the drive has.
#[derive(Clone, Copy, Debug)]
struct KeptPage {
    lpid: Lpid,
    newest: Csn,
    bytes: u64,
}

/// The redo pages of the drive.
#[derive(Debug, Default)]
pub(crate) struct RedoLog {
    /// Extents with pages, in the order in which they were filled. The last one takes the next page.
    extents: VecDeque<ExtentId>,
    /// Extents that no page was written to yet.
    spare: VecDeque<ExtentId>,
    /// The page of the last extent that is written next.
    next_page: u16,
    next_number: u64,
    kept: VecDeque<KeptPage>,
    kept_bytes: u64,
}

/// Pages that are part of a batch on its way.
pub(crate) struct Appended {
    pages: Vec<KeptPage>,
}

impl RedoLog {
    /// The log that recovery found: its pages in order, and all extents of its owner.
    pub(crate) fn found(pages: &[RedoPage], extents: Vec<ExtentId>) -> Self {
        let mut log = Self { next_number: pages.first().map_or(1, |p| p.number), ..Self::default() };
        log.spare = extents.into();
        let kept = |p: &RedoPage| KeptPage { lpid: p.lpid, newest: p.newest, bytes: p.bytes() as u64 };
        log.appended(Appended { pages: pages.iter().map(kept).collect() });
        log
    }

    /// Bytes and pages that a recovery would read.
    pub(crate) fn kept(&self) -> (u64, usize) {
        (self.kept_bytes, self.kept.len())
    }

    /// Adds the pages of these bodies to a batch, in extents that come `from` there. Until [`RedoLog::appended`] is called, the
    /// next call takes the same LPIDs.
    pub(crate) fn append(
        &mut self,
        from: &Extents,
        bodies: &Bodies,
        batch: &mut Batch,
    ) -> Result<Appended, EngineError> {
        let mut pages = Vec::new();
        let mut extent = self.extents.back().copied();
        let (mut at, mut spares) = (self.next_page, 0);
        for (number, (newest, body)) in (self.next_number..).zip(bodies.parts()) {
            let e = match extent {
                Some(e) if usize::from(at) < EXTENT_PAGES => e,
                _ => {
                    if spares == self.spare.len() {
                        self.spare.push_back(from.allocate(REDO_OWNER)?);
                    }
                    (at, spares) = (0, spares + 1);
                    self.spare[spares - 1]
                }
            };
            extent = Some(e);
            let data = page::encode(number, newest, body);
            pages.push(KeptPage { lpid: e.page(at), newest, bytes: data.len() as u64 });
            batch.writes.push(PageWrite { lpid: e.page(at), data, align: Align::Cell });
            at += 1;
        }
        Ok(Appended { pages })
    }

    /// The batch with these pages is durable.
    pub(crate) fn appended(&mut self, a: Appended) {
        for p in a.pages {
            let extent = p.lpid.extent();
            if self.extents.back() != Some(&extent) {
                self.spare.retain(|&e| e != extent);
                self.extents.push_back(extent);
            }
            self.next_number += 1;
            self.next_page = p.lpid.page() + 1;
            self.kept_bytes += p.bytes;
            self.kept.push_back(p);
        }
    }

    /// The pages that nobody needs once the changes of all commits before `first` are written. The newest page stays, because it
    /// says which commit numbers were used.
    pub(crate) fn passed(&self, first: Csn) -> Passed {
        let keep = self.kept.len().saturating_sub(1);
        let count = self.kept.iter().take(keep).take_while(|p| p.newest < first).count();
        let count = planted::instead(Planted::RedoTrimmedEarly, || count, || (count + 1).min(keep));
        let still = self.kept.get(count).map(|p| p.lpid.extent());
        let releases: Vec<ExtentId> = match still {
            Some(still) => self.extents.iter().copied().take_while(|&e| e != still).collect(),
            None => Vec::new(),
        };
        let gone = self.kept.iter().take(count).map(|p| p.lpid);
        Passed { count, trims: gone.filter(|l| !releases.contains(&l.extent())).collect(), releases }
    }

    /// All pages. The extent that the next page goes to stays.
    pub(crate) fn all(&self) -> Passed {
        let trims = self.kept.iter().map(|p| p.lpid).collect();
        Passed { count: self.kept.len(), trims, releases: Vec::new() }
    }

    /// The batch that trimmed them is durable.
    pub(crate) fn trimmed(&mut self, p: &Passed) {
        for gone in self.kept.drain(..p.count) {
            self.kept_bytes -= gone.bytes;
        }
        self.extents.retain(|e| !p.releases.contains(e));
    }
}

/// Redo pages that nobody needs any more.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    count: usize,
    pub(crate) trims: Vec<Lpid>,
    pub(crate) releases: Vec<ExtentId>,
}

impl Passed {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Trims no more than so many pages at once.
    pub(crate) fn at_most(&mut self, pages: usize) {
        if self.trims.len() > pages {
            // The first pages lie in extents that are released as a whole, without a trim for each page.
            self.count -= self.trims.len() - pages;
            self.trims.truncate(pages);
        }
    }
}
