//! The EBLOCK summary: what each erase unit is for, and how much of it is still needed.
//!
//! ```text
//!   Free ── open ─► Open(stream, lane) ── full ─► Used ── nothing live or pinned ─► Limbo ── epochs passed ─► Free
//!   Free ── log ──► Log ── truncated ─► Limbo
//!
//!   on the medium, 32 bytes an EBLOCK:
//!   | generation 8 | closed at commit 8 | live bytes 4 | erase count 4 | end, WBLOCKs 4 | state 1 | stream 1 | lane 2 |
//! ```
//!
//! `live` counts bytes that the newest mapping (or the newest checkpoint state) names; `pinned` those that
//! only a read view, or the checkpoint that is on the medium, still needs: it is not kept, since no view
//! outlives the drive. EBLOCKs beyond the end of the table are fresh: never used.
//!
//! Source: ELEOS §III-B (summary table); we keep live bytes where it keeps AVAIL, so that replay is exact.

use std::collections::BTreeSet;

use lode_base::{EblockId, Geometry};
use lode_flash::Generation;

use crate::codec::{Malformed, Put, Take};

/// EBLOCKs in one piece of the table.
pub(crate) const SUMMARY_PIECE_EBLOCKS: usize = 256;
pub(crate) const DESCRIPTOR_BYTES: usize = 32;

/// What writes: each has EBLOCKs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    User,
    Drive,
}

impl Stream {
    pub(crate) const ALL: [Self; 2] = [Self::User, Self::Drive];

    pub(crate) fn tag(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.tag() == tag)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Open {
        stream: Stream,
        lane: u16,
    },
    Used {
        stream: Stream,
    },
    Log,
    /// Free once the reads under way have ended.
    Limbo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) state: State,
    pub(crate) generation: Generation,
    pub(crate) live: u32,
    pub(crate) pinned: u32,
    pub(crate) erase_count: u32,
    /// WBLOCKs programmed.
    pub(crate) end: u32,
    /// The commit after which it was closed: its age, for a GC policy.
    pub(crate) closed_at: u64,
}

impl Descriptor {
    const FRESH: Self = Self {
        state: State::Free,
        generation: Generation::UNKNOWN,
        live: 0,
        pinned: 0,
        erase_count: 0,
        end: 0,
        closed_at: 0,
    };

    /// The descriptor as kept on the medium: an EBLOCK of the log is found from the log itself.
    pub(crate) fn encode(&self, b: &mut Vec<u8>) {
        let (state, stream, lane) = match self.state {
            State::Free | State::Log | State::Limbo => (0, 0, 0),
            State::Open { stream, lane } => (1, stream.tag(), lane),
            State::Used { stream } => (2, stream.tag(), 0),
        };
        b.put_u64(self.generation.raw());
        b.put_u64(self.closed_at);
        b.put_u32(self.live);
        b.put_u32(self.erase_count);
        b.put_u32(self.end);
        b.put_u8(state);
        b.put_u8(stream);
        b.put_u16(lane);
    }

    pub(crate) fn decode(t: &mut Take<'_>, g: &Geometry) -> Result<Self, Malformed> {
        let generation = Generation::from_raw(t.u64()?);
        let (closed_at, live, erase_count, end) = (t.u64()?, t.u32()?, t.u32()?, t.u32()?);
        let (state, stream, lane) = (t.u8()?, t.u8()?, t.u16()?);
        let stream = Stream::from_tag(stream).ok_or(t.bad("an unknown stream"))?;
        let state = match state {
            0 => State::Free,
            1 if u32::from(lane) < g.channels() => State::Open { stream, lane },
            2 => State::Used { stream },
            _ => return Err(t.bad("an unknown state of an EBLOCK")),
        };
        if live > g.eblock_bytes() || end > g.wblocks_per_eblock() || (state == State::Free && live > 0) {
            return Err(t.bad("an impossible descriptor of an EBLOCK"));
        }
        Ok(Self { state, generation, live, pinned: 0, erase_count, end, closed_at })
    }
}

pub(crate) struct Summary {
    eblocks: Vec<Descriptor>,
    /// EBLOCKs of the medium.
    count: u32,
    /// EBLOCKs whose descriptor changed since their piece was written.
    touched: BTreeSet<u32>,
    /// An EBLOCK of which more died than lived: the image said something else of it than its mapping does.
    pub(crate) miscounted: Option<EblockId>,
    /// Those that may have nothing left that is needed.
    pub(crate) empty: Vec<EblockId>,
}

impl Summary {
    pub(crate) fn new(g: &Geometry) -> Self {
        Self {
            eblocks: Vec::new(),
            count: g.eblock_count(),
            touched: BTreeSet::new(),
            miscounted: None,
            empty: Vec::new(),
        }
    }

    /// EBLOCKs that were ever used: all others are fresh.
    pub(crate) fn len(&self) -> usize {
        self.eblocks.len()
    }

