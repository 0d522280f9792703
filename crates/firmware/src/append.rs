//! The append path: where pages go, and how they get there.
//!
//! ```text
//!   pages ─ layout ─► lane 0 │ page │ page │ pad │      one open EBLOCK a stream and lane (= channel)
//!                     lane 1 │ page     │  pad  │      a batch below one WBLOCK a channel takes one lane
//!   layout (nothing changes) ─► room? ─► open EBLOCKs ─► program
//! ```
//!
//! Invariants: a page lies within one EBLOCK; every chunk begins on a WBLOCK, so that nothing is programmed
//! twice; erased EBLOCKs are used again before fresh ones. A page starts on 64 bytes, or on an RBLOCK where
//! it asks for it.
//!
//! Source: ELEOS §IV-A (global and channel provisioning).

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use lode_base::{CELL_BYTES, EblockId, Geometry, PageBufMut, Ppa};
use lode_command::Align;
use lode_flash::{Generation, Medium};

use crate::FirmwareError;
use crate::epochs::Epochs;
use crate::summary::{State, Stream, Summary};

/// Bytes that are programmed at a time.
const PROGRAM_BYTES: u32 = 1 << 20;

/// An EBLOCK that was opened, to be logged before anything in it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) eblock: EblockId,
    pub(crate) generation: Generation,
    pub(crate) stream: Stream,
    pub(crate) lane: u16,
}

/// The EBLOCKs: which are open, free, or free soon.
pub(crate) struct Space {
    geometry: Geometry,
    pub(crate) summary: Summary,
    open: [Vec<Option<EblockId>>; Stream::ALL.len()],
    /// Free, used before, and with space in the file.
    recycled: BTreeSet<u32>,
    /// Free, used before, and without: their space went back to the file system.
    discarded: BTreeSet<u32>,
    limbo: VecDeque<(u64, EblockId)>,
    /// Opened by the user stream and not logged yet.
    pub(crate) opened: Vec<Opened>,
    next_lane: usize,
}

/// Where the pages of a batch would go.
pub(crate) struct Layout {
    chunks: Vec<Chunk>,
    /// EBLOCKs that must be opened.
    pub(crate) new_eblocks: u32,
    /// Bytes that are programmed, padding included.
    pub(crate) bytes: u64,
}

struct Chunk {
    lane: usize,
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

impl Space {
    pub(crate) fn new(g: &Geometry) -> Self {
        let lanes = || vec![None; g.channels() as usize];
        Self {
            geometry: *g,
            summary: Summary::new(g),
            open: [lanes(), lanes()],
            recycled: BTreeSet::new(),
            discarded: BTreeSet::new(),
            limbo: VecDeque::new(),
            opened: Vec::new(),
            next_lane: 0,
        }
    }

    /// Takes up what recovery found: open EBLOCKs, and which are free.
    pub(crate) fn restored(&mut self) {
        let mut free = Vec::new();
        for (e, d) in self.summary.all() {
            match d.state {
                State::Open { stream, lane } => self.open[stream as usize][usize::from(lane)] = Some(e),
                State::Free => free.push(e.raw()),
                State::Used { .. } if d.live == 0 && d.pinned == 0 => free.push(e.raw()),
                State::Used { .. } | State::Log | State::Limbo => {}
            }
        }
        for &e in &free {
            if self.summary.get(EblockId::new(e)).state != State::Free {
                self.summary.edit(EblockId::new(e)).state = State::Free;
            }
        }
        self.recycled = free.into_iter().collect();
    }

    /// EBLOCKs that can be opened now.
    pub(crate) fn free_eblocks(&self) -> u32 {
        let fresh = self.geometry.eblock_count() - self.summary.len() as u32;
        (self.recycled.len() + self.discarded.len()) as u32 + fresh
    }

    /// Gives up the open EBLOCKs of a stream after the file system had no space for what came next in them, if there are
    /// erased ones whose space is there: false when there are none.
    pub(crate) fn give_up_open(&mut self, stream: Stream, commit: u64) -> bool {
        if self.recycled.is_empty() {
            return false;
        }
        (0..self.geometry.channels() as usize).for_each(|lane| self.close(stream, lane, commit));
        true
    }

