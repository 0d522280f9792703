//! The client that owns the drive. There is one at a time.
//!
//! ```text
//!   nobody ── a new client ─► owner ── farewell, or away for longer than the lease, or another client while away ─► nobody
//!   nobody, the drive was opened anew ── the previous client returns ─► owner, with the recovered state pinned
//! ```
//!
//! A session of the drive names the client. Before the server admits a new client, it durably closes all sessions of
//! other clients. A client that returns after that gets the answer that it was replaced, even if the drive was opened
//! anew in between.
//!
//! Invariants: before a client is admitted, all threads of the previous client have ended, so that none of its
//! commands takes effect later; the views and sessions of a client that left are closed, and what it registered is forgotten. A panic in an executor ends
//! only its channel. A client that attaches to such a channel again gets the reason. A panic in one of the server's own
//! commands ends only that command.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lode_base::{OwnerId, SessionId, ViewId, VirtualTime};
use lode_command::{Command, CommandError, Device, DeviceError, Outcome, Queue, Registration, Reply, Until};
use parking_lot::Mutex;

use super::channel::Channel;
use super::executor::Executor;
use super::shared::{Shared, join};
use crate::message::{Recovered, Refusal, Refused};

/// The number of failed channels whose reasons are kept. A client that asks for an older one gets the answer that the
/// channel does not exist.
const FAILED_MAX: usize = 256;
/// The longest panic message that a client gets, in characters.
const PANIC_CHARS_MAX: usize = 300;

/// The message of a panic.
fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
    text.chars().take(PANIC_CHARS_MAX).collect()
}

/// The server's own commands.
pub(super) struct Admin {
    device: Arc<dyn Device>,
    /// `None` after a command panicked in the queue. The next command opens another queue.
    queue: Mutex<Option<Box<dyn Queue>>>,
    has_sessions: bool,
    /// A session that is opened and closed only to make earlier allocations durable.
    anchor: Mutex<Option<SessionId>>,
}

impl Admin {
    fn new(device: &Arc<dyn Device>) -> Result<Self, DeviceError> {
        let has_sessions = device.identity().sessions_max > 0;
        let queue = Mutex::new(Some(device.open_queue(1)?));
        Ok(Self { device: device.clone(), queue, has_sessions, anchor: Mutex::new(None) })
    }

    /// Executes a command that has one answer. A panic becomes an error.
    pub(super) fn call(&self, c: Command) -> Result<Reply, CommandError> {
        let mut kept = self.queue.lock();
        let called = catch_unwind(AssertUnwindSafe(|| {
            let queue = match kept.take() {
                Some(queue) => queue,
                None => self.device.open_queue(1).map_err(|e| CommandError::Medium(e.to_string()))?,
            };
            Self::carry_out(kept.insert(queue), c)
        }));
        called.unwrap_or_else(|panic| {
            *kept = None;
            Err(CommandError::Medium(format!("the drive failed: {}", told(&*panic))))
        })
    }

    fn carry_out(queue: &mut Box<dyn Queue>, c: Command) -> Result<Reply, CommandError> {
        let gone = |e: DeviceError| CommandError::Medium(e.to_string());
        queue.submit(VirtualTime::ZERO, c).expect("the queue has room: nothing is under way");
        let mut out = Vec::new();
        while out.is_empty() {
            queue.complete(VirtualTime::ZERO, Until::One, &mut out).map_err(gone)?;
        }
        match out.pop().map(|c| c.outcome) {
            Some(Outcome::Done(result)) => result,
            _ => unreachable!("the server itself scans nothing"),
        }
    }

    /// Performs an action of the drive that makes all earlier allocations durable and has no other purpose.
    pub(super) fn anchor(&self) -> Result<(), CommandError> {
        if !self.has_sessions {
            return Ok(());
        }
        let mut anchor = self.anchor.lock();
        match anchor.take() {
            Some(session) => self.call(Command::CloseSession(session)).map(drop),
            None => {
                if let Reply::Session { session, .. } = self.call(Command::OpenSession)? {
                    *anchor = Some(session);
                }
                Ok(())
            }
        }
    }
}

/// A client that owns the drive.
pub(super) struct Owner {
    pub(super) session: SessionId,
    pub(super) recovered: Option<Recovered>,
    /// The number of the client's connections.
    live: AtomicU32,
    away_since: Mutex<Duration>,
    channels: Mutex<Channels>,
    /// The views to close when the client leaves.
    pub(super) views: Mutex<BTreeSet<u64>>,
    pub(super) sessions: Mutex<BTreeSet<u64>>,
    /// The programs and keys that may have to be forgotten when the client leaves.
    pub(super) registered: Mutex<BTreeSet<Registered>>,
    /// The sessions from before the drive was opened that the client has not resumed.
    pub(super) unclaimed: Mutex<BTreeSet<u64>>,
}

/// A registered program, or registered keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Registered {
    what: Registration,
    owner: OwnerId,
    number: u32,
}

