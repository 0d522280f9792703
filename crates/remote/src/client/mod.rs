//! The device that a host holds.
//!
//! ```text
//!   connect ─► control connection: who is the client; background work; farewell
//!   open_queue ─► a connection and a channel of its own
//! ```
//!
//! A connection that breaks is made again, with pauses that double, by whoever needs it. Threads there are none: a queue's
//! connection is read and written by the thread that calls `complete`.

mod connection;
mod numbering;
mod queue;
mod resume;
mod views;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use lode_base::wire::{Reader, Writer};
use lode_base::{SessionId, VirtualTime};
use lode_command::{Budget, Device, DeviceError, Identity, Progress, Queue};
use parking_lot::Mutex;

use crate::RemoteError;
use crate::frame::Kind;
use crate::message::{Hello, OWN_COMMANDS, Refusal, Refused, Welcome, take_progress};
use connection::{Connection, Failure};
use queue::RemoteQueue;
use views::Views;

/// How a client goes about broken connections.
#[derive(Clone)]
pub struct ClientOptions {
    /// Tries to connect, one after the other, before the device counts as gone.
    pub tries: u32,
    /// The first pause between two tries; each is twice the one before, up to a second.
    pub pause: Duration,
    /// Most time for a connection to be made, and for an answer to its first word.
    pub patience: Duration,
    /// After so long without a word the server is asked whether it is there, and after as long again it is not.
    pub silence: Duration,
    /// Sleeps: the root has the clock.
    pub sleep: Arc<dyn Fn(Duration) + Send + Sync>,
}

impl ClientOptions {
    /// What goes for most: a server may be away for about 40 seconds.
    pub fn new(sleep: Arc<dyn Fn(Duration) + Send + Sync>) -> Self {
        Self {
            tries: 48,
            pause: Duration::from_millis(5),
            patience: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            sleep,
        }
    }
}

/// Longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Tries of a new client: that another was killed may not have been noticed yet.
const FIRST_TRIES: u32 = 12;

/// What all queues of a device share.
struct Shared {
    addr: String,
    options: ClientOptions,
    client: SessionId,
    identity: Identity,
    views: Mutex<Views>,
    control: Mutex<Option<Connection>>,
    /// Why the device is gone for good.
    gone: OnceLock<String>,
}

/// A drive behind a TCP connection. Dropped, its views and sessions are closed.
pub struct RemoteDevice {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for RemoteDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteDevice({})", self.shared.addr)
    }
}

impl RemoteDevice {
    /// Connects to the drive that is served at `addr` (`host:port`).
    ///
    /// # Errors
    /// When nobody answers there, or another client is connected.
    pub fn connect(addr: &str, options: ClientOptions) -> Result<Self, RemoteError> {
        let hello = Hello::Control { client: None };
        let mut pauses = Pauses { left: FIRST_TRIES, ..Pauses::new(&options) };
        let (control, welcome) = loop {
            let error = match Connection::open(addr, &options, hello, 0) {
                Ok((connection, welcome, _)) => break (connection, welcome),
                Err(Failure::Refused(Refused::Device(error))) => {
                    return Err(RemoteError::Device { addr: addr.into(), error });
                }
                Err(e) => e,
            };
            // Where nobody listens, nobody is waited for.
            let is_nobody = match &error {
                Failure::Address(_) => true,
                Failure::Io(e) => matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::InvalidData),
                Failure::Refused(_) => false,
            };
            if is_nobody || !pauses.wait() {
                let addr = addr.into();
                return Err(match error {
                    Failure::Refused(Refused::Refusal(Refusal::Busy)) => RemoteError::Busy { addr },
                    e => RemoteError::Unreachable { addr, what: e.to_string() },
                });
            }
        };
        let Welcome { opening, client, mut identity, .. } = welcome;
        identity.queue_depth_max = identity.queue_depth_max.saturating_sub(OWN_COMMANDS).max(1);
        let shared = Shared {
            addr: addr.into(),
            options,
            client,
            identity,
            views: Mutex::new(Views::new(opening)),
            control: Mutex::new(Some(control)),
            gone: OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Device for RemoteDevice {
    fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        let max = self.shared.identity.queue_depth_max;
        if !(1..=max).contains(&depth) {
            return Err(DeviceError::QueueDepth { got: depth, max });
        }
        Ok(Box::new(RemoteQueue::open(self.shared.clone(), depth)?))
    }

    /// A step of the drive's own work; nothing when the server does not answer: it works by itself, too.
    fn work(&self, at: VirtualTime, budget: Budget) -> Progress {
        let mut control = self.shared.control.lock();
        if control.is_none() {
            *control = self.shared.control_again();
        }
        let asked = control.as_mut().map(|c| {
            let put = |w: &mut Writer<'_>| {
                w.u64(at.as_ps());
                w.u64(budget.write_bytes);
            };
            c.ask(Kind::Work, put, &self.shared.options)
        });
        match asked {
            Some(Ok(payload)) => take_progress(&mut Reader::new(&payload)).unwrap_or(Progress::Idle),
            Some(Err(_)) => {
                *control = None;
                Progress::Idle
            }
            None => Progress::Idle,
        }
    }
}

