//! The EBLOCK summary: what each erase unit is for, and how much of it is still needed.
//!
//! ```text
//!   Free ── open ─► Open(stream, lane) ── full ─► Used ── nothing live or pinned ─► Limbo ── epochs passed ─► Free
//!    │                   └─ a program failed ─► Failed ── its pages moved away ─► Retired
//!    └──── log ──► Log ── truncated ─► Limbo
//!
//!   on the medium, 32 bytes per EBLOCK:
//!   | generation 8 | age 8 | live bytes 4 | erase count 4 | data end, WBLOCKs 3 | metadata WBLOCKs 2 | state, stream 1 | lane 2 |
//! ```
//!
//! `live` counts bytes that the newest mapping, or the drive's own tables, name. `pinned` counts bytes that only a read view
//! needs, or the checkpoint on the medium. `in_flight` counts actions that were provisioned there and are not over. The
//! last two are not written: views and actions end with the process. EBLOCKs beyond the end of the table are fresh: never
//! used.
//!
//! Source: ELEOS §III-B (summary table). We differ: it keeps available bytes (AVAIL), we keep live bytes.

use std::collections::BTreeSet;

use lode_base::{EblockId, Geometry};
use lode_flash::Generation;

use crate::codec::{Malformed, Put, Take};
use crate::planted::at;
use crate::stream::Stream;

/// EBLOCKs in one piece of the table.
pub(crate) const SUMMARY_PIECE_EBLOCKS: usize = 256;
const DESCRIPTOR_BYTES: usize = 32;

/// What an EBLOCK is for.
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
    /// A program failed: nothing more is written here, and what is live moves away.
    Failed {
        stream: Stream,
    },
    /// Never used again.
    Retired,
}

/// What is known of an EBLOCK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) state: State,
    pub(crate) generation: Generation,
    /// Bytes that the newest state needs.
    pub(crate) live: u32,
    /// Bytes that only a view, or the checkpoint on the medium, needs.
    pub(crate) pinned: u32,
    /// Actions that were provisioned here and are not over.
    pub(crate) in_flight: u32,
    pub(crate) erase_count: u32,
    /// WBLOCKs provisioned for pages.
    pub(crate) data_end: u32,
    /// WBLOCKs of metadata behind them: 0 while it is only in memory.
    pub(crate) metadata: u32,
    /// The clock of ages when batches wrote its pages, about. Pages that GC moves keep it. Streams of GC are chosen by it.
    pub(crate) age: u64,
    /// The clock of ages when it was closed. Victims are chosen by it. It is only in memory: after an opening it is `age`.
    pub(crate) closed: u64,
}

impl Descriptor {
    const FRESH: Self = Self {
        state: State::Free,
        generation: Generation::UNKNOWN,
        live: 0,
        pinned: 0,
        in_flight: 0,
        erase_count: 0,
        data_end: 0,
        metadata: 0,
        age: 0,
        closed: 0,
    };

    /// The descriptor as it lies on the medium. EBLOCKs of the log count as free there: the log itself names them.
    pub(crate) fn encode(&self, b: &mut Vec<u8>) {
        let (state, stream, lane) = match self.state {
            State::Free | State::Log | State::Limbo => (0, Stream::UserHot, 0),
            State::Open { stream, lane } => (1, stream, lane),
            State::Used { stream } => (2, stream, 0),
            State::Failed { stream } => (3, stream, 0),
            State::Retired => (4, Stream::UserHot, 0),
        };
        b.put_u64(self.generation.raw());
        b.put_u64(self.age);
        b.put_u32(self.live);
        b.put_u32(self.erase_count);
        b.extend(&self.data_end.to_le_bytes()[..3]);
        b.put_u16(u16::try_from(self.metadata).expect("metadata takes fewer than 65,536 WBLOCKs"));
        b.put_u8(state << 5 | stream.tag());
        b.put_u16(lane);
    }

