//! The serving loop.
//!
//! ```text
//!   listener ─► a thread a connection: hello ─► control: work, farewell
//!                                           └► channel: reads operations ─► inbox ─► executor ─► outbox ─► connection
//! ```
//!
//! A channel outlives its connection. Its executor is a thread of its own: it runs the drive's commands as they come.
//!
//! Invariants: one client at a time; nothing of a client runs any more once another is let in; connections, channels, bytes
//! that wait to be carried out and answers that wait to be taken are bounded; a connection that says nothing whole for too
//! long, or takes nothing, is closed, and a client without connections is forgotten after a while. A panic ends the channel or
//! the connection in which it happens: the others, and the listener, go on.

mod channel;
mod connection;
mod executor;
mod options;
mod owner;
mod shared;

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lode_base::SessionId;
use lode_command::Device;
use parking_lot::Mutex;

use crate::message::{Refusal, Refused};
use crate::socket;
pub use options::ServerOptions;
use owner::Owners;
use shared::{Shared, join};

/// How often the listener looks whether it is to end.
const TICK: Duration = Duration::from_millis(50);

/// A drive that is served.
pub struct Server {
    shared: Arc<Shared>,
    addr: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a drive to whoever comes to `listener`. `opening` says which opening of the drive this is: it is higher than
    /// at every opening before. `sessions` are those that were open when the drive was opened: of clients that may return.
    ///
    /// # Errors
    /// When threads can not be started.
    pub fn start(
        listener: TcpListener,
        device: Arc<dyn Device>,
        opening: u64,
        sessions: Vec<SessionId>,
        options: ServerOptions,
    ) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let owners = Owners::new(&device, sessions, (options.now)())
            .map_err(|e| io::Error::other(format!("the drive: {e}")))?;
        let shared = Arc::new(Shared {
            device,
            opening,
            options,
            owners,
            connections: AtomicU32::new(0),
            sockets: Mutex::default(),
            stopping: AtomicBool::new(false),
            threads: Mutex::default(),
        });
        let run = shared.clone();
        let thread = std::thread::Builder::new().name("lode-listen".into());
        let listener = Some(thread.spawn(move || listen(&run, &listener))?);
        Ok(Self { shared, addr, listener })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Connections that are open.
    pub fn connections(&self) -> u32 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Closes every connection, as a broken network would; clients come back.
    pub fn drop_connections(&self) {
        // One that is gone already can not be shut down.
        self.shared.sockets.lock().values().for_each(|s| drop(s.shutdown(Shutdown::Both)));
    }

    /// Ends: nothing that was not acknowledged is waited for. The drive is let go of.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        if let Some(listener) = self.listener.take() {
            join(listener);
        }
        self.drop_connections();
        self.shared.owners.end_channels();
        let threads = std::mem::take(&mut *self.shared.threads.lock());
        threads.into_iter().for_each(join);
        // A connection may have made a channel meanwhile.
        self.shared.owners.end_channels();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut numbered = 0;
    while !shared.is_stopping() {
        match listener.accept() {
            Ok((socket, _)) => {
                numbered += 1;
                accept(shared, socket, numbered);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                shared.threads.lock().retain(|t| !t.is_finished());
                shared.owners.expire(shared);
                // Whatever is wrong with the listener, it is asked again.
                let _ = socket::wait(listener, false, TICK);
            }
            // A connection that was gone before it was taken, or too many open files: the next may go better.
            Err(_) => drop(socket::wait(listener, false, TICK)),
        }
    }
}

fn accept(shared: &Arc<Shared>, socket: TcpStream, number: u64) {
    let Ok(handle) = socket.try_clone() else { return };
    if shared.connections.fetch_add(1, Ordering::SeqCst) >= shared.options.connections_max {
        shared.connections.fetch_sub(1, Ordering::SeqCst);
        connection::refuse(socket, &Refused::Refusal(Refusal::Full));
        return;
    }
    shared.sockets.lock().insert(number, handle);
    let run = shared.clone();
    let serve = move || {
        // A panic ends the connection that it came with, and has been told on its way.
        drop(catch_unwind(AssertUnwindSafe(|| connection::serve(&run, socket, number))));
        run.sockets.lock().remove(&number);
        run.connections.fetch_sub(1, Ordering::SeqCst);
    };
    match std::thread::Builder::new().name("lode-connection".into()).spawn(serve) {
        Ok(thread) => shared.threads.lock().push(thread),
        Err(_) => {
            shared.sockets.lock().remove(&number);
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
