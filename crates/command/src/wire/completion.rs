//! Completions:
//!
//! ```text
//!   tag 8, time 8, what it was spent on 6 x 8, then a byte that says which outcome:
//!   0 unit:  pages n x (LPID 8, rows 4, slots 1 [n x 4], columns), groups n x (rows 4, columns),
//!            hints n x (LPID of the first 8, bytes), whole pages n x (LPID 8), counts 9 x 8, then the bytes of each, long
//!   1 done   2 committed: 8, view 1 [8], entries as in 8    3 pages: n, each long    4 view: 8, commit 8    5 extents: n x 8
//!   6 list:  n x (extent 8, owner 4, known 1 [pages 4])             7 indexed: 8
//!   8 index entries: n x (LPID 8, some 1 [entry])    9 scanned: counts    10 session: 8, highest 8    11 an error
//!   12 last unit: unit, counts
//!   columns: n, each a column
//! ```

use lode_base::wire::{Malformed, Reader, Writer};
use lode_base::{
    CommitNo, EXTENT_PAGES, Geometry, OwnerId, PageBuf, SessionId, Split, ViewId, VirtualDuration,
    VirtualTime, split::Part,
};
use lode_page::Column;
use lode_page::wire::{put_column, take_column};
use lode_program::wire::{put_entry, take_entry};

use super::error::{put_error, take_error};
use crate::{
    Completion, ExtentInfo, GroupRows, IndexedPage, Outcome, PageHints, PageRows, Reply, ScanCounts,
    ScanUnit, Tag, WholePage,
};

/// The longest time of a completion's part that is accepted, so that sums of parts do not overflow.
const PART_PS_MAX: u64 = 1 << 60;

/// Writes a completion.
pub fn put_completion(w: &mut Writer<'_>, c: &Completion) {
    w.u64(c.tag.0);
    w.u64(c.at.as_ps());
    Part::ALL.into_iter().for_each(|p| w.u64(c.split.of(p).as_ps()));
    match &c.outcome {
        Outcome::Unit(u) => {
            w.u8(0);
            put_unit(w, u);
        }
        Outcome::Done(Ok(reply)) => put_reply(w, reply),
        Outcome::Done(Err(e)) => {
            w.u8(11);
            put_error(w, e);
        }
    }
}

/// Reads a completion of a drive of this geometry.
///
/// # Errors
/// When the bytes are not those of one.
pub fn take_completion(r: &mut Reader<'_>, g: &Geometry) -> Result<Completion, Malformed> {
    let (tag, at) = (Tag(r.u64()?), VirtualTime::from_ps(r.u64()?));
    let mut split = Split::default();
    for part in Part::ALL {
        let ps = r.u64()?;
        if ps > PART_PS_MAX {
            return Err(r.bad("a time without end"));
        }
        split.add(part, VirtualDuration::from_ps(ps));
    }
    let outcome = match r.u8()? {
        0 => Outcome::Unit(take_unit(r)?),
        11 => Outcome::Done(Err(take_error(r, g)?)),
        kind => Outcome::Done(Ok(take_reply(r, kind)?)),
    };
    Ok(Completion { tag, at, split, outcome })
}

fn put_reply(w: &mut Writer<'_>, reply: &Reply) {
    match reply {
        Reply::Done => w.u8(1),
        Reply::Committed { commit, view, entries } => {
            w.u8(2);
            w.u64(commit.raw());
            w.flag(view.is_some());
            if let Some(view) = view {
                w.u64(view.raw());
            }
            put_entries(w, entries);
        }
        Reply::Pages(pages) => {
            w.u8(3);
            w.count(pages.len());
            pages.iter().for_each(|p| w.long(p));
        }
        Reply::View { view, commit } => {
            w.u8(4);
            w.u64(view.raw());
            w.u64(commit.raw());
        }
        Reply::Extents(extents) => {
            w.u8(5);
            w.count(extents.len());
            extents.iter().for_each(|e| w.u64(e.raw()));
        }
        Reply::ExtentList(list) => {
            w.u8(6);
            w.count(list.len());
            for e in list {
                w.u64(e.extent.raw());
                w.u32(e.owner.raw());
                w.flag(e.pages_mapped.is_some());
                if let Some(pages) = e.pages_mapped {
                    w.u32(pages);
                }
            }
        }
        Reply::Indexed { pages } => {
            w.u8(7);
            w.u64(*pages);
        }
        Reply::IndexEntries(entries) => {
            w.u8(8);
            put_entries(w, entries);
        }
        Reply::LastUnit { unit, counts } => {
            w.u8(12);
            put_unit(w, unit);
            put_counts(w, counts);
        }
        Reply::Scanned(counts) => {
            w.u8(9);
            put_counts(w, counts);
        }
        Reply::Session { session, highest } => {
            w.u8(10);
            w.u64(session.raw());
            w.u64(*highest);
        }
    }
}

