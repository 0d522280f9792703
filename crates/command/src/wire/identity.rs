//! The properties of a drive:
//!
//! ```text
//!   model text, channels 4, ways 4, planes 4, RBLOCK 4, WBLOCK 4, EBLOCK 4, EBLOCKs 4,
//!   page bytes 4, batch bytes 8, batch pages 4, queue depth 4, views 4, sessions 4, in flight 4, durable 1,
//!   some matcher 1 [keys 1, bytes of a key 1]
//! ```

use lode_base::Geometry;
use lode_base::wire::{Malformed, Reader, Writer};
use lode_program::matcher::Limits;

use crate::Identity;

/// Writes the properties of a drive.
pub fn put_identity(w: &mut Writer<'_>, i: &Identity) {
    w.text(&i.model);
    let g = &i.geometry;
    let units = [g.rblock_bytes(), g.wblock_bytes(), g.eblock_bytes(), g.eblock_count()];
    [g.channels(), g.ways(), g.planes()].into_iter().chain(units).for_each(|n| w.u32(n));
    w.u32(i.page_bytes_max);
    w.u64(i.batch_bytes_max);
    let counts = [i.batch_pages_max, i.queue_depth_max, i.views_max, i.sessions_max, i.in_flight_max];
    counts.into_iter().for_each(|n| w.u32(n));
    w.flag(i.durable);
    w.flag(i.matcher.is_some());
    if let Some(m) = i.matcher {
        w.u8(m.keys);
        w.u8(m.key_bytes);
    }
}

/// Reads the properties of a drive.
///
/// # Errors
/// When the bytes are not those of a possible drive.
pub fn take_identity(r: &mut Reader<'_>) -> Result<Identity, Malformed> {
    let model = r.text()?.to_string();
    let mut n = || r.u32();
    let geometry = Geometry::new(n()?, n()?, n()?, n()?, n()?, n()?, n()?);
    let geometry = geometry.map_err(|_| r.bad("an impossible geometry"))?;
    Ok(Identity {
        model,
        geometry,
        page_bytes_max: r.u32()?,
        batch_bytes_max: r.u64()?,
        batch_pages_max: r.u32()?,
        queue_depth_max: r.u32()?,
        views_max: r.u32()?,
        sessions_max: r.u32()?,
        in_flight_max: r.u32()?,
        durable: r.flag()?,
        matcher: take_limits(r)?,
    })
}

fn take_limits(r: &mut Reader<'_>) -> Result<Option<Limits>, Malformed> {
    if !r.flag()? {
        return Ok(None);
    }
    let limits = Limits { keys: r.u8()?, key_bytes: r.u8()? };
    let is_possible = |n: u8, most: u8| (1..=most).contains(&n);
    match is_possible(limits.keys, Limits::MOST.keys) && is_possible(limits.key_bytes, Limits::MOST.key_bytes)
    {
        true => Ok(Some(limits)),
        false => Err(r.bad("a matcher that no drive has")),
    }
}
