//! Frames: versions of the trees' pages in memory.
//!
//! ```text
//!   LPID ─► newest frame ─► older ─► older        each immutable, with the number of the commit that made it
//!            │                └ kept while a snapshot may read it
//!            └ dirty until a batch of the drive has it; then it may be evicted
//! ```
//!
//! - `frame.rs`: one version, and the chain of versions behind it
//! - `open.rs`: the snapshots that are open, by what they see
//! - `table.rs`: all frames by page; readers, commits, pages that were read from the drive
//! - `evict.rs`: which frames leave, and when it is worth looking for some
//! - `dropped.rs`: trees that were dropped, and their extents when the drive hands them out again
//!
//! A reader takes the newest version that is not newer than its snapshot. If the chain ends before that, the snapshot's view of
//! the drive has the version. Readers of newest versions take no lock, and write nothing but the mark "used lately" of a frame
//! that does not have it yet.
//!
//! Invariants:
//! - The newest version of a page is the newest committed one.
//! - A dirty frame is never evicted.
//! - A frame is not evicted while an open snapshot sees it, if the frame is newer than that snapshot's view of the drive.
//! - A page that was read at a view other than the newest never becomes a newest version.

mod dropped;
mod evict;
mod frame;
mod lpid_map;
mod open;
mod table;

pub(crate) use frame::Frame;
pub(crate) use lpid_map::{LpidHasher, LpidMap};
pub(crate) use open::Sight;
pub(crate) use table::{Frames, TOGETHER};
