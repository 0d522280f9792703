//! Commands: a byte that says which, then
//!
//! ```text
//!   1 write:    pin 1, entries 1, session 1 [session 8, number 8], leave 8, trims n x 8, releases n x 8,
//!               rules n x (owner 4, some 1 [rule]), pages n x (LPID 8, alignment 1), then the bytes of each page, long
//!   2 read:     some view 1 [view 8], requests n x (LPID 8, part 1 [from 4, to 4])
//!   3 scan:     view 8, answer 1, unit pages 4, limit 1 [rows 8], ranges, hidden, some matcher 1 [matcher], skip, program
//!   4 open view      5 close view: 8      6 allocate: owner 4, count 4      7 list extents
//!   8 build index: owner 4                9 read index: view 8, ranges
//!   10 checkpoint    11 open session      12 resume session: 8              13 close session: 8
//!   14 flush         15 register program: owner 4, number 4, some 1 [program]
//!   16 register keys: owner 4, number 4, some 1 [column 2, all rows 1, sized 1 [bytes 4]]
//!   17 read indexed: view 8, owner 4, program 4, unit pages 4, skip, collect 1 [keys 4],
//!                    among 1 [owner 4, keys 4, program 4, column 2], ranges
//!   skip: 0 levels, 1 each, 2 sorted: column 2, 3 never
//!   ranges: n x (extent 8, first 2, count 2)          hidden: n x (LPID 8, rows n x number 4), all ascending
//! ```
//!
//! Batches on the wire are always forced. So every batch that was answered is durable, and a client that reconnects
//! needs to repeat only unanswered commands.

use std::sync::Arc;

use lode_base::wire::{Malformed, Reader, Writer};
use lode_base::{EXTENT_PAGES, OwnerId, SessionId, ViewId};
use lode_program::matcher::{put_matcher, take_matcher};
use lode_program::wire::{put_program, put_rule, take_program, take_rule};
use lode_program::{KeysForm, Program};

use crate::{
    Align, Among, Answer, Batch, Command, HiddenRows, IndexedRead, KeysRule, PageRange, PageWrite,
    ReadRequest, ScanTask, SessionWrite, Skip,
};

/// Values that replace those of the command on the wire, since the sender may use its own numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instead {
    /// The view.
    pub view: Option<ViewId>,
    /// The position of a batch in its session.
    pub session: Option<SessionWrite>,
}

