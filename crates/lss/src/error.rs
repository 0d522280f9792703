//! Errors of making and opening a store.

use lode_command::{CommandError, DeviceError};

/// An error of making or opening a store. Each message is one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LssError {
    /// The blocks hold no store.
    #[error("the blocks hold no log-structured store")]
    NoStore,
    /// The blocks do not hold what was written.
    #[error("the store is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// The options are not valid.
    #[error("a store cannot be made: {what}")]
    Options {
        /// What is wrong with the options.
        what: String,
    },
    /// The drive refused or failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The drive cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl LssError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }
}
