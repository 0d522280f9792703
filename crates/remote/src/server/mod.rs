//! The server.
//!
//! ```text
//!   listener ─► a thread a connection: hello ─► control: work, farewell
//!                                           └► channel: reads operations ─► inbox ─► executor ─► outbox ─► connection
//! ```
//!
//! A channel outlives its connection. Its executor is a separate thread, which runs the commands as they arrive.
//!
//! Invariants: there is one client at a time; no command of a client runs once another client is admitted;
//! connections, channels, waiting operations and kept answers are bounded; a connection that does not complete a
//! frame in time, or does not read, is closed; a client without connections is forgotten after a while. A panic ends
//! the channel or the connection in which it happens; the others and the listener continue.

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

/// How often the listener checks whether to stop.
const TICK: Duration = Duration::from_millis(50);

/// A server of one drive.
pub struct Server {
    shared: Arc<Shared>,
    addr: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a drive to the clients that connect to `listener`. `opening` numbers this opening of the drive; it is
    /// higher than the number of every earlier opening. `sessions` are the sessions that were open when the drive was
    /// opened; their clients may return.
    ///
    /// # Errors
    /// If threads cannot be started.
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

    /// The address at which the server listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The number of open connections.
    pub fn connections(&self) -> u32 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Closes every connection, as a broken network would. Clients reconnect.
    pub fn drop_connections(&self) {
        // A connection that is gone already cannot be shut down.
        self.shared.sockets.lock().values().for_each(|s| drop(s.shutdown(Shutdown::Both)));
    }

    /// Stops without waiting for unacknowledged commands, and drops the drive.
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
        // A connection may have opened a channel meanwhile.
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
                // Whatever the error of the listener is, the loop calls it again.
                let _ = socket::wait(listener, false, TICK);
            }
            // The connection may be gone already, or too many files may be open. The next call may succeed.
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
        // A panic ends this connection only. The panic hook has printed it.
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