/// Writes a command.
pub fn put_command(w: &mut Writer<'_>, c: &Command, instead: Instead) {
    let view = |v: ViewId| instead.view.unwrap_or(v).raw();
    match c {
        Command::Write(b) => {
            w.u8(1);
            put_batch(w, b, instead.session.or(b.session));
        }
        Command::Read { view: at, pages } => {
            w.u8(2);
            w.flag(at.is_some());
            if let Some(at) = at {
                w.u64(view(*at));
            }
            w.count(pages.len());
            for p in pages {
                w.u64(p.lpid.raw());
                w.flag(p.range.is_some());
                if let Some(r) = &p.range {
                    w.u32(r.start);
                    w.u32(r.end);
                }
            }
        }
        Command::Scan(t) => {
            w.u8(3);
            w.u64(view(t.view));
            w.u8(Answer::ALL.iter().position(|a| *a == t.answer).expect("the table has every answer") as u8);
            w.u32(t.unit_pages);
            w.flag(t.limit_rows.is_some());
            if let Some(rows) = t.limit_rows {
                w.u64(rows);
            }
            put_ranges(w, &t.pages);
            put_hidden(w, t.hidden.as_deref());
            w.flag(t.matcher.is_some());
            if let Some(matcher) = &t.matcher {
                put_matcher(w, matcher);
            }
            put_skip(w, t.skip);
            put_program(w, &t.program);
        }
        Command::OpenView => w.u8(4),
        Command::CloseView(v) => {
            w.u8(5);
            w.u64(view(*v));
        }
        Command::AllocateExtents { owner, count } => {
            w.u8(6);
            w.u32(owner.raw());
            w.u32(*count);
        }
        Command::ListExtents => w.u8(7),
        Command::BuildIndex(owner) => {
            w.u8(8);
            w.u32(owner.raw());
        }
        Command::ReadIndex { view: at, pages } => {
            w.u8(9);
            w.u64(view(*at));
            put_ranges(w, pages);
        }
        Command::Checkpoint => w.u8(10),
        Command::OpenSession => w.u8(11),
        Command::ResumeSession(s) => {
            w.u8(12);
            w.u64(s.raw());
        }
        Command::CloseSession(s) => {
            w.u8(13);
            w.u64(s.raw());
        }
        Command::Flush => w.u8(14),
        Command::RegisterProgram { owner, number, program } => {
            w.u8(15);
            w.u32(owner.raw());
            w.u32(*number);
            w.flag(program.is_some());
            if let Some(program) = program {
                put_program(w, program);
            }
        }
        Command::RegisterKeys { owner, number, rule } => {
            w.u8(16);
            w.u32(owner.raw());
            w.u32(*number);
            w.flag(rule.is_some());
            if let Some(KeysRule { column, all_rows, form }) = rule {
                w.u16(*column);
                w.flag(*all_rows);
                w.flag(matches!(form, KeysForm::Sized { .. }));
                if let KeysForm::Sized { bytes_max } = form {
                    w.u32(*bytes_max);
                }
            }
        }
        Command::ReadIndexed(read) => {
            w.u8(17);
            w.u64(view(read.view));
            w.u32(read.owner.raw());
            w.u32(read.program);
            w.u32(read.unit_pages);
            put_skip(w, read.skip);
            w.flag(read.collect.is_some());
            if let Some(keys) = read.collect {
                w.u32(keys);
            }
            w.flag(read.among.is_some());
            if let Some(Among { owner, keys, program, column }) = read.among {
                w.u32(owner.raw());
                w.u32(keys);
                w.u32(program);
                w.u16(column);
            }
            put_ranges(w, &read.pages);
        }
    }
}

