//! A client's connection. Once it is established, only `wait` and `ask` block.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};

use lode_base::PageBuf;
use lode_base::wire::{Reader, Writer};

use super::ClientOptions;
use crate::frame::{Assembler, Frame, FrameKind, ReadOutcome, put_frame};
use crate::message::{Hello, Refused, Welcome};
use crate::socket;

/// The longest payload that a client accepts.
const PAYLOAD_BYTES_MAX: usize = 1 << 30;
/// The sent part of a buffer is removed once it is this long.
const SENT_BYTES_MAX: usize = 1 << 20;
/// An empty buffer with more capacity than this is freed.
const BUFFER_BYTES_MAX: usize = 8 << 20;

/// Why the client has no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Address(String),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the server refused the connection: {0}")]
    Refused(Refused),
}

pub(crate) struct Connection {
    socket: TcpStream,
    frames: Assembler,
    out: Vec<u8>,
    sent: usize,
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

impl Connection {
    /// Connects and sends the hello. Returns the connection, the welcome and the number of the highest operation that
    /// the server has received.
    pub(crate) fn open(
        addr: &str,
        options: &ClientOptions,
        hello: Hello,
        seen: u64,
    ) -> Result<(Self, Welcome, u64), Failure> {
        let all = addr.to_socket_addrs().map_err(|e| Failure::Address(e.to_string()))?;
        let mut last = Failure::Address("the address has no host".into());
        for at in all {
            match TcpStream::connect_timeout(&at, options.patience) {
                Ok(socket) => return Self::greet(socket, options, hello, seen),
                Err(e) => last = e.into(),
            }
        }
        Err(last)
    }

    fn greet(
        socket: TcpStream,
        options: &ClientOptions,
        hello: Hello,
        seen: u64,
    ) -> Result<(Self, Welcome, u64), Failure> {
        socket::prepare(&socket)?;
        socket.set_nonblocking(true)?;
        let frames = Assembler::new(PAYLOAD_BYTES_MAX);
        let mut c = Self { socket, frames, out: Vec::new(), sent: 0 };
        put_frame(&mut c.out, FrameKind::Hello, 0, seen, |w| hello.put(w));
        let frame = c.wait_for_frame(options)?;
        let r = &mut Reader::new(&frame.payload);
        match frame.kind {
            FrameKind::Welcome => {
                let welcome = Welcome::take(r).map_err(|e| invalid(e.to_string()))?;
                Ok((c, welcome, frame.seen))
            }
            FrameKind::Refused => {
                let refused = Refused::take(r).map_err(|e| invalid(e.to_string()))?;
                Err(Failure::Refused(refused))
            }
            _ => Err(invalid("the server answered the hello with another frame").into()),
        }
    }

    /// The buffer of frames to send.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        if self.sent > SENT_BYTES_MAX && self.sent > self.out.len() / 2 {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        &mut self.out
    }

    /// The number of bytes that are not yet sent.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Sends as much as the socket accepts without blocking.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.sent = 0;
        self.out.clear();
        if self.out.capacity() > BUFFER_BYTES_MAX {
            self.out = Vec::new();
        }
        Ok(())
    }

    /// The next frame that has arrived whole, or `None`.
    pub(crate) fn read(&mut self) -> io::Result<Option<Frame>> {
        loop {
            match self.frames.next(&mut self.socket)? {
                ReadOutcome::Frame(frame) => return Ok(Some(frame)),
                ReadOutcome::Part { some: true } => {}
                ReadOutcome::Part { some: false } => return Ok(None),
                ReadOutcome::End => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Waits until the socket is readable, or writable if there are unsent bytes. Returns false after `timeout`.
    pub(crate) fn wait(&self, timeout: std::time::Duration) -> io::Result<bool> {
        socket::wait(&self.socket, self.unsent() > 0, timeout)
    }

    fn wait_for_frame(&mut self, options: &ClientOptions) -> io::Result<Frame> {
        loop {
            self.flush()?;
            if let Some(frame) = self.read()? {
                return Ok(frame);
            }
            if !self.wait(options.patience)? {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Sends a frame and waits for its answer.
    pub(crate) fn ask(
        &mut self,
        kind: FrameKind,
        put: impl FnOnce(&mut Writer<'_>),
        options: &ClientOptions,
    ) -> io::Result<PageBuf> {
        put_frame(self.out(), kind, 0, 0, put);
        let frame = self.wait_for_frame(options)?;
        match frame.kind {
            FrameKind::Worked => Ok(frame.payload),
            _ => Err(invalid("the server answered with an unexpected frame")),
        }
    }
}
