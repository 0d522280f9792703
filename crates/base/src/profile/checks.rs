//! Contradictions between values of a profile that are valid one by one.
//!
//! ```text
//!   checks, in turn ─► the first that does not hold: table, key, what is wrong
//! ```

use super::{KEY_BYTES_MAX, KEYS_MAX, ScanUnitKind, Written};
use crate::{Geometry, VirtualDuration};

/// What is wrong, and at which key.
pub(super) struct Contradiction {
    pub(super) table: &'static str,
    pub(super) key: &'static str,
    pub(super) what: String,
}

/// The first contradiction.
pub(super) fn contradiction(w: &Written, geometry: &Geometry) -> Option<Contradiction> {
    let is = |wrong: bool, table, key, what: String| wrong.then_some(Contradiction { table, key, what });
    let g = &w.geometry;

    let name = format!("name is {:?}; that means that nothing is modelled", w.name);
    let page = w.nand.page_bytes;
    let page_fits = page != 0 && page.is_multiple_of(g.rblock_bytes) && g.wblock_bytes.is_multiple_of(page);
    let (rblock, wblock) = (g.rblock_bytes, g.wblock_bytes);
    let what_page = format!("page_bytes is {page}; it must be a multiple of {rblock} that divides {wblock}");

    // A striped medium deals EBLOCKs to channels, any other medium to planes.
    let planes = g.channels * g.ways * g.planes;
    let places = if g.striped { g.channels } else { planes };
    let dealt = format!("{} EBLOCKs are not dealt evenly to {places} places", g.eblock_count);
    let (each, over) = (geometry.wblocks_per_eblock(), g.ways * g.planes);
    let striped = format!("{each} WBLOCKs of an EBLOCK are not striped evenly over {over} planes");

    // A WBLOCK of each channel is gathered in memory, and the protected buffer lies there.
    let memory = u64::from(w.dram.megabytes) << 20;
    let open = u64::from(g.channels) * u64::from(g.wblock_bytes);
    let protected = w.link.protected_bytes;
    let buffer = u64::from(w.dram.buffer_kb) << 10;
    let is_short = buffer > 0 && buffer < u64::from(rblock);
    let short = format!("buffer_kb: {} holds no read unit of {rblock} bytes", w.dram.buffer_kb);
    let no_room = format!(
        "buffer_kb: {} leaves no room for writes in the {} MB of the device",
        w.dram.buffer_kb, w.dram.megabytes
    );
    let small = format!("megabytes: {} is less than a WBLOCK a channel, {open} bytes", w.dram.megabytes);
    let beyond =
        format!("protected_bytes: {protected} is more than the {} MB of the device", w.dram.megabytes);

    let s = &w.scan_unit;
    let keys = match s.kind {
        ScanUnitKind::Comparators => (s.keys, s.key_bytes) == (0, 0),
        ScanUnitKind::Matcher => {
            (1..=KEYS_MAX).contains(&s.keys) && (1..=KEY_BYTES_MAX).contains(&s.key_bytes)
        }
    };
    let what_keys = format!(
        "keys: {} of {} bytes; comparators have 0 of 0, and a matcher 1 to {KEYS_MAX} of 1 to {KEY_BYTES_MAX}",
        s.keys, s.key_bytes
    );

    let suspends = w.nand.suspend || w.nand.suspend_cost == VirtualDuration::ZERO;
    is(w.name.is_empty() || w.name == "none", "", "name", name)
        .or_else(|| counts(w))
        .or_else(|| is(!page_fits, "nand", "page_bytes", what_page))
        .or_else(|| is(!g.eblock_count.is_multiple_of(places), "geometry", "eblock_count", dealt))
        .or_else(|| is(g.striped && !each.is_multiple_of(over), "geometry", "striped", striped))
        .or_else(|| is(!keys, "scan_unit", "keys", what_keys))
        .or_else(|| is(memory < open, "dram", "megabytes", small))
        .or_else(|| is(is_short, "dram", "buffer_kb", short))
        .or_else(|| {
            is(buffer + open + u64::from(protected) > memory && buffer > 0, "dram", "buffer_kb", no_room)
        })
        .or_else(|| is(u64::from(protected) > memory, "link", "protected_bytes", beyond))
        .or_else(|| {
            let what = "suspend_us: there is none without suspend; it must be 0";
            is(!suspends, "nand", "suspend_us", what.into())
        })
        .or_else(|| {
            let what = "multi_plane: a die of one plane has no other";
            is(w.nand.multi_plane && g.planes == 1, "nand", "multi_plane", what.into())
        })
}

/// Counts that are 0 or too large.
fn counts(w: &Written) -> Option<Contradiction> {
    [
        ("dram", "megabytes", w.dram.megabytes, 1 << 20),
        ("cores", "count", w.cores.count, 256),
        ("link", "queue_depth", w.link.queue_depth, 65_536),
        ("link", "queue_pairs", w.link.queue_pairs, 65_536),
    ]
    .into_iter()
    .find(|(_, _, value, most)| !(1..=*most).contains(value))
    .map(|(table, key, value, most)| Contradiction {
        table,
        key,
        what: format!("{key}: {value} is not from 1 to {most}"),
    })
}
