//! A channel: operations in, answers out. It outlives its connections.
//!
//! ```text
//!   connection ── push ─► inbox (by number, each once) ── take ─► executor ── answer ─► outbox ─► connection
//!                       received by the client: dropped ◄─────────────────── kept ◄──┘
//! ```
//!
//! Invariants: operations are executed in the order of their numbers, each once; an answer is kept until the client
//! has it; the channel writes only to its newest connection.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use lode_base::{SessionId, VirtualTime};
use lode_command::Command;
use lode_program::Program;
use parking_lot::{Condvar, Mutex};

use crate::frame::{FrameKind, put_frame};
use crate::message::WAITING_BYTES_MAX;

/// Shorter frames are sent together.
const TOGETHER_BYTES: usize = 64 << 10;

/// What a client asks its queue to do.
#[derive(Debug)]
pub(crate) enum Operation {
    Submit { at: VirtualTime, tag: u64, command: Command },
    Narrow { tag: u64, program: Arc<Program> },
    Cancel { tag: u64 },
}

#[derive(Default)]
struct Inbox {
    /// The waiting operations with their sizes in bytes.
    waiting: VecDeque<(Operation, usize)>,
    bytes: usize,
    received: u64,
    /// No more operations are taken from it.
    ended: bool,
    /// The queue's session, if the client said goodbye.
    farewell: Option<SessionId>,
}

#[derive(Default)]
struct Outbox {
    /// The answers that the client may not have yet, with their numbers.
    kept: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    answered: u64,
    /// The highest number that was sent. Without a connection, the highest number that the next connection sends when
    /// it attaches.
    sent: u64,
    unsent: usize,
    connection: Option<Connection>,
    ended: bool,
}

struct Connection {
    number: u64,
    socket: TcpStream,
}

pub(crate) struct Channel {
    pub(crate) id: u64,
    inbox: Mutex<Inbox>,
    came: Condvar,
    outbox: Mutex<Outbox>,
    seen: Condvar,
    /// A handle of the socket on which a sender may be blocked. Shutting it down unblocks the sender.
    blocked: Mutex<Option<TcpStream>>,
}

/// Why an operation was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// The channel has ended.
    Ended,
    /// An earlier operation is missing.
    Gap,
    /// Too many bytes of operations wait.
    TooMuch,
}

impl Channel {
    pub(crate) fn new(id: u64) -> Self {
        Self {
            id,
            inbox: Mutex::default(),
            came: Condvar::new(),
            outbox: Mutex::default(),
            seen: Condvar::new(),
            blocked: Mutex::default(),
        }
    }

    /// Adds an operation, unless it was added before. Fails if the client exceeds its limits. A correct client never
    /// does.
    pub(crate) fn push(&self, number: u64, operation: Operation, bytes: usize) -> Result<(), Unwanted> {
        let mut inbox = self.inbox.lock();
        if inbox.ended {
            return Err(Unwanted::Ended);
        }
        if number <= inbox.received {
            return Ok(());
        }
        if number != inbox.received + 1 {
            return Err(Unwanted::Gap);
        }
        if inbox.bytes > 2 * WAITING_BYTES_MAX {
            return Err(Unwanted::TooMuch);
        }
        inbox.received = number;
        inbox.bytes += bytes;
        inbox.waiting.push_back((operation, bytes));
        self.came.notify_one();
        Ok(())
    }

    /// Takes all waiting operations. With `idle`, it waits for at least one. Returns `None` once the channel has
    /// ended.
    pub(crate) fn take(&self, idle: bool) -> Option<Vec<Operation>> {
        let mut inbox = self.inbox.lock();
        while idle && inbox.waiting.is_empty() && !inbox.ended {
            self.came.wait(&mut inbox);
        }
        if inbox.ended {
            return None;
        }
        inbox.bytes = 0;
        Some(inbox.waiting.drain(..).map(|(o, _)| o).collect())
    }

    /// Whether fewer bytes of answers than this are kept.
    pub(crate) fn has_room(&self, bytes_max: usize) -> bool {
        self.outbox.lock().bytes < bytes_max
    }

    /// Waits until fewer bytes of answers than this are kept. Returns false once the channel has ended.
    pub(crate) fn wait_for_room(&self, bytes_max: usize) -> bool {
        let mut outbox = self.outbox.lock();
        while outbox.bytes >= bytes_max && !outbox.ended {
            self.seen.wait(&mut outbox);
        }
        !outbox.ended
    }

