//! The drive: stores pages of any size in atomic batches, keeps old versions for read views, indexes pages as
//! they are written, runs programs where the pages are, and finds all of it again after a crash.
//!
//! ```text
//!   queue ─► drive ─┬─ write ─► append (programs data) ─► log (one sync) ─► install ─► map, index, versions
//!                   ├─ read ─► epochs ─► map ─► versions ─► medium
//!                   └─ compute (scans) ─► read
//!   checkpoint ◄─ log grows          recovery: checkpoint, log ─► drive          reclaim ◄─ EBLOCKs without live bytes
//! ```
//!
//! What must hold: a batch takes effect whole or not at all, and is durable when it completes; readers wait
//! for no writer; what an open view shows stays readable; an EBLOCK is not programmed again while it is read.
//! Source: ELEOS (the write path, log, checkpoints and recovery), FLIXR (the page index).

mod append;
mod block;
mod check;
mod checkpoint;
mod codec;
mod compute;
mod core;
mod drive;
mod drive_page;
mod epochs;
mod error;
mod extents;
pub mod gc;
mod index;
mod install;
mod log;
mod map;
mod options;
mod queue;
mod read;
mod reclaim;
mod recovery;
mod summary;
mod versions;
mod write;

pub use block::{BlockDrive, BlockError, BlockOptions};
pub use drive::Drive;
pub use error::FirmwareError;
pub use gc::{POLICIES, Policy};
pub use options::{CheckReport, DriveInfo, DriveOptions};
pub use recovery::Unrecovered;
