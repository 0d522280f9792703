//! Modelled time and energy: how long the drive's real operations would take on the device of a profile.
//!
//! ```text
//!   calendar: one resource ─► model: all resources ◄─ step: who takes them        operations ─► energy
//! ```

mod buffer;
mod calendar;
mod model;
mod resources;
mod step;

pub use lode_base::{EnergyUse, Operations};
pub use model::{BusyTime, Model};
pub use step::{Overlap, Sink, Step};