    /// Bytes left in the open EBLOCKs of a stream.
    pub(crate) fn open_bytes(&self, medium: &Medium, stream: Stream) -> u64 {
        let open = self.open[stream as usize].iter().flatten();
        open.map(|&e| u64::from(self.geometry.eblock_bytes() - self.position(medium, e))).sum()
    }

    fn position(&self, medium: &Medium, e: EblockId) -> u32 {
        medium.next_wblock(e) * self.geometry.wblock_bytes()
    }

    /// Where pages of these lengths would go. Changes nothing.
    pub(crate) fn layout(&self, medium: &Medium, stream: Stream, pages: &[(usize, Align)]) -> Layout {
        let lanes = self.geometry.channels() as usize;
        let total: u64 = pages.iter().map(|(len, _)| *len as u64).sum();
        let spread =
            stream == Stream::User && total >= lanes as u64 * u64::from(self.geometry.wblock_bytes());
        let share = if spread { total.div_ceil(lanes as u64) } else { u64::MAX };
        let mut layout = Layout { chunks: Vec::new(), new_eblocks: 0, bytes: 0 };
        let mut from = 0;
        while from < pages.len() {
            let mut bytes = 0;
            let fits = |(len, _): &&(usize, Align)| {
                let before = bytes;
                bytes += *len as u64;
                before < share
            };
            let count = pages[from..].iter().take_while(fits).count();
            let lane = (self.next_lane + layout.chunks.len()) % lanes;
            let position = self.open[stream as usize][lane].map(|e| self.position(medium, e));
            let chunk = self.lay_chunk(lane, position, pages, from..from + count, &mut layout);
            layout.chunks.push(chunk);
            from += count;
        }
        layout
    }

