//! The page index of kind "range": the least and the greatest key of each indexed column of a page.
//!
//! ```text
//!   page written ── IndexRule::entry ─► IndexEntry { rows, per column: NULLs?, min key, max key }
//!   page scanned ── may_match(program, entry) ─► false: no row of the page can pass, it is not read
//! ```
//!
//! Source: FLIXR's page index; the entry travels with the mapping of the page's version.

mod entry;
mod key;
mod range;
mod rule;

pub use entry::IndexEntry;
pub use key::{key_of, value_of};
pub(crate) use key::{order_of, total32, total64};
pub use range::may_match;
pub use rule::{INDEX_COLUMNS_MAX, IndexRule};
