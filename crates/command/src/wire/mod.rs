//! Commands and completions on the wire: pure encoders and decoders.
//!
//! ```text
//!   Command ── put_command ─► bytes ── take_command ─► Command       what a frame around them says is `remote`'s
//!   Completion ── put_completion ─► bytes ── take_completion ─► Completion
//! ```
//!
//! Everything begins with a byte that says which it is, as drawn beside each encoder. Reading checks once, at the border: what
//! comes out are values of types that need no second check. What contradicts a limit of the drive, or names what is not
//! there, is for the drive to refuse. Nothing takes more memory than a small multiple of its bytes.

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
pub const VERSION: u16 = 3;