impl Registered {
    /// What a command registers.
    pub(super) fn by(c: &Command) -> Option<Self> {
        match *c {
            Command::RegisterProgram { owner, number, program: Some(_) } => {
                Some(Self { what: Registration::Program, owner, number })
            }
            Command::RegisterKeys { owner, number, rule: Some(_) } => {
                Some(Self { what: Registration::Keys, owner, number })
            }
            _ => None,
        }
    }

    /// The command that forgets it.
    fn forgotten(self) -> Command {
        let Self { what, owner, number } = self;
        match what {
            Registration::Keys => Command::RegisterKeys { owner, number, rule: None },
            Registration::Program => Command::RegisterProgram { owner, number, program: None },
        }
    }
}

#[derive(Default)]
struct Channels {
    open: HashMap<u64, (Arc<Channel>, JoinHandle<()>)>,
    /// The panic messages of channels whose executors panicked.
    failed: BTreeMap<u64, String>,
    numbered: u64,
    ended: bool,
}

impl Owner {
    fn new(session: SessionId, recovered: Option<Recovered>, sessions: BTreeSet<u64>) -> Self {
        Self {
            session,
            recovered,
            live: AtomicU32::new(0),
            away_since: Mutex::new(Duration::ZERO),
            channels: Mutex::default(),
            views: Mutex::new(recovered.iter().map(|r| r.view.raw()).collect()),
            sessions: Mutex::new(sessions.clone()),
            registered: Mutex::default(),
            unclaimed: Mutex::new(sessions),
        }
    }

    /// Opens a channel for a queue of this depth.
    pub(super) fn open(self: &Arc<Self>, shared: &Shared, depth: u32) -> Result<Arc<Channel>, Refused> {
        let queue = shared.device.open_queue(depth).map_err(Refused::Device)?;
        let mut channels = self.channels.lock();
        // Removes the channels that have ended.
        channels.open.retain(|_, (_, thread)| !thread.is_finished());
        if channels.ended {
            return Err(Refused::Refusal(Refusal::Replaced));
        }
        if channels.open.len() >= shared.options.connections_max as usize {
            return Err(Refused::Refusal(Refusal::Full));
        }
        channels.numbered += 1;
        let id = channels.numbered;
        let channel = Arc::new(Channel::new(id));
        let executor = Executor {
            channel: channel.clone(),
            owner: self.clone(),
            admin: shared.owners.admin.clone(),
            queue,
            answer_bytes: shared.options.answer_bytes,
        };
        let (owner, ended) = (self.clone(), channel.clone());
        let run = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| executor.run())) {
                owner.channel_failed(&ended, &*panic);
            }
        };
        let thread = std::thread::Builder::new().name("lode-channel".into()).spawn(run);
        let thread = thread.map_err(|e| Refused::Device(DeviceError::Gone(e.to_string())))?;
        channels.open.insert(id, (channel.clone(), thread));
        Ok(channel)
    }

    /// The channel with this number, `None` if there is none, or an error that says how it failed.
    pub(super) fn channel(&self, id: u64) -> Result<Option<Arc<Channel>>, DeviceError> {
        let channels = self.channels.lock();
        match channels.failed.get(&id) {
            Some(why) => Err(DeviceError::Gone(format!("the server failed in this queue: {why}"))),
            None => Ok(channels.open.get(&id).map(|(c, _)| c.clone())),
        }
    }

    /// Ends a channel whose executor panicked, and keeps the reason for the client that attaches to it again.
    fn channel_failed(&self, channel: &Channel, panic: &(dyn Any + Send)) {
        {
            let mut channels = self.channels.lock();
            channels.failed.insert(channel.id, told(panic));
            if channels.failed.len() > FAILED_MAX {
                channels.failed.pop_first();
            }
        }
        channel.end(None);
    }

    /// Ends all channels and waits for their threads.
    fn end_channels(&self) {
        let open = {
            let mut channels = self.channels.lock();
            channels.ended = true;
            std::mem::take(&mut channels.open)
        };
        open.values().for_each(|(c, _)| c.end(None));
        open.into_values().for_each(|(_, thread)| join(thread));
    }
}

/// An open connection of a client.
pub(super) struct ClientConnection {
    pub(super) owner: Arc<Owner>,
    shared: Arc<Shared>,
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        *self.owner.away_since.lock() = self.shared.now();
        self.owner.live.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct State {
    owner: Option<Arc<Owner>>,
    /// The sessions from before the drive was opened. Their client may return. One of the sessions names it.
    before: BTreeSet<u64>,
    recovered: Option<Recovered>,
}

pub(super) struct Owners {
    pub(super) admin: Arc<Admin>,
    /// Held while one client leaves and another is admitted. This runs commands of the drive. Meanwhile, `state` stays
    /// unlocked, so that connections of the owner do not wait.
    admission: Mutex<()>,
    state: Mutex<State>,
    began: Duration,
    unnamed: AtomicU64,
}

impl Owners {
    pub(super) fn new(
        device: &Arc<dyn Device>,
        sessions: Vec<SessionId>,
        now: Duration,
    ) -> Result<Self, DeviceError> {
        let admin = Arc::new(Admin::new(device)?);
        let mut state = State::default();
        if !sessions.is_empty()
            && let Ok(Reply::View { view, commit }) = admin.call(Command::OpenView)
        {
            state.recovered = Some(Recovered { commit, view });
            state.before = sessions.into_iter().map(SessionId::raw).collect();
        }
        let admission = Mutex::default();
        Ok(Self { admin, admission, state: Mutex::new(state), began: now, unnamed: AtomicU64::new(0) })
    }

