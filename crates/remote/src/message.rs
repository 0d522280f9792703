//! The payloads of frames other than commands: greetings, refusals, background work.
//!
//! ```text
//!   hello:   purpose 1:   0 control: client 1 [8]    1 a channel: client 8, depth 4
//!                         2 a channel again: client 8, opening 8, channel 8
//!            (`seen` of the frame: the highest answer that the client has)
//!   welcome: opening 8, client 8, channel 8, recovered 1 [commit 8, view 8], identity
//!            (`seen` of the frame: the highest operation that the server has)
//!   refused: why 1 (0 busy, 1 replaced, 2 full, 3 protocol, 4 the device's error, 5 no channel), text, error or opening 8
//!   work: time 8, bytes 8        worked: progress 1 (0 idle, 1 done, 2 more)
//!   submit: time 8, tag 8, command    narrow: tag 8, program    cancel: tag 8    bye: session 1 [8]
//! ```

use lode_base::wire::{Malformed, Reader, Writer};
use lode_base::{CommitNo, SessionId, ViewId};
use lode_command::wire::{put_device_error, put_identity, take_device_error, take_identity};
use lode_command::{DeviceError, Identity, Progress};

/// The bytes of operations that a client may have under way in a channel. A single operation may be longer.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 20;
/// The number of its own commands that a client's queue may have under way, in addition to the queue's depth.
pub(crate) const OWN_COMMANDS: u32 = 2;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// Become the client of the drive: a new client, or the returning client with this name.
    Control { client: Option<SessionId> },
    /// Open a channel for a queue.
    Open { client: SessionId, depth: u32 },
    /// Attach to an existing channel of this opening of the drive.
    Attach { client: SessionId, opening: u64, channel: u64 },
}

impl Hello {
    pub(crate) fn put(self, w: &mut Writer<'_>) {
        match self {
            Self::Control { client } => {
                w.u8(0);
                put_session(w, client);
            }
            Self::Open { client, depth } => {
                w.u8(1);
                w.u64(client.raw());
                w.u32(depth);
            }
            Self::Attach { client, opening, channel } => {
                w.u8(2);
                w.u64(client.raw());
                w.u64(opening);
                w.u64(channel);
            }
        }
    }

    pub(crate) fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let hello = match r.u8()? {
            0 => Self::Control { client: take_session(r)? },
            1 => Self::Open { client: SessionId::new(r.u64()?), depth: r.u32()? },
            2 => Self::Attach { client: SessionId::new(r.u64()?), opening: r.u64()?, channel: r.u64()? },
            _ => return Err(r.bad("an unknown kind of hello")),
        };
        r.end().map(|()| hello)
    }
}

/// A session, or none.
pub(crate) fn put_session(w: &mut Writer<'_>, s: Option<SessionId>) {
    w.flag(s.is_some());
    if let Some(s) = s {
        w.u64(s.raw());
    }
}

pub(crate) fn take_session(r: &mut Reader<'_>) -> Result<Option<SessionId>, Malformed> {
    Ok(if r.flag()? { Some(SessionId::new(r.u64()?)) } else { None })
}

/// The state in which the drive was found when it was opened. The server keeps a view of it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// The newest commit of that state.
    pub(crate) commit: CommitNo,
    /// The view that shows it.
    pub(crate) view: ViewId,
}

/// The answer to a hello.
#[derive(Clone, Debug)]
pub(crate) struct Welcome {
    /// The number of the drive's opening. A later opening has a higher number.
    pub(crate) opening: u64,
    pub(crate) client: SessionId,
    pub(crate) channel: u64,
    /// Present only for a client that was connected before the drive was opened.
    pub(crate) recovered: Option<Recovered>,
    pub(crate) identity: Identity,
}

impl Welcome {
    pub(crate) fn put(&self, w: &mut Writer<'_>) {
        w.u64(self.opening);
        w.u64(self.client.raw());
        w.u64(self.channel);
        w.flag(self.recovered.is_some());
        if let Some(r) = self.recovered {
            w.u64(r.commit.raw());
            w.u64(r.view.raw());
        }
        put_identity(w, &self.identity);
    }

    pub(crate) fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (opening, client, channel) = (r.u64()?, SessionId::new(r.u64()?), r.u64()?);
        let recovered = match r.flag()? {
            false => None,
            true => Some(Recovered { commit: CommitNo::new(r.u64()?), view: ViewId::new(r.u64()?) }),
        };
        let welcome = Self { opening, client, channel, recovered, identity: take_identity(r)? };
        r.end().map(|()| welcome)
    }
}

/// Why a server refuses a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("another client is connected")]
    Busy,
    #[error("another client has replaced this one, or this one was away for too long")]
    Replaced,
    #[error("there are too many connections or queues")]
    Full,
    /// The client violated the protocol.
    #[error("{0}")]
    Protocol(String),
    /// This opening of the drive, the newest, has no such channel.
    #[error("opening {0} of the drive has no such channel")]
    NoChannel(u64),
}

/// A refusal, or an error of the device.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{0}")]
    Refusal(Refusal),
    #[error("{0}")]
    Device(DeviceError),
}

impl Refused {
    pub(crate) fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Refusal(Refusal::Busy) => w.u8(0),
            Self::Refusal(Refusal::Replaced) => w.u8(1),
            Self::Refusal(Refusal::Full) => w.u8(2),
            Self::Refusal(Refusal::Protocol(what)) => {
                w.u8(3);
                w.text(what);
            }
            Self::Device(e) => {
                w.u8(4);
                put_device_error(w, e);
            }
            Self::Refusal(Refusal::NoChannel(opening)) => {
                w.u8(5);
                w.u64(*opening);
            }
        }
    }

    pub(crate) fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let refused = match r.u8()? {
            0 => Self::Refusal(Refusal::Busy),
            1 => Self::Refusal(Refusal::Replaced),
            2 => Self::Refusal(Refusal::Full),
            3 => Self::Refusal(Refusal::Protocol(r.text()?.into())),
            4 => Self::Device(take_device_error(r)?),
            5 => Self::Refusal(Refusal::NoChannel(r.u64()?)),
            _ => return Err(r.bad("an unknown kind of refusal")),
        };
        r.end().map(|()| refused)
    }
}

pub(crate) fn put_progress(w: &mut Writer<'_>, p: Progress) {
    w.u8(match p {
        Progress::Idle => 0,
        Progress::Done => 1,
        Progress::More => 2,
    });
}

pub(crate) fn take_progress(r: &mut Reader<'_>) -> Result<Progress, Malformed> {
    let progress = match r.u8()? {
        0 => Progress::Idle,
        1 => Progress::Done,
        2 => Progress::More,
        _ => return Err(r.bad("an unknown kind of progress")),
    };
    r.end().map(|()| progress)
}
