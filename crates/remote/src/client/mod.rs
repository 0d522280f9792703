//! The host's side: a [`Device`] whose drive is behind a TCP connection.
//!
//! ```text
//!   connect ─► control connection: the client's name; background work; farewell
//!   open_queue ─► a connection and a channel of its own
//! ```
//!
//! The first caller that needs a broken connection establishes it again. It waits twice as long after each failed try.
//! The client has no threads: the thread that calls `complete` reads and writes the queue's connection.

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
use crate::frame::FrameKind;
use crate::message::{Hello, OWN_COMMANDS, Refusal, Refused, Welcome, take_progress};
use connection::{Connection, Failure};
use queue::RemoteQueue;
use views::Views;

/// How a client handles broken connections.
#[derive(Clone)]
pub struct ClientOptions {
    /// The number of failed tries to connect after which the device counts as gone.
    pub tries: u32,
    /// The first pause between two tries. Each later pause is twice as long, up to a second.
    pub pause: Duration,
    /// The longest time that a connection may take to be established, and that the server may take to answer the
    /// hello.
    pub patience: Duration,
    /// After this time without a frame from the server, the client sends a ping. After the same time again, the
    /// connection counts as broken.
    pub silence: Duration,
    /// Sleeps. The caller passes it in, because this crate reads no clock.
    pub sleep: Arc<dyn Fn(Duration) + Send + Sync>,
}

impl ClientOptions {
    /// The defaults: a server may be away for about 40 seconds.
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

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The number of tries of a new client. One is not enough, because the server may not have noticed yet that the
/// previous client was killed.
const FIRST_TRIES: u32 = 12;

/// The state that all queues of a device share.
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

/// A drive behind a TCP connection. Dropping it closes its views and sessions.
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
    /// If no drive answers at that address, or another client is connected.
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
            // The client does not retry if no server listens there.
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

    /// Asks the drive for a step of background work. If the server does not answer, nothing is lost, because the server
    /// also does background work by itself.
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
            c.ask(FrameKind::Work, put, &self.shared.options)
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
    /// Records that the device is gone for good, and returns that error.
    fn is_gone(&self, why: impl Into<String>) -> DeviceError {
        DeviceError::Gone(self.gone.get_or_init(|| why.into()).clone())
    }

    /// Returns the error if the device is gone.
    fn check(&self) -> Result<(), DeviceError> {
        match self.gone.get() {
            Some(why) => Err(DeviceError::Gone(why.clone())),
            None => Ok(()),
        }
    }

    /// Tries once to establish the control connection again.
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

    /// The device error that a refusal stands for, or `None` if a later try may succeed.
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

    /// Records which opening of the drive a connection leads to. Fails if a later opening is known already.
    fn meet(&self, welcome: &Welcome) -> Result<(), ()> {
        let same = Identity { queue_depth_max: self.identity.queue_depth_max, ..welcome.identity.clone() };
        if format!("{same:?}") != format!("{:?}", self.identity) {
            drop(self.is_gone(format!("{}: this address now serves another drive", self.addr)));
            return Err(());
        }
        self.views.lock().meet(welcome.opening, welcome.recovered)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // If the goodbye does not arrive, the server notices the broken connection.
        if let Some(c) = self.control.get_mut() {
            let _ = c.ask(FrameKind::Bye, |w| w.flag(false), &self.options);
        }
    }
}

/// The pauses between tries.
struct Pauses<'a> {
    options: &'a ClientOptions,
    left: u32,
    pause: Duration,
}

impl<'a> Pauses<'a> {
    fn new(options: &'a ClientOptions) -> Self {
        Self { options, left: options.tries, pause: options.pause }
    }

    /// Waits before the next try. Returns false if no try is left.
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
