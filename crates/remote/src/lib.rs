//! A drive behind a TCP connection: the device that the host uses, and the server.
//!
//! ```text
//!   engine ─ RemoteDevice ─┬─ control ──────────── one connection ─┬─ Server ─ drive
//!                          ├─ RemoteQueue ─ channel, one connection ┤
//!                          └─ RemoteQueue ─ channel, one connection ┘
//! ```
//!
//! Each queue has a channel, which carries operations to the server and answers back. Both are numbered. The server
//! keeps an answer until the client has received it, and keeps a channel while its connection is broken. A client that
//! reconnects gets the answers that it missed, and no operation is executed twice. So a broken connection costs only
//! time.
//!
//! After the drive itself was opened anew, channels and views are gone. Every batch carries a session and a number,
//! which the drive stores durably. The client asks for the highest number that its session has applied, counts the
//! batches up to it as done, and sends the rest again.
//!
//! A drive has one client at a time. A client's name is a session of the drive, too. When a new client connects, the
//! server closes the sessions of the previous client. So a client that was disconnected cannot continue after another
//! client has used the drive.
//!
//! Invariants: a command ends in exactly one final completion; a batch takes effect at most once, and exactly once if
//! its answer says so; a view shows the commit at which it was opened, or is closed; the memory and time that one
//! side can cost the other are bounded.

mod client;
mod error;
mod frame;
mod message;
mod server;
mod socket;

pub use client::{ClientOptions, RemoteDevice};
pub use error::RemoteError;
pub use server::{Server, ServerOptions};
