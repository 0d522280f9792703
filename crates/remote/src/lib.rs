//! A drive behind a TCP connection: the device that a host holds, and the loop that serves one.
//!
//! ```text
//!   engine ─ RemoteDevice ─┬─ control ──────────── one connection ─┬─ Server ─ drive
//!                          ├─ RemoteQueue ─ channel, one connection ┤
//!                          └─ RemoteQueue ─ channel, one connection ┘
//! ```
//!
//! Each queue has a channel: operations go down it, answers come up, both numbered. The server keeps the answers of a channel
//! until the client has them, and the channel itself while its connection is broken: a client that comes back gets what it
//! missed, and nothing is done twice. So a broken connection costs time alone.
//!
//! When the drive itself was opened anew, channels and views are gone. Batches carry a session and a number there, which the
//! drive keeps durably: the client asks how far its session is, takes what was applied as done, and sends the rest again.
//!
//! A drive has one client at a time, as an image has one opener. The name of a client is a session of the drive too: whoever
//! comes next closes the sessions of the one before, so that a client which was away can not go on where another has been.
//!
//! Invariants: a command ends in exactly one final completion; a batch takes effect at most once, and once if it was answered
//! so; a view shows the commit that it was pinned at, or is closed; what one side can make the other hold or wait for is
//! bounded.

mod client;
mod error;
mod frame;
mod message;
mod server;
mod socket;

pub use client::{ClientOptions, RemoteDevice};
pub use error::RemoteError;
pub use server::{Server, ServerOptions};
