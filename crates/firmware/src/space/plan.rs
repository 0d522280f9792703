//! Plans: where pages go.
//!
//! ```text
//!   pages ─ plan ─► lane 0 │ page │ page │ pad │      one open EBLOCK per stream and lane (= channel)
//!                   lane 1 │ page     │  pad  │      a batch below one WBLOCK per channel takes one lane
//!   plan (nothing changes) ─► room? ─► provision ─► jobs, which `append` programs
//! ```
//!
//! Invariants: a page lies within one EBLOCK; every chunk begins on a WBLOCK, so that no WBLOCK is programmed twice; an
//! EBLOCK keeps room for its metadata until it is closed. A page begins on 64 bytes, or on an RBLOCK if it asks for that.
//!
//! Source: ELEOS §IV-A (global and channel provisioning).

use std::ops::Range;

use lode_base::{CELL_BYTES, EblockId, Geometry, PageBuf, Ppa};
use lode_command::Align;
use lode_flash::Medium;

use super::eblocks::Eblocks;
use super::metadata;
use crate::FirmwareError;
use crate::stream::Stream;

/// A page to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) len: usize,
    pub(crate) align: Align,
    /// Its word in the metadata of the EBLOCK.
    pub(crate) word: u64,
}

/// Where pages would go.
pub(crate) struct Plan {
    pub(crate) stream: Stream,
    chunks: Vec<Chunk>,
    /// EBLOCKs that must be opened.
    pub(crate) new_eblocks: u32,
    /// Bytes that are programmed, padding included.
    pub(crate) bytes: u64,
}

struct Chunk {
    lane: u16,
    runs: Vec<Run>,
}

/// Pages that follow each other in one EBLOCK.
struct Run {
    /// Whether a new EBLOCK begins here.
    opens: bool,
    start: u32,
    end: u32,
    items: Range<usize>,
    offsets: Vec<u32>,
}

/// What is to be programmed.
pub(crate) enum Job {
    /// Pages `items`, at byte `offsets` of the EBLOCK, in its WBLOCKs `first..end`; pages of users, or the drive's own.
    Data { eblock: EblockId, first: u32, end: u32, items: Range<usize>, offsets: Vec<u32>, users: bool },
    /// The metadata of an EBLOCK that is closed.
    Metadata { eblock: EblockId, first: u32, bytes: PageBuf },
}

impl Job {
    pub(crate) fn eblock(&self) -> EblockId {
        match self {
            Self::Data { eblock, .. } | Self::Metadata { eblock, .. } => *eblock,
        }
    }

    /// The first WBLOCK of the EBLOCK that is programmed.
    pub(crate) fn first(&self) -> u32 {
        match self {
            Self::Data { first, .. } | Self::Metadata { first, .. } => *first,
        }
    }
}

/// Where pages go: what a system action has to program.
pub(crate) struct Provision {
    pub(crate) jobs: Vec<Job>,
    pub(crate) places: Vec<Ppa>,
    /// EBLOCKs that count the action as under way, each once.
    pub(crate) eblocks: Vec<EblockId>,
}

impl Plan {
    /// Where these pages would go.
    pub(crate) fn new(eblocks: &Eblocks, stream: Stream, pages: &[Item]) -> Self {
        let lanes = usize::from(eblocks.lanes());
        let g = eblocks.geometry();
        let total: u64 = pages.iter().map(|p| p.len as u64).sum();
        let spread = stream != Stream::Drive && total >= lanes as u64 * u64::from(g.wblock_bytes());
        let mut plan = Self { stream, chunks: Vec::new(), new_eblocks: 0, bytes: 0 };
        if pages.is_empty() {
            return plan;
        }
        if !spread {
            plan.lay_chunk(eblocks, eblocks.filling().next() as u16, pages, 0..pages.len());
            return plan;
        }
        let level = eblocks.filling().level(total);
        let (mut from, mut at) = (0, 0);
        let (mut laid, mut target) = (0, 0);
        for n in 1..=lanes {
            let lane = (eblocks.filling().next() + n - 1) % lanes;
            // A lane that took more than others meanwhile gets less.
            target += level.saturating_sub(eblocks.filling().ahead(lane));
            while at < pages.len() && (laid < target || n == lanes) {
                laid += pages[at].len as u64;
                at += 1;
            }
            if at > from {
                plan.lay_chunk(eblocks, lane as u16, pages, from..at);
            }
            from = at;
        }
        plan
    }