    /// Adds an answer and returns the number of bytes that are not yet sent.
    pub(crate) fn answer(&self, put: impl FnOnce(&mut lode_base::wire::Writer<'_>)) -> usize {
        let received = self.inbox.lock().received;
        let mut outbox = self.outbox.lock();
        outbox.answered += 1;
        let number = outbox.answered;
        let mut frame = Vec::new();
        put_frame(&mut frame, FrameKind::Answer, number, received, put);
        outbox.bytes += frame.len();
        outbox.unsent += frame.len();
        outbox.kept.push_back((number, frame));
        outbox.unsent
    }

    /// Sends the unsent answers if there is a connection. Short ones are sent together.
    pub(crate) fn send(&self) {
        let mut outbox = self.outbox.lock();
        let Outbox { kept, connection, sent, .. } = &mut *outbox;
        let mut failed = false;
        if let Some(c) = connection {
            let mut together = Vec::new();
            let first = kept.partition_point(|(n, _)| n <= sent);
            for (i, (_, frame)) in kept.iter().enumerate().skip(first) {
                if frame.len() < TOGETHER_BYTES {
                    together.extend_from_slice(frame);
                }
                let is_last = i + 1 == kept.len();
                if (is_last || together.len() >= TOGETHER_BYTES || frame.len() >= TOGETHER_BYTES)
                    && !together.is_empty()
                {
                    failed |= c.socket.write_all(&together).is_err();
                    together.clear();
                }
                if frame.len() >= TOGETHER_BYTES {
                    failed |= c.socket.write_all(frame).is_err();
                }
                if failed {
                    break;
                }
            }
        }
        outbox.sent = outbox.answered;
        outbox.unsent = 0;
        if failed {
            Self::drop_connection(&mut outbox);
        }
    }

    fn drop_connection(outbox: &mut Outbox) {
        if let Some(c) = outbox.connection.take() {
            // This also ends the thread that reads the connection.
            let _ = c.socket.shutdown(Shutdown::Both);
        }
    }

    /// Drops the answers up to this number, because the client has them.
    pub(crate) fn saw(&self, number: u64) {
        let mut outbox = self.outbox.lock();
        while let Some((n, _)) = outbox.kept.front()
            && *n <= number
        {
            let (_, frame) = outbox.kept.pop_front().expect("there is a first");
            outbox.bytes -= frame.len();
        }
        self.seen.notify_all();
    }

    /// Sends a frame without a number.
    pub(crate) fn say(&self, kind: FrameKind) {
        let received = self.inbox.lock().received;
        let mut outbox = self.outbox.lock();
        let mut frame = Vec::new();
        put_frame(&mut frame, kind, 0, received, |_| {});
        if let Some(c) = &mut outbox.connection
            && c.socket.write_all(&frame).is_err()
        {
            Self::drop_connection(&mut outbox);
        }
    }

    /// Replaces the connection. The old connection is closed first, because a sender may be blocked on it. The new
    /// connection gets the frame that `welcome` makes from the number of the highest received operation, and then the
    /// answers after `saw`.
    pub(crate) fn attach(
        &self,
        number: u64,
        socket: TcpStream,
        saw: u64,
        welcome: impl FnOnce(u64) -> Vec<u8>,
    ) -> std::io::Result<()> {
        let handle = socket.try_clone()?;
        if let Some(old) = self.blocked.lock().replace(handle) {
            let _ = old.shutdown(Shutdown::Both);
        }
        self.saw(saw);
        let mut outbox = self.outbox.lock();
        if outbox.ended {
            return Err(std::io::ErrorKind::NotConnected.into());
        }
        Self::drop_connection(&mut outbox);
        let received = self.inbox.lock().received;
        let mut socket = socket;
        socket.write_all(&welcome(received))?;
        for (_, frame) in &outbox.kept {
            socket.write_all(frame)?;
        }
        (outbox.sent, outbox.unsent) = (outbox.answered, 0);
        outbox.connection = Some(Connection { number, socket });
        Ok(())
    }

    /// Detaches a connection that has ended.
    pub(crate) fn detach(&self, number: u64) {
        let mut outbox = self.outbox.lock();
        if outbox.connection.as_ref().is_some_and(|c| c.number == number) {
            Self::drop_connection(&mut outbox);
            *self.blocked.lock() = None;
        }
    }

    /// Ends the channel and drops the waiting operations.
    pub(crate) fn end(&self, farewell: Option<SessionId>) {
        {
            let mut inbox = self.inbox.lock();
            inbox.ended = true;
            inbox.farewell = inbox.farewell.or(farewell);
            inbox.waiting.clear();
            inbox.bytes = 0;
            self.came.notify_all();
        }
        if let Some(socket) = self.blocked.lock().take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        let mut outbox = self.outbox.lock();
        outbox.ended = true;
        Self::drop_connection(&mut outbox);
        outbox.kept.clear();
        outbox.bytes = 0;
        self.seen.notify_all();
    }

    /// The session that ends with the channel.
    pub(crate) fn farewell(&self) -> Option<SessionId> {
        self.inbox.lock().farewell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cancel(tag: u64) -> Operation {
        Operation::Cancel { tag }
    }

    #[test]
    fn operations_are_taken_once_and_in_order() {
        let c = Channel::new(1);
        c.push(1, cancel(1), 10).unwrap();
        c.push(1, cancel(1), 10).unwrap();
        assert_eq!(c.push(3, cancel(3), 10), Err(Unwanted::Gap));
        c.push(2, cancel(2), 10).unwrap();
        assert_eq!(c.take(true).unwrap().len(), 2);
        assert!(c.take(false).unwrap().is_empty());
        c.end(Some(SessionId::new(4)));
        assert_eq!(c.push(3, cancel(3), 10), Err(Unwanted::Ended));
        assert!(c.take(true).is_none());
        assert_eq!(c.farewell(), Some(SessionId::new(4)));
    }

    #[test]
    fn answers_are_kept_until_they_are_seen() {
        let c = Channel::new(1);
        (0..3).for_each(|_| assert!(c.answer(|w| w.u64(5)) > 0));
        assert_eq!(c.outbox.lock().kept.len(), 3);
        c.saw(2);
        assert_eq!(c.outbox.lock().kept.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [3]);
        assert!(c.wait_for_room(1000));
        c.saw(9);
        assert_eq!(c.outbox.lock().bytes, 0);
    }
}