fn take_reply(r: &mut Reader<'_>, kind: u8) -> Result<Reply, Malformed> {
    Ok(match kind {
        1 => Reply::Done,
        2 => {
            let commit = CommitNo::new(r.u64()?);
            let view = if r.flag()? { Some(ViewId::new(r.u64()?)) } else { None };
            Reply::Committed { commit, view, entries: take_entries(r)? }
        }
        3 => {
            let count = r.count(4)?;
            Reply::Pages((0..count).map(|_| Ok(own(r.long()?, count))).collect::<Result<_, Malformed>>()?)
        }
        4 => Reply::View { view: ViewId::new(r.u64()?), commit: CommitNo::new(r.u64()?) },
        5 => Reply::Extents((0..r.count(8)?).map(|_| r.extent()).collect::<Result<_, _>>()?),
        6 => {
            let info = |r: &mut Reader<'_>| {
                let (extent, owner) = (r.extent()?, OwnerId::new(r.u32()?));
                Ok(ExtentInfo { extent, owner, pages_mapped: if r.flag()? { Some(r.u32()?) } else { None } })
            };
            Reply::ExtentList((0..r.count(13)?).map(|_| info(r)).collect::<Result<_, Malformed>>()?)
        }
        7 => Reply::Indexed { pages: r.u64()? },
        8 => Reply::IndexEntries(take_entries(r)?),
        9 => Reply::Scanned(take_counts(r)?),
        12 => Reply::LastUnit { unit: Box::new(take_unit(r)?), counts: take_counts(r)? },
        10 => Reply::Session { session: SessionId::new(r.u64()?), highest: r.u64()? },
        _ => return Err(r.bad("no kind of outcome")),
    })
}

/// A page of a message with so many. It may keep the whole message in memory. So only a single page shares it; of several, each gets
/// its own memory.
fn own(p: PageBuf, pages: usize) -> PageBuf {
    if pages == 1 { p } else { PageBuf::copy_from(&p) }
}

fn put_entries(w: &mut Writer<'_>, entries: &[IndexedPage]) {
    w.count(entries.len());
    for IndexedPage { lpid, len_bytes, entry } in entries {
        w.u64(lpid.raw());
        w.u32(*len_bytes);
        w.flag(entry.is_some());
        if let Some(entry) = entry {
            put_entry(w, entry);
        }
    }
}

fn take_entries(r: &mut Reader<'_>) -> Result<Vec<IndexedPage>, Malformed> {
    let entry = |r: &mut Reader<'_>| {
        let (lpid, len_bytes) = (r.lpid()?, r.u32()?);
        Ok(IndexedPage { lpid, len_bytes, entry: if r.flag()? { Some(take_entry(r)?) } else { None } })
    };
    (0..r.count(13)?).map(|_| entry(r)).collect()
}

fn put_columns(w: &mut Writer<'_>, columns: &[Column]) {
    w.count(columns.len());
    columns.iter().for_each(|c| put_column(w, c));
}

/// Columns of so many rows.
fn take_columns(r: &mut Reader<'_>, rows: u32) -> Result<Vec<Column>, Malformed> {
    let column = |r: &mut Reader<'_>| {
        let c = take_column(r)?;
        if c.rows() == rows as usize { Ok(c) } else { Err(r.bad("a column of other rows")) }
    };
    (0..r.count(9)?).map(|_| column(r)).collect()
}

