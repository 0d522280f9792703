//! The cleaner: empties EBLOCKs. Policies (`gc`) choose, one mover acts.
//!
//! ```text
//!   due? ─► failed ─► weak ─► short of space, or much garbage: the policy's victim ─┬─► mover: what is needed of it moves
//!                             nothing else to do: one that is mostly garbage (tidy) ─┘     ─► EBLOCK empty ─► released
//! ```
//!
//! What must hold: a victim is closed and no action under way was provisioned there. A victim with a page that cannot be
//! read is left alone, whole, until less is needed of it, and another EBLOCK is emptied instead: to move the rest would gain
//! nothing. A step never takes the EBLOCKs that the log, a checkpoint or a recovery needs.
//!
//! Source: ELEOS §VI, §VII.

mod choose;
mod due;
mod mover;
mod step;
mod tidy;

pub(crate) use choose::{Cleaner, Need};
pub(crate) use due::gc_due;
