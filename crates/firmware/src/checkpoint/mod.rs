//! Fuzzy checkpoints: what is dirty is written while writers go on, so that the next open reads only the log that came
//! after the checkpoint began.
//!
//! ```text
//!   [begin: where the log is] ─► dirty mapping, index pages ─► pieces of the tables ─► root ─► record ─► truncate the log
//!
//!   record (two slots, in turns; both the same at rest)
//!     └─► root ─┬─► pieces: homes of mapping pages, homes of index pages, owners, rules, open EBLOCKs, sessions, summary
//!               └─► generations of the EBLOCKs that the drive's own pages lie in, and of those that are written to
//! ```
//!
//! What must hold: everything that was dirty when the checkpoint began is durable before its record is written, as of some
//! later LSN that the log tells (`own.rs`); pages that the log before it inlined were moved; the root that the older record
//! names stays until the newer record is durable.
//!
//! Source: ELEOS §VIII-B. We differ: a record is written to both slots, so that one damaged slot loses nothing; open
//! EBLOCKs are not closed by force, since their metadata is written with the tables.

mod checkpointer;
mod own;
mod record;

pub(crate) use checkpointer::{Checkpointer, Checkpoints, LastCheckpoint};
pub(crate) use record::{BadRecord, CheckpointRecord, VERSION};
