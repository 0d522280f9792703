//! Modelled time: how long what a drive really does would take on the device of a profile, and the energy of it.
//!
//! ```text
//!   calendar: one resource ─┐
//!   split: time by part  ───┼─► model: all resources, and the step that takes them        counts: operations ─► energy
//! ```

mod calendar;
mod counts;
mod model;
mod split;

pub use counts::{EnergyUse, Operations};
pub use model::{Model, Sink, Step, Utilisation};
pub use split::{Part, Split};
