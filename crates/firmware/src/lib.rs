//! The drive: stores pages of any size in atomic batches, keeps old versions for read views, indexes pages as
//! they are written, runs programs where the pages are, and finds all of it again after a crash.
//!
//! ```text
//!   queue ─► drive ─┬─ write ─► room ─► append (programs data) ─► action (staged) ─► commit (log, one sync) ─► install
//!                   ├─ read ─► epochs ─► map ─► versions ─► medium
//!                   └─ compute (scans) ─► read
//!   background: checkpoint, gc (cleaner ─► mover) ─► own pages, moves: actions too        recovery: checkpoint, log ─► drive
//! ```
//!
//! What must hold: a batch takes effect whole or not at all, and is durable when it completes; readers wait
//! for no writer; what an open view shows stays readable; an EBLOCK is not programmed again while it is read.
//! Source: ELEOS (the write path, log, checkpoints and recovery), FLIXR (the page index).

mod append;
mod block;
mod check;
mod checkpoint;
mod cleaner;
mod codec;
mod command;
mod commit;
mod compute;
mod core;
mod drive;
mod entry;
mod env;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;
pub mod gc;
mod info;
mod log;
mod options;
mod own;
mod pages;
mod planted;
mod queue;
mod read;
mod record;
mod recovery;
mod scrub;
mod session;
mod space;
mod stream;
mod upkeep;
mod write;

pub use block::{BlockDrive, BlockError, BlockOptions};
pub use drive::{Drive, Unrecovered};
pub use error::FirmwareError;
pub use gc::{GcPolicy, NamedPolicy, POLICIES};
pub use options::{CheckReport, DriveInfo, DriveOptions, RecoveryReport, ScanPlacement, ScrubReport};
#[cfg(feature = "planted")]
pub use planted::{Planted, plant};