    fn lay_chunk(&mut self, eblocks: &Eblocks, lane: u16, pages: &[Item], items: Range<usize>) {
        let g = eblocks.geometry();
        let mut runs: Vec<Run> = Vec::with_capacity(1);
        let run_at = |opens, start, item| {
            let offsets = Vec::with_capacity(items.end - item);
            Run { opens, start, end: start, items: item..item, offsets }
        };
        // Pages that are in the EBLOCK already.
        let mut before = 0;
        let mut run = eblocks.position(self.stream, lane).map(|(position, pages)| {
            before = pages;
            run_at(false, position * g.wblock_bytes(), items.start)
        });
        for i in items.clone() {
            let Item { len, align, .. } = pages[i];
            assert!(len <= page_bytes_max(g), "a page of {len} bytes does not fit an EBLOCK");
            let align = match align {
                Align::Cell => CELL_BYTES as u32,
                Align::ReadUnit => g.rblock_bytes(),
            };
            let fits = |r: &Run, before: usize| {
                let end = u64::from(r.end.next_multiple_of(align)) + len as u64;
                let end = end.div_ceil(u64::from(g.wblock_bytes())) as u32;
                end + metadata::wblocks(g, before + r.offsets.len() + 1) <= g.wblocks_per_eblock()
            };
            let mut r = match run.take() {
                Some(r) if fits(&r, before) => r,
                full => {
                    runs.extend(full.filter(|r| !r.offsets.is_empty()));
                    self.new_eblocks += 1;
                    before = 0;
                    run_at(true, 0, i)
                }
            };
            let at = r.end.next_multiple_of(align);
            r.offsets.push(at);
            r.end = at + len as u32;
            r.items.end = i + 1;
            run = Some(r);
        }
        runs.extend(run.filter(|r| !r.offsets.is_empty()));
        for r in &mut runs {
            r.end = r.end.next_multiple_of(g.wblock_bytes());
            self.bytes += u64::from(r.end - r.start);
        }
        self.chunks.push(Chunk { lane, runs });
    }

    /// Gives the pages their places. Closes EBLOCKs that are full and opens others. When it fails, what was given so
    /// far is not used.
    ///
    /// # Errors
    /// When no EBLOCK is free.
    pub(crate) fn provision(
        self,
        eblocks: &mut Eblocks,
        medium: &Medium,
        pages: &[Item],
    ) -> Result<Provision, FirmwareError> {
        let g = *eblocks.geometry();
        let wblock = g.wblock_bytes();
        let mut p = Provision {
            jobs: Vec::with_capacity(1),
            places: Vec::with_capacity(pages.len()),
            eblocks: Vec::with_capacity(1),
        };
        let chunks = self.chunks.len();
        for chunk in self.chunks {
            let bytes = chunk.runs.iter().map(|r| u64::from(r.end - r.start)).sum();
            eblocks.filling_mut().took(chunk.lane.into(), bytes);
            for run in chunk.runs {
                if run.opens {
                    let closed = eblocks.close(self.stream, chunk.lane);
                    if let Some(Job::Metadata { eblock, .. }) = &closed {
                        p.enter(eblocks, *eblock);
                    }
                    p.jobs.extend(closed);
                    if let Err(e) = eblocks.open(medium, self.stream, chunk.lane) {
                        eblocks.give_back(medium, p);
                        return Err(e);
                    }
                }
                let words = pages[run.items.clone()].iter().map(|i| i.word);
                let eblock = eblocks.extend(self.stream, chunk.lane, run.end / wblock, words);
                p.enter(eblocks, eblock);
                let ppa = |&o: &u32| g.ppa(eblock, o).expect("a page lies on the medium");
                p.places.extend(run.offsets.iter().map(ppa));
                let (first, end) = (run.start / wblock, run.end / wblock);
                let users = self.stream != Stream::Drive;
                p.jobs.push(Job::Data { eblock, first, end, items: run.items, offsets: run.offsets, users });
            }
        }
        if self.stream != Stream::Drive {
            eblocks.filling_mut().advance(chunks);
        }
        assert_eq!(p.places.len(), pages.len(), "every page has a place");
        Ok(p)
    }
}

impl Provision {
    fn enter(&mut self, eblocks: &mut Eblocks, e: EblockId) {
        if !self.eblocks.contains(&e) {
            self.eblocks.push(e);
            eblocks.enter(e);
        }
    }
}

