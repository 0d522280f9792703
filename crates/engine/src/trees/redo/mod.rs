//! Redo: what makes commits durable before the pages that they changed.
//!
//! ```text
//!   commit ─► records ─► redo page ─► one small batch            frames leave later, in large batches
//!                                  └ trimmed from the front, once all that it speaks of was written
//! ```
//!
//! Redo is physiological: a record names a page, and what was done within it. Replay goes page by page and skips what
//! the page's own commit number covers.

mod log;
mod page;
mod record;
pub(crate) mod replay;

pub(crate) use log::{REDO_OWNER, RedoLog};
pub(crate) use page::{Bodies, RedoPage};
pub(crate) use record::Record;
