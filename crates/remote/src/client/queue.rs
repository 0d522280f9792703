//! The queue of a remote drive.
//!
//! ```text
//!   submit ─► unsent ─► operations (numbered, until the server has them) ─► ... answers (numbered) ─► complete
//!                       pending: every command until its final answer, so that it can be sent again
//! ```
//!
//! A batch gets the queue's session and a number when it is sent ([`Numbering`]).
//!
//! Invariants: batches take effect in the order of submission; the commands under way fit the limits that the server
//! set.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use lode_base::wire::Reader;
use lode_base::{ExtentId, SessionId, Split, ViewId, VirtualTime};
use lode_command::wire::{Instead, put_command, take_completion};
use lode_command::{
    Answer, Command, CommandError, Completion, DeviceError, IndexedRead, Outcome, PageHints, PageRange,
    Queue, Refused, Reply, ScanTask, ScanUnit, SessionWrite, Tag, Until,
};
use lode_page::Column;
use lode_program::Program;
use lode_program::wire::put_program;

use super::Shared;
use super::connection::Connection;
use super::numbering::{Numbered, Numbering};
use super::views::Closing;
use crate::frame::{Frame, FrameKind, put_frame};
use crate::message::{OWN_COMMANDS, WAITING_BYTES_MAX, put_session};

/// After this many bytes of answers, the client tells the server that they arrived, so that the server can drop them.
const UNTOLD_BYTES_MAX: usize = 256 << 10;

/// Once this many bytes of operations are collected, they are sent without waiting for a call of `complete`.
const TOGETHER_BYTES: usize = 64 << 10;

/// What the client sends down a channel.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Submit(u64),
    Narrow(u64, Arc<Program>),
    Cancel(u64),
}

/// A command that the queue itself sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    OpenSession,
    ResumeSession(SessionId),
    CloseView,
}

/// A command without its final answer.
pub(super) struct Pending {
    pub(super) command: Command,
    pub(super) at: VirtualTime,
    pub(super) own: Option<Own>,
    pub(super) sent: bool,
    /// The size of the command's operation, plus the sizes of later programs for it, in bytes.
    bytes: usize,
    /// The drive's names for the command's view and session. They replace the client's names.
    pub(super) instead: Instead,
    /// The number in the queue's session with which it was sent.
    pub(super) wsn: Option<SessionWrite>,
    /// Whether the caller has already received a part of the answer.
    pub(super) partly: bool,
    pub(super) cancelled: bool,
}

impl Pending {
    fn new(command: Command, at: VirtualTime, own: Option<Own>) -> Self {
        let instead = Instead::default();
        Self { command, at, own, sent: false, bytes: 0, instead, wsn: None, partly: false, cancelled: false }
    }

    pub(super) fn pins(&self) -> bool {
        matches!(&self.command, Command::Write(b) if b.pin)
    }

    /// The view that the command reads.
    fn view(&self) -> Option<ViewId> {
        match &self.command {
            Command::Read { view, .. } => *view,
            Command::Scan(ScanTask { view, .. })
            | Command::ReadIndex { view, .. }
            | Command::ReadIndexed(IndexedRead { view, .. }) => Some(*view),
            Command::CloseView(view) => Some(*view),
            _ => None,
        }
    }
}

pub(super) struct RemoteQueue {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
    pub(super) depth: u32,
    pub(super) connection: Option<Connection>,
    pub(super) opening: u64,
    /// The number of the channel, or 0 if there is none.
    pub(super) channel: u64,
    tags: u64,
    pub(super) pending: BTreeMap<u64, Pending>,
    /// The number of pending commands that the host submitted.
    asked: u32,
    pub(super) unsent: VecDeque<u64>,
    pub(super) operations: VecDeque<(u64, Operation)>,
    pub(super) operated: u64,
    pub(super) answered: u64,
    /// Bytes of received answers that the client has not acknowledged to the server.
    pub(super) untold: usize,
    pub(super) under_way: u32,
    pub(super) under_way_bytes: usize,
    pub(super) numbering: Numbering,
    /// The number of sessions whose resumption the server has not answered. Meanwhile, the client sends nothing else.
    pub(super) resuming: u32,
    /// The resumed sessions with the highest number that each has applied, or `None` if the session is not open.
    pub(super) resumed: BTreeMap<u64, Option<u64>>,
    /// Completions made on this side, without the server.
    pub(super) ready: VecDeque<Completion>,
    /// Whether a ping was sent.
    pub(super) pinged: bool,
}

