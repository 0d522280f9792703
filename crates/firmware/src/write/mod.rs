//! The write path: batches, and what else changes what the drive holds.
//!
//! ```text
//!   check ─► index entries ─► pin pages ─► [provision] ─► program data ─► [stage: number, old addresses] ─► group commit
//!                                             └─ no room: checkpoint, GC            [..]: the commit lock
//! ```
//!
//! What must hold: nothing of a batch shows, or counts, before its record is durable, or in the log where the batch is
//! unforced. No lock is held while index entries are made, or pages are read or programmed. Trims go on when the drive is
//! full.
//!
//! | file | job |
//! |---|---|
//! | `check.rs` | whether a batch is valid by itself |
//! | `batch.rs`, `stage.rs` | a batch from its beginning to its staging |
//! | `allocate.rs` | extents are handed out |
//! | `session.rs` | sessions are opened and closed |
//! | `index_room.rs` | room for the index pages of long entries |
//! | `build_index.rs` | index entries that pages lack |
//!
//! Source: ELEOS §IV, §VII.

mod allocate;
mod batch;
mod build_index;
mod check;
mod index_room;
mod session;
mod stage;
mod writer;

pub(crate) use writer::Writer;
