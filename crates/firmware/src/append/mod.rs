//! The append path: pages get their places, and are programmed.
//!
//! ```text
//!   pages ─► plan ─► is there room? ─► provision (commit lock) ─► jobs ─► program, each when its turn in the EBLOCK comes
//!                      └─ no: make some, and try again              └─ fails: the EBLOCK ends, the pages are placed anew
//!
//!   relocate: pages that lie elsewhere are appended, and their entries changed where they are still the same
//! ```
//!
//! What must hold: no lock is held while pages are programmed; what was programmed for an action that failed is needed by
//! nobody.
//!
//! Source: ELEOS §IV-A, §VII (a failed program ends its EBLOCK).

mod appender;
mod inlined;
mod relocate;
mod turns;

pub(crate) use appender::Appender;
pub(crate) use relocate::{MOVE_BYTES, ValidPage};
pub(crate) use turns::Turns;