/// Longest page that an EBLOCK takes, beside its metadata.
pub(crate) fn page_bytes_max(g: &Geometry) -> usize {
    (g.eblock_bytes() - metadata::wblocks(g, 1) * g.wblock_bytes()) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lode_base::epochs::Epochs;

    use super::*;
    use crate::append::Turns;
    use crate::space::read_metadata;

    fn write(s: &mut Eblocks, m: &Medium, pages: &[Vec<u8>], align: Align) -> Vec<Ppa> {
        let items: Vec<_> = pages.iter().map(|p| Item { len: p.len(), align, word: 1 }).collect();
        let data: Vec<&[u8]> = pages.iter().map(|p| &p[..]).collect();
        let p = Plan::new(s, Stream::UserHot, &items).provision(s, m, &items).unwrap();
        for job in &p.jobs {
            assert!(Turns::default().program(m, job, &data).is_ok());
            if let Job::Metadata { eblock, bytes, .. } = job {
                s.closed(*eblock, bytes.len() as u32 / m.geometry().wblock_bytes());
            }
        }
        p.eblocks.iter().for_each(|&e| s.leave(e));
        p.places
    }

    #[test]
    fn pages_are_packed_aligned_and_come_back() {
        let g = Geometry::new(1, 1, 1, 4096, 8192, 1 << 20, 16).unwrap();
        let m = Medium::memory(g);
        let mut s = Eblocks::new(&g);
        let page = |n: u8, len| vec![n; len];
        for align in [Align::Cell, Align::ReadUnit] {
            let pages: Vec<_> = (1..40u8).map(|n| page(n, 64 + usize::from(n) * 2999)).collect();
            let places = write(&mut s, &m, &pages, align);
            for (p, at) in pages.iter().zip(&places) {
                assert_eq!(&*m.read(*at, p.len() as u32).unwrap(), &p[..]);
                let unit = if align == Align::Cell { 64 } else { 4096 };
                assert!(g.locate(*at).1.is_multiple_of(unit));
            }
        }
        let used = s.descriptors().filter(|(_, d)| d.metadata > 0).map(|(e, d)| (e, *d)).collect::<Vec<_>>();
        assert!(used.len() >= 3);
        for (e, d) in used {
            assert!(!read_metadata(&m, e, d.data_end, d.metadata).unwrap().is_empty());
        }
        let whole = write(&mut s, &m, &[page(9, page_bytes_max(&g))], Align::Cell);
        assert_eq!(g.locate(whole[0]).1, 0);
    }

    #[test]
    fn large_batches_are_spread_over_channels_and_small_ones_are_not() {
        let g = Geometry::new(4, 1, 1, 4096, 4096, 1 << 20, 64).unwrap();
        let m = Medium::memory(g);
        let mut s = Eblocks::new(&g);
        let channels = |places: &[Ppa]| {
            let of = |p: &Ppa| g.channel_of(g.locate(*p).0);
            places.iter().map(of).collect::<BTreeSet<_>>().len()
        };
        assert_eq!(channels(&write(&mut s, &m, &[vec![1; 100], vec![2; 100]], Align::Cell)), 1);
        assert_eq!(channels(&write(&mut s, &m, &vec![vec![1; 8000]; 16], Align::Cell)), 4);
    }

    #[test]
    fn a_lane_that_took_more_than_others_gets_less() {
        let g = Geometry::new(4, 1, 1, 4096, 4096, 1 << 20, 64).unwrap();
        let m = Medium::memory(g);
        let mut s = Eblocks::new(&g);
        s.log_took(1, 80 << 10);
        let on = |places: &[Ppa], c| places.iter().filter(|p| g.channel_of(g.locate(**p).0) == c).count();
        let places = write(&mut s, &m, &vec![vec![1; 8192]; 30], Align::Cell);
        assert_eq!([0, 1, 2, 3].map(|c| on(&places, c)), [10, 0, 10, 10]);
        assert_eq!([0, 1, 2, 3].map(|c| s.filling().ahead(c)), [0; 4], "they are level again");
        let places = write(&mut s, &m, &vec![vec![1; 8192]; 30], Align::Cell);
        let spread = [0, 1, 2, 3].map(|c| on(&places, c));
        assert!(spread.iter().all(|n| (6..=9).contains(n)), "{spread:?}");
    }

    #[test]
    fn erased_eblocks_come_before_fresh_ones_and_only_after_reads_ended() {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 16).unwrap();
        let m = Medium::memory(g);
        let (mut s, epochs) = (Eblocks::new(&g), Epochs::new(4));
        let whole = page_bytes_max(&g);
        write(&mut s, &m, &vec![vec![1; whole]; 3], Align::Cell);
        let reading = epochs.enter();
        s.release(&epochs, EblockId::new(1), 0);
        s.free_released(&m, &epochs, 0, 8).unwrap();
        let at = |s: &mut Eblocks| g.locate(write(s, &m, &[vec![2; whole]], Align::Cell)[0]).0.raw();
        assert_eq!(at(&mut s), 3, "a read is under way");
        drop(reading);
        s.free_released(&m, &epochs, 0, 8).unwrap();
        assert_eq!((at(&mut s), at(&mut s)), (1, 4));
    }
}
