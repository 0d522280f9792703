//! Log records.
//!
//! ```text
//!   group:    | kind 1 | length 4 | body | kind 1 | length 4 | body | ...
//!   list:     count 4, then each element
//!   write:    LPID 8, mapping entry 8, index entry: length 2 (0: none), and if there is one rule 8, bytes
//!   freed:    list of EBLOCK 4, bytes 4
//!
//!    1 opened:         EBLOCK 4, generation 8, stream 1, lane 2, erase count 4, age 8
//!    2 closed:         EBLOCK 4, data end 4, end 4 (WBLOCKs), age 8
//!    3 allocated:      owner 4, extent 8
//!    4 retired:        EBLOCK 4
//!    5 commit:         number 8, session flag 1 (1: session 8, number in it 8), list of writes,
//!                      list of trimmed LPIDs 8, list of released extents 8,
//!                      list of rules: owner 4, length 4 (0: dropped), bytes;   freed;
//!                      the bytes of each write whose entry says that it is inlined
//!    6 indexed:        list of writes
//!    7 moved:          list of LPID 8, mapping entry 8;   freed
//!    8 flushed:        as of LSN 8, list of kind 1, number 8, home 8 (0: none);   freed
//!    9 session opened: session 8
//!   10 session closed: session 8
//!   11 checkpointed:   LSN 8
//! ```
//!
//! A record holds after-images, and the bytes that it frees, summed by EBLOCK. So replay does not ask what was there before.
//!
//! Source: ELEOS §IV-C, §VIII-C. We differ: one record per action, which is also its commit.

use lode_base::{EblockId, ExtentId, Geometry, Lpid, OwnerId, PageBuf, SessionId};
use lode_flash::Generation;
use lode_program::IndexRule;

use crate::codec::{Malformed, Put, Take};
use crate::entry::Entry;
use crate::own::OwnKind;
use crate::planted::at;
use crate::stream::Stream;

/// The number of an index rule, and an index entry that was made by it.
pub(crate) type LoggedIndex = (u64, Box<[u8]>);

/// A page that was written, or that got an index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedWrite {
    pub(crate) lpid: Lpid,
    pub(crate) entry: Entry,
    pub(crate) index: Option<LoggedIndex>,
}

/// What a batch does.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Commit {
    pub(crate) number: u64,
    /// Its session, and its WSN there.
    pub(crate) session: Option<(SessionId, u64)>,
    pub(crate) writes: Vec<LoggedWrite>,
    pub(crate) trims: Vec<Lpid>,
    pub(crate) releases: Vec<ExtentId>,
    pub(crate) rules: Vec<(OwnerId, Option<IndexRule>)>,
    /// Bytes that it frees, by EBLOCK.
    pub(crate) freed: Vec<(EblockId, u32)>,
    /// The pages of the writes that are inlined, in their order.
    pub(crate) inlined: Vec<PageBuf>,
}

/// What a system action did, or what happened to an EBLOCK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// An EBLOCK was erased for a stream.
    Opened {
        eblock: EblockId,
        generation: Generation,
        stream: Stream,
        lane: u16,
        erase_count: u32,
        age: u64,
    },
    /// Nothing more is written to an EBLOCK: its pages end at `data_end`, its metadata at `end`.
    Closed {
        eblock: EblockId,
        data_end: u32,
        end: u32,
        age: u64,
    },
    Allocated {
        owner: OwnerId,
        extent: ExtentId,
    },
    /// An EBLOCK is never used again.
    Retired {
        eblock: EblockId,
    },
    Commit(Commit),
    /// Index entries of pages that were written without one.
    Indexed {
        pages: Vec<LoggedWrite>,
    },
    /// GC moved pages.
    Moved {
        pages: Vec<(Lpid, Entry)>,
        freed: Vec<(EblockId, u32)>,
    },
    /// Own pages were written; they have all that is installed up to LSN `as_of`.
    Flushed {
        as_of: u64,
        pages: Vec<(OwnKind, u64, Option<Entry>)>,
        freed: Vec<(EblockId, u32)>,
    },
    SessionOpened {
        session: SessionId,
    },
    SessionClosed {
        session: SessionId,
    },
    /// A checkpoint became durable; replay from it begins at log page `lsn`.
    Checkpointed {
        lsn: u64,
    },
}

