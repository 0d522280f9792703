//! A connection of a client: it never blocks once it is made, but where it is told to wait.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};

use lode_base::PageBuf;
use lode_base::wire::{Reader, Writer};

use super::ClientOptions;
use crate::frame::{Assembler, Came, Frame, Kind, put_frame};
use crate::message::{Hello, Refused, Welcome};
use crate::socket;

/// Longest payload of a server.
const PAYLOAD_BYTES_MAX: usize = 1 << 30;
/// What was sent of a buffer is cut off from so many bytes on.
const SENT_BYTES_MAX: usize = 1 << 20;
/// A buffer that is longer than this is not kept when it is empty.
const BUFFER_BYTES_MAX: usize = 8 << 20;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Address(String),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the server refuses: {0:?}")]
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
    /// Connects and greets; answers the welcome, and the highest operation that the server has.
    pub(crate) fn open(
        addr: &str,
        options: &ClientOptions,
        hello: Hello,
        seen: u64,
    ) -> Result<(Self, Welcome, u64), Failure> {
        let all = addr.to_socket_addrs().map_err(|e| Failure::Address(e.to_string()))?;
        let mut last = Failure::Address("there is no such address".into());
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
        put_frame(&mut c.out, Kind::Hello, 0, seen, |w| hello.put(w));
        let frame = c.wait_for_frame(options)?;
        let r = &mut Reader::new(&frame.payload);
        match frame.kind {
            Kind::Welcome => {
                let welcome = Welcome::take(r).map_err(|e| invalid(e.to_string()))?;
                Ok((c, welcome, frame.seen))
            }
            Kind::Refused => {
                let refused = Refused::take(r).map_err(|e| invalid(e.to_string()))?;
                Err(Failure::Refused(refused))
            }
            _ => Err(invalid("the server does not greet").into()),
        }
    }

    /// Where frames are put that are to be sent.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        if self.sent > SENT_BYTES_MAX && self.sent > self.out.len() / 2 {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        &mut self.out
    }

    /// Bytes that wait to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Sends what the socket takes now.
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

    /// The next frame that came; `None` when there is none for now.
    pub(crate) fn read(&mut self) -> io::Result<Option<Frame>> {
        loop {
            match self.frames.next(&mut self.socket)? {
                Came::Frame(frame) => return Ok(Some(frame)),
                Came::Part { some: true } => {}
                Came::Part { some: false } => return Ok(None),
                Came::End => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Waits until something came or can be sent; false when the time is over.
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

    /// Says something, and waits for what it answers.
    pub(crate) fn ask(
        &mut self,
        kind: Kind,
        put: impl FnOnce(&mut Writer<'_>),
        options: &ClientOptions,
    ) -> io::Result<PageBuf> {
        put_frame(self.out(), kind, 0, 0, put);
        let frame = self.wait_for_frame(options)?;
        match frame.kind {
            Kind::Worked => Ok(frame.payload),
            _ => Err(invalid("the server answers something else")),
        }
    }
}