/// Why a queue cannot continue with its connection.
pub(super) enum Trouble {
    /// A new connection may work.
    Connection,
    /// The device is gone.
    Gone(DeviceError),
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Connection
    }
}

impl RemoteQueue {
    /// Opens a queue and its channel.
    pub(super) fn open(shared: Arc<Shared>, depth: u32) -> Result<Self, DeviceError> {
        let (id, opening) = {
            let mut views = shared.views.lock();
            (views.queue(), views.opening())
        };
        let mut queue = Self {
            shared,
            id,
            depth,
            connection: None,
            opening,
            channel: 0,
            tags: 0,
            pending: BTreeMap::new(),
            asked: 0,
            unsent: VecDeque::new(),
            operations: VecDeque::new(),
            operated: 0,
            answered: 0,
            untold: 0,
            under_way: 0,
            under_way_bytes: 0,
            numbering: Numbering::default(),
            resuming: 0,
            resumed: BTreeMap::new(),
            ready: VecDeque::new(),
            pinged: false,
        };
        queue.reconnect()?;
        Ok(queue)
    }

    fn tag(&mut self) -> u64 {
        self.tags += 1;
        self.tags
    }

    /// Sends one of the queue's own commands before all others.
    pub(super) fn send_own(&mut self, command: Command, own: Own, instead: Instead) {
        let tag = self.tag();
        let mut p = Pending::new(command, VirtualTime::ZERO, Some(own));
        p.instead = instead;
        self.pending.insert(tag, p);
        self.unsent.push_front(tag);
    }

    /// Answers a command on this side.
    pub(super) fn answer(&mut self, tag: u64, outcome: Result<Reply, CommandError>) {
        let Some(p) = self.pending.remove(&tag) else { return };
        if p.own.is_none() {
            self.asked -= 1;
        }
        let split = Split::default();
        self.ready.push_back(Completion { tag: Tag(tag), at: p.at, split, outcome: Outcome::Done(outcome) });
        if p.pins() {
            self.tell_pins();
        }
    }

    /// Tells the view table whether this queue has a batch under way that asked for a view.
    pub(super) fn tell_pins(&self) {
        let some = self.pending.values().any(Pending::pins);
        self.shared.views.lock().pins(self.id, some);
    }

    /// Sends as many commands as the limits allow.
    fn pump(&mut self) {
        let (opening, left) = {
            let mut views = self.shared.views.lock();
            let is_newest = views.opening() == self.opening && self.connection.is_some();
            (views.opening(), if is_newest { views.take_left() } else { None })
        };
        if opening != self.opening {
            // Another queue has already found that the drive was opened anew.
            self.connection = None;
        }
        if let Some(view) = left {
            let instead = Instead { view: Some(view), session: None };
            self.send_own(Command::CloseView(view), Own::CloseView, instead);
        }
        while self.connection.is_some()
            && let Some(&tag) = self.unsent.front()
        {
            let p = &self.pending[&tag];
            if self.under_way >= self.depth + OWN_COMMANDS || self.resuming > 0 && p.own.is_none() {
                return;
            }
            let bytes = p.command.link_bytes() as usize;
            if self.under_way > 0 && self.under_way_bytes + bytes > WAITING_BYTES_MAX {
                return;
            }
            match self.prepare(tag) {
                Prepared::Send => {
                    self.unsent.pop_front();
                    self.send(tag);
                }
                Prepared::Answer(outcome) => {
                    self.unsent.pop_front();
                    self.answer(tag, outcome);
                }
                Prepared::Wait => return,
                Prepared::OpenSession => {
                    self.send_own(Command::OpenSession, Own::OpenSession, Instead::default());
                }
            }
        }
    }