    pub(crate) fn decode(t: &mut Take<'_>, g: &Geometry) -> Result<Self, Malformed> {
        let generation = Generation::from_raw(t.u64()?);
        let (age, live, erase_count) = (t.u64()?, t.u32()?, t.u32()?);
        let low = t.raw(3)?;
        let data_end = u32::from_le_bytes([low[0], low[1], low[2], 0]);
        let (metadata, state, lane) = (u32::from(t.u16()?), t.u8()?, t.u16()?);
        let stream = Stream::from_tag(state & 0x1f).ok_or(t.bad("an unknown stream"))?;
        let state = match state >> 5 {
            0 => State::Free,
            1 if u32::from(lane) < g.channels() => State::Open { stream, lane },
            2 => State::Used { stream },
            3 => State::Failed { stream },
            4 => State::Retired,
            _ => return Err(t.bad("an unknown state of an EBLOCK")),
        };
        let holds = !matches!(state, State::Free | State::Retired);
        if live > g.eblock_bytes() || data_end + metadata > g.wblocks_per_eblock() || (!holds && live > 0) {
            return Err(t.bad("an impossible descriptor of an EBLOCK"));
        }
        Ok(Self { state, generation, live, erase_count, data_end, metadata, age, closed: age, ..Self::FRESH })
    }

    /// The stream of an EBLOCK that holds pages.
    pub(crate) fn stream(&self) -> Option<Stream> {
        match self.state {
            State::Open { stream, .. } | State::Used { stream } | State::Failed { stream } => Some(stream),
            State::Free | State::Log | State::Limbo | State::Retired => None,
        }
    }

    /// Whether nothing in it is needed, by the mapping, a view or an action under way.
    pub(crate) fn is_empty(&self) -> bool {
        let pinned = at!(PinnedReleased => false, self.pinned > 0);
        self.live == 0 && !pinned && self.in_flight == 0
    }
}

pub(super) struct Summary {
    eblocks: Vec<Descriptor>,
    /// EBLOCKs of the medium.
    count: u32,
    /// EBLOCKs whose descriptor changed since their piece was written.
    touched: BTreeSet<u32>,
    /// The last of them, which mostly is the next one, too: consecutive pages lie in one EBLOCK.
    touched_last: Option<u32>,
    /// An EBLOCK of which more bytes died than lived: summary and mapping of the image contradict each other.
    miscounted: Option<EblockId>,
    /// EBLOCKs of which nothing may be needed any more.
    empty: Vec<EblockId>,
    live_bytes: u64,
    pinned_bytes: u64,
    retired: u32,
}

impl Summary {
    pub(super) fn new(g: &Geometry) -> Self {
        Self {
            eblocks: Vec::new(),
            count: g.eblock_count(),
            touched: BTreeSet::new(),
            touched_last: None,
            miscounted: None,
            empty: Vec::new(),
            live_bytes: 0,
            pinned_bytes: 0,
            retired: 0,
        }
    }

    /// EBLOCKs that were ever used: all others are fresh.
    pub(super) fn len(&self) -> usize {
        self.eblocks.len()
    }

    /// An EBLOCK of which more bytes died than lived.
    pub(super) fn miscounted(&self) -> Option<EblockId> {
        self.miscounted
    }

    pub(super) fn has_empty(&self) -> bool {
        !self.empty.is_empty()
    }

    /// EBLOCKs that may have become empty since this was asked last.
    pub(super) fn take_empty(&mut self) -> Vec<EblockId> {
        std::mem::take(&mut self.empty)
    }

    /// Bytes that the newest state needs.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Bytes that only views, or the checkpoint on the medium, need.
    pub(super) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// EBLOCKs that are never used again, or will not be once they are empty.
    pub(super) fn retired(&self) -> u32 {
        self.retired
    }

