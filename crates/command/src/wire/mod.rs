//! Commands and completions on the wire: pure encoders and decoders.
//!
//! ```text
//!   Command ── put_command ─► bytes ── take_command ─► Command       the frames around them are in `remote`
//!   Completion ── put_completion ─► bytes ── take_completion ─► Completion
//! ```
//!
//! Each message begins with a byte for its kind, as drawn beside each encoder. Decoders check all bytes, so that
//! their results need no second check. The drive itself refuses commands that exceed a limit or name something that
//! does not exist. No decoder takes more memory than a small multiple of its input.

mod command;
mod completion;
mod error;
mod identity;
#[cfg(test)]
mod tests;

pub use command::{Instead, put_command, take_command};
pub use completion::{put_completion, take_completion};
pub use error::{put_device_error, take_device_error};
pub use identity::{put_identity, take_identity};

/// Version of all that this module writes.
pub const VERSION: u16 = 8;