    /// Translates the client's names in a command into the drive's, and says whether the command can be sent.
    fn prepare(&mut self, tag: u64) -> Prepared {
        let p = self.pending.get_mut(&tag).expect("an unsent command is pending");
        if p.cancelled {
            return Prepared::Answer(Err(CommandError::Cancelled));
        }
        if p.own.is_some() {
            return Prepared::Send;
        }
        match &p.command {
            Command::Write(b) if b.session.is_none() && !b.is_empty() => {
                if self.shared.identity.sessions_max == 0 {
                    return Prepared::Send;
                }
                match self.numbering.take() {
                    Numbered::OpenSession => return Prepared::OpenSession,
                    Numbered::Wait => return Prepared::Wait,
                    Numbered::As(place) => {
                        p.wsn = Some(place);
                        p.instead.session = Some(place);
                    }
                }
            }
            Command::CloseView(view) => match self.shared.views.lock().close(*view) {
                Closing::Send(view) => p.instead.view = Some(view),
                Closing::Done => return Prepared::Answer(Ok(Reply::Done)),
                Closing::Closed => return Prepared::Answer(Err(CommandError::ViewClosed(*view))),
            },
            _ => {
                if let Some(view) = p.view() {
                    match self.shared.views.lock().of_drive(view) {
                        Some(drives) => p.instead.view = Some(drives),
                        None => return Prepared::Answer(Err(CommandError::ViewClosed(view))),
                    }
                }
            }
        }
        Prepared::Send
    }

    fn send(&mut self, tag: u64) {
        self.operated += 1;
        let number = self.operated;
        self.operations.push_back((number, Operation::Submit(tag)));
        let bytes = self.write(number, &Operation::Submit(tag));
        let p = self.pending.get_mut(&tag).expect("it was just there");
        p.sent = true;
        p.bytes = bytes;
        self.under_way += 1;
        self.under_way_bytes += bytes;
    }

    /// Puts an operation into the connection's buffer and returns its size in bytes.
    pub(super) fn write(&mut self, number: u64, operation: &Operation) -> usize {
        let Some(connection) = &mut self.connection else { return 0 };
        let before = connection.unsent();
        let (out, seen) = (connection.out(), self.answered);
        match operation {
            Operation::Submit(tag) => {
                // An operation whose command is answered has arrived.
                let Some(p) = self.pending.get(tag) else { return 0 };
                put_frame(out, FrameKind::Submit, number, seen, |w| {
                    w.u64(p.at.as_ps());
                    w.u64(*tag);
                    put_command(w, &p.command, p.instead);
                });
            }
            Operation::Narrow(tag, program) => put_frame(out, FrameKind::Narrow, number, seen, |w| {
                w.u64(*tag);
                put_program(w, program);
            }),
            Operation::Cancel(tag) => put_frame(out, FrameKind::Cancel, number, seen, |w| w.u64(*tag)),
        }
        self.untold = 0;
        connection.unsent() - before
    }

    /// Numbers an operation and sends it. Returns its size in bytes.
    fn operate(&mut self, operation: Operation) -> usize {
        self.operated += 1;
        let bytes = self.write(self.operated, &operation);
        self.operations.push_back((self.operated, operation));
        bytes
    }

    /// Sends and receives until the socket would block.
    fn turn(&mut self, out: &mut Vec<Completion>) -> Result<(), Trouble> {
        loop {
            self.pump();
            // Batches that were found applied are answered before the batches behind them. The answers of the latter
            // may be read next.
            out.extend(self.ready.drain(..));
            let Some(connection) = &mut self.connection else { return Ok(()) };
            if self.untold >= UNTOLD_BYTES_MAX {
                self.untold = 0;
                let seen = self.answered;
                put_frame(connection.out(), FrameKind::Seen, 0, seen, |_| {});
            }
            connection.flush()?;
            let Some(frame) = connection.read()? else { return Ok(()) };
            self.pinged = false;
            self.take(&frame, out)?;
        }
    }

    fn nonsense(&self, what: &str) -> Trouble {
        Trouble::Gone(
            self.shared.is_gone(format!("{}: the server violated the protocol: {what}", self.shared.addr)),
        )
    }