fn put_list<T>(b: &mut Vec<u8>, list: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    b.put_u32(u32::try_from(list.len()).expect("a list of a record is below 2^32"));
    list.iter().for_each(|v| put(b, v));
}

fn put_freed(b: &mut Vec<u8>, freed: &[(EblockId, u32)]) {
    put_list(b, freed, |b, (e, bytes)| {
        b.put_u32(e.raw());
        b.put_u32(*bytes);
    });
}

/// Decodes the body of a record. It refuses whatever lies beyond the medium.
struct Body<'a> {
    take: Take<'a>,
    geometry: &'a Geometry,
}

impl Body<'_> {
    fn list<T>(
        &mut self,
        each_bytes: usize,
        mut each: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let n = self.take.count(each_bytes)?;
        let mut list = Vec::with_capacity(n);
        for _ in 0..n {
            list.push(each(self)?);
        }
        Ok(list)
    }

    fn eblock(&mut self) -> Result<EblockId, Malformed> {
        self.take.eblock(self.geometry)
    }

    fn home(&mut self) -> Result<Option<Entry>, Malformed> {
        let word = self.take.u64()?;
        Entry::check(word, self.geometry).map_err(|what| self.take.bad(what))
    }

    fn entry(&mut self) -> Result<Entry, Malformed> {
        self.home()?.ok_or(self.take.bad("a written page without a place"))
    }

    fn user_entry(&mut self) -> Result<Entry, Malformed> {
        let word = self.take.u64()?;
        let entry = Entry::check_user(word, self.geometry).map_err(|what| self.take.bad(what))?;
        entry.ok_or(self.take.bad("a written page without a place"))
    }

    fn freed(&mut self) -> Result<Vec<(EblockId, u32)>, Malformed> {
        self.list(8, |b| Ok((b.eblock()?, b.take.u32()?)))
    }

    fn session(&mut self) -> Result<SessionId, Malformed> {
        Ok(SessionId::new(self.take.u64()?))
    }

    fn write(&mut self) -> Result<LoggedWrite, Malformed> {
        let (lpid, entry, len) = (self.take.lpid()?, self.user_entry()?, self.take.u16()?);
        let index = match len {
            0 => None,
            len => Some((self.take.u64()?, self.take.raw(len.into())?.into())),
        };
        Ok(LoggedWrite { lpid, entry, index })
    }

    fn rule(&mut self) -> Result<(OwnerId, Option<IndexRule>), Malformed> {
        let owner = OwnerId::new(self.take.u32()?);
        let bytes = self.take.bytes()?;
        if bytes.is_empty() {
            return Ok((owner, None));
        }
        let rule = IndexRule::from_bytes(bytes).map_err(|_| self.take.bad("a malformed index rule"))?;
        Ok((owner, Some(rule)))
    }

    fn commit(&mut self) -> Result<Commit, Malformed> {
        let number = self.take.u64()?;
        let session = match self.take.u8()? {
            0 => None,
            1 => Some((self.session()?, self.take.u64()?)),
            _ => return Err(self.take.bad("neither a session nor none")),
        };
        let mut c = Commit {
            number,
            session,
            writes: self.list(LoggedWrite::BYTES_MIN, Self::write)?,
            trims: self.list(8, |b| b.take.lpid())?,
            releases: self.list(8, |b| b.take.extent())?,
            rules: self.list(8, Self::rule)?,
            freed: self.freed()?,
            inlined: Vec::new(),
        };
        for w in c.writes.iter().filter(|w| w.entry.is_inlined()) {
            c.inlined.push(PageBuf::copy_from(self.take.raw(w.entry.len_bytes())?));
        }
        Ok(c)
    }

    fn opened(&mut self) -> Result<Record, Malformed> {
        let (eblock, generation) = (self.eblock()?, Generation::from_raw(self.take.u64()?));
        let stream = Stream::from_tag(self.take.u8()?).ok_or(self.take.bad("an unknown stream"))?;
        let (lane, erase_count, age) = (self.take.u16()?, self.take.u32()?, self.take.u64()?);
        Ok(Record::Opened { eblock, generation, stream, lane, erase_count, age })
    }

    fn closed(&mut self) -> Result<Record, Malformed> {
        let (eblock, data_end, end) = (self.eblock()?, self.take.u32()?, self.take.u32()?);
        if data_end > end || end > self.geometry.wblocks_per_eblock() {
            return Err(self.take.bad("an impossible end of an EBLOCK"));
        }
        Ok(Record::Closed { eblock, data_end, end, age: self.take.u64()? })
    }

    fn own_page(&mut self) -> Result<(OwnKind, u64, Option<Entry>), Malformed> {
        let kind = OwnKind::from_tag(self.take.u8()?);
        let kind = kind.ok_or(self.take.bad("an unknown kind of page of the drive"))?;
        Ok((kind, self.take.u64()?, self.home()?))
    }
}

