//! The checkpoint record: where the newest checkpoint lies, and where the log goes on from it.
//!
//! ```text
//!   | magic 4 | version 2 | flags 2 (1: clean) | open epoch 4 | commit 8 | clock 8 | end LSN 8
//!   | log position | root 8 | its generation 8 |
//! ```
//!
//! The medium keeps it in two slots. Version 3 is version 2 of a drive that has, or had, index entries of more than 2,000 bytes: versions
//! of Lode that do not know those refuse it.

use lode_base::Geometry;
use lode_flash::Generation;

use crate::codec::{Malformed, Put, Take};
use crate::entry::Entry;
use crate::log::{LogPosition, NUMBER_MAX};

const MAGIC: [u8; 4] = *b"LCKP";
pub(crate) const VERSION: u16 = 3;
/// The version of a drive without long index entries.
const VERSION_SHORT: u16 = 2;
const CLEAN: u16 = 1;

/// What a checkpoint record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    /// Whether the drive was closed with it: then the log ends at `end`.
    pub(crate) clean: bool,
    /// The open epoch of the drive that wrote it.
    pub(crate) epoch: u32,
    /// The newest commit before `log`.
    pub(crate) commit: u64,
    /// The clock of ages there.
    pub(crate) clock: u64,
    /// The last LSN when the record was written.
    pub(crate) end: u64,
    /// Where replay begins.
    pub(crate) log: LogPosition,
    pub(crate) root: Entry,
    pub(crate) root_generation: Generation,
    /// Whether there are, or were, long index entries.
    pub(crate) long_entries: bool,
}

/// Why a record cannot be read.
pub(crate) enum BadRecord {
    Newer(u16),
    Malformed(Malformed),
}

impl From<Malformed> for BadRecord {
    fn from(m: Malformed) -> Self {
        Self::Malformed(m)
    }
}

impl CheckpointRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut b = MAGIC.to_vec();
        b.put_u16(if self.long_entries { VERSION } else { VERSION_SHORT });
        b.put_u16(if self.clean { CLEAN } else { 0 });
        b.put_u32(self.epoch);
        b.put_u64(self.commit);
        b.put_u64(self.clock);
        b.put_u64(self.end);
        self.log.encode(&mut b);
        b.put_u64(self.root.word());
        b.put_u64(self.root_generation.raw());
        b
    }

    pub(crate) fn decode(bytes: &[u8], g: &Geometry) -> Result<Self, BadRecord> {
        let t = &mut Take::new(bytes);
        if t.raw(4)? != MAGIC {
            return Err(t.bad("not a checkpoint record").into());
        }
        let (version, flags) = (t.u16()?, t.u16()?);
        if version > VERSION {
            return Err(BadRecord::Newer(version));
        }
        if version < VERSION_SHORT || flags & !CLEAN != 0 {
            return Err(t.bad("an unknown version or flag of the checkpoint record").into());
        }
        let (epoch, commit, clock, end) = (t.u32()?, t.u64()?, t.u64()?, t.u64()?);
        let log = LogPosition::decode(t, g)?;
        if end < log.lsn - 1 {
            return Err(t.bad("an impossible position of the log").into());
        }
        if [commit, clock, end].into_iter().any(|n| n > NUMBER_MAX) {
            return Err(t.bad("a number that none follows").into());
        }
        let root = Entry::check(t.u64()?, g).map_err(|what| t.bad(what))?;
        let root = root.ok_or(t.bad("no root"))?;
        let root_generation = Generation::from_raw(t.u64()?);
        t.end()?;
        let (clean, long_entries) = (flags & CLEAN != 0, version == VERSION);
        Ok(Self { clean, epoch, commit, clock, end, log, root, root_generation, long_entries })
    }
}

#[cfg(test)]
mod tests {
    use lode_base::EblockId;

    use super::*;
    use crate::log::Candidate;

    #[test]
    fn records_survive_and_cut_ones_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let e = EblockId::new;
        let generation = Generation::from_raw;
        let root = Entry::new(g.ppa(e(2), 640).unwrap(), 1000, false);
        let at = |n: u32| Candidate { eblock: e(n), generation: generation(6), wblock: 4 };
        let r = CheckpointRecord {
            clean: true,
            epoch: 3,
            commit: 77,
            clock: 5,
            end: 9,
            log: LogPosition { lsn: 5, epoch: 2, candidates: [at(1), at(3), at(4)] },
            root,
            root_generation: generation(8),
            long_entries: false,
        };
        for (long_entries, version) in [(false, 2), (true, 3)] {
            let r = CheckpointRecord { long_entries, ..r.clone() };
            let b = r.encode();
            assert_eq!(b[4], version);
            assert!(matches!(CheckpointRecord::decode(&b, &g), Ok(d) if d == r));
            for n in 0..b.len() {
                assert!(CheckpointRecord::decode(&b[..n], &g).is_err(), "cut to {n} bytes");
            }
        }
    }
}
