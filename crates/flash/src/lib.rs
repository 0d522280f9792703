//! The medium under the drive: erase units that are erased before they are programmed, in order, with a tag beside
//! each read unit; in memory, in one image file, or in memory without what users write.
//!
//! ```text
//!   firmware ── erase, program, read, sync ─► Medium ── die state, tags ─► Backing: memory | image file
//!                                                └──── die state ───────► Kept: metadata only
//! ```
//!
//! What must hold: a WBLOCK is programmed once a generation, in order (asserted); what is read was programmed there,
//! in the generation that the firmware knows, and nothing else (tags); an open epoch is used once; after a failed sync
//! nothing is written any more.
//! Source: ELEOS §III (EBLOCKs, WBLOCKs, RBLOCKs and their states); the image file is Lode's own.

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
mod kept;
mod layout;
mod medium;
mod record;
mod superblock;
mod tag;
mod tag_cache;
pub mod timing;

pub use error::FlashError;
pub use faults::{FaultKind, Faults, Hit, Power};
pub use medium::{Medium, READ_RETRIES, WblockState};
pub use record::CHECKPOINT_RECORD_BYTES_MAX;
pub use tag::Generation;