impl LoggedWrite {
    const BYTES_MIN: usize = 18;

    fn encode(&self, b: &mut Vec<u8>) {
        b.put_u64(self.lpid.raw());
        b.put_u64(self.entry.word());
        match &self.index {
            None => b.put_u16(0),
            Some((rule, entry)) => {
                assert!(!entry.is_empty(), "an index entry has bytes");
                b.put_u16(u16::try_from(entry.len()).expect("an index entry is below 64 KB"));
                b.put_u64(*rule);
                b.extend(entry);
            }
        }
    }
}

impl Commit {
    fn encode(&self, b: &mut Vec<u8>) {
        b.put_u64(self.number);
        let session = at!(SessionNotLogged => None, self.session);
        b.put_u8(session.is_some().into());
        if let Some((session, number)) = session {
            b.put_u64(session.raw());
            b.put_u64(number);
        }
        put_list(b, &self.writes, |b, w| w.encode(b));
        let trims = at!(TrimNotLogged => &[][..], &self.trims[..]);
        put_list(b, trims, |b, l| b.put_u64(l.raw()));
        put_list(b, &self.releases, |b, e| b.put_u64(e.raw()));
        put_list(b, &self.rules, |b, (owner, rule)| {
            b.put_u32(owner.raw());
            b.put_bytes(&rule.as_ref().map_or(Vec::new(), IndexRule::to_bytes));
        });
        put_freed(b, &self.freed);
        self.inlined.iter().for_each(|data| b.extend_from_slice(data));
    }

    /// The writes that are inlined, and their pages.
    pub(crate) fn inlined(&self) -> impl Iterator<Item = (Lpid, u32, &PageBuf)> {
        let numbers = self.writes.iter().filter_map(|w| Some((w.lpid, w.entry.inlined_number()?)));
        numbers.zip(&self.inlined).map(|((lpid, number), data)| (lpid, number, data))
    }
}

impl Record {
    /// Bytes that it takes in a group, about.
    pub(crate) fn bytes_about(&self) -> u64 {
        let writes = |w: &[LoggedWrite]| -> usize {
            w.iter().map(|w| 26 + w.index.as_ref().map_or(0, |i| i.1.len())).sum()
        };
        let bytes = match self {
            Self::Commit(c) => {
                let rule = |r: &Option<IndexRule>| 8 + r.as_ref().map_or(0, |r| r.to_bytes().len());
                let rules: usize = c.rules.iter().map(|(_, r)| rule(r)).sum();
                let inlined: usize = c.inlined.iter().map(|data| data.len()).sum();
                let lists = c.trims.len() + c.releases.len() + c.freed.len();
                48 + writes(&c.writes) + 8 * lists + rules + inlined
            }
            Self::Indexed { pages } => 16 + writes(pages),
            Self::Moved { pages, freed } => 16 + 16 * pages.len() + 8 * freed.len(),
            Self::Flushed { pages, freed, .. } => 24 + 17 * pages.len() + 8 * freed.len(),
            _ => 40,
        };
        bytes as u64
    }