    pub(crate) fn get(&self, e: EblockId) -> Descriptor {
        self.eblocks.get(e.raw() as usize).copied().unwrap_or(Descriptor::FRESH)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (EblockId, &Descriptor)> {
        self.eblocks.iter().enumerate().map(|(i, d)| (EblockId::new(i as u32), d))
    }

    /// The descriptor, to be changed.
    pub(crate) fn edit(&mut self, e: EblockId) -> &mut Descriptor {
        assert!(e.raw() < self.count, "{e:?} lies beyond the medium");
        let at = e.raw() as usize;
        if self.eblocks.len() <= at {
            self.eblocks.resize(at + 1, Descriptor::FRESH);
        }
        self.touched.insert(e.raw());
        &mut self.eblocks[at]
    }

    pub(crate) fn add_live(&mut self, e: EblockId, bytes: u32) {
        let d = self.edit(e);
        d.live = d.live.saturating_add(bytes);
    }

    /// Bytes that the newest state does not need any more; with `pin`, an older one does.
    pub(crate) fn sub_live(&mut self, e: EblockId, bytes: u32, pin: bool) {
        let d = self.edit(e);
        let lived = d.live >= bytes;
        d.live = d.live.saturating_sub(bytes);
        if pin {
            d.pinned += bytes;
        }
        if !lived {
            self.miscounted = Some(e);
        }
        self.note_if_empty(e);
    }

    pub(crate) fn unpin(&mut self, e: EblockId, bytes: u32) {
        // Pins are not kept on the medium: nothing is touched.
        let d = &mut self.eblocks[e.raw() as usize];
        d.pinned = d.pinned.checked_sub(bytes).expect("no more bytes are unpinned than were pinned");
        self.note_if_empty(e);
    }

    pub(crate) fn note_if_empty(&mut self, e: EblockId) {
        let d = self.get(e);
        if matches!(d.state, State::Used { .. }) && d.live == 0 && d.pinned == 0 {
            self.empty.push(e);
        }
    }

    pub(crate) fn touched(&self) -> &BTreeSet<u32> {
        &self.touched
    }

    /// The pieces whose EBLOCKs changed, as bytes. They count as written from now on.
    pub(crate) fn take_dirty_pieces(&mut self) -> Vec<(usize, Vec<u8>)> {
        let pieces: BTreeSet<usize> =
            self.touched.iter().map(|&e| e as usize / SUMMARY_PIECE_EBLOCKS).collect();
        self.touched.clear();
        let encode = |p: usize| {
            let from = p * SUMMARY_PIECE_EBLOCKS;
            let to = (from + SUMMARY_PIECE_EBLOCKS).min(self.eblocks.len());
            let mut b = Vec::with_capacity((to - from) * DESCRIPTOR_BYTES);
            self.eblocks[from..to].iter().for_each(|d| d.encode(&mut b));
            b
        };
        pieces.into_iter().map(|p| (p, encode(p))).collect()
    }

    /// The EBLOCKs of a piece are to be written anew.
    pub(crate) fn touch_piece(&mut self, piece: usize) {
        let from = piece * SUMMARY_PIECE_EBLOCKS;
        let to = (from + SUMMARY_PIECE_EBLOCKS).min(self.eblocks.len());
        self.touched.extend(from as u32..to as u32);
    }

    /// Sets what recovery read.
    pub(crate) fn restore(&mut self, e: EblockId, d: Descriptor) {
        *self.edit(e) = d;
        self.touched.remove(&e.raw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_survive_and_lies_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let d = Descriptor {
            state: State::Used { stream: Stream::Drive },
            generation: Generation::from_raw(7 << 32 | 3),
            live: 4096,
            pinned: 0,
            erase_count: 2,
            end: 2048,
            closed_at: 99,
        };
        let mut b = Vec::new();
        d.encode(&mut b);
        assert_eq!(b.len(), DESCRIPTOR_BYTES);
        assert_eq!(Descriptor::decode(&mut Take::new(&b), &g), Ok(d));
        b[28] = 9;
        assert!(Descriptor::decode(&mut Take::new(&b), &g).is_err());
    }

    #[test]
    fn an_eblock_is_empty_when_nothing_lives_and_nothing_is_pinned() {
        let g = Geometry::file(1 << 30).unwrap();
        let mut s = Summary::new(&g);
        let e = EblockId::new(3);
        s.edit(e).state = State::Used { stream: Stream::User };
        s.add_live(e, 128);
        s.sub_live(e, 128, true);
        assert!(s.empty.is_empty());
        s.unpin(e, 128);
        assert_eq!(s.empty, [e]);
        let pieces = s.take_dirty_pieces();
        assert_eq!((pieces.len(), pieces[0].1.len()), (1, 4 * DESCRIPTOR_BYTES));
        assert!(s.take_dirty_pieces().is_empty());
    }
}