    fn take(&mut self, frame: &Frame, out: &mut Vec<Completion>) -> Result<(), Trouble> {
        while self.operations.front().is_some_and(|(n, _)| *n <= frame.seen) {
            self.operations.pop_front();
        }
        match frame.kind {
            FrameKind::Pong => return Ok(()),
            FrameKind::Answer if frame.number <= self.answered => return Ok(()),
            FrameKind::Answer if frame.number == self.answered + 1 => {}
            FrameKind::Answer => return Err(self.nonsense("an answer is missing")),
            _ => return Err(self.nonsense("a server does not send such a frame")),
        }
        self.answered = frame.number;
        self.untold += frame.payload.len();
        let r = &mut Reader::new(&frame.payload);
        let taken = take_completion(r, &self.shared.identity.geometry).and_then(|c| r.end().map(|()| c));
        let c = taken.map_err(|e| self.nonsense(&format!("a malformed answer: {e}")))?;
        let Some(p) = self.pending.get_mut(&c.tag.0) else {
            return Err(self.nonsense("an answer to an unknown command"));
        };
        match c.outcome {
            Outcome::Unit(unit) => {
                let fits = match &p.command {
                    Command::Scan(task) => fits(task, &unit),
                    Command::ReadIndexed(read) => is_of_read(read, &unit),
                    _ => return Err(self.nonsense("a part of a scan's answer to another command")),
                };
                if !fits {
                    return Err(self.nonsense("a unit that does not have the shape that the scan asks for"));
                }
                p.partly = true;
                out.push(Completion { outcome: Outcome::Unit(unit), ..c });
            }
            Outcome::Done(result) => {
                let fits = match (&p.command, &result) {
                    (Command::ReadIndexed(read), Ok(Reply::LastUnit { unit, .. })) => is_of_read(read, unit),
                    (Command::ReadIndexed(_), Ok(_)) | (_, Ok(Reply::LastUnit { .. })) => false,
                    _ => true,
                };
                if !fits {
                    return Err(self.nonsense("an end that is not that of the read by the page index"));
                }
                let c = Completion { outcome: Outcome::Done(Err(CommandError::Cancelled)), ..c };
                self.done(c, result, out)?;
            }
        }
        Ok(())
    }

    /// Handles a final answer of the server.
    fn done(
        &mut self,
        c: Completion,
        result: Result<Reply, CommandError>,
        out: &mut Vec<Completion>,
    ) -> Result<(), Trouble> {
        let tag = c.tag.0;
        let mut p = self.pending.remove(&tag).expect("it was just there");
        self.under_way -= 1;
        self.under_way_bytes -= p.bytes;
        if let Some(own) = p.own {
            return self.own_done(own, result);
        }
        if let Some(place) = p.wsn.take() {
            let answered = self.numbering.answered(tag, place.wsn, &result);
            answered.resent.into_iter().rev().for_each(|tag| self.unsent.push_front(tag));
            if answered.again {
                p.sent = false;
                p.instead = Instead::default();
                self.pending.insert(tag, p);
                return Ok(());
            }
        }
        self.asked -= 1;
        let outcome = Outcome::Done(self.named(&p, result));
        if p.pins() {
            self.tell_pins();
        }
        out.push(Completion { outcome, ..c });
        Ok(())
    }

    /// Translates the drive's names in an answer into the client's.
    fn named(&self, p: &Pending, result: Result<Reply, CommandError>) -> Result<Reply, CommandError> {
        let mut views = self.shared.views.lock();
        match (result, p.view()) {
            (Ok(Reply::View { view, commit }), _) => {
                Ok(Reply::View { view: views.opened(self.opening, view, commit), commit })
            }
            (Ok(Reply::Committed { commit, view: Some(view), entries }), _) => {
                let view = Some(views.opened(self.opening, view, commit));
                Ok(Reply::Committed { commit, view, entries })
            }
            (Err(CommandError::NoKeys { owner, number, .. }), Some(view)) => {
                Err(CommandError::NoKeys { owner, number, view })
            }
            (Err(CommandError::ViewClosed(_)), Some(view)) => {
                views.is_closed(view);
                Err(CommandError::ViewClosed(view))
            }
            (result, _) => result,
        }
    }

