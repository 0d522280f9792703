//! Frames: the units that either side sends.
//!
//! ```text
//!   | "LW" 2 | version 1 | kind 1 | length of the payload 4 | number 8 | seen 8 | CRC-32C of the payload 4 |
//!   | CRC-32C of the 28 bytes before 4 | payload |
//! ```
//!
//! Operations of a channel (client to server) and answers (server to client) are numbered from 1 without a gap. Other
//! frames have number 0. `seen` is the highest number that the sender has received from the other side.
//!
//! Invariants: the length is used only if the header's checksum is right, and only up to a limit; memory for a
//! payload grows with the bytes that have arrived, not with the length in the header.

use std::io::{self, Read};

use lode_base::checksum::crc32c;
use lode_base::wire::Writer;
use lode_base::{PageBuf, PageBufMut};

/// The version of the frames and of their payloads.
pub(crate) const VERSION: u8 = lode_command::wire::VERSION as u8;
pub(crate) const HEADER_BYTES: usize = 32;
/// The bytes to read from the socket at a time while payloads are short.
const BUFFER_BYTES: usize = 64 << 10;
/// The memory to allocate for a payload before any of it has arrived.
const AHEAD_BYTES: usize = 4 << 20;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// The client's name and the purpose of the connection.
    Hello,
    /// A command.
    Submit,
    /// A narrower program for a running task.
    Narrow,
    /// Cancel a command.
    Cancel,
    /// Only `seen`.
    Seen,
    /// Asks whether the server is there.
    Ping,
    /// Asks for a step of background work.
    Work,
    /// Ends the channel, or on the control connection the client.
    Bye,
    /// Accepts a hello.
    Welcome,
    /// Refuses a hello.
    Refused,
    /// A completion.
    Answer,
    /// Answers a ping.
    Pong,
    /// The outcome of a step of background work. It also answers the client's goodbye.
    Worked,
}

impl FrameKind {
    const ALL: [Self; 13] = [
        Self::Hello,
        Self::Submit,
        Self::Narrow,
        Self::Cancel,
        Self::Seen,
        Self::Ping,
        Self::Work,
        Self::Bye,
        Self::Welcome,
        Self::Refused,
        Self::Answer,
        Self::Pong,
        Self::Worked,
    ];

    fn from_raw(raw: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| *k as u8 == raw)
    }
}

/// A received frame. Its checksums are right.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) number: u64,
    pub(crate) seen: u64,
    pub(crate) payload: PageBuf,
}

/// Appends a frame. `put` writes its payload.
pub(crate) fn put_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    number: u64,
    seen: u64,
    put: impl FnOnce(&mut Writer<'_>),
) {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    put(&mut Writer::new(out));
    let payload = &out[start + HEADER_BYTES..];
    let length = u32::try_from(payload.len()).expect("a frame is below 4 GB");
    let crc = crc32c(payload);
    let header = &mut out[start..start + HEADER_BYTES];
    header[..4].copy_from_slice(&[b'L', b'W', VERSION, kind as u8]);
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..24].copy_from_slice(&seen.to_le_bytes());
    header[24..28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
}

struct Header {
    kind: FrameKind,
    length: usize,
    number: u64,
    seen: u64,
    crc: u32,
}

