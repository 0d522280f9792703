//! Modelled time: how long what a drive really does would take on the device of a profile, and the energy of it.
//!
//! ```text
//!   calendar: one resource ─► model: all resources ◄─ step: who takes them        counts: operations ─► energy
//! ```

mod calendar;
mod counts;
mod model;
mod step;

pub use counts::{EnergyUse, Operations};
pub use model::{BusyTime, Model};
pub use step::{Overlap, Sink, Step};
