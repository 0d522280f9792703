//! Sorts byte strings in bounded memory.
//!
//! ```text
//!   strings ─► memory is full: sorted ─► a run, in pages of fresh extents ┐
//!   strings ─► memory is full: sorted ─► a run ───────────────────────────┼─► merged, in order
//!   the rest, sorted in memory ───────────────────────────────────────────┘
//!
//!   a page of a run: length u32, bytes; length u32, bytes; ...
//! ```
//!
//! Nothing names the extents. The transaction releases them when it ends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use lode_base::wire::{Malformed, Reader, Writer};
use lode_base::{Lpid, OwnerId, PageBuf};
use lode_command::{Align, PageWrite};

use super::stream::{FreshPages, Io};
use crate::EngineError;

/// Bytes of a page of a run.
const RUN_PAGE_BYTES: usize = 128 << 10;
/// Bytes that a string takes in memory beside its own.
const STRING_BYTES: usize = 24;

/// Strings that are being collected.
pub(super) struct Sorter {
    owner: OwnerId,
    limit_bytes: usize,
    held: Vec<Box<[u8]>>,
    held_bytes: usize,
    runs: Vec<VecDeque<Lpid>>,
    pages: FreshPages,
}

impl Sorter {
    /// Sorts with about so many bytes of memory. Runs go to extents of this owner.
    pub(super) fn new(owner: OwnerId, limit_bytes: usize) -> Self {
        let (held, runs) = (Vec::new(), Vec::new());
        Self { owner, limit_bytes, held, held_bytes: 0, runs, pages: FreshPages::default() }
    }

    /// Takes a string, which is shorter than a page.
    pub(super) fn push(&mut self, io: &mut Io<'_>, s: Vec<u8>) -> Result<(), EngineError> {
        self.held_bytes += s.len() + STRING_BYTES;
        self.held.push(s.into());
        if self.held_bytes > self.limit_bytes {
            self.end_run(io)?;
        }
        Ok(())
    }

    fn end_run(&mut self, io: &mut Io<'_>) -> Result<(), EngineError> {
        self.held.sort_unstable();
        self.held_bytes = 0;
        let identity = io.store.identity();
        let page_bytes =
            RUN_PAGE_BYTES.min(identity.page_bytes_max as usize).min(identity.batch_bytes_max as usize / 2);
        let (mut run, mut page) = (VecDeque::new(), Vec::new());
        for s in std::mem::take(&mut self.held) {
            if page.len() + 4 + s.len() > page_bytes {
                run.push_back(self.write(io, &page)?);
                page.clear();
            }
            Writer::new(&mut page).bytes(&s);
        }
        run.push_back(self.write(io, &page)?);
        self.runs.push(run);
        Ok(())
    }

    fn write(&mut self, io: &mut Io<'_>, page: &[u8]) -> Result<Lpid, EngineError> {
        let lpid = self.pages.next(io, || self.owner)?;
        io.write_aside(PageWrite { lpid, data: PageBuf::copy_from(page), align: Align::Cell })?;
        Ok(lpid)
    }

    /// Calls `each` with every string, in their order.
    pub(super) fn finish(
        mut self,
        io: &Io<'_>,
        mut each: impl FnMut(&[u8]) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.held.sort_unstable();
        let mut sources: Vec<Source> = Vec::with_capacity(self.runs.len() + 1);
        sources.push(Source { pages: VecDeque::new(), read: self.held.into() });
        sources.extend(self.runs.into_iter().map(|pages| Source { pages, read: VecDeque::new() }));
        let mut heads = BinaryHeap::with_capacity(sources.len());
        for (n, source) in sources.iter_mut().enumerate() {
            heads.extend(source.next(io)?.map(|s| Reverse((s, n))));
        }
        while let Some(Reverse((s, n))) = heads.pop() {
            each(&s)?;
            heads.extend(sources[n].next(io)?.map(|s| Reverse((s, n))));
        }
        Ok(())
    }
}

/// A run that is read, or the strings in memory.
struct Source {
    pages: VecDeque<Lpid>,
    /// The strings of the page that was read last.
    read: VecDeque<Box<[u8]>>,
}

impl Source {
    fn next(&mut self, io: &Io<'_>) -> Result<Option<Box<[u8]>>, EngineError> {
        while self.read.is_empty() {
            let Some(lpid) = self.pages.pop_front() else { return Ok(None) };
            let page = io.store.read_page(None, lpid)?;
            let bad = |e: Malformed| EngineError::invalid("", format!("page {lpid} of a sorted run: {e}"));
            self.read = strings(&page).map_err(bad)?;
        }
        Ok(self.read.pop_front())
    }
}

fn strings(page: &PageBuf) -> Result<VecDeque<Box<[u8]>>, Malformed> {
    let mut r = Reader::new(page);
    let mut strings = VecDeque::new();
    while r.left() > 0 {
        strings.push_back(r.bytes()?.into());
    }
    Ok(strings)
}