impl Header {
    fn decode(b: &[u8; HEADER_BYTES], payload_bytes_max: usize) -> Result<Self, &'static str> {
        let u32_at = |at: usize| u32::from_le_bytes(*b[at..].first_chunk().expect("32 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(*b[at..].first_chunk().expect("32 bytes"));
        if b[..2] != *b"LW" {
            return Err("the bytes are not a frame of Lode's protocol");
        }
        if u32_at(28) != crc32c(&b[..28]) {
            return Err("the checksum of a frame's header is wrong");
        }
        if b[2] != VERSION {
            return Err("the other side speaks another version of the protocol");
        }
        let kind = FrameKind::from_raw(b[3]).ok_or("an unknown kind of frame")?;
        let length = u32_at(4) as usize;
        if length > payload_bytes_max {
            return Err("a frame is too long");
        }
        Ok(Self { kind, length, number: u64_at(8), seen: u64_at(16), crc: u32_at(24) })
    }
}

/// The outcome of reading from a source.
pub(crate) enum ReadOutcome {
    /// A frame.
    Frame(Frame),
    /// No whole frame. `some` tells whether any bytes came; if so, there may be more.
    Part { some: bool },
    /// The other side closed the connection between two frames.
    End,
}

/// Assembles frames from the bytes of a socket.
pub(crate) struct Assembler {
    payload_bytes_max: usize,
    buffer: Box<[u8]>,
    from: usize,
    to: usize,
    header: Option<Header>,
    payload: PageBufMut,
    have: usize,
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Assembler {
    pub(crate) fn new(payload_bytes_max: usize) -> Self {
        Self {
            payload_bytes_max,
            buffer: vec![0; BUFFER_BYTES].into(),
            from: 0,
            to: 0,
            header: None,
            payload: PageBufMut::with_capacity(0),
            have: 0,
        }
    }

    /// Sets the longest payload that is accepted from now on.
    pub(crate) fn set_max(&mut self, payload_bytes_max: usize) {
        self.payload_bytes_max = payload_bytes_max;
    }

    /// The length of the payload that is arriving.
    pub(crate) fn length(&self) -> usize {
        self.header.as_ref().map_or(0, |h| h.length)
    }

    /// Whether a frame has begun but is not whole.
    pub(crate) fn is_begun(&self) -> bool {
        self.header.is_some() || self.from < self.to
    }

    /// The next frame, if one read completes it.
    pub(crate) fn next(&mut self, source: &mut impl Read) -> io::Result<ReadOutcome> {
        if let Some(frame) = self.whole()? {
            return Ok(ReadOutcome::Frame(frame));
        }
        loop {
            let left = self.length() - if self.header.is_some() { self.have } else { 0 };
            // A long payload is read directly into its final buffer.
            let direct = left >= BUFFER_BYTES;
            let into = if direct {
                self.grow();
                let end = self.payload.len();
                &mut self.payload[self.have..end]
            } else {
                self.buffer.copy_within(self.from..self.to, 0);
                (self.from, self.to) = (0, self.to - self.from);
                &mut self.buffer[self.to..]
            };
            match source.read(into) {
                Ok(0) if self.is_begun() => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(n) => {
                    if direct {
                        self.have += n;
                    } else {
                        self.to += n;
                    }
                    return Ok(self.whole()?.map_or(ReadOutcome::Part { some: true }, ReadOutcome::Frame));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(ReadOutcome::Part { some: false });
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Makes room for more of the payload: as many bytes as have arrived already, and at least [`AHEAD_BYTES`].
    fn grow(&mut self) {
        let length = self.length();
        if self.have == self.payload.len() {
            self.payload.resize(length.min(self.have + self.have.max(AHEAD_BYTES)));
        }
    }

    /// Takes the next whole frame from the buffer.
    fn whole(&mut self) -> io::Result<Option<Frame>> {
        if self.header.is_none() {
            let Some(bytes) = self.buffer[self.from..self.to].first_chunk() else { return Ok(None) };
            let header = Header::decode(bytes, self.payload_bytes_max).map_err(invalid)?;
            self.from += HEADER_BYTES;
            self.have = 0;
            let first = header.length.min(AHEAD_BYTES);
            // A short payload may be kept for long, so its buffer takes no more than it needs.
            self.payload = match first {
                0..4096 => PageBufMut::zeroed(first),
                _ => PageBufMut::scratch(first),
            };
            self.header = Some(header);
        }
        let length = self.length();
        while self.from < self.to && self.have < length {
            self.grow();
            let n = (self.payload.len() - self.have).min(self.to - self.from);
            self.payload[self.have..self.have + n].copy_from_slice(&self.buffer[self.from..self.from + n]);
            self.have += n;
            self.from += n;
        }
        if self.have < length {
            return Ok(None);
        }
        let header = self.header.take().expect("a frame was begun");
        let payload = std::mem::replace(&mut self.payload, PageBufMut::with_capacity(0)).freeze();
        if crc32c(&payload) != header.crc {
            return Err(invalid("the checksum of a frame's payload is wrong"));
        }
        Ok(Some(Frame { kind: header.kind, number: header.number, seen: header.seen, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 10 << 20;

    /// A source that returns its bytes in pieces and `WouldBlock` between them.
    struct Pieces<'a> {
        bytes: &'a [u8],
        piece: usize,
        pause: bool,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.pause = !self.pause;
            if self.pause && !self.bytes.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = self.piece.min(into.len()).min(self.bytes.len());
            let (now, later) = self.bytes.split_at(n);
            into[..n].copy_from_slice(now);
            self.bytes = later;
            Ok(n)
        }
    }

    fn frames(bytes: &[u8], piece: usize) -> io::Result<Vec<Frame>> {
        let mut source = Pieces { bytes, piece, pause: false };
        let mut a = Assembler::new(MAX);
        let mut all = Vec::new();
        loop {
            match a.next(&mut source)? {
                ReadOutcome::Frame(f) => all.push(f),
                ReadOutcome::Part { .. } => {}
                ReadOutcome::End => return Ok(all),
            }
        }
    }

    fn stream() -> (Vec<u8>, Vec<usize>) {
        let mut b = Vec::new();
        let lengths = vec![0, 1, 5000, 9 << 20, 70_000, 33];
        for (i, &n) in lengths.iter().enumerate() {
            put_frame(&mut b, FrameKind::Answer, i as u64, 7, |w| (0..n).for_each(|k| w.u8(k as u8)));
        }
        (b, lengths)
    }

    #[test]
    fn frames_come_back_however_they_are_cut() {
        let (b, lengths) = stream();
        for piece in [usize::MAX, 1 << 20, 65_537, 4097] {
            let got = frames(&b, piece).unwrap();
            assert_eq!(got.iter().map(|f| f.payload.len()).collect::<Vec<_>>(), lengths);
            for (i, f) in got.iter().enumerate() {
                assert_eq!((f.kind, f.number, f.seen), (FrameKind::Answer, i as u64, 7));
                assert!(f.payload.iter().enumerate().all(|(k, &b)| b == k as u8));
                assert_eq!(f.payload.as_ptr() as usize % 64, 0);
            }
        }
        let small = &b[..HEADER_BYTES * 2 + 1];
        (1..small.len())
            .filter(|n| *n != HEADER_BYTES)
            .for_each(|n| assert!(frames(&small[..n], 3).is_err()));
    }

    #[test]
    fn a_length_alone_takes_no_memory() {
        let mut b = Vec::new();
        put_frame(&mut b, FrameKind::Submit, 1, 0, |_| {});
        b[4..8].copy_from_slice(&(MAX as u32).to_le_bytes());
        let crc = crc32c(&b[..28]);
        b[28..].copy_from_slice(&crc.to_le_bytes());
        let mut a = Assembler::new(MAX);
        let mut source = Pieces { bytes: &b, piece: 99, pause: true };
        assert!(matches!(a.next(&mut source), Ok(ReadOutcome::Part { some: true })));
        assert!(a.payload.len() <= AHEAD_BYTES);
        let mut short = Assembler::new(MAX - 1);
        let mut source = Pieces { bytes: &b, piece: 99, pause: true };
        assert!(short.next(&mut source).is_err());
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_found(at: u16, to: u8) {
            let mut b = Vec::new();
            put_frame(&mut b, FrameKind::Submit, 9, 3, |w| w.bytes(b"a payload"));
            let at = usize::from(at) % b.len();
            prop_assume!(b[at] != to);
            b[at] = to;
            prop_assert!(frames(&b, 7).is_err());
        }

        #[test]
        fn random_bytes_are_no_frames(bytes: Vec<u8>) {
            if !bytes.is_empty() {
                prop_assert!(frames(&bytes, 7).is_err());
            }
        }
    }
}