    pub(super) fn get(&self, e: EblockId) -> Descriptor {
        self.eblocks.get(e.raw() as usize).copied().unwrap_or(Descriptor::FRESH)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (EblockId, &Descriptor)> {
        self.eblocks.iter().enumerate().map(|(i, d)| (EblockId::new(i as u32), d))
    }

    /// The descriptor, for changes that no total depends on.
    pub(super) fn edit(&mut self, e: EblockId) -> &mut Descriptor {
        assert!(e.raw() < self.count, "{e:?} lies beyond the medium");
        let at = e.raw() as usize;
        if self.eblocks.len() <= at {
            self.eblocks.resize(at + 1, Descriptor::FRESH);
        }
        if self.touched_last != Some(e.raw()) {
            self.touched.insert(e.raw());
            self.touched_last = Some(e.raw());
        }
        &mut self.eblocks[at]
    }

    /// Gives an EBLOCK another state.
    pub(super) fn set_state(&mut self, e: EblockId, state: State) {
        let bad = |s: State| u32::from(matches!(s, State::Retired | State::Failed { .. }));
        let d = self.edit(e);
        let before = std::mem::replace(&mut d.state, state);
        self.retired = self.retired + bad(state) - bad(before);
    }

    /// Replaces a descriptor, in recovery.
    pub(super) fn replace(&mut self, e: EblockId, d: Descriptor) {
        let old = self.get(e);
        self.live_bytes = self.live_bytes + u64::from(d.live) - u64::from(old.live);
        self.pinned_bytes = self.pinned_bytes + u64::from(d.pinned) - u64::from(old.pinned);
        self.set_state(e, d.state);
        *self.edit(e) = d;
    }

    pub(super) fn add_live(&mut self, e: EblockId, bytes: u32) {
        let d = self.edit(e);
        d.live = d.live.saturating_add(bytes);
        self.live_bytes += u64::from(bytes);
    }

    /// The newest state needs so many bytes less.
    pub(super) fn sub_live(&mut self, e: EblockId, bytes: u32) {
        let d = self.edit(e);
        let lived = d.live.min(bytes);
        d.live -= lived;
        self.live_bytes -= u64::from(lived);
        if lived < bytes {
            self.miscounted = Some(e);
        }
        self.note_if_empty(e);
    }

    /// Only a view, or the checkpoint on the medium, needs these bytes from now on. Pins are not written, so the piece of
    /// the table stays clean.
    pub(super) fn pin(&mut self, e: EblockId, bytes: u32) {
        self.eblocks[e.raw() as usize].pinned += bytes;
        self.pinned_bytes += u64::from(bytes);
    }

    pub(super) fn unpin(&mut self, e: EblockId, bytes: u32) {
        let d = &mut self.eblocks[e.raw() as usize];
        d.pinned = d.pinned.checked_sub(bytes).expect("no more bytes are unpinned than were pinned");
        self.pinned_bytes -= u64::from(bytes);
        self.note_if_empty(e);
    }

    /// An action was provisioned here, or the mover empties it: the EBLOCK stays.
    pub(super) fn enter(&mut self, e: EblockId) {
        self.eblocks[e.raw() as usize].in_flight += 1;
    }

    /// That is over.
    pub(super) fn leave(&mut self, e: EblockId) {
        let d = &mut self.eblocks[e.raw() as usize];
        d.in_flight = d.in_flight.checked_sub(1).expect("an action leaves once");
        self.note_if_empty(e);
    }

    pub(super) fn note_if_empty(&mut self, e: EblockId) {
        let d = self.get(e);
        if matches!(d.state, State::Used { .. } | State::Failed { .. }) && d.is_empty() {
            self.empty.push(e);
        }
    }

    /// The pieces whose EBLOCKs changed, as bytes. They count as written from now on.
    pub(super) fn take_dirty_pieces(&mut self) -> Vec<(usize, Vec<u8>)> {
        let pieces: BTreeSet<usize> =
            self.touched.iter().map(|&e| e as usize / SUMMARY_PIECE_EBLOCKS).collect();
        self.touched.clear();
        self.touched_last = None;
        let encode = |p: usize| {
            let from = p * SUMMARY_PIECE_EBLOCKS;
            let to = (from + SUMMARY_PIECE_EBLOCKS).min(self.eblocks.len());
            let mut b = Vec::with_capacity((to - from) * DESCRIPTOR_BYTES);
            self.eblocks[from..to].iter().for_each(|d| d.encode(&mut b));
            b
        };
        pieces.into_iter().map(|p| (p, encode(p))).collect()
    }

    /// A piece is to be written again.
    pub(super) fn touch_piece(&mut self, piece: usize) {
        let from = piece * SUMMARY_PIECE_EBLOCKS;
        let to = (from + SUMMARY_PIECE_EBLOCKS).min(self.eblocks.len());
        self.touched.extend(from as u32..to as u32);
    }

    /// Totals match the descriptors.
    pub(super) fn check_invariants(&self, g: &Geometry) {
        let sum = |f: fn(&Descriptor) -> u32| self.eblocks.iter().map(|d| u64::from(f(d))).sum::<u64>();
        assert_eq!(self.live_bytes, sum(|d| d.live), "live bytes");
        assert_eq!(self.pinned_bytes, sum(|d| d.pinned), "pinned bytes");
        let bad = |d: &Descriptor| u32::from(matches!(d.state, State::Retired | State::Failed { .. }));
        assert_eq!(u64::from(self.retired), sum(bad), "retired EBLOCKs");
        for (e, d) in self.all() {
            let end = d.data_end + d.metadata;
            assert!(end <= g.wblocks_per_eblock(), "{e:?} ends beyond itself: {d:?}");
            let held = u64::from(d.live) + u64::from(d.pinned);
            assert!(
                held <= u64::from(d.data_end) * u64::from(g.wblock_bytes()) || d.stream().is_none(),
                "{e:?} holds more than was written there: {d:?}"
            );
            if matches!(d.state, State::Free | State::Limbo | State::Retired) {
                assert!(d.is_empty(), "{e:?} is needed: {d:?}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_survive_and_lies_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let d = Descriptor {
            state: State::Used { stream: Stream::Gc(2) },
            generation: Generation::from_raw(7 << 32 | 3),
            live: 4096,
            erase_count: 2,
            data_end: 2040,
            metadata: 8,
            age: 99,
            closed: 99,
            ..Descriptor::FRESH
        };
        let mut b = Vec::new();
        d.encode(&mut b);
        assert_eq!(b.len(), DESCRIPTOR_BYTES);
        assert_eq!(Descriptor::decode(&mut Take::new(&b), &g), Ok(d));
        b[29] = 7 << 5;
        assert!(Descriptor::decode(&mut Take::new(&b), &g).is_err());
        b[29] = 2 << 5 | 31;
        assert!(Descriptor::decode(&mut Take::new(&b), &g).is_err());
    }

    #[test]
    fn an_eblock_is_empty_when_nothing_lives_is_pinned_or_under_way() {
        let g = Geometry::file(1 << 30).unwrap();
        let mut s = Summary::new(&g);
        let e = EblockId::new(3);
        s.set_state(e, State::Used { stream: Stream::UserHot });
        s.edit(e).data_end = 1;
        s.add_live(e, 128);
        s.enter(e);
        s.pin(e, 128);
        s.sub_live(e, 128);
        assert!(s.empty.is_empty());
        s.unpin(e, 128);
        assert!(s.empty.is_empty());
        s.leave(e);
        assert_eq!(s.empty, [e]);
        s.check_invariants(&g);
        let pieces = s.take_dirty_pieces();
        assert_eq!((pieces.len(), pieces[0].1.len()), (1, 4 * DESCRIPTOR_BYTES));
        assert!(s.take_dirty_pieces().is_empty());
    }
}
