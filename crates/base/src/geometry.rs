//! The shape of a medium, in ELEOS's terms, and the only place where a physical address is made.
//!
//! ```text
//!   medium   = EBLOCKs (erase unit), dealt round-robin over channels x ways
//!   EBLOCK   = WBLOCKs (program unit)      WBLOCK = RBLOCKs (read unit)      RBLOCK = cells of 64 bytes
//! ```
//!
//! Invariants: RBLOCK divides WBLOCK divides EBLOCK; a `Ppa` lies on the medium; an EBLOCK lies on one die.
//! Source: ELEOS §III-A, Table I.

use crate::{CELL_BYTES, EblockId, Ppa};

/// Channels, ways, planes, unit sizes and capacity of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    channels: u32,
    ways: u32,
    planes: u32,
    rblock_bytes: u32,
    wblock_bytes: u32,
    eblock_bytes: u32,
    eblock_count: u32,
}

/// Why a geometry is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A value lies outside what Lode can address.
    #[error("{what} is {value}; it must be {must}")]
    OutOfRange {
        /// The value's name.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
}

impl Geometry {
    /// Most EBLOCKs: 256 TB of 8 MB.
    pub const EBLOCKS_MAX: u32 = 1 << 25;

    /// The default of an image file: 4 KB read and program units, 8 MB erase units, one channel, up to `capacity_bytes`.
    pub fn file(capacity_bytes: u64) -> Result<Self, GeometryError> {
        const EBLOCK_BYTES: u32 = 8 << 20;
        let count = capacity_bytes / u64::from(EBLOCK_BYTES);
        let count = u32::try_from(count).map_err(|_| GeometryError::OutOfRange {
            what: "the capacity in bytes",
            value: capacity_bytes,
            must: "at most 256 TB",
        })?;
        Self::new(1, 1, 1, 4096, 4096, EBLOCK_BYTES, count)
    }

    /// A checked geometry. Sizes in bytes: `rblock` at least 4,096 and a power of two up to 64 KB, each unit a
    /// multiple of the one before, `eblock` a multiple of 1 MB or a divisor of it.
    pub fn new(
        channels: u32,
        ways: u32,
        planes: u32,
        rblock_bytes: u32,
        wblock_bytes: u32,
        eblock_bytes: u32,
        eblock_count: u32,
    ) -> Result<Self, GeometryError> {
        let check = |ok: bool, what, value: u32, must| {
            if ok { Ok(()) } else { Err(GeometryError::OutOfRange { what, value: value.into(), must }) }
        };
        check((1..=1024).contains(&channels), "channels", channels, "from 1 to 1,024")?;
        check((1..=1024).contains(&ways), "ways", ways, "from 1 to 1,024")?;
        check((1..=16).contains(&planes), "planes", planes, "from 1 to 16")?;
        let pow2 = rblock_bytes.is_power_of_two();
        check(
            pow2 && (4096..=65_536).contains(&rblock_bytes),
            "rblock_bytes",
            rblock_bytes,
            "4, 8, 16, 32 or 64 KB",
        )?;
        let multiple =
            wblock_bytes != 0 && wblock_bytes.is_multiple_of(rblock_bytes) && wblock_bytes <= 1 << 20;
        check(multiple, "wblock_bytes", wblock_bytes, "a multiple of rblock_bytes, at most 1 MB")?;
        let multiple = eblock_bytes.is_multiple_of(wblock_bytes) && eblock_bytes / wblock_bytes >= 4;
        check(multiple, "eblock_bytes", eblock_bytes, "a multiple of wblock_bytes, at least four of them")?;
        let aligned = eblock_bytes.is_multiple_of(1 << 20) || (1u32 << 20).is_multiple_of(eblock_bytes);
        check(
            aligned && eblock_bytes <= 1 << 30,
            "eblock_bytes",
            eblock_bytes,
            "a multiple or a divisor of 1 MB, at most 1 GB",
        )?;
        let some = (8..=Self::EBLOCKS_MAX).contains(&eblock_count);
        check(some, "eblock_count", eblock_count, "from 8 to 33,554,432")?;
        let g = Self { channels, ways, planes, rblock_bytes, wblock_bytes, eblock_bytes, eblock_count };
        if g.capacity_bytes() > 256 << 40 {
            let value = g.capacity_bytes();
            return Err(GeometryError::OutOfRange {
                what: "the capacity in bytes",
                value,
                must: "at most 256 TB",
            });
        }
        Ok(g)
    }

