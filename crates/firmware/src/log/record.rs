//! Log records.
//!
//! ```text
//!   group:    | kind 1 | length 4 | body | kind 1 | length 4 | body | ...
//!   1 opened:    EBLOCK 4, generation 8, stream 1, lane 2
//!   2 allocated: owner 4, extent 8
//!   3 commit:    number 8
//!                count 4, then each write: LPID 8, mapping entry 8, index entry: length 2 (0: none), bytes
//!                count 4, trimmed LPIDs 8 each;   count 4, released extents 8 each
//!                count 4, then each rule: owner 4, length 4 (0: dropped), bytes
//!   4 indexed:   owner 4, count 4, then each: LPID 8, mapping entry 8, index entry: length 2, bytes
//! ```
//!
//! Commit and indexed records hold after-images, so that replay asks nothing of what was there before.

use lode_base::{EblockId, ExtentId, Geometry, Lpid, OwnerId};
use lode_flash::Generation;
use lode_program::IndexRule;

use crate::append::Opened;
use crate::codec::{Malformed, Put, Take};
use crate::map::Entry;
use crate::summary::Stream;

/// A written page, or one that got an index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedWrite {
    pub(crate) lpid: Lpid,
    pub(crate) entry: Entry,
    pub(crate) index: Option<Box<[u8]>>,
}

/// What a batch does.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Commit {
    pub(crate) number: u64,
    pub(crate) writes: Vec<LoggedWrite>,
    pub(crate) trims: Vec<Lpid>,
    pub(crate) releases: Vec<ExtentId>,
    pub(crate) rules: Vec<(OwnerId, Option<IndexRule>)>,
}

/// Index entries of pages that were written without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) owner: OwnerId,
    pub(crate) pages: Vec<LoggedWrite>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Opened(Opened),
    Allocated { owner: OwnerId, extent: ExtentId },
    Commit(Commit),
    Indexed(Indexed),
}

impl LoggedWrite {
    fn encode(&self, b: &mut Vec<u8>) {
        b.put_u64(self.lpid.raw());
        b.put_u64(self.entry.word());
        let index = self.index.as_deref().unwrap_or_default();
        b.put_u16(u16::try_from(index.len()).expect("an index entry is below 64 KB"));
        b.extend(index);
    }

    fn decode(t: &mut Take<'_>, g: &Geometry) -> Result<Self, Malformed> {
        let lpid = t.lpid()?;
        let entry = Entry::check(t.u64()?, g).map_err(|what| t.bad(what))?;
        let entry = entry.ok_or(t.bad("a written page without a place"))?;
        let len = t.u16()?;
        let index = t.raw(len.into())?;
        Ok(Self { lpid, entry, index: (len > 0).then(|| index.into()) })
    }
}

impl Record {
    pub(crate) fn encode(&self, b: &mut Vec<u8>) {
        let at = b.len();
        b.put_u8(0);
        b.put_u32(0);
        let kind = match self {
            Self::Opened(o) => {
                b.put_u32(o.eblock.raw());
                b.put_u64(o.generation.raw());
                b.put_u8(o.stream.tag());
                b.put_u16(o.lane);
                1
            }
            Self::Allocated { owner, extent } => {
                b.put_u32(owner.raw());
                b.put_u64(extent.raw());
                2
            }
            Self::Commit(c) => {
                b.put_u64(c.number);
                b.put_u32(c.writes.len() as u32);
                c.writes.iter().for_each(|w| w.encode(b));
                b.put_u32(c.trims.len() as u32);
                c.trims.iter().for_each(|l| b.put_u64(l.raw()));
                b.put_u32(c.releases.len() as u32);
                c.releases.iter().for_each(|e| b.put_u64(e.raw()));
                b.put_u32(c.rules.len() as u32);
                for (owner, rule) in &c.rules {
                    b.put_u32(owner.raw());
                    b.put_bytes(&rule.as_ref().map_or(Vec::new(), IndexRule::to_bytes));
                }
                3
            }
            Self::Indexed(i) => {
                b.put_u32(i.owner.raw());
                b.put_u32(i.pages.len() as u32);
                i.pages.iter().for_each(|w| w.encode(b));
                4
            }
        };
        let len = (b.len() - at - 5) as u32;
        b[at] = kind;
        b[at + 1..at + 5].copy_from_slice(&len.to_le_bytes());
    }

