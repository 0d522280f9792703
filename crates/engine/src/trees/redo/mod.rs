//! Redo: what makes commits durable before the pages that they changed.
//!
//! ```text
//!   commit ─► records ─► redo page ─► one small batch            frames leave later, in large batches
//!                                  └ trimmed from the front, once the drive has all pages that it names
//! ```
//!
//! Redo is physiological: a record names a page, and says what was done within it. A page says in its header which commit changed it
//! last. Replay applies only newer records to it.

//!
//! - `record.rs`, `page.rs`: what was done to a page; records of some commits on their way to the drive
//! - `log.rs`: where redo pages lie
//! - `replay.rs`: pages as the commits left them

mod log;
mod page;
mod record;
pub(crate) mod replay;

pub(crate) use log::{REDO_OWNER, RedoLog};
pub(crate) use page::{Bodies, RedoPage};
pub(crate) use record::Record;
