//! The power-protected buffer: a small memory beside the medium that survives a power cut.
//!
//! ```text
//!   protect(bytes) ─► buffer: durable at once ─► found again by the next opening
//! ```
//!
//! Media in memory may have one; a file has none.

use super::Medium;

impl Medium {
    /// The medium with an empty buffer of `bytes` bytes.
    ///
    /// # Panics
    /// When it lies in a file.
    #[must_use]
    pub fn with_protected_buffer(mut self, bytes: u32) -> Self {
        match &self.faults {
            Some(f) => f.plan().protected_bytes = bytes,
            None => {
                assert!(self.backing.copy().is_some(), "a file has no power-protected buffer");
                self.protected_bytes = bytes;
            }
        }
        self
    }

    /// The size of the buffer in bytes; 0 if there is none.
    pub fn protected_bytes(&self) -> u32 {
        self.faults.as_ref().map_or(self.protected_bytes, |f| f.plan().protected_bytes)
    }

    /// Replaces the contents of the buffer atomically. They are durable when this returns.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn protect(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.protected_bytes() as usize, "{} bytes are to be protected", bytes.len());
        match &self.faults {
            Some(f) => {
                let mut plan = f.plan();
                if plan.begin() {
                    plan.protected = bytes.to_vec();
                }
                drop(plan);
                f.done();
            }
            None => *self.protected.lock() = bytes.to_vec(),
        }
    }

    /// The contents of the buffer.
    pub fn protected(&self) -> Vec<u8> {
        match &self.faults {
            Some(f) => f.plan().protected.clone(),
            None => self.protected.lock().clone(),
        }
    }
}
