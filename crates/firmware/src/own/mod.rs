//! The mapping: from an LPID to where the page lies.
//!
//! ```text
//!   LPID ─► extent ─► mapping page (resident, or loaded through its home) ─► entry
//!                     homes: where mapping pages lie = the small table; the tiny table says where that lies
//! ```
//!
//! Source: ELEOS §III-B (mapping, small and tiny table); entries are atomic words, so readers take no lock
//! over them.

mod cache;
pub(crate) mod page;

use lode_base::Geometry;

pub(crate) use cache::PageCache;

use crate::own::page::DriveKind;

/// A page of the drive's own that is kept in memory within a budget.
pub(crate) trait Resident: Send + Sync + Sized {
    /// What it is on the medium.
    const KIND: DriveKind;

    /// The page in these bytes.
    fn decode(bytes: &[u8], g: &Geometry) -> Result<Self, &'static str>;

    /// Its bytes.
    fn encode(&self) -> Vec<u8>;

    /// Whether it says nothing, so that no home is needed.
    fn is_vacant(&self) -> bool;

    /// What it takes in memory.
    fn memory_bytes(&self) -> usize;
}