impl Shared {
    /// The device is gone for good.
    fn is_gone(&self, why: impl Into<String>) -> DeviceError {
        DeviceError::Gone(self.gone.get_or_init(|| why.into()).clone())
    }

    /// Why the device is gone, if it is.
    fn check(&self) -> Result<(), DeviceError> {
        match self.gone.get() {
            Some(why) => Err(DeviceError::Gone(why.clone())),
            None => Ok(()),
        }
    }

    /// One try to have a control connection again.
    fn control_again(&self) -> Option<Connection> {
        self.check().ok()?;
        let hello = Hello::Control { client: Some(self.client) };
        match Connection::open(&self.addr, &self.options, hello, 0) {
            Ok((connection, welcome, _)) => {
                self.meet(&welcome).ok()?;
                Some(connection)
            }
            Err(Failure::Refused(why)) => {
                drop(self.refused(&why));
                None
            }
            Err(_) => None,
        }
    }

    /// What a refusal means for the device: `None` when it may go better another time.
    fn refused(&self, why: &Refused) -> Option<DeviceError> {
        Some(match why {
            Refused::Refusal(Refusal::Full | Refusal::Busy | Refusal::NoChannel(_)) => return None,
            Refused::Refusal(Refusal::Replaced) => self.is_gone(format!(
                "{}: the drive was taken over by another client, or this one was away for too long",
                self.addr
            )),
            Refused::Refusal(Refusal::Protocol(what)) => self.is_gone(format!("{}: {what}", self.addr)),
            Refused::Device(e) => e.clone(),
        })
    }

    /// Takes note of which opening of the drive a connection is to; an error when it is to one that is over already.
    fn meet(&self, welcome: &Welcome) -> Result<(), ()> {
        let same = Identity { queue_depth_max: self.identity.queue_depth_max, ..welcome.identity.clone() };
        if format!("{same:?}") != format!("{:?}", self.identity) {
            drop(self.is_gone(format!("{}: another drive is served there now", self.addr)));
            return Err(());
        }
        self.views.lock().meet(welcome.opening, welcome.recovered)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A server that is not told finds out by itself.
        if let Some(c) = self.control.get_mut() {
            let _ = c.ask(Kind::Bye, |w| w.flag(false), &self.options);
        }
    }
}

/// Pauses between tries.
struct Pauses<'a> {
    options: &'a ClientOptions,
    left: u32,
    pause: Duration,
}

impl<'a> Pauses<'a> {
    fn new(options: &'a ClientOptions) -> Self {
        Self { options, left: options.tries, pause: options.pause }
    }

    /// Waits before the next try; false when there is none.
    fn wait(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return false;
        }
        (self.options.sleep)(self.pause);
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        true
    }
}
