//! Places of log pages.
//!
//! ```text
//!   spot   | generation 8 | EBLOCK 4 | WBLOCK 4 |
//!   place  | LSN 8 | opening 4 | spot | spot | spot |      page `lsn` lies at the first of these spots that holds it
//! ```
//!
//! What lies at a spot can be a page with the right number and of the right generation, and yet not of this log: when
//! power was cut, the pages after one that was lost may be there, and the log then went on from the one that was lost,
//! in the same EBLOCK. Pages of an opening of the medium before that of the page before them do not count, so a place
//! says which that was.

use std::fmt;

use lode_base::{EblockId, Geometry};
use lode_flash::Generation;

use crate::codec::{Malformed, Put, Take};

/// The highest LSN, commit or clock that an image may hold: more than are ever reached, so that there is always a next.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;
/// Places that a page may go to.
pub(crate) const CANDIDATES: usize = 3;

/// A WBLOCK of a generation of an EBLOCK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    pub(crate) eblock: EblockId,
    pub(crate) generation: Generation,
    pub(crate) wblock: u32,
}

/// A position in the log: all that is needed to go on, or to read from there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The LSN of the page that comes here.
    pub(crate) lsn: u64,
    /// The opening of the medium that wrote the page before: no older one wrote this page.
    pub(crate) epoch: u32,
    pub(crate) spots: [Spot; CANDIDATES],
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WBLOCK {} of {:?}", self.wblock, self.eblock)
    }
}

impl Spot {
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

    /// The spot in these bytes, which may not be on the medium: see [`why_not`].
    pub(crate) fn take(t: &mut Take<'_>) -> Result<Self, Malformed> {
        let generation = Generation::from_raw(t.u64()?);
        Ok(Self { eblock: EblockId::new(t.u32()?), generation, wblock: t.u32()? })
    }
}

/// Why these can not be the spots of a page.
pub(crate) fn why_not(spots: &[Spot; CANDIDATES], g: &Geometry) -> Option<&'static str> {
    let [a, b, c] = spots.map(|s| s.eblock);
    if spots.iter().any(|s| s.eblock.raw() >= g.eblock_count() || s.wblock >= g.wblocks_per_eblock()) {
        Some("a place of a log page beyond the medium")
    } else if a == b || b == c || a == c {
        Some("places of a log page in one EBLOCK")
    } else {
        None
    }
}

impl Place {
    /// The start of a log in three erased EBLOCKs.
    pub(crate) fn start(lsn: u64, eblocks: [(EblockId, Generation); CANDIDATES]) -> Self {
        Self { lsn, epoch: 0, spots: eblocks.map(Spot::start) }
    }

    pub(crate) fn encode(&self, b: &mut Vec<u8>) {
        b.put_u64(self.lsn);
        b.put_u32(self.epoch);
        self.spots.iter().for_each(|s| b.extend(s.to_bytes()));
    }

    pub(crate) fn decode(t: &mut Take<'_>, g: &Geometry) -> Result<Self, Malformed> {
        let (lsn, epoch) = (t.u64()?, t.u32()?);
        let spots = [Spot::take(t)?, Spot::take(t)?, Spot::take(t)?];
        if lsn == 0 || lsn > NUMBER_MAX {
            return Err(t.bad("a log page without a number, or with one that none follows"));
        }
        match why_not(&spots, g) {
            Some(what) => Err(t.bad(what)),
            None => Ok(Self { lsn, epoch, spots }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_and_lies_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let spot = |n, wblock| Spot {
            eblock: EblockId::new(n),
            generation: Generation::from_raw(1 << 32 | u64::from(n)),
            wblock,
        };
        let place = Place { lsn: 77, epoch: 3, spots: [spot(1, 2047), spot(127, 0), spot(3, 0)] };
        let bytes = |p: Place| {
            let mut b = Vec::new();
            p.encode(&mut b);
            b
        };
        let decode = |b: &[u8]| Place::decode(&mut Take::new(b), &g);
        let b = bytes(place);
        assert_eq!(b.len(), 60);
        assert_eq!(decode(&b), Ok(place));
        assert_eq!(place.spots[0].to_string(), format!("WBLOCK 2047 of {:?}", EblockId::new(1)));
        let last = Place { lsn: NUMBER_MAX, ..place };
        assert_eq!(decode(&bytes(last)), Ok(last));
        (0..b.len()).for_each(|n| assert!(decode(&b[..n]).is_err(), "cut to {n} bytes"));
        let refused = |p: Place| assert!(decode(&bytes(p)).is_err(), "{p:?}");
        refused(Place { lsn: 0, ..place });
        refused(Place { lsn: NUMBER_MAX + 1, ..place });
        refused(Place { spots: [spot(1, 2048), spot(2, 0), spot(3, 0)], ..place });
        refused(Place { spots: [spot(1, 0), spot(128, 0), spot(3, 0)], ..place });
        refused(Place { spots: [spot(1, 0), spot(3, 0), spot(3, 0)], ..place });
    }
}