    /// Channels of the device.
    pub const fn channels(&self) -> u32 {
        self.channels
    }

    /// Dies on each channel.
    pub const fn ways(&self) -> u32 {
        self.ways
    }

    /// Planes of each die.
    pub const fn planes(&self) -> u32 {
        self.planes
    }

    /// Bytes of a read unit.
    pub const fn rblock_bytes(&self) -> u32 {
        self.rblock_bytes
    }

    /// Bytes of a program unit.
    pub const fn wblock_bytes(&self) -> u32 {
        self.wblock_bytes
    }

    /// Bytes of an erase unit.
    pub const fn eblock_bytes(&self) -> u32 {
        self.eblock_bytes
    }

    /// Erase units of the medium.
    pub const fn eblock_count(&self) -> u32 {
        self.eblock_count
    }

    /// Program units in an erase unit.
    pub const fn wblocks_per_eblock(&self) -> u32 {
        self.eblock_bytes / self.wblock_bytes
    }

    /// Bytes of the whole medium, tags not counted.
    pub const fn capacity_bytes(&self) -> u64 {
        self.eblock_bytes as u64 * self.eblock_count as u64
    }

    /// The channel that an EBLOCK lies on.
    pub const fn channel_of(&self, e: EblockId) -> u32 {
        e.raw() % self.channels
    }

    /// The address of byte `offset` (a multiple of 64) of EBLOCK `e`; `None` outside the medium or unaligned.
    pub fn ppa(&self, e: EblockId, offset: u32) -> Option<Ppa> {
        if e.raw() >= self.eblock_count
            || offset >= self.eblock_bytes
            || !offset.is_multiple_of(CELL_BYTES as u32)
        {
            return None;
        }
        let byte = u64::from(e.raw()) * u64::from(self.eblock_bytes) + u64::from(offset);
        Some(Ppa::mint(byte / CELL_BYTES as u64))
    }

    /// The address with this cell number, as found in a mapping entry; `None` outside the medium.
    pub fn ppa_from_cell(&self, cell: u64) -> Option<Ppa> {
        let byte = cell.checked_mul(CELL_BYTES as u64)?;
        (byte < self.capacity_bytes()).then_some(Ppa::mint(cell))
    }

    /// The EBLOCK of an address, and the byte offset within it.
    pub fn locate(&self, p: Ppa) -> (EblockId, u32) {
        let byte = p.cell() * CELL_BYTES as u64;
        let e = byte / u64::from(self.eblock_bytes);
        (EblockId::new(e as u32), (byte % u64::from(self.eblock_bytes)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        let g = Geometry::new(4, 2, 1, 4096, 32_768, 1 << 20, 64).unwrap();
        let p = g.ppa(EblockId::new(63), (1 << 20) - 64).unwrap();
        assert_eq!(g.locate(p), (EblockId::new(63), (1 << 20) - 64));
        assert_eq!(g.ppa_from_cell(p.cell()), Some(p));
        assert_eq!(g.ppa_from_cell(p.cell() + 1), None);
        assert_eq!(g.ppa(EblockId::new(64), 0), None);
        assert_eq!(g.ppa(EblockId::new(0), 32), None);
    }

    #[test]
    fn impossible_shapes_are_refused_by_name() {
        let e = Geometry::new(1, 1, 1, 4096, 5000, 1 << 20, 64).unwrap_err();
        assert_eq!(
            e.to_string(),
            "wblock_bytes is 5000; it must be a multiple of rblock_bytes, at most 1 MB"
        );
        assert!(Geometry::new(0, 1, 1, 4096, 4096, 1 << 20, 64).is_err());
        assert!(Geometry::new(1, 1, 1, 512, 4096, 1 << 20, 64).is_err());
        assert!(Geometry::new(1, 1, 1, 4096, 4096, 1 << 14, Geometry::EBLOCKS_MAX).is_ok());
        assert!(Geometry::new(1, 1, 1, 4096, 4096, 1 << 14, Geometry::EBLOCKS_MAX + 1).is_err());
    }
}
