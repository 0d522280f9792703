//! The power-protected buffer: a little memory beside the medium that a power cut leaves whole.
//!
//! ```text
//!   protect(bytes) ─► buffer: durable at once ─► found again by the next opening
//! ```
//!
//! Media in memory have one if they are asked to; a file has none. Source: the design, "power-protected buffer".

use super::Medium;

impl Medium {
    /// The medium with a buffer of so many bytes, empty.
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

    /// How many bytes the buffer takes: 0 where there is none.
    pub fn protected_bytes(&self) -> u32 {
        self.faults.as_ref().map_or(self.protected_bytes, |f| f.plan().protected_bytes)
    }

    /// Puts these bytes in the place of those in the buffer, whole or not at all; they are durable when it returns.
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

    /// What is in the buffer.
    pub fn protected(&self) -> Vec<u8> {
        match &self.faults {
            Some(f) => f.plan().protected.clone(),
            None => self.protected.lock().clone(),
        }
    }
}