    /// The names of the kinds, by [`Record::kind`].
    pub(crate) const KINDS: [&'static str; 11] = [
        "opened",
        "closed",
        "allocated",
        "retired",
        "commit",
        "indexed",
        "moved",
        "flushed",
        "session opened",
        "session closed",
        "checkpointed",
    ];

    /// Which kind of record it is, from 0 on.
    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::Opened { .. } => 0,
            Self::Closed { .. } => 1,
            Self::Allocated { .. } => 2,
            Self::Retired { .. } => 3,
            Self::Commit(_) => 4,
            Self::Indexed { .. } => 5,
            Self::Moved { .. } => 6,
            Self::Flushed { .. } => 7,
            Self::SessionOpened { .. } => 8,
            Self::SessionClosed { .. } => 9,
            Self::Checkpointed { .. } => 10,
        }
    }

    /// Appends the record to a group.
    pub(crate) fn encode(&self, b: &mut Vec<u8>) {
        let at = b.len();
        b.put_u8(self.kind() as u8 + 1);
        b.put_u32(0);
        match self {
            Self::Opened { eblock, generation, stream, lane, erase_count, age } => {
                b.put_u32(eblock.raw());
                b.put_u64(generation.raw());
                b.put_u8(stream.tag());
                b.put_u16(*lane);
                b.put_u32(*erase_count);
                b.put_u64(*age);
            }
            Self::Closed { eblock, data_end, end, age } => {
                b.put_u32(eblock.raw());
                b.put_u32(*data_end);
                b.put_u32(*end);
                b.put_u64(*age);
            }
            Self::Allocated { owner, extent } => {
                b.put_u32(owner.raw());
                b.put_u64(extent.raw());
            }
            Self::Retired { eblock } => b.put_u32(eblock.raw()),
            Self::Commit(c) => c.encode(b),
            Self::Indexed { pages } => put_list(b, pages, |b, w| w.encode(b)),
            Self::Moved { pages, freed } => {
                put_list(b, pages, |b, (lpid, entry)| {
                    b.put_u64(lpid.raw());
                    b.put_u64(entry.word());
                });
                put_freed(b, freed);
            }
            Self::Flushed { as_of, pages, freed } => {
                b.put_u64(*as_of);
                put_list(b, pages, |b, (kind, number, home)| {
                    b.put_u8(kind.tag());
                    b.put_u64(*number);
                    b.put_u64(home.map_or(0, Entry::word));
                });
                put_freed(b, freed);
            }
            Self::SessionOpened { session } | Self::SessionClosed { session } => b.put_u64(session.raw()),
            Self::Checkpointed { lsn } => b.put_u64(*lsn),
        }
        let len = u32::try_from(b.len() - at - 5).expect("a record is below 4 GB");
        b[at + 1..at + 5].copy_from_slice(&len.to_le_bytes());
    }

    fn decode(kind: u8, body: &[u8], g: &Geometry) -> Result<Self, Malformed> {
        let b = &mut Body { take: Take::new(body), geometry: g };
        let record = match kind {
            1 => b.opened()?,
            2 => b.closed()?,
            3 => Self::Allocated { owner: OwnerId::new(b.take.u32()?), extent: b.take.extent()? },
            4 => Self::Retired { eblock: b.eblock()? },
            5 => Self::Commit(b.commit()?),
            6 => Self::Indexed { pages: b.list(LoggedWrite::BYTES_MIN, Body::write)? },
            7 => Self::Moved { pages: b.list(16, |b| Ok((b.take.lpid()?, b.entry()?)))?, freed: b.freed()? },
            8 => {
                let as_of = b.take.u64()?;
                Self::Flushed { as_of, pages: b.list(17, Body::own_page)?, freed: b.freed()? }
            }
            9 => Self::SessionOpened { session: b.session()? },
            10 => Self::SessionClosed { session: b.session()? },
            11 => Self::Checkpointed { lsn: b.take.u64()? },
            _ => return Err(b.take.bad("an unknown kind of record")),
        };
        b.take.end()?;
        Ok(record)
    }

    /// All records of a group.
    ///
    /// # Errors
    /// What is wrong, and at which byte of the record.
    pub(crate) fn decode_all(bytes: &[u8], g: &Geometry) -> Result<Vec<Self>, Malformed> {
        let mut t = Take::new(bytes);
        let mut records = Vec::new();
        while t.left() > 0 {
            let kind = t.u8()?;
            records.push(Self::decode(kind, t.bytes()?, g)?);
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use lode_page::{ColumnType, DataType, Schema};

    use super::*;

    fn g() -> Geometry {
        Geometry::file(1 << 30).unwrap()
    }

    /// One of each kind, in the order of [`Record::KINDS`].
    fn all() -> Vec<Record> {
        let g = g();
        let eblock = EblockId::new;
        let lpid = |n| ExtentId::new(n).unwrap().page(3);
        let entry = |n| Entry::new(g.ppa(eblock(n), 64).unwrap(), 100, true);
        let column = ColumnType { data_type: DataType::Integer, nullable: false };
        let r = IndexRule::new(Schema { version: 1, columns: vec![column], absent: Vec::new() }, vec![0])
            .unwrap();
        let write = LoggedWrite { lpid: lpid(4), entry: entry(1), index: Some((7, Box::new([1, 2, 3]))) };
        let freed = vec![(eblock(3), 640), (eblock(127), 64)];
        let small = LoggedWrite { entry: Entry::inlined(7, 70, false), ..write.clone() };
        let commit = Commit {
            number: 12,
            session: Some((SessionId::new(77), 5)),
            writes: vec![write.clone(), small, LoggedWrite { index: None, ..write.clone() }],
            trims: vec![lpid(8)],
            releases: vec![ExtentId::new(2).unwrap()],
            rules: vec![(OwnerId::new(3), Some(r)), (OwnerId::new(4), None)],
            freed: freed.clone(),
            inlined: vec![PageBuf::copy_from(&[5; 70])],
        };
        vec![
            Record::Opened {
                eblock: eblock(4),
                generation: Generation::from_raw(5),
                stream: Stream::Gc(2),
                lane: 6,
                erase_count: 7,
                age: 8,
            },
            Record::Closed { eblock: eblock(4), data_end: 2000, end: 2048, age: 9 },
            Record::Allocated { owner: OwnerId::new(9), extent: ExtentId::new(10).unwrap() },
            Record::Retired { eblock: eblock(127) },
            Record::Commit(commit),
            Record::Indexed { pages: vec![write] },
            Record::Moved { pages: vec![(lpid(5), entry(6))], freed: freed.clone() },
            Record::Flushed {
                as_of: 99,
                pages: vec![(OwnKind::Map, 4, Some(entry(9))), (OwnKind::Sessions, 0, None)],
                freed,
            },
            Record::SessionOpened { session: SessionId::new(u64::MAX) },
            Record::SessionClosed { session: SessionId::new(0) },
            Record::Checkpointed { lsn: 3 },
        ]
    }

    fn bytes(records: &[Record]) -> Vec<u8> {
        let mut b = Vec::new();
        records.iter().for_each(|r| r.encode(&mut b));
        b
    }

    #[test]
    fn records_survive_and_cut_ones_are_refused() {
        let mut records = all();
        assert!(records.iter().map(Record::kind).eq(0..Record::KINDS.len()), "one of each kind");
        records.push(Record::Commit(Commit { number: 13, ..Commit::default() }));
        let b = bytes(&records);
        assert_eq!(Record::decode_all(&b, &g()).unwrap(), records);
        for n in 1..b.len() {
            // A cut between two records is a shorter list, never another one.
            if let Ok(some) = Record::decode_all(&b[..n], &g()) {
                assert!(some.len() < records.len() && records.starts_with(&some), "cut to {n} bytes");
            }
        }
    }

    /// Room in the log is kept for what records are said to take: never less than they take, and little more.
    #[test]
    fn records_take_what_they_are_said_to_take() {
        let check = |r: Record| {
            let (len, about) = (bytes(std::slice::from_ref(&r)).len() as u64, r.bytes_about());
            assert!(len <= about && about <= len + len / 4 + 48, "{len} bytes, said to be {about}: {r:?}");
        };
        let more = |n: usize| {
            let r = all();
            let (Record::Commit(c), Record::Indexed { pages: i }) = (&r[4], &r[5]) else { panic!("{r:?}") };
            let Record::Moved { pages: m, freed } = &r[6] else { panic!("{r:?}") };
            let Record::Flushed { as_of, pages: f, .. } = &r[7] else { panic!("{r:?}") };
            let long = LoggedWrite { index: Some((7, vec![1; 500].into())), ..i[0].clone() };
            let plain = Commit { number: 1, ..Commit::default() };
            let small = LoggedWrite { index: None, ..c.writes[1].clone() };
            [
                Record::Commit(Commit { writes: vec![long.clone(); n], ..plain.clone() }),
                Record::Commit(Commit { trims: c.trims.repeat(n), ..plain.clone() }),
                Record::Commit(Commit { releases: c.releases.repeat(n), ..plain.clone() }),
                Record::Commit(Commit { rules: vec![c.rules.clone(); n].concat(), ..plain.clone() }),
                Record::Commit(Commit { freed: freed.repeat(n), ..plain.clone() }),
                Record::Commit(Commit {
                    writes: vec![small; n],
                    inlined: vec![c.inlined[0].clone(); n],
                    ..plain
                }),
                Record::Indexed { pages: vec![long; n] },
                Record::Moved { pages: m.repeat(n), freed: Vec::new() },
                Record::Moved { pages: Vec::new(), freed: freed.repeat(n) },
                Record::Flushed { as_of: *as_of, pages: f.repeat(n), freed: Vec::new() },
                Record::Flushed { as_of: *as_of, pages: Vec::new(), freed: freed.repeat(n) },
            ]
        };
        all().into_iter().chain([0, 1, 100].into_iter().flat_map(more)).for_each(check);
    }

    #[test]
    fn an_eblock_may_be_closed_without_metadata() {
        let closed = |data_end, end| {
            let r = Record::Closed { eblock: EblockId::new(1), data_end, end, age: 0 };
            Record::decode_all(&bytes(std::slice::from_ref(&r)), &g()).is_ok_and(|found| found == [r])
        };
        assert!(closed(0, 0) && closed(3, 3) && closed(2048, 2048));
        assert!(!closed(4, 3) && !closed(2048, 2049));
    }

    #[test]
    fn changed_bytes_never_panic_and_never_name_what_is_not_there() {
        for r in all() {
            let good = bytes(std::slice::from_ref(&r));
            for at in 0..good.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut b = good.clone();
                    b[at] = value;
                    let Ok(records) = Record::decode_all(&b, &g()) else { continue };
                    assert_eq!(bytes(&records).len(), b.len(), "byte {at} of {r:?}");
                }
            }
        }
        let refused = |r: Record| {
            assert!(Record::decode_all(&bytes(std::slice::from_ref(&r)), &g()).is_err(), "{r:?}");
        };
        let beyond = EblockId::new(128);
        refused(Record::Retired { eblock: beyond });
        refused(Record::Moved { pages: vec![], freed: vec![(beyond, 64)] });
        refused(Record::Closed { eblock: EblockId::new(1), data_end: 3, end: 2, age: 0 });
        refused(Record::Closed { eblock: EblockId::new(1), data_end: 3, end: 2049, age: 0 });
        assert!(Record::decode_all(&[12, 0, 0, 0, 0], &g()).is_err(), "an unknown kind");
        assert!(Record::decode_all(&[6, 4, 0, 0, 0, 255, 255, 255, 255], &g()).is_err(), "a count beyond");
    }
}