    fn decode(kind: u8, body: &[u8], g: &Geometry) -> Result<Self, Malformed> {
        let t = &mut Take::new(body);
        let record = match kind {
            1 => {
                let eblock = EblockId::new(t.u32()?);
                let generation = Generation::from_raw(t.u64()?);
                let stream = Stream::from_tag(t.u8()?).ok_or(t.bad("an unknown stream"))?;
                Self::Opened(Opened { eblock, generation, stream, lane: t.u16()? })
            }
            2 => Self::Allocated { owner: OwnerId::new(t.u32()?), extent: t.extent()? },
            3 => {
                let number = t.u64()?;
                let n = t.count(18)?;
                let writes = (0..n).map(|_| LoggedWrite::decode(t, g)).collect::<Result<_, _>>()?;
                let n = t.count(8)?;
                let trims = (0..n).map(|_| t.lpid()).collect::<Result<_, _>>()?;
                let n = t.count(8)?;
                let releases = (0..n).map(|_| t.extent()).collect::<Result<_, _>>()?;
                let n = t.count(8)?;
                let rules = (0..n).map(|_| rule(t)).collect::<Result<_, _>>()?;
                Self::Commit(Commit { number, writes, trims, releases, rules })
            }
            4 => {
                let owner = OwnerId::new(t.u32()?);
                let n = t.count(18)?;
                let pages = (0..n).map(|_| LoggedWrite::decode(t, g)).collect::<Result<_, _>>()?;
                Self::Indexed(Indexed { owner, pages })
            }
            _ => return Err(t.bad("an unknown kind of record")),
        };
        t.end()?;
        Ok(record)
    }

    /// All records of a group.
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

/// An owner and its rule, as a commit record and the table of rules have them.
fn rule(t: &mut Take<'_>) -> Result<(OwnerId, Option<IndexRule>), Malformed> {
    let owner = OwnerId::new(t.u32()?);
    let bytes = t.bytes()?;
    if bytes.is_empty() {
        return Ok((owner, None));
    }
    let rule = IndexRule::from_bytes(bytes).map_err(|_| t.bad("a malformed index rule"))?;
    Ok((owner, Some(rule)))
}

#[cfg(test)]
mod tests {
    use lode_page::{ColumnType, DataType, Schema};

    use super::*;

    #[test]
    fn records_survive_and_cut_ones_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let lpid = |n| ExtentId::new(n).unwrap().page(3);
        let entry = |n| Entry::new(g.ppa(EblockId::new(n), 64).unwrap(), 100, true);
        let column = ColumnType { data_type: DataType::Integer, nullable: false };
        let r = IndexRule::new(Schema { version: 1, columns: vec![column] }, vec![0]).unwrap();
        let write = LoggedWrite { lpid: lpid(4), entry: entry(1), index: Some(Box::new([1, 2, 3])) };
        let records = vec![
            Record::Opened(Opened {
                eblock: EblockId::new(4),
                generation: Generation::from_raw(5),
                stream: Stream::User,
                lane: 0,
            }),
            Record::Allocated { owner: OwnerId::new(9), extent: ExtentId::new(10).unwrap() },
            Record::Commit(Commit {
                number: 12,
                writes: vec![write.clone(), LoggedWrite { index: None, ..write.clone() }],
                trims: vec![lpid(8)],
                releases: vec![ExtentId::new(2).unwrap()],
                rules: vec![(OwnerId::new(3), Some(r)), (OwnerId::new(4), None)],
            }),
            Record::Indexed(Indexed { owner: OwnerId::new(3), pages: vec![write] }),
        ];
        let mut b = Vec::new();
        records.iter().for_each(|r| r.encode(&mut b));
        assert_eq!(Record::decode_all(&b, &g).unwrap(), records);
        for n in 1..b.len() {
            // A cut between two records is a shorter list, never another one.
            if let Ok(some) = Record::decode_all(&b[..n], &g) {
                assert!(some.len() < records.len() && records.starts_with(&some), "cut to {n} bytes");
            }
        }
    }
}
