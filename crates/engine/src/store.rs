//! The only caller of the drive.

/// What crossed the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Commands sent.
    pub commands: u64,
    /// Bytes of commands.
    pub bytes_down: u64,
    /// Bytes of completions.
    pub bytes_up: u64,
}
