//! The thread that carries out what a channel asks for, on a queue of the drive.
//!
//! ```text
//!   inbox ─► submit, narrow, cancel ─► complete, one step ─► answers
//! ```
//!
//! Commands run as they come, up to what the client's window has room for: writes that came together share a sync.
//!
//! Extents that are handed out count as durable only with the next action of the drive. The client may outlive the drive, so
//! the answer waits for one: a session is opened, or closed, for no other reason.

use std::collections::HashMap;
use std::sync::Arc;

use lode_base::{SessionId, VirtualTime};
use lode_command::wire::put_completion;
use lode_command::{
    ANSWER_BYTES_MAX, Command, Completion, Outcome, Queue, Refused, Reply, ScanTask, Tag, Until, check_answer,
};
use lode_program::Program;

use super::channel::{Channel, Operation};
use super::owner::{Admin, Owner};
use crate::frame::HEADER_BYTES;

/// Longest payload of an answer: its pages, and what frames them.
const PAYLOAD_BYTES_MAX: u64 = 1 << 30;
const _: () = assert!(ANSWER_BYTES_MAX + HEADER_BYTES as u64 + (64 << 20) <= PAYLOAD_BYTES_MAX);

/// Bytes of answers that are sent although more come at once.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// What is under way, by the drive's tag.
struct Job {
    tag: u64,
    what: What,
}

enum What {
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
        let mut jobs: HashMap<Tag, Job> = HashMap::new();
        let mut now = VirtualTime::ZERO;
        let mut out = Vec::new();
        while let Some(operations) = self.channel.take(jobs.is_empty()) {
            for operation in operations {
                if self.begin(operation, &mut jobs, &mut now).is_err() {
                    self.channel.end(None);
                }
            }
            if jobs.is_empty() {
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
            // What takes no time is answered together with what comes next.
            let takes_time = out.iter().any(|c| !matches!(c.outcome, Outcome::Done(Ok(Reply::Pages(_)))));
            let unsent = out.drain(..).map(|c| self.answer(c, &mut jobs)).last().unwrap_or(0);
            if takes_time || unsent >= UNSENT_BYTES_MAX || jobs.is_empty() {
                self.channel.send();
            }
        }
        if let Some(session) = self.channel.farewell() {
            // One that can not be closed is, when the next client comes.
            let _ = self.admin.call(Command::CloseSession(session));
            self.owner.sessions.lock().remove(&session.raw());
        }
    }

    /// Begins an operation; an error when no client of ours would have sent it.
    fn begin(
        &mut self,
        operation: Operation,
        jobs: &mut HashMap<Tag, Job>,
        now: &mut VirtualTime,
    ) -> Result<(), ()> {
        let find = |jobs: &HashMap<Tag, Job>, tag| jobs.iter().find(|(_, j)| j.tag == tag).map(|(t, _)| *t);
        match operation {
            Operation::Submit { at, tag, command } => {
                let what = match &command {
                    Command::Scan(ScanTask { program, .. }) => What::Scan(program.clone()),
                    Command::AllocateExtents { .. } => What::Allocation,
                    Command::CloseView(view) => What::CloseView(*view),
                    Command::OpenSession => What::OpenSession,
                    Command::CloseSession(session) => What::CloseSession(*session),
                    _ => What::Other,
                };
                // One that no device begins a command at is refused, and moves nothing on.
                if at <= VirtualTime::BEGIN_MAX {
                    *now = (*now).max(at);
                }
                match self.queue.submit(at, command) {
                    Ok(drives) => drop(jobs.insert(drives, Job { tag, what })),
                    // More than the depth that it asked for.
                    Err(Refused(_)) => return Err(()),
                }
            }
            Operation::Narrow { tag, program } => {
                // A task that just ended is not there any more.
                let Some(drives) = find(jobs, tag) else { return Ok(()) };
                let Some(Job { what: What::Scan(old), .. }) = jobs.get_mut(&drives) else { return Err(()) };
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
                if let Some(drives) = find(jobs, tag) {
                    self.queue.cancel(drives);
                }
            }
        }
        Ok(())
    }

    /// Keeps an answer; answers the bytes that were not sent yet.
    fn answer(&self, mut c: Completion, jobs: &mut HashMap<Tag, Job>) -> usize {
        let job = match &c.outcome {
            Outcome::Unit(_) => Job { tag: jobs[&c.tag].tag, what: What::Other },
            Outcome::Done(_) => jobs.remove(&c.tag).expect("a command is answered once"),
        };
        if let Outcome::Done(Ok(reply)) = &c.outcome {
            self.note(reply, &job.what);
            if matches!(job.what, What::Allocation)
                && let Err(e) = self.admin.anchor()
            {
                c.outcome = Outcome::Done(Err(e));
            }
        }
        // The drive refuses what is longer before it reads it; other devices may not.
        if let Err(e) = check_answer(c.link_bytes()) {
            c.outcome = Outcome::Done(Err(e));
        }
        c.tag = Tag(job.tag);
        self.channel.answer(|w| put_completion(w, &c))
    }

    /// What a client has, and leaves behind when it goes.
    fn note(&self, reply: &Reply, what: &What) {
        match (reply, what) {
            (Reply::View { view, .. } | Reply::Committed { view: Some(view), .. }, _) => {
                self.owner.views.lock().insert(view.raw());
            }
            (Reply::Session { session, .. }, What::OpenSession) => {
                self.owner.sessions.lock().insert(session.raw());
            }
            (Reply::Session { session, .. }, _) => {
                self.owner.unclaimed.lock().remove(&session.raw());
            }
            (Reply::Done, What::CloseView(view)) => drop(self.owner.views.lock().remove(&view.raw())),
            (Reply::Done, What::CloseSession(session)) => {
                self.owner.sessions.lock().remove(&session.raw());
            }
            _ => {}
        }
    }
}
