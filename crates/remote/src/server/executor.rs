//! The thread that executes the operations of a channel on a queue of the drive.
//!
//! ```text
//!   inbox ─► submit, narrow, cancel ─► complete, one step ─► answers
//! ```
//!
//! Commands run as they arrive. The executor pauses while too many bytes of answers are unacknowledged. Writes that arrive together share a sync.
//!
//! An allocation of extents becomes durable only with the next action of the drive. The client may still run when the server
//! is restarted, so the server performs such an action before it answers: it opens or closes a session that has no other purpose.

use std::collections::HashMap;
use std::sync::Arc;

use lode_base::{SessionId, VirtualTime};
use lode_command::wire::put_completion;
use lode_command::{
    ANSWER_BYTES_MAX, Command, Completion, Outcome, Queue, Refused, Reply, ScanTask, Tag, Until, check_answer,
};
use lode_program::Program;

use super::channel::{Channel, Operation};
use super::owner::{Admin, Owner, Registered};
use crate::frame::HEADER_BYTES;

/// The longest payload of an answer: its pages and their framing.
const PAYLOAD_BYTES_MAX: u64 = 1 << 30;
const _: () = assert!(ANSWER_BYTES_MAX + HEADER_BYTES as u64 + (64 << 20) <= PAYLOAD_BYTES_MAX);

/// Once this many bytes of answers are collected, they are sent even if more answers follow at once.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// A command under way. The map of them is keyed by the drive's tag; `tag` is the client's.
struct RunningCommand {
    tag: u64,
    what: CommandKind,
}

enum CommandKind {
    /// A task and its program.
    Scan(Arc<Program>),
    Allocation,
    CloseView(lode_base::ViewId),
    OpenSession,
    CloseSession(SessionId),
    Other,
}

pub(super) struct Executor {
    pub(super) channel: Arc<Channel>,
    pub(super) owner: Arc<Owner>,
    pub(super) admin: Arc<Admin>,
    pub(super) queue: Box<dyn Queue>,
    pub(super) answer_bytes: usize,
}

impl Executor {
    /// Runs until the channel ends.
    pub(super) fn run(mut self) {
        let mut running: HashMap<Tag, RunningCommand> = HashMap::new();
        let mut now = VirtualTime::ZERO;
        let mut out = Vec::new();
        while let Some(operations) = self.channel.take(running.is_empty()) {
            for operation in operations {
                if self.begin(operation, &mut running, &mut now).is_err() {
                    self.channel.end(None);
                }
            }
            if running.is_empty() {
                continue;
            }
            if !self.channel.has_room(self.answer_bytes) {
                self.channel.send();
            }
            if !self.channel.wait_for_room(self.answer_bytes) {
                break;
            }
            if self.queue.complete(now, Until::One, &mut out).is_err() {
                self.channel.end(None);
            }
            // The answers of reads, which take no time, are sent together with the next answers.
            let takes_time = out.iter().any(|c| !matches!(c.outcome, Outcome::Done(Ok(Reply::Pages(_)))));
            let unsent = out.drain(..).map(|c| self.answer(c, &mut running)).last().unwrap_or(0);
            if takes_time || unsent >= UNSENT_BYTES_MAX || running.is_empty() {
                self.channel.send();
            }
        }
        if let Some(session) = self.channel.farewell() {
            // If the session cannot be closed now, it is closed when the next client connects.
            let _ = self.admin.call(Command::CloseSession(session));
            self.owner.sessions.lock().remove(&session.raw());
        }
    }

    /// Begins an operation. Fails if it violates the protocol.
    fn begin(
        &mut self,
        operation: Operation,
        running: &mut HashMap<Tag, RunningCommand>,
        now: &mut VirtualTime,
    ) -> Result<(), ()> {
        let find = |running: &HashMap<Tag, RunningCommand>, tag| {
            running.iter().find(|(_, j)| j.tag == tag).map(|(t, _)| *t)
        };
        match operation {
            Operation::Submit { at, tag, command } => {
                let what = match &command {
                    Command::Scan(ScanTask { program, .. }) => CommandKind::Scan(program.clone()),
                    Command::AllocateExtents { .. } => CommandKind::Allocation,
                    Command::CloseView(view) => CommandKind::CloseView(*view),
                    Command::OpenSession => CommandKind::OpenSession,
                    Command::CloseSession(session) => CommandKind::CloseSession(*session),
                    _ => CommandKind::Other,
                };
                // Channels register and forget side by side: what may be there is forgotten when the client leaves.
                self.owner.registered.lock().extend(Registered::by(&command));
                // The device refuses a later time, so such a time does not move the clock.
                if at <= VirtualTime::BEGIN_MAX {
                    *now = (*now).max(at);
                }
                match self.queue.submit(at, command) {
                    Ok(drives) => drop(running.insert(drives, RunningCommand { tag, what })),
                    // The client exceeds the depth that it asked for.
                    Err(Refused(_)) => return Err(()),
                }
            }
            Operation::Narrow { tag, program } => {
                // The task may just have ended.
                let Some(drives) = find(running, tag) else { return Ok(()) };
                let Some(RunningCommand { what: CommandKind::Scan(old), .. }) = running.get_mut(&drives)
                else {
                    return Err(());
                };
                let same = old.schema() == program.schema()
                    && old.projection() == program.projection()
                    && old.slots() == program.slots()
                    && old.aggregation() == program.aggregation();
                if !same {
                    return Err(());
                }
                *old = program.clone();
                self.queue.narrow(drives, program);
            }
            Operation::Cancel { tag } => {
                if let Some(drives) = find(running, tag) {
                    self.queue.cancel(drives);
                }
            }
        }
        Ok(())
    }

    /// Adds an answer to the channel and returns the number of bytes that are not yet sent.
    fn answer(&self, mut c: Completion, running: &mut HashMap<Tag, RunningCommand>) -> usize {
        let command = match &c.outcome {
            Outcome::Unit(_) => RunningCommand { tag: running[&c.tag].tag, what: CommandKind::Other },
            Outcome::Done(_) => running.remove(&c.tag).expect("a command is answered once"),
        };
        if let Outcome::Done(Ok(reply)) = &c.outcome {
            self.note(reply, &command.what);
            if matches!(command.what, CommandKind::Allocation)
                && let Err(e) = self.admin.anchor()
            {
                c.outcome = Outcome::Done(Err(e));
            }
        }
        // A drive refuses a command with a longer answer before it reads the pages. Other devices may not.
        if let Err(e) = check_answer(c.link_bytes()) {
            c.outcome = Outcome::Done(Err(e));
        }
        c.tag = Tag(command.tag);
        self.channel.answer(|w| put_completion(w, &c))
    }

    /// Records the views and sessions of the client. The server closes them when the client leaves.
    fn note(&self, reply: &Reply, what: &CommandKind) {
        match (reply, what) {
            (Reply::View { view, .. } | Reply::Committed { view: Some(view), .. }, _) => {
                self.owner.views.lock().insert(view.raw());
            }
            (Reply::Session { session, .. }, CommandKind::OpenSession) => {
                self.owner.sessions.lock().insert(session.raw());
            }
            (Reply::Session { session, .. }, _) => {
                self.owner.unclaimed.lock().remove(&session.raw());
            }
            (Reply::Done, CommandKind::CloseView(view)) => drop(self.owner.views.lock().remove(&view.raw())),
            (Reply::Done, CommandKind::CloseSession(session)) => {
                self.owner.sessions.lock().remove(&session.raw());
            }
            _ => {}
        }
    }
}