fn put_unit(w: &mut Writer<'_>, u: &ScanUnit) {
    w.count(u.pages.len());
    for p in &u.pages {
        w.u64(p.lpid.raw());
        w.u32(p.rows);
        w.flag(p.slots.is_some());
        if let Some(slots) = &p.slots {
            w.count(slots.len());
            slots.iter().for_each(|&s| w.u32(s));
        }
        put_columns(w, &p.columns);
    }
    w.count(u.groups.len());
    for g in &u.groups {
        w.u32(g.rows);
        put_columns(w, &g.columns);
    }
    w.count(u.hints.len());
    for h in &u.hints {
        w.u64(h.first.raw());
        w.bytes(&h.bytes);
    }
    w.count(u.whole.len());
    u.whole.iter().for_each(|p| w.u64(p.lpid.raw()));
    put_counts(w, &u.counts);
    u.whole.iter().for_each(|p| w.long(&p.bytes));
}

fn take_unit(r: &mut Reader<'_>) -> Result<ScanUnit, Malformed> {
    let page = |r: &mut Reader<'_>| {
        let (lpid, rows) = (r.lpid()?, r.u32()?);
        let slots = match r.flag()? {
            false => None,
            true => Some((0..r.count(4)?).map(|_| r.u32()).collect::<Result<Vec<_>, _>>()?),
        };
        if slots.as_ref().is_some_and(|s| s.len() != rows as usize) {
            return Err(r.bad("slots of other rows"));
        }
        Ok(PageRows { lpid, rows, columns: take_columns(r, rows)?, slots })
    };
    let pages = (0..r.count(17)?).map(|_| page(r)).collect::<Result<_, Malformed>>()?;
    let groups = |r: &mut Reader<'_>| {
        let rows = r.u32()?;
        Ok(GroupRows { rows, columns: take_columns(r, rows)? })
    };
    let groups = (0..r.count(8)?).map(|_| groups(r)).collect::<Result<_, Malformed>>()?;
    let hints = |r: &mut Reader<'_>| {
        let (first, bytes) = (r.lpid()?, r.bytes()?);
        let fits = (1..=EXTENT_PAGES - usize::from(first.page())).contains(&bytes.len());
        if !fits || bytes.iter().any(|b| *b > 1) {
            return Err(r.bad("hints of pages that no extent has, or that say neither yes nor no"));
        }
        Ok(PageHints { first, bytes: bytes.to_vec() })
    };
    let hints = (0..r.count(12)?).map(|_| hints(r)).collect::<Result<_, Malformed>>()?;
    let names = (0..r.count(8)?).map(|_| r.lpid()).collect::<Result<Vec<_>, _>>()?;
    let counts = take_counts(r)?;
    let whole = |lpid| Ok(WholePage { lpid, bytes: own(r.long()?, names.len()) });
    let whole = names.iter().copied().map(whole).collect::<Result<_, Malformed>>()?;
    Ok(ScanUnit { pages, whole, groups, hints, counts })
}

fn put_counts(w: &mut Writer<'_>, c: &ScanCounts) {
    let ScanCounts {
        pages,
        pages_skipped,
        pages_read,
        pages_unmatched,
        media_bytes,
        rows_in,
        rows_out,
        values_compared,
        groups_out,
    } = *c;
    let looked_at = [pages, pages_skipped, pages_read, pages_unmatched, media_bytes];
    for n in looked_at.into_iter().chain([rows_in, rows_out, values_compared, groups_out]) {
        w.u64(n);
    }
}

fn take_counts(r: &mut Reader<'_>) -> Result<ScanCounts, Malformed> {
    let mut next = || {
        let n = r.u64()?;
        // Larger counts are refused, so that their sums do not overflow.
        if n >> 48 == 0 { Ok(n) } else { Err(r.bad("a count without end")) }
    };
    Ok(ScanCounts {
        pages: next()?,
        pages_skipped: next()?,
        pages_read: next()?,
        pages_unmatched: next()?,
        media_bytes: next()?,
        rows_in: next()?,
        rows_out: next()?,
        values_compared: next()?,
        groups_out: next()?,
    })
}
