//! The cost of garbage collection: measured, modelled and by theory.
//!
//! ```text
//!   theory: equations       model: victims and live pages, no bytes       run: the drive itself
//! ```
//!
//! The three share only the workload. The model uses the drive's victim policies; theory uses none of its code.

pub mod model;
pub mod run;
pub mod theory;
pub mod workload;
