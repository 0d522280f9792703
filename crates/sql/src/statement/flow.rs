//! How visitors of a statement's tree end.

use std::ops::ControlFlow;

use crate::SqlError;

/// A visitor goes on, or ends with an error.
pub(super) type Flow = ControlFlow<SqlError>;

/// What a visitor ended with.
pub(super) fn ended(flow: Flow) -> Result<(), SqlError> {
    match flow {
        Flow::Break(e) => Err(e),
        Flow::Continue(()) => Ok(()),
    }
}
