//! The thread of a connection: it reads the hello, then serves the purpose of the connection.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use lode_base::VirtualTime;
use lode_base::wire::{Malformed, Reader, Writer, read_whole};
use lode_command::Budget;
use lode_command::wire::take_command;
use lode_program::wire::take_program;

use super::channel::{Channel, Operation, Unwanted};
use super::owner::ClientConnection;
use super::shared::Shared;
use crate::frame::{Assembler, Frame, FrameKind, ReadOutcome, put_frame};
use crate::message::{Hello, Refusal, Refused, Welcome, put_progress, take_session};
use crate::socket;

/// How often the thread of a silent connection checks whether the server stops.
const TICK: Duration = Duration::from_millis(500);
/// The longest payload of a hello.
const HELLO_BYTES_MAX: usize = 1024;

/// Serves a connection until it ends.
pub(super) fn serve(shared: &Arc<Shared>, socket: TcpStream, number: u64) {
    let patience = Some(shared.options.patience);
    let prepared = socket::prepare(&socket)
        .and_then(|()| socket.set_read_timeout(Some(TICK)))
        .and_then(|()| socket.set_write_timeout(patience));
    if prepared.is_err() {
        return;
    }
    let mut from = Frames { shared, socket: &socket, frames: Assembler::new(HELLO_BYTES_MAX) };
    let Some(frame) = from.next(true) else { return };
    let hello = match frame.kind {
        FrameKind::Hello => Hello::take(&mut Reader::new(&frame.payload)),
        _ => Err(Malformed { what: "the first frame is not a hello", at: 0 }),
    };
    let served = match hello {
        Err(e) => Err(Refused::Refusal(Refusal::Protocol(e.to_string()))),
        Ok(Hello::Control { client }) => {
            let live = match client {
                None => shared.owners.new_client(shared),
                Some(client) => shared.owners.same(shared, client),
            };
            live.map(|live| control(&mut from, &live))
        }
        Ok(Hello::Open { client, depth }) => shared.owners.same(shared, client).and_then(|live| {
            let channel = live.owner.open(shared, depth)?;
            serve_channel(&mut from, &live, &channel, number, 0);
            Ok(())
        }),
        Ok(Hello::Attach { client, opening, channel }) => {
            shared.owners.same(shared, client).and_then(|live| {
                let found = match opening == shared.opening {
                    true => live.owner.channel(channel).map_err(Refused::Device)?,
                    false => None,
                };
                let channel = found.ok_or(Refused::Refusal(Refusal::NoChannel(shared.opening)))?;
                serve_channel(&mut from, &live, &channel, number, frame.seen);
                Ok(())
            })
        }
    };
    if let Err(refused) = served {
        refuse(socket, &refused);
    }
}

/// Sends the refusal and closes.
pub(super) fn refuse(mut socket: TcpStream, why: &Refused) {
    let mut out = Vec::new();
    put_frame(&mut out, FrameKind::Refused, 0, 0, |w| why.put(w));
    // A client that does not read misses the reason.
    if socket.write_all(&out).is_ok() {
        let _ = socket.shutdown(Shutdown::Write);
    }
}

/// The frames that arrive on a connection.
struct Frames<'a> {
    shared: &'a Arc<Shared>,
    socket: &'a TcpStream,
    frames: Assembler,
}

impl Frames<'_> {
    /// The next frame, or `None` if the connection has ended. A frame that has begun or is `awaited` must be complete
    /// within the server's patience.
    fn next(&mut self, awaited: bool) -> Option<Frame> {
        let mut socket = self.socket;
        let mut since = awaited.then(|| self.shared.now());
        loop {
            match self.frames.next(&mut socket) {
                Ok(ReadOutcome::Frame(frame)) => return Some(frame),
                // A malformed frame has no trustworthy number to answer, so the connection ends.
                Ok(ReadOutcome::End) | Err(_) => return None,
                Ok(ReadOutcome::Part { .. }) if self.shared.is_stopping() => return None,
                Ok(ReadOutcome::Part { .. }) => {}
            }
            if self.frames.is_begun() {
                let now = self.shared.now();
                let size = Duration::from_secs(self.frames.length() as u64 >> 20);
                if now.saturating_sub(*since.get_or_insert(now)) > self.shared.options.patience + size {
                    return None;
                }
            } else if let Some(since) = since
                && self.shared.now().saturating_sub(since) > self.shared.options.patience
            {
                return None;
            }
        }
    }
}

