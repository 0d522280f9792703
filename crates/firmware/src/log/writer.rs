//! Appends groups of records to the log.
//!
//! Invariants: the LSN goes up by one a page; the next log EBLOCK is erased before the first page that names
//! it is written; a group is durable only once the medium was synced after it was appended.

use lode_base::{EblockId, Geometry, PageBufMut};
use lode_flash::{Generation, Medium};

use super::page::{LogPage, PAYLOAD_AT};
use crate::FirmwareError;

/// A position in the log, and the EBLOCK that comes after: all that is needed to go on, or to read from
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The LSN of the page that comes here.
    pub(crate) lsn: u64,
    pub(crate) eblock: EblockId,
    pub(crate) generation: Generation,
    pub(crate) wblock: u32,
    pub(crate) next: (EblockId, Generation),
}

pub(crate) struct LogWriter {
    place: Place,
    /// The last LSN known durable.
    durable: u64,
    /// EBLOCKs of the log that lie before the current one.
    pub(crate) closed: Vec<EblockId>,
    /// Bytes appended since the last checkpoint.
    pub(crate) bytes: u64,
}

impl LogWriter {
    /// A log that goes on at `place`; what lies before it is durable.
    pub(crate) fn new(place: Place) -> Self {
        Self { place, durable: place.lsn - 1, closed: Vec::new(), bytes: 0 }
    }

    /// Where the next group begins.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Bytes that a group of `bytes` takes in the log.
    pub(crate) fn group_bytes(g: &Geometry, bytes: usize) -> u64 {
        let payload = g.wblock_bytes() as usize - PAYLOAD_AT;
        bytes.div_ceil(payload) as u64 * u64::from(g.wblock_bytes())
    }

    /// Writes a group. `next_eblock` erases a further EBLOCK for the log.
    pub(crate) fn append(
        &mut self,
        medium: &Medium,
        group: &[u8],
        mut next_eblock: impl FnMut() -> Result<Option<(EblockId, Generation)>, FirmwareError>,
    ) -> Result<(), FirmwareError> {
        assert!(!group.is_empty(), "an empty group");
        let g = *medium.geometry();
        let (wblock_bytes, wblocks) = (g.wblock_bytes() as usize, g.wblocks_per_eblock());
        let payload_bytes = wblock_bytes - PAYLOAD_AT;
        let mut payloads = group.chunks(payload_bytes).enumerate().peekable();
        while payloads.peek().is_some() {
            if self.place.wblock == wblocks {
                let full = || FirmwareError::Full { path: medium.path().into(), what: "the log" };
                let next = next_eblock()?.ok_or_else(full)?;
                self.closed.push(self.place.eblock);
                let (eblock, generation) = self.place.next;
                self.place = Place { eblock, generation, wblock: 0, next, ..self.place };
            }
            let room = ((wblocks - self.place.wblock) as usize).min((1 << 20) / wblock_bytes);
            let mut buf =
                PageBufMut::with_capacity(room.min(group.len().div_ceil(payload_bytes)) * wblock_bytes);
            let mut count = 0;
            for (i, payload) in payloads.by_ref().take(room) {
                let p = LogPage {
                    first: i == 0,
                    last: (i + 1) * payload_bytes >= group.len(),
                    generation: self.place.generation,
                    lsn: self.place.lsn + u64::from(count),
                    durable: self.durable,
                    next: self.place.next,
                };
                let offset = (self.place.wblock + count) * g.wblock_bytes();
                let at = g.ppa(self.place.eblock, offset).expect("the log lies on the medium");
                buf.resize(buf.len() + wblock_bytes);
                let from = buf.len() - wblock_bytes;
                p.encode(at, payload, &mut buf[from..]);
                count += 1;
            }
            let bytes = buf.len() as u64;
            medium.program_tagged_inside(self.place.eblock, self.place.wblock, &buf.freeze())?;
            self.place.wblock += count;
            self.place.lsn += u64::from(count);
            self.bytes += bytes;
        }
        Ok(())
    }

    /// The medium was synced after the last append.
    pub(crate) fn synced(&mut self) {
        self.durable = self.place.lsn - 1;
    }
}