    fn own_done(&mut self, own: Own, result: Result<Reply, CommandError>) -> Result<(), Trouble> {
        match (own, result) {
            (Own::OpenSession, Ok(Reply::Session { session, .. })) => {
                self.numbering.opened(Some(session));
            }
            (Own::OpenSession, Ok(_)) => return Err(self.nonsense("no session in the answer to opening one")),
            (Own::OpenSession, Err(e)) => {
                self.numbering.opened(None);
                // The batch that waits for the session gets the error. The next batch asks for a session again.
                let waits = self.unsent.iter().copied().find(|t| {
                    matches!(&self.pending[t].command, Command::Write(b) if b.session.is_none() && !b.is_empty())
                });
                if let Some(tag) = waits {
                    self.unsent.retain(|t| *t != tag);
                    self.answer(tag, Err(e));
                }
            }
            (Own::ResumeSession(session), result) => {
                let highest = match result {
                    Ok(Reply::Session { highest, .. }) => Some(highest),
                    _ => None,
                };
                self.resumed.insert(session.raw(), highest);
                self.resuming -= 1;
                if self.resuming == 0 {
                    self.resolve().map_err(Trouble::Gone)?;
                }
            }
            (Own::CloseView, _) => {}
        }
        Ok(())
    }

    /// Says goodbye, so that the server drops the channel.
    fn farewell(&mut self) -> io::Result<()> {
        if self.connection.is_none() && !self.try_again() {
            return Ok(());
        }
        let session = self.numbering.session();
        let silence = self.shared.options.silence;
        let Some(connection) = &mut self.connection else { return Ok(()) };
        put_frame(connection.out(), FrameKind::Bye, 0, 0, |w| put_session(w, session));
        loop {
            connection.flush()?;
            if connection.unsent() == 0 {
                return Ok(());
            }
            // Frames that still arrive are ignored.
            while connection.read()?.is_some() {}
            if !connection.wait(silence)? {
                return Ok(());
            }
        }
    }
}

enum Prepared {
    Send,
    Answer(Result<Reply, CommandError>),
    Wait,
    OpenSession,
}

/// Whether a unit has the shape that the task asks for.
fn fits(task: &ScanTask, unit: &ScanUnit) -> bool {
    let p = &task.program;
    let are = |columns: &[Column], types: &mut dyn Iterator<Item = lode_page::DataType>| {
        columns.iter().map(Column::data_type).eq(types)
    };
    let all = &p.schema().columns;
    let pages = unit.pages.iter().all(|page| match task.answer {
        Answer::Mapped | Answer::Index => page.columns.is_empty(),
        Answer::Hints { .. } | Answer::Whole => false,
        Answer::Pages | Answer::Rows => {
            are(&page.columns, &mut p.projection().iter().map(|&c| all[usize::from(c)].data_type))
        }
        Answer::Aggregate => false,
    });
    let groups = unit
        .groups
        .iter()
        .all(|g| task.answer == Answer::Aggregate && are(&g.columns, &mut p.group_types().iter().copied()));
    // A run goes on where one range of the task ends and another begins.
    let of_task = |h: &PageHints| {
        let first = usize::from(h.first.page());
        (first..first + h.bytes.len()).all(|page| has(&task.pages, h.first.extent(), page))
    };
    let hinted: usize = unit.hints.iter().map(|h| h.bytes.len()).sum();
    let hints = match task.answer {
        Answer::Hints { .. } => hinted <= task.unit_pages as usize && unit.hints.iter().all(of_task),
        _ => hinted == 0,
    };
    let whole = unit.whole.is_empty() || task.answer == Answer::Whole && has_whole(&task.pages, unit);
    pages && groups && hints && whole
}

/// Whether a unit is of a read by the page index.
fn is_of_read(read: &IndexedRead, unit: &ScanUnit) -> bool {
    unit.pages.is_empty() && unit.groups.is_empty() && unit.hints.is_empty() && has_whole(&read.pages, unit)
}

/// Whether the whole pages of a unit are of these.
fn has_whole(pages: &[PageRange], unit: &ScanUnit) -> bool {
    unit.whole.iter().all(|p| has(pages, p.lpid.extent(), p.lpid.page().into()))
}

