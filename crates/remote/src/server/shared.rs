//! The state that all threads of a server share.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lode_command::Device;
use parking_lot::Mutex;

use super::options::ServerOptions;
use super::owner::Owners;

/// The state that all threads of a server share.
pub(super) struct Shared {
    pub(super) device: Arc<dyn Device>,
    pub(super) opening: u64,
    pub(super) options: ServerOptions,
    pub(super) owners: Owners,
    pub(super) connections: AtomicU32,
    /// The sockets of the connections, to shut them down.
    pub(super) sockets: Mutex<HashMap<u64, TcpStream>>,
    pub(super) stopping: AtomicBool,
    /// The threads of the connections.
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    pub(super) fn now(&self) -> Duration {
        (self.options.now)()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// The longest payload that a client may send.
    pub(super) fn payload_bytes_max(&self) -> usize {
        const BESIDE: u64 = 16 << 20;
        let most = self.device.identity().batch_bytes_max.saturating_add(BESIDE);
        most.min(u32::MAX.into()) as usize
    }
}

/// Waits for a thread and passes its panic on.
pub(super) fn join(thread: JoinHandle<()>) {
    if let Err(panic) = thread.join()
        && !std::thread::panicking()
    {
        std::panic::resume_unwind(panic);
    }
}