/// Reads a command.
///
/// # Errors
/// When the bytes are not those of one.
pub fn take_command(r: &mut Reader<'_>) -> Result<Command, Malformed> {
    let view = |r: &mut Reader<'_>| r.u64().map(ViewId::new);
    Ok(match r.u8()? {
        1 => Command::Write(take_batch(r)?),
        2 => {
            let at = if r.flag()? { Some(view(r)?) } else { None };
            let pages = (0..r.count(9)?).map(|_| take_request(r)).collect::<Result<_, _>>()?;
            Command::Read { view: at, pages }
        }
        3 => {
            let view = view(r)?;
            let answer = *Answer::ALL.get(usize::from(r.u8()?)).ok_or(r.bad("no level of answers"))?;
            let unit_pages = take_unit_pages(r)?;
            let limit_rows = if r.flag()? { Some(r.u64()?) } else { None };
            let pages = take_ranges(r)?;
            let hidden = take_hidden(r)?;
            let matcher = if r.flag()? { Some(Arc::new(take_matcher(r)?)) } else { None };
            let skip = take_skip(r)?;
            let program = Arc::new(take_program(r)?);
            if (answer == Answer::Aggregate) != program.aggregation().is_some() {
                return Err(r.bad("a program that does not answer what is asked"));
            }
            Command::Scan(ScanTask {
                view,
                pages,
                program,
                answer,
                unit_pages,
                limit_rows,
                hidden,
                matcher,
                skip,
            })
        }
        4 => Command::OpenView,
        5 => Command::CloseView(view(r)?),
        6 => Command::AllocateExtents { owner: OwnerId::new(r.u32()?), count: r.u32()? },
        7 => Command::ListExtents,
        8 => Command::BuildIndex(OwnerId::new(r.u32()?)),
        9 => Command::ReadIndex { view: view(r)?, pages: take_ranges(r)? },
        10 => Command::Checkpoint,
        11 => Command::OpenSession,
        12 => Command::ResumeSession(SessionId::new(r.u64()?)),
        13 => Command::CloseSession(SessionId::new(r.u64()?)),
        14 => Command::Flush,
        15 => {
            let (owner, number) = (OwnerId::new(r.u32()?), r.u32()?);
            let program = if r.flag()? { Some(take_program(r)?) } else { None };
            if program.as_ref().is_some_and(|p: &Program| p.aggregation().is_some()) {
                return Err(r.bad("a registered program with an aggregation"));
            }
            Command::RegisterProgram { owner, number, program: program.map(Arc::new) }
        }
        16 => {
            let (owner, number) = (OwnerId::new(r.u32()?), r.u32()?);
            let rule = |r: &mut Reader<'_>| {
                let (column, all_rows) = (r.u16()?, r.flag()?);
                let form = match r.flag()? {
                    false => KeysForm::Folded,
                    true => KeysForm::Sized { bytes_max: r.u32()? },
                };
                Ok::<_, Malformed>(KeysRule { column, all_rows, form })
            };
            Command::RegisterKeys { owner, number, rule: if r.flag()? { Some(rule(r)?) } else { None } }
        }
        17 => {
            let (view, owner, program) = (view(r)?, OwnerId::new(r.u32()?), r.u32()?);
            let (unit_pages, skip) = (take_unit_pages(r)?, take_skip(r)?);
            let collect = if r.flag()? { Some(r.u32()?) } else { None };
            let among = |r: &mut Reader<'_>| {
                let owner = OwnerId::new(r.u32()?);
                Ok::<_, Malformed>(Among { owner, keys: r.u32()?, program: r.u32()?, column: r.u16()? })
            };
            let among = if r.flag()? { Some(among(r)?) } else { None };
            let pages = take_ranges(r)?;
            Command::ReadIndexed(IndexedRead {
                view,
                owner,
                program,
                pages,
                unit_pages,
                skip,
                collect,
                among,
            })
        }
        _ => return Err(r.bad("no kind of command")),
    })
}

fn take_unit_pages(r: &mut Reader<'_>) -> Result<u32, Malformed> {
    match r.u32()? {
        0 => Err(r.bad("a scan in units of 0 pages")),
        pages => Ok(pages),
    }
}

fn put_skip(w: &mut Writer<'_>, skip: Skip) {
    match skip {
        Skip::Levels => w.u8(0),
        Skip::Each => w.u8(1),
        Skip::Never => w.u8(3),
        Skip::Sorted(column) => {
            w.u8(2);
            w.u16(column);
        }
    }
}

fn take_skip(r: &mut Reader<'_>) -> Result<Skip, Malformed> {
    Ok(match r.u8()? {
        0 => Skip::Levels,
        1 => Skip::Each,
        3 => Skip::Never,
        2 => Skip::Sorted(r.u16()?),
        _ => return Err(r.bad("no way to ask the page index")),
    })
}

fn put_ranges(w: &mut Writer<'_>, ranges: &[PageRange]) {
    w.count(ranges.len());
    for p in ranges {
        w.u64(p.extent.raw());
        w.u16(p.first);
        w.u16(p.count);
    }
}

fn take_ranges(r: &mut Reader<'_>) -> Result<Vec<PageRange>, Malformed> {
    let range = |r: &mut Reader<'_>| {
        let p = PageRange { extent: r.extent()?, first: r.u16()?, count: r.u16()? };
        match usize::from(p.first) + usize::from(p.count) <= EXTENT_PAGES && p.count > 0 {
            true => Ok(p),
            false => Err(r.bad("pages that no extent has")),
        }
    };
    (0..r.count(12)?).map(|_| range(r)).collect()
}

fn put_hidden(w: &mut Writer<'_>, hidden: Option<&HiddenRows>) {
    let pages = || hidden.into_iter().flat_map(HiddenRows::iter);
    w.count(pages().count());
    for (lpid, numbers) in pages() {
        w.u64(lpid.raw());
        w.count(numbers.len());
        numbers.iter().for_each(|&n| w.u32(n));
    }
}

