//! Why a store could not be made or opened.

use lode_command::{CommandError, DeviceError};

/// Why a store could not be made or opened. Each message is one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LssError {
    /// The blocks hold no store.
    #[error("the blocks hold no log-structured store")]
    NoStore,
    /// What the blocks hold is not what was written.
    #[error("the store is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// Options that make no store.
    #[error("a store cannot be made: {what}")]
    Options {
        /// What is wrong with them.
        what: String,
    },
    /// The drive refused or failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The drive can not be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl LssError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }
}
