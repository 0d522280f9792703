//! The medium below the drive: erase units are erased before they are programmed, in order, and each read unit has a
//! tag. The medium lies in memory, in one image file, or in memory without the data of users.
//!
//! ```text
//!   firmware ── erase, program, read, sync ─► Medium ── die state, tags ─► Backing: memory | image file
//!                                                └──── die state ───────► Kept: metadata only
//! ```
//!
//! Invariants: a WBLOCK is programmed once in each generation, in order (asserted); a read returns only data that was
//! programmed there in the generation that the firmware knows (checked by tags); an open epoch is used once; after a
//! failed sync nothing is written. Source: ELEOS §III (EBLOCKs, WBLOCKs, RBLOCKs and their states); the image file is
//! Lode's own.

mod backing;
mod copies;
mod counter;
mod die;
mod error;
mod faults;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;
mod image;
mod layout;
mod medium;
mod metadata_only;
mod record;
mod superblock;
mod tag;
mod tag_cache;
pub mod timing;

pub use error::FlashError;
pub use faults::{FaultKind, Faults, Hit, Power};
pub use medium::{FirstGroup, Medium, READ_RETRIES, WblockState};
pub use record::CHECKPOINT_RECORD_BYTES_MAX;
pub use tag::Generation;