fn take_hidden(r: &mut Reader<'_>) -> Result<Option<Arc<HiddenRows>>, Malformed> {
    let pages = r.count(16)?;
    let mut hidden = HiddenRows::default();
    let mut last = None;
    for _ in 0..pages {
        let lpid = r.lpid()?;
        if last.replace(lpid).is_some_and(|last| last >= lpid) {
            return Err(r.bad("pages that hide rows and do not ascend"));
        }
        let rows = r.count(4)?;
        let numbers = (0..rows).map(|_| r.u32()).collect::<Result<Vec<_>, _>>()?;
        if numbers.is_empty() || numbers.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(r.bad("numbers of hidden rows that do not ascend"));
        }
        hidden.push(lpid, numbers);
    }
    Ok((!hidden.is_empty()).then(|| Arc::new(hidden)))
}

fn take_request(r: &mut Reader<'_>) -> Result<ReadRequest, Malformed> {
    let lpid = r.lpid()?;
    let range = match r.flag()? {
        false => None,
        true => {
            let (from, to) = (r.u32()?, r.u32()?);
            if from > to {
                return Err(r.bad("a part that ends before it begins"));
            }
            Some(from..to)
        }
    };
    Ok(ReadRequest { lpid, range })
}

fn put_batch(w: &mut Writer<'_>, b: &Batch, session: Option<SessionWrite>) {
    w.flag(b.pin);
    w.flag(b.answer_entries);
    w.flag(session.is_some());
    if let Some(s) = session {
        w.u64(s.session.raw());
        w.u64(s.wsn);
    }
    w.u64(b.leave_bytes);
    w.count(b.trims.len());
    b.trims.iter().for_each(|l| w.u64(l.raw()));
    w.count(b.releases.len());
    b.releases.iter().for_each(|e| w.u64(e.raw()));
    w.count(b.index_rules.len());
    for (owner, rule) in &b.index_rules {
        w.u32(owner.raw());
        w.flag(rule.is_some());
        if let Some(rule) = rule {
            put_rule(w, rule);
        }
    }
    w.count(b.writes.len());
    for p in &b.writes {
        w.u64(p.lpid.raw());
        w.flag(p.align == Align::ReadUnit);
    }
    b.writes.iter().for_each(|p| w.long(&p.data));
}

fn take_batch(r: &mut Reader<'_>) -> Result<Batch, Malformed> {
    let (pin, answer_entries) = (r.flag()?, r.flag()?);
    let session = match r.flag()? {
        false => None,
        true => Some(SessionWrite { session: SessionId::new(r.u64()?), wsn: r.u64()? }),
    };
    let leave_bytes = r.u64()?;
    let trims = (0..r.count(8)?).map(|_| r.lpid()).collect::<Result<_, _>>()?;
    let releases = (0..r.count(8)?).map(|_| r.extent()).collect::<Result<_, _>>()?;
    let rule = |r: &mut Reader<'_>| {
        let owner = OwnerId::new(r.u32()?);
        Ok((owner, if r.flag()? { Some(take_rule(r)?) } else { None }))
    };
    let index_rules = (0..r.count(5)?).map(|_| rule(r)).collect::<Result<_, Malformed>>()?;
    let name = |r: &mut Reader<'_>| {
        let lpid = r.lpid()?;
        Ok((lpid, if r.flag()? { Align::ReadUnit } else { Align::Cell }))
    };
    let names = (0..r.count(9)?).map(|_| name(r)).collect::<Result<Vec<_>, Malformed>>()?;
    let mut writes = Vec::with_capacity(names.len());
    for (lpid, align) in names {
        writes.push(PageWrite { lpid, data: r.long()?, align });
    }
    Ok(Batch {
        writes,
        trims,
        releases,
        index_rules,
        pin,
        answer_entries,
        session,
        unforced: false,
        leave_bytes,
    })
}