    fn live(owner: &Arc<Owner>, shared: &Arc<Shared>) -> ClientConnection {
        owner.live.fetch_add(1, Ordering::SeqCst);
        ClientConnection { owner: owner.clone(), shared: shared.clone() }
    }

    /// Admits a connection of the client with this name.
    pub(super) fn same(&self, shared: &Arc<Shared>, client: SessionId) -> Result<ClientConnection, Refused> {
        let mut state = self.state.lock();
        if state.owner.is_none() && state.before.remove(&client.raw()) {
            let others = std::mem::take(&mut state.before);
            state.owner = Some(Arc::new(Owner::new(client, state.recovered.take(), others)));
        }
        match &state.owner {
            Some(owner) if owner.session == client => Ok(Self::live(owner, shared)),
            _ => Err(Refused::Refusal(Refusal::Replaced)),
        }
    }

    /// Admits a new client.
    pub(super) fn new_client(&self, shared: &Arc<Shared>) -> Result<ClientConnection, Refused> {
        let _admission = self.admission.lock();
        let old = {
            let mut state = self.state.lock();
            if state.owner.as_ref().is_some_and(|o| o.live.load(Ordering::SeqCst) > 0) {
                return Err(Refused::Refusal(Refusal::Busy));
            }
            std::mem::take(&mut *state)
        };
        self.leave(old);
        let session = match self.admin.call(Command::OpenSession) {
            Ok(Reply::Session { session, .. }) => session,
            // The drive has no sessions or takes no writes, so the client needs no durable name.
            _ => {
                let n = self.unnamed.fetch_add(1, Ordering::SeqCst);
                SessionId::new(1 << 63 | (shared.opening & 0x7FFF_FFFF) << 32 | n & 0xFFFF_FFFF)
            }
        };
        let owner = Arc::new(Owner::new(session, None, BTreeSet::new()));
        let live = Self::live(&owner, shared);
        self.state.lock().owner = Some(owner);
        Ok(live)
    }

    /// Releases the drive from a client that said goodbye.
    pub(super) fn farewell(&self, owner: &Arc<Owner>) {
        let _admission = self.admission.lock();
        let old = {
            let mut state = self.state.lock();
            match &state.owner {
                Some(o) if Arc::ptr_eq(o, owner) => std::mem::take(&mut *state),
                _ => return,
            }
        };
        self.leave(old);
    }

    /// Releases the drive from a client that has been disconnected for longer than the lease.
    pub(super) fn expire(&self, shared: &Shared) {
        let Some(_admission) = self.admission.try_lock() else { return };
        let over = |since: Duration| shared.now().saturating_sub(since) > shared.options.lease;
        let owner = self.state.lock().owner.clone();
        if let Some(owner) = owner
            && over(self.began)
            && owner.unclaimed.lock().len() > shared.device.identity().sessions_max as usize / 2
        {
            // The client never got the answer that opened these sessions, or does not need them. They would leave no
            // room for other sessions.
            for s in std::mem::take(&mut *owner.unclaimed.lock()) {
                drop(self.admin.call(Command::CloseSession(SessionId::new(s))));
                owner.sessions.lock().remove(&s);
            }
        }
        let old = {
            let mut state = self.state.lock();
            let gone = match &state.owner {
                Some(o) => o.live.load(Ordering::SeqCst) == 0 && over(*o.away_since.lock()),
                None => state.recovered.is_some() && over(self.began),
            };
            if !gone {
                return;
            }
            std::mem::take(&mut *state)
        };
        self.leave(old);
    }

    /// Closes everything of the client that owned the drive. A drive that takes no writes cannot close sessions, so
    /// they remain.
    fn leave(&self, old: State) {
        let close = |c| drop(self.admin.call(c));
        if let Some(owner) = &old.owner {
            owner.end_channels();
            owner.views.lock().iter().for_each(|&v| close(Command::CloseView(ViewId::new(v))));
            owner.sessions.lock().iter().for_each(|&s| close(Command::CloseSession(SessionId::new(s))));
            owner.registered.lock().iter().for_each(|r| close(r.forgotten()));
            close(Command::CloseSession(owner.session));
        }
        if let Some(r) = old.recovered {
            close(Command::CloseView(r.view));
        }
        if let Some(session) = self.admin.anchor.lock().take() {
            close(Command::CloseSession(session));
        }
        old.before.into_iter().for_each(|s| close(Command::CloseSession(SessionId::new(s))));
    }

    /// Ends the channels and changes nothing else, because the client may return when the drive is served again.
    pub(super) fn end_channels(&self) {
        let owner = self.state.lock().owner.clone();
        if let Some(owner) = owner {
            owner.end_channels();
        }
    }
}