/// Whether a page of an extent is one of these.
fn has(pages: &[PageRange], extent: ExtentId, page: usize) -> bool {
    let within =
        |r: &PageRange| (usize::from(r.first)..usize::from(r.first) + usize::from(r.count)).contains(&page);
    pages.iter().any(|r| r.extent == extent && within(r))
}

impl Queue for RemoteQueue {
    fn submit(&mut self, at: VirtualTime, c: Command) -> Result<Tag, Refused> {
        if self.asked >= self.depth {
            return Err(Refused(Box::new(c)));
        }
        let tag = self.tag();
        let p = Pending::new(c, at, None);
        let pins = p.pins();
        self.pending.insert(tag, p);
        self.asked += 1;
        self.unsent.push_back(tag);
        if pins {
            self.tell_pins();
        }
        self.pump();
        // Short commands are collected and sent together by the next call of `complete`.
        if let Some(c) = &mut self.connection
            && c.unsent() >= TOGETHER_BYTES
            && c.flush().is_err()
        {
            self.connection = None;
        }
        Ok(Tag(tag))
    }

    fn complete(
        &mut self,
        _: VirtualTime,
        until: Until,
        out: &mut Vec<Completion>,
    ) -> Result<(), DeviceError> {
        let before = out.len();
        let early = |p: &Pending| matches!(until, Until::Before(end) if p.own.is_none() && p.at < end);
        let mut awaited: BTreeSet<u64> =
            self.pending.iter().filter(|(_, p)| early(p)).map(|(t, _)| *t).collect();
        loop {
            self.shared.check()?;
            let trouble = match self.connection.is_some() {
                true => self.turn(out).err(),
                false => None,
            };
            match trouble {
                None => {}
                Some(Trouble::Connection) => self.connection = None,
                Some(Trouble::Gone(e)) => return Err(e),
            }
            out.extend(self.ready.drain(..));
            awaited.retain(|t| out[before..].iter().all(|c| c.tag.0 != *t));
            let enough = match until {
                Until::Ready => true,
                Until::One => out.len() > before,
                Until::Before(_) => awaited.is_empty(),
            };
            if enough || self.asked == 0 {
                return Ok(());
            }
            let Some(connection) = &mut self.connection else {
                self.reconnect()?;
                continue;
            };
            match connection.wait(self.shared.options.silence) {
                Ok(true) => {}
                Ok(false) if !self.pinged => {
                    self.pinged = true;
                    put_frame(connection.out(), FrameKind::Ping, 0, self.answered, |_| {});
                }
                Ok(false) | Err(_) => self.connection = None,
            }
        }
    }

    fn narrow(&mut self, task: Tag, program: Arc<Program>) {
        let Some(p) = self.pending.get_mut(&task.0) else { return };
        let Command::Scan(t) = &mut p.command else { return };
        let old = &t.program;
        let same = old.schema() == program.schema()
            && old.projection() == program.projection()
            && old.slots() == program.slots()
            && old.aggregation() == program.aggregation();
        assert!(same, "a running task may change its filter and nothing else");
        t.program = program.clone();
        // A narrower filter only saves time, so it is not sent if it would exceed the limit.
        if p.sent && self.under_way_bytes + program.link_bytes() <= WAITING_BYTES_MAX {
            let bytes = self.operate(Operation::Narrow(task.0, program));
            if let Some(p) = self.pending.get_mut(&task.0) {
                p.bytes += bytes;
                self.under_way_bytes += bytes;
            }
        }
    }

    fn cancel(&mut self, tag: Tag) {
        let Some(p) = self.pending.get_mut(&tag.0) else { return };
        p.cancelled = true;
        if p.sent {
            self.operate(Operation::Cancel(tag.0));
        }
    }
}

impl Drop for RemoteQueue {
    fn drop(&mut self) {
        {
            let mut views = self.shared.views.lock();
            views.pins(self.id, false);
            if let Some(view) = views.looked(self.id) {
                views.leave(view);
            }
        }
        // If the goodbye does not arrive, the server notices the broken connection.
        let _ = self.farewell();
    }
}
