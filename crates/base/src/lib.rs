//! The vocabulary of Lode: addresses, geometry, device profiles, virtual time, checksums and page buffers.
//!
//! Every other crate builds on these names, and this one depends on none of them. Addresses, sizes and times
//! are newtypes with private fields, so that an address of one space cannot be used in another.

pub mod addr;
pub mod calendar;
pub mod checksum;
pub mod epochs;
pub mod fast;
pub mod geometry;
pub mod lookup;
pub mod operations;
pub mod page_buf;
pub mod planted;
pub mod prefetch;
pub mod profile;
pub mod random;
pub mod split;
pub mod time;
pub mod wire;

pub use addr::{CommitNo, EblockId, ExtentId, Lpid, OwnerId, Ppa, SessionId, TableId, ViewId};
pub use geometry::{Geometry, GeometryError};
pub use operations::{EnergyUse, Operations};
pub use page_buf::{PageBuf, PageBufMut};
pub use profile::{Profile, ProfileError};
pub use split::{Part, Split};
pub use time::{VirtualDuration, VirtualTime};

/// Alignment of a logical page on the medium, and the unit of a physical address, in bytes.
pub const CELL_BYTES: usize = 64;

/// Longest logical page that a mapping entry can describe, in bytes (21 bits of length, exclusive).
pub const PAGE_BYTES_LIMIT: usize = 1 << 21;

/// Shortest logical page, in bytes.
pub const PAGE_BYTES_MIN: usize = 64;

/// Logical pages in one extent.
pub const EXTENT_PAGES: usize = 1024;
