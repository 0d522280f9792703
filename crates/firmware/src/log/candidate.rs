//! Where log pages lie: candidates, and positions in the log.
//!
//! ```text
//!   candidate  | generation 8 | EBLOCK 4 | WBLOCK 4 |
//!   position   | LSN 8 | opening 4 | candidate | candidate | candidate |     page `lsn` lies at the first that holds it
//! ```
//!
//! A candidate may hold a page that has the right LSN and generation, and yet is not part of this log. A power cut may lose a
//! log page and keep the pages behind it; the log then goes on from the lost page, in the same EBLOCK. So a position names
//! the opening of the medium that wrote the page before. Pages of an older opening do not count.

use std::fmt;

use lode_base::{EblockId, Geometry};
use lode_flash::Generation;

use crate::codec::{Malformed, Put, Take};

/// The highest LSN, commit or clock that an image may hold. No drive gets there, so there is always a next.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;
/// Candidates for each page.
pub(crate) const CANDIDATES: usize = 3;

/// A location where a log page may lie: a WBLOCK, in one generation of its EBLOCK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) eblock: EblockId,
    pub(crate) generation: Generation,
    pub(crate) wblock: u32,
}

/// A position in the log: all that is needed to write or read from there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogPosition {
    /// The LSN of the page at this position.
    pub(crate) lsn: u64,
    /// The opening of the medium that wrote the page before. This page is of the same opening, or of a later one.
    pub(crate) epoch: u32,
    pub(crate) candidates: [Candidate; CANDIDATES],
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WBLOCK {} of {:?}", self.wblock, self.eblock)
    }
}

impl Candidate {
    pub(crate) const BYTES: usize = 16;

    /// The start of an erased EBLOCK.
    pub(crate) fn start((eblock, generation): (EblockId, Generation)) -> Self {
        Self { eblock, generation, wblock: 0 }
    }

    /// `wblocks` further in the same EBLOCK.
    pub(crate) fn plus(self, wblocks: u32) -> Self {
        Self { wblock: self.wblock + wblocks, ..self }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut b = [0; Self::BYTES];
        b[..8].copy_from_slice(&self.generation.raw().to_le_bytes());
        b[8..12].copy_from_slice(&self.eblock.raw().to_le_bytes());
        b[12..].copy_from_slice(&self.wblock.to_le_bytes());
        b
    }

    /// The candidate in these bytes, which may not be on the medium: see [`why_not`].
    pub(crate) fn take(t: &mut Take<'_>) -> Result<Self, Malformed> {
        let generation = Generation::from_raw(t.u64()?);
        Ok(Self { eblock: EblockId::new(t.u32()?), generation, wblock: t.u32()? })
    }
}

/// Why these cannot be the candidates of a page.
pub(crate) fn why_not(candidates: &[Candidate; CANDIDATES], g: &Geometry) -> Option<&'static str> {
    let [a, b, c] = candidates.map(|s| s.eblock);
    if candidates.iter().any(|s| s.eblock.raw() >= g.eblock_count() || s.wblock >= g.wblocks_per_eblock()) {
        Some("a candidate for a log page beyond the medium")
    } else if a == b || b == c || a == c {
        Some("candidates for a log page in one EBLOCK")
    } else {
        None
    }
}

impl LogPosition {
    /// The start of a log in three erased EBLOCKs.
    pub(crate) fn start(lsn: u64, eblocks: [(EblockId, Generation); CANDIDATES]) -> Self {
        Self { lsn, epoch: 0, candidates: eblocks.map(Candidate::start) }
    }

    pub(crate) fn encode(&self, b: &mut Vec<u8>) {
        b.put_u64(self.lsn);
        b.put_u32(self.epoch);
        self.candidates.iter().for_each(|s| b.extend(s.to_bytes()));
    }

    pub(crate) fn decode(t: &mut Take<'_>, g: &Geometry) -> Result<Self, Malformed> {
        let (lsn, epoch) = (t.u64()?, t.u32()?);
        let candidates = [Candidate::take(t)?, Candidate::take(t)?, Candidate::take(t)?];
        if lsn == 0 || lsn > NUMBER_MAX {
            return Err(t.bad("a log page without a number, or with one that none follows"));
        }
        match why_not(&candidates, g) {
            Some(what) => Err(t.bad(what)),
            None => Ok(Self { lsn, epoch, candidates }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_and_lies_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let candidate = |n, wblock| Candidate {
            eblock: EblockId::new(n),
            generation: Generation::from_raw(1 << 32 | u64::from(n)),
            wblock,
        };
        let position = LogPosition {
            lsn: 77,
            epoch: 3,
            candidates: [candidate(1, 2047), candidate(127, 0), candidate(3, 0)],
        };
        let bytes = |p: LogPosition| {
            let mut b = Vec::new();
            p.encode(&mut b);
            b
        };
        let decode = |b: &[u8]| LogPosition::decode(&mut Take::new(b), &g);
        let b = bytes(position);
        assert_eq!(b.len(), 60);
        assert_eq!(decode(&b), Ok(position));
        assert_eq!(position.candidates[0].to_string(), format!("WBLOCK 2047 of {:?}", EblockId::new(1)));
        let last = LogPosition { lsn: NUMBER_MAX, ..position };
        assert_eq!(decode(&bytes(last)), Ok(last));
        (0..b.len()).for_each(|n| assert!(decode(&b[..n]).is_err(), "cut to {n} bytes"));
        let refused = |p: LogPosition| assert!(decode(&bytes(p)).is_err(), "{p:?}");
        refused(LogPosition { lsn: 0, ..position });
        refused(LogPosition { lsn: NUMBER_MAX + 1, ..position });
        refused(LogPosition {
            candidates: [candidate(1, 2048), candidate(2, 0), candidate(3, 0)],
            ..position
        });
        refused(LogPosition {
            candidates: [candidate(1, 0), candidate(128, 0), candidate(3, 0)],
            ..position
        });
        refused(LogPosition { candidates: [candidate(1, 0), candidate(3, 0), candidate(3, 0)], ..position });
    }
}
