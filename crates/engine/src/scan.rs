//! Scans: a program over pages, in the drive.

use std::sync::Arc;

use lode_command::{ScanCounts, ScanUnit};
use lode_program::Program;

use crate::EngineError;

/// A running scan. Dropping it cancels the drive's task.
pub struct Scan {}

impl Scan {
    /// The next unit; `None` after the last.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<ScanUnit>, EngineError> {
        unimplemented!()
    }

    /// From the next unit on, the program is this one: the first with more filter.
    pub fn narrow(&mut self, _program: Arc<Program>) {
        unimplemented!()
    }

    /// What the units so far took.
    pub fn counts(&self) -> ScanCounts {
        unimplemented!()
    }

    /// Bytes that came up the link for this scan so far.
    pub fn link_bytes_up(&self) -> u64 {
        unimplemented!()
    }

    /// Bytes that went down the link for this scan so far.
    pub fn link_bytes_down(&self) -> u64 {
        unimplemented!()
    }
}
