//! Modelled time: how long what a drive really does would take on the device of a profile, and the energy of it.
//!
//! ```text
//!   calendar: one resource ─► model: all resources ◄─ step: who takes them        operations ─► energy
//! ```

mod calendar;
mod model;
mod resources;
mod step;

pub use lode_base::{EnergyUse, Operations};
pub use model::{BusyTime, Model};
pub use step::{Overlap, Sink, Step};