    fn lay_chunk(
        &self,
        lane: usize,
        position: Option<u32>,
        pages: &[(usize, Align)],
        items: Range<usize>,
        layout: &mut Layout,
    ) -> Chunk {
        let g = &self.geometry;
        let mut runs: Vec<Run> = Vec::new();
        let run_at =
            |opens, start, item| Run { opens, start, end: start, items: item..item, offsets: Vec::new() };
        let mut run = position.map(|p| run_at(false, p, items.start));
        for i in items {
            let (len, align) = pages[i];
            assert!(len <= g.eblock_bytes() as usize, "a page of {len} bytes does not fit an EBLOCK");
            let align = match align {
                Align::Cell => CELL_BYTES as u32,
                Align::ReadUnit => g.rblock_bytes(),
            };
            let fits = |r: &Run| {
                let at = r.end.next_multiple_of(align);
                at as usize + len <= g.eblock_bytes() as usize
            };
            let mut r = match run.take() {
                Some(r) if fits(&r) => r,
                full => {
                    runs.extend(full.filter(|r| !r.offsets.is_empty()));
                    layout.new_eblocks += 1;
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
            layout.bytes += u64::from(r.end - r.start);
        }
        Chunk { lane, runs }
    }

    /// Opens what the layout needs and programs the pages; answers where each lies. What was programmed when
    /// it fails is not needed by anyone.
    pub(crate) fn write(
        &mut self,
        medium: &Medium,
        stream: Stream,
        items: &[&[u8]],
        layout: &Layout,
        commit: u64,
    ) -> Result<Vec<Ppa>, FirmwareError> {
        let mut places = Vec::with_capacity(items.len());
        for chunk in &layout.chunks {
            for run in &chunk.runs {
                let e = match self.open[stream as usize][chunk.lane].filter(|_| !run.opens) {
                    Some(e) => e,
                    None => self.open_eblock(medium, stream, chunk.lane, commit)?,
                };
                let programmed = program_run(medium, &self.geometry, e, run, items);
                let end = medium.next_wblock(e);
                self.summary.edit(e).end = end;
                if end == self.geometry.wblocks_per_eblock() {
                    self.close(stream, chunk.lane, commit);
                }
                programmed?;
                let ppa = |&o: &u32| self.geometry.ppa(e, o).expect("a page lies on the medium");
                places.extend(run.offsets.iter().map(ppa));
            }
        }
        if stream == Stream::User {
            self.next_lane = (self.next_lane + layout.chunks.len()) % self.geometry.channels() as usize;
        }
        assert_eq!(places.len(), items.len(), "every page has a place");
        Ok(places)
    }

    fn open_eblock(
        &mut self,
        medium: &Medium,
        stream: Stream,
        lane: usize,
        commit: u64,
    ) -> Result<EblockId, FirmwareError> {
        self.close(stream, lane, commit);
        let state = State::Open { stream, lane: lane as u16 };
        let (eblock, generation) =
            self.take(medium, state, lane as u32)?.ok_or_else(|| FirmwareError::Full {
                path: medium.path().into(),
                what: if stream == Stream::User { "pages" } else { "the drive's own pages" },
            })?;
        self.open[stream as usize][lane] = Some(eblock);
        if stream == Stream::User {
            self.opened.push(Opened { eblock, generation, stream, lane: lane as u16 });
        }
        Ok(eblock)
    }

    /// Takes a free EBLOCK, if there is one, and erases it.
    pub(crate) fn take(
        &mut self,
        medium: &Medium,
        state: State,
        channel: u32,
    ) -> Result<Option<(EblockId, Generation)>, FirmwareError> {
        let g = self.geometry;
        let free_in = |free: &BTreeSet<u32>, c: Option<u32>| {
            let fits = |e: &&u32| c.is_none_or(|c| g.channel_of(EblockId::new(**e)) == c);
            free.iter().find(fits).copied()
        };
        let fresh = self.summary.len() as u32..g.eblock_count();
        let fresh_here = fresh.clone().take(g.channels() as usize).find(|e| e % g.channels() == channel);
        let found = free_in(&self.recycled, Some(channel))
            .or_else(|| free_in(&self.discarded, Some(channel)))
            .or(fresh_here)
            .or_else(|| free_in(&self.recycled, None))
            .or_else(|| free_in(&self.discarded, None))
            .or(fresh.clone().next());
        let Some(raw) = found else { return Ok(None) };
        let e = EblockId::new(raw);
        let generation = medium.erase(e)?;
        self.recycled.remove(&raw);
        self.discarded.remove(&raw);
        if raw >= fresh.start {
            self.discarded.extend(fresh.start..raw);
        }
        let d = self.summary.edit(e);
        assert!(d.state == State::Free && d.live == 0 && d.pinned == 0, "{e:?} is taken while it is {d:?}");
        d.state = state;
        d.generation = generation;
        d.erase_count += 1;
        d.end = 0;
        Ok(Some((e, generation)))
    }

    fn close(&mut self, stream: Stream, lane: usize, commit: u64) {
        if let Some(e) = self.open[stream as usize][lane].take() {
            let d = self.summary.edit(e);
            d.state = State::Used { stream };
            d.closed_at = commit;
            self.summary.note_if_empty(e);
        }
    }

    /// Replays the opening of an EBLOCK.
    pub(crate) fn replay_open(&mut self, o: Opened, commit: u64) -> Result<(), &'static str> {
        let g = self.geometry;
        if o.eblock.raw() >= g.eblock_count() || u32::from(o.lane) >= g.channels() {
            return Err("an EBLOCK beyond the medium is opened");
        }
        if self.summary.get(o.eblock).live != 0 {
            return Err("an EBLOCK is opened that is still needed");
        }
        for (e, d) in self.summary.all().map(|(e, d)| (e, *d)).collect::<Vec<_>>() {
            if d.state == (State::Open { stream: o.stream, lane: o.lane }) {
                let d = self.summary.edit(e);
                d.state = State::Used { stream: o.stream };
                d.closed_at = commit;
            }
        }
        let d = self.summary.edit(o.eblock);
        d.state = State::Open { stream: o.stream, lane: o.lane };
        d.generation = o.generation;
        d.erase_count += 1;
        d.end = 0;
        Ok(())
    }

    /// Lets an EBLOCK go: it is free once the reads under way have ended.
    pub(crate) fn retire(&mut self, epochs: &Epochs, e: EblockId) {
        self.summary.edit(e).state = State::Limbo;
        self.limbo.push_back((epochs.retire(), e));
    }

    /// Frees EBLOCKs that nobody reads any more. Beyond `keep` free ones, their space goes back to the file
    /// system.
    pub(crate) fn free_retired(
        &mut self,
        medium: &Medium,
        epochs: &Epochs,
        keep: u32,
    ) -> Result<(), FirmwareError> {
        while let Some(&(epoch, e)) = self.limbo.front() {
            if !epochs.passed(epoch) {
                break;
            }
            self.limbo.pop_front();
            self.summary.edit(e).state = State::Free;
            if self.recycled.len() < keep as usize {
                self.recycled.insert(e.raw());
            } else {
                medium.discard(e)?;
                self.discarded.insert(e.raw());
            }
        }
        Ok(())
    }

    /// Whether EBLOCKs wait for reads to end.
    pub(crate) fn has_retired(&self) -> bool {
        !self.limbo.is_empty()
    }
}

fn program_run(
    medium: &Medium,
    g: &Geometry,
    e: EblockId,
    run: &Run,
    items: &[&[u8]],
) -> Result<(), FirmwareError> {
    let step = (PROGRAM_BYTES / g.wblock_bytes()).max(1) * g.wblock_bytes();
    let mut first = 0;
    for from in (run.start..run.end).step_by(step as usize) {
        let to = run.end.min(from + step);
        let mut buf = PageBufMut::zeroed((to - from) as usize);
        for (i, &at) in run.offsets.iter().enumerate().skip(first) {
            let data = items[run.items.start + i];
            let end = at + data.len() as u32;
            let (a, b) = (at.max(from), end.min(to));
            if a < b {
                buf[(a - from) as usize..(b - from) as usize]
                    .copy_from_slice(&data[(a - at) as usize..(b - at) as usize]);
            }
            if end > to {
                break;
            }
            first = i + 1;
        }
        medium.program(e, from / g.wblock_bytes(), &buf.freeze())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(s: &mut Space, m: &Medium, pages: &[Vec<u8>], align: Align) -> Vec<Ppa> {
        let lens: Vec<_> = pages.iter().map(|p| (p.len(), align)).collect();
        let layout = s.layout(m, Stream::User, &lens);
        let items: Vec<&[u8]> = pages.iter().map(|p| &p[..]).collect();
        s.write(m, Stream::User, &items, &layout, 1).unwrap()
    }

    #[test]
    fn pages_are_packed_aligned_and_come_back() {
        let g = Geometry::new(1, 1, 1, 4096, 8192, 1 << 20, 16).unwrap();
        let m = Medium::memory(g);
        let mut s = Space::new(&g);
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
        assert!(s.opened.len() >= 4);
        let whole = write(&mut s, &m, &[page(9, 1 << 20)], Align::Cell);
        assert_eq!(g.locate(whole[0]).1, 0);
    }

    #[test]
    fn large_batches_are_spread_over_channels_and_small_ones_are_not() {
        let g = Geometry::new(4, 1, 1, 4096, 4096, 1 << 20, 16).unwrap();
        let m = Medium::memory(g);
        let mut s = Space::new(&g);
        let channels = |places: &[Ppa]| {
            let of = |p: &Ppa| g.channel_of(g.locate(*p).0);
            places.iter().map(of).collect::<BTreeSet<_>>().len()
        };
        assert_eq!(channels(&write(&mut s, &m, &[vec![1; 100], vec![2; 100]], Align::Cell)), 1);
        assert_eq!(channels(&write(&mut s, &m, &vec![vec![1; 8000]; 16], Align::Cell)), 4);
    }

    #[test]
    fn erased_eblocks_come_before_fresh_ones_and_only_after_reads_ended() {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 16).unwrap();
        let m = Medium::memory(g);
        let (mut s, epochs) = (Space::new(&g), Epochs::new());
        write(&mut s, &m, &vec![vec![1; 1 << 20]; 3], Align::Cell);
        let reading = epochs.enter();
        s.retire(&epochs, EblockId::new(1));
        s.free_retired(&m, &epochs, 8).unwrap();
        let at = |s: &mut Space| g.locate(write(s, &m, &[vec![2; 1 << 20]], Align::Cell)[0]).0.raw();
        assert_eq!(at(&mut s), 3, "a read is under way");
        drop(reading);
        s.free_retired(&m, &epochs, 8).unwrap();
        assert_eq!((at(&mut s), at(&mut s)), (1, 4));
    }
}