fn welcome(shared: &Shared, live: &ClientConnection, channel: u64, seen: u64) -> Vec<u8> {
    let welcome = Welcome {
        opening: shared.opening,
        client: live.owner.session,
        channel,
        recovered: live.owner.recovered,
        identity: shared.device.identity().clone(),
    };
    let mut out = Vec::new();
    put_frame(&mut out, FrameKind::Welcome, 0, seen, |w| welcome.put(w));
    out
}

fn control(from: &mut Frames<'_>, live: &ClientConnection) {
    let shared = from.shared;
    let mut socket = from.socket;
    if socket.write_all(&welcome(shared, live, 0, 0)).is_err() {
        return;
    }
    while let Some(frame) = from.next(false) {
        let mut out = Vec::new();
        match frame.kind {
            FrameKind::Ping => put_frame(&mut out, FrameKind::Pong, 0, 0, |_| {}),
            FrameKind::Work => {
                let r = &mut Reader::new(&frame.payload);
                let work = |r: &mut Reader<'_>| {
                    let at = VirtualTime::from_ps(r.u64()?);
                    let budget = Budget { write_bytes: r.u64()? };
                    r.end().map(|()| (at, budget))
                };
                let Ok((at, budget)) = work(r) else { return };
                let progress = shared.device.work(at, budget);
                put_frame(&mut out, FrameKind::Worked, 0, 0, |w: &mut Writer<'_>| put_progress(w, progress));
            }
            FrameKind::Bye => {
                shared.owners.farewell(&live.owner);
                let done = lode_command::Progress::Done;
                put_frame(&mut out, FrameKind::Worked, 0, 0, |w: &mut Writer<'_>| put_progress(w, done));
            }
            _ => return,
        }
        if socket.write_all(&out).is_err() || frame.kind == FrameKind::Bye {
            return;
        }
    }
}

fn serve_channel(
    from: &mut Frames<'_>,
    live: &ClientConnection,
    channel: &Arc<Channel>,
    number: u64,
    saw: u64,
) {
    let shared = from.shared;
    let Ok(socket) = from.socket.try_clone() else { return };
    let begin = |seen| welcome(shared, live, channel.id, seen);
    if channel.attach(number, socket, saw, begin).is_ok() {
        from.frames.set_max(shared.payload_bytes_max());
        operations(from, channel);
    }
    channel.detach(number);
}

fn operations(from: &mut Frames<'_>, channel: &Channel) {
    while let Some(frame) = from.next(false) {
        channel.saw(frame.seen);
        let operation = match frame.kind {
            FrameKind::Seen => continue,
            FrameKind::Ping => {
                channel.say(FrameKind::Pong);
                continue;
            }
            FrameKind::Bye => {
                let r = &mut Reader::new(&frame.payload);
                channel.end(take_session(r).ok().flatten());
                return;
            }
            FrameKind::Submit | FrameKind::Narrow | FrameKind::Cancel => operation(frame.kind, &frame),
            _ => Err(Malformed { what: "a client does not send such a frame", at: 0 }),
        };
        // The checksums are right but the payload is not, so the sender does not speak the protocol. The channel ends.
        let Ok(operation) = operation else { return channel.end(None) };
        match channel.push(frame.number, operation, frame.payload.len()) {
            Ok(()) => {}
            Err(Unwanted::Ended) => return,
            Err(Unwanted::Gap | Unwanted::TooMuch) => return channel.end(None),
        }
    }
}

fn operation(kind: FrameKind, frame: &Frame) -> Result<Operation, Malformed> {
    read_whole(&frame.payload, |r| {
        Ok(match kind {
            FrameKind::Submit => Operation::Submit {
                at: VirtualTime::from_ps(r.u64()?),
                tag: r.u64()?,
                command: take_command(r)?,
            },
            FrameKind::Narrow => Operation::Narrow { tag: r.u64()?, program: Arc::new(take_program(r)?) },
            _ => Operation::Cancel { tag: r.u64()? },
        })
    })
}
