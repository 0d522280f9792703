//! Garbage collection: what it costs, measured, modelled and by theory.
//!
//! ```text
//!   theory: equations       model: victims and live pages, no bytes       run: the drive itself
//! ```
//!
//! The three share a workload and nothing else: the model's victims are chosen by the drive's own policies, theory
//! knows none of them.

pub mod model;
pub mod run;
pub mod theory;
pub mod workload;
