//! Errors: a byte that says which, then
//!
//! ```text
//!   of a command:  1 out of space: free 8, needed 8   2 unmapped: LPID    3 uncorrectable: LPID, cell 8, text
//!   4 view closed: 8   5 too many views: 4   6 no such extent: 8   7 no index rule: 4   8 invalid: text
//!   9 bad page: LPID, text   10 overflow: LPID   11 wrong sequence: session 8, number 8, highest 8
//!   12 no such session: 8   13 too many sessions: 4   14 no content   15 cancelled   16 medium: text   17 read-only: text
//!   18 time out of range: time 8, last time 8   19 medium full: text   20 not registered: owner 4, keys 1, number 4
//!   21 no keys: owner 4, number 4, view 8   22 no memory: needed 8, free 8
//!   of a device:   1 queue depth: got 4, most 4   2 gone: text
//! ```

use lode_base::wire::{Malformed, Reader, Writer};
use lode_base::{Geometry, OwnerId, SessionId, ViewId, VirtualTime};

use crate::{CommandError, DeviceError, Registration};

pub(super) fn put_error(w: &mut Writer<'_>, e: &CommandError) {
    match e {
        CommandError::OutOfSpace { free_bytes, needed_bytes } => {
            w.u8(1);
            w.u64(*free_bytes);
            w.u64(*needed_bytes);
        }
        CommandError::Unmapped(lpid) => {
            w.u8(2);
            w.u64(lpid.raw());
        }
        CommandError::Uncorrectable { lpid, ppa, what } => {
            w.u8(3);
            w.u64(lpid.raw());
            w.u64(ppa.cell());
            w.text(what);
        }
        CommandError::ViewClosed(view) => {
            w.u8(4);
            w.u64(view.raw());
        }
        CommandError::TooManyViews(max) => {
            w.u8(5);
            w.u32(*max);
        }
        CommandError::NoSuchExtent(e) => {
            w.u8(6);
            w.u64(e.raw());
        }
        CommandError::NoIndexRule(owner) => {
            w.u8(7);
            w.u32(owner.raw());
        }
        CommandError::Invalid(what) => {
            w.u8(8);
            w.text(what);
        }
        CommandError::BadPage { lpid, what } => {
            w.u8(9);
            w.u64(lpid.raw());
            w.text(what);
        }
        CommandError::Overflow(lpid) => {
            w.u8(10);
            w.u64(lpid.raw());
        }
        CommandError::WrongSequence { session, wsn, highest } => {
            w.u8(11);
            w.u64(session.raw());
            w.u64(*wsn);
            w.u64(*highest);
        }
        CommandError::NoSuchSession(session) => {
            w.u8(12);
            w.u64(session.raw());
        }
        CommandError::TooManySessions(max) => {
            w.u8(13);
            w.u32(*max);
        }
        CommandError::NoContent => w.u8(14),
        CommandError::Cancelled => w.u8(15),
        CommandError::Medium(what) => {
            w.u8(16);
            w.text(what);
        }
        CommandError::MediumFull(what) => {
            w.u8(19);
            w.text(what);
        }
        CommandError::NotRegistered { owner, what, number } => {
            w.u8(20);
            w.u32(owner.raw());
            w.flag(*what == Registration::Keys);
            w.u32(*number);
        }
        CommandError::NoKeys { owner, number, view } => {
            w.u8(21);
            w.u32(owner.raw());
            w.u32(*number);
            w.u64(view.raw());
        }
        CommandError::NoMemory { needed_bytes, free_bytes } => {
            w.u8(22);
            w.u64(*needed_bytes);
            w.u64(*free_bytes);
        }
        CommandError::ReadOnly(what) => {
            w.u8(17);
            w.text(what);
        }
        CommandError::TimeOutOfRange { at, max } => {
            w.u8(18);
            w.u64(at.as_ps());
            w.u64(max.as_ps());
        }
    }
}

pub(super) fn take_error(r: &mut Reader<'_>, g: &Geometry) -> Result<CommandError, Malformed> {
    Ok(match r.u8()? {
        1 => CommandError::OutOfSpace { free_bytes: r.u64()?, needed_bytes: r.u64()? },
        2 => CommandError::Unmapped(r.lpid()?),
        3 => {
            let (lpid, cell) = (r.lpid()?, r.u64()?);
            let ppa = g.ppa_from_cell(cell).ok_or(r.bad("an address outside the medium"))?;
            CommandError::Uncorrectable { lpid, ppa, what: r.text()?.into() }
        }
        4 => CommandError::ViewClosed(ViewId::new(r.u64()?)),
        5 => CommandError::TooManyViews(r.u32()?),
        6 => CommandError::NoSuchExtent(r.extent()?),
        7 => CommandError::NoIndexRule(OwnerId::new(r.u32()?)),
        8 => CommandError::Invalid(r.text()?.into()),
        9 => CommandError::BadPage { lpid: r.lpid()?, what: r.text()?.into() },
        10 => CommandError::Overflow(r.lpid()?),
        11 => CommandError::WrongSequence {
            session: SessionId::new(r.u64()?),
            wsn: r.u64()?,
            highest: r.u64()?,
        },
        12 => CommandError::NoSuchSession(SessionId::new(r.u64()?)),
        13 => CommandError::TooManySessions(r.u32()?),
        14 => CommandError::NoContent,
        15 => CommandError::Cancelled,
        16 => CommandError::Medium(r.text()?.into()),
        17 => CommandError::ReadOnly(r.text()?.into()),
        19 => CommandError::MediumFull(r.text()?.into()),
        18 => {
            let (at, max) = (VirtualTime::from_ps(r.u64()?), VirtualTime::from_ps(r.u64()?));
            CommandError::TimeOutOfRange { at, max }
        }
        20 => CommandError::NotRegistered {
            owner: OwnerId::new(r.u32()?),
            what: if r.flag()? { Registration::Keys } else { Registration::Program },
            number: r.u32()?,
        },
        21 => CommandError::NoKeys {
            owner: OwnerId::new(r.u32()?),
            number: r.u32()?,
            view: ViewId::new(r.u64()?),
        },
        22 => CommandError::NoMemory { needed_bytes: r.u64()?, free_bytes: r.u64()? },
        _ => return Err(r.bad("no kind of error")),
    })
}

/// Writes why a device cannot be used.
pub fn put_device_error(w: &mut Writer<'_>, e: &DeviceError) {
    match e {
        DeviceError::QueueDepth { got, max } => {
            w.u8(1);
            w.u32(*got);
            w.u32(*max);
        }
        DeviceError::Gone(what) => {
            w.u8(2);
            w.text(what);
        }
    }
}

/// Reads why a device cannot be used.
///
/// # Errors
/// When the bytes are not those of one.
pub fn take_device_error(r: &mut Reader<'_>) -> Result<DeviceError, Malformed> {
    Ok(match r.u8()? {
        1 => DeviceError::QueueDepth { got: r.u32()?, max: r.u32()? },
        2 => DeviceError::Gone(r.text()?.into()),
        _ => return Err(r.bad("no kind of device error")),
    })
}
