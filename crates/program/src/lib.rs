//! Typed programs that the drive runs: checked once, then evaluated over the columns of one page. Pure.
//!
//! ```text
//!   Expr ── Program::check ─► Program ── Passed::of(columns of a page) ─► rows_of ─► the rows that pass
//!   Program with Aggregation ── Passed::group, GroupTable ─► partial groups of the rows that pass
//!   Schema ── IndexRule ── entry(columns) ─► IndexEntry ── verdict(program) ─► leave the page unread, or read it
//! ```
//!
//! Programs are bounded trees without loops. Their cost is linear in the rows that they evaluate, and they read
//! nothing but the columns of the current page.

pub mod aggregate;
pub mod answer;
mod bits;
mod check;
pub mod compact;
mod error;
pub mod eval;
pub mod expr;
pub mod index;
pub mod keys;
mod lanes;
mod like;
pub mod matcher;
mod order_key;
mod passed;
mod plan;
pub mod program;
pub mod selection;
mod sets;
mod verdict;
pub mod wire;

pub use aggregate::{Aggregation, Call, GroupTable};
pub use answer::{Answer, GroupRows, PageRows, ScanCounts};
pub use check::{type_of, type_of_argument};
pub use compact::compact;
pub use error::{EvalError, ProgramError};
pub use eval::{ColumnSource, Meter, select};
pub use expr::{ArithOp, CompareOp, Expr};
pub use index::{IndexEntry, IndexKind, IndexRule, may_match};
pub use keys::{BITMAP_BITS_MAX, KEYS_MAX, KeyCollector, KeySet, KeysForm, keys_agree};
pub use matcher::Matcher;
pub use order_key::{key_of, value_of};
pub use passed::Passed;
pub use program::Program;
pub use selection::{RowMask, Selection};
pub use verdict::Verdict;
