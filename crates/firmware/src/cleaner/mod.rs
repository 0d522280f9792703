/// A call, or what stands in its place where this fault is planted.
macro_rules! at {
    ($fault:ident => $bug:expr, $call:expr) => {
        if crate::planted::is(crate::planted::Planted::$fault) { $bug } else { $call }
    };
}

mod choose;
mod mover;
mod tidy;

pub(crate) use choose::{Cleaner, MOVE_BYTES, Need};
pub(crate) use mover::Valid;
