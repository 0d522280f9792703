//! A medium whose programs and reads fail as a test says, and a log on it.
//!
//! ```text
//!   program ─► what the test says of this program ─► the medium, with some WBLOCKs garbled ─► the EBLOCK is ended
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use lode_base::{EblockId, Geometry, OwnerId, PageBuf, PageBufMut, Ppa};
use lode_flash::{FlashError, Generation, Medium};

use super::medium::LogMedium;
use super::{Candidate, Group, LogEnd, LogPosition, LogWriter, read_log};
use crate::FirmwareError;
use crate::record::Record;

/// What becomes of a program. A mask says which of its WBLOCKs are whole on the medium.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Succeeds,
    /// Ends the EBLOCK.
    Fails {
        whole: u64,
    },
    /// Fails before anything was programmed.
    FailsBefore,
    /// Finds the file system full before anything was programmed.
    FullBefore,
    /// Finds it full within, which ends the EBLOCK.
    FullWithin {
        whole: u64,
    },
}

pub(super) struct Faulty {
    pub(super) medium: Medium,
    pub(super) fates: RefCell<VecDeque<Fate>>,
    pub(super) programs: Cell<u32>,
    /// How often reads of a WBLOCK fail, by its cell.
    pub(super) unreadable: RefCell<HashMap<u64, u32>>,
    /// How often they answer what was never programmed there.
    pub(super) stale: RefCell<HashMap<u64, u32>>,
    /// WBLOCKs that the host cannot read, by their cells; read with others, they may rather fail as above.
    pub(super) broken: RefCell<BTreeSet<u64>>,
}

impl Faulty {
    pub(super) fn new(medium: Medium) -> Self {
        Self {
            medium,
            fates: RefCell::default(),
            programs: Cell::new(0),
            unreadable: RefCell::default(),
            stale: RefCell::default(),
            broken: RefCell::default(),
        }
    }

    pub(super) fn next_fates(&self, fates: &[Fate]) {
        *self.fates.borrow_mut() = fates.iter().copied().collect();
    }

    fn error(&self, kind: io::ErrorKind) -> FlashError {
        FlashError::Io { path: self.medium.path().into(), operation: "write data", source: kind.into() }
    }

    fn program_garbled(&self, e: EblockId, wblock: u32, data: &PageBuf, whole: u64) {
        let mut b = PageBufMut::zeroed(data.len());
        b.copy_from_slice(data);
        let bytes = self.medium.geometry().wblock_bytes() as usize;
        for (i, wblock) in b.chunks_exact_mut(bytes).enumerate() {
            if i >= 64 || whole >> i & 1 == 0 {
                // The header is there and the end of the payload is not, or nothing is.
                wblock[if i % 2 == 0 { bytes / 2 } else { 0 }..].fill(0xEE);
            }
        }
        self.medium.program_tagged_inside(e, wblock, &b.freeze()).unwrap();
        self.medium.set_next_wblock(e, self.medium.geometry().wblocks_per_eblock());
    }
}

impl LogMedium for Faulty {
    fn geometry(&self) -> &Geometry {
        self.medium.geometry()
    }

    fn path(&self) -> &Path {
        self.medium.path()
    }

    fn open_epoch(&self) -> u32 {
        self.medium.open_epoch()
    }

    fn generation(&self, e: EblockId) -> Generation {
        self.medium.generation(e)
    }

    fn next_wblock(&self, e: EblockId) -> u32 {
        self.medium.next_wblock(e)
    }

    fn program(&self, e: EblockId, wblock: u32, data: &PageBuf) -> Result<(), FlashError> {
        self.programs.set(self.programs.get() + 1);
        match self.fates.borrow_mut().pop_front().unwrap_or(Fate::Succeeds) {
            Fate::Succeeds => self.medium.program_tagged_inside(e, wblock, data),
            Fate::Fails { whole } => {
                self.program_garbled(e, wblock, data, whole);
                Err(self.error(io::ErrorKind::Other))
            }
            Fate::FailsBefore => Err(self.error(io::ErrorKind::Other)),
            Fate::FullBefore => Err(self.error(io::ErrorKind::StorageFull)),
            Fate::FullWithin { whole } => {
                self.program_garbled(e, wblock, data, whole);
                Err(self.error(io::ErrorKind::StorageFull))
            }
        }
    }

    fn set_next_wblock(&self, e: EblockId, wblock: u32) {
        self.medium.set_next_wblock(e, wblock);
    }

    fn sync(&self) -> Result<(), FlashError> {
        self.medium.sync()
    }

    fn read(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
        let cells = at.cell()..at.cell() + u64::from(len) / lode_base::CELL_BYTES as u64;
        let broken = self.broken.borrow().iter().any(|cell| cells.contains(cell));
        if broken && len == self.geometry().wblock_bytes() {
            return Err(self.error(io::ErrorKind::Other));
        }
        for (cell, times) in self.unreadable.borrow_mut().iter_mut() {
            if cells.contains(cell) && *times > 0 {
                *times -= 1;
                return Err(FlashError::ChecksumMismatch { at, got: 0, expected: 1 });
            }
        }
        if broken {
            return Err(self.error(io::ErrorKind::Other));
        }
        let data = self.medium.read_unverified(at, len)?;
        let mut stale = self.stale.borrow_mut();
        let Some((cell, times)) = stale.iter_mut().find(|(c, times)| cells.contains(c) && **times > 0) else {
            return Ok(data);
        };
        *times -= 1;
        let mut b = PageBufMut::zeroed(data.len());
        b.copy_from_slice(&data);
        let from = (cell - at.cell()) as usize * lode_base::CELL_BYTES;
        b[from..from + self.geometry().wblock_bytes() as usize].fill(0);
        Ok(b.freeze())
    }
}

/// A log on a medium of 64 EBLOCKs; groups hold one record, drawn out by allocations to a given number of bytes.
pub(super) struct Log {
    pub(super) m: Faulty,
    pub(super) w: LogWriter,
    pub(super) start: LogPosition,
    pub(super) free: BTreeSet<u32>,
}

/// Four WBLOCKs an EBLOCK.
pub(super) fn small() -> Geometry {
    Geometry::new(1, 1, 1, 4096, 4096, 16 << 10, 64).unwrap()
}

/// The records of a group with this number.
pub(super) fn records(number: u64, bytes: usize) -> Vec<u8> {
    let mut b = Vec::new();
    Record::Checkpointed { lsn: number }.encode(&mut b);
    while b.len() < bytes {
        let extent = lode_base::ExtentId::new(b.len() as u64).unwrap();
        Record::Allocated { owner: OwnerId::new(number as u32), extent }.encode(&mut b);
    }
    b
}

/// The number of a group, all of which must be as [`records`] made it.
pub(super) fn number_of(group: &Group) -> u64 {
    let Record::Checkpointed { lsn: number } = group.records[0] else {
        panic!("a group begins with its number: {group:?}")
    };
    let mut b = Vec::new();
    group.records.iter().for_each(|r| r.encode(&mut b));
    assert_eq!(b, records(number, b.len()), "group {number}");
    number
}

pub(super) fn take(m: &Medium, free: &mut BTreeSet<u32>) -> Option<(EblockId, Generation)> {
    let e = EblockId::new(free.pop_first()?);
    Some((e, m.erase(e).unwrap()))
}

impl Log {
    pub(super) fn new(copies: u32) -> Self {
        Self::on(Medium::memory(small()), copies)
    }

    pub(super) fn on(m: Medium, copies: u32) -> Self {
        let mut free: BTreeSet<u32> = (0..m.geometry().eblock_count()).collect();
        let start = LogPosition::start(1, [(); 3].map(|()| take(&m, &mut free).unwrap()));
        Self { m: Faulty::new(m), w: LogWriter::new(start, copies), start, free }
    }

    pub(super) fn try_append(&mut self, number: u64, bytes: usize) -> Result<u64, FirmwareError> {
        let (m, free) = (&self.m.medium, &mut self.free);
        let before = self.w.position().lsn;
        let r = self.w.append(&self.m, &records(number, bytes), &mut || Ok(take(m, free)));
        self.w.check_invariants(&self.m);
        if let Ok(last) = r {
            assert_eq!(self.w.position().lsn, last + 1);
            assert!(last >= before);
        }
        r
    }

    /// Appends a group of about so many bytes, and syncs.
    pub(super) fn append(&mut self, number: u64, bytes: usize) -> u64 {
        let last = self.try_append(number, bytes).unwrap();
        self.w.synced();
        last
    }

    /// Bytes of a group that takes so many pages.
    pub(super) fn pages(n: usize) -> usize {
        (n - 1) * (4096 - super::page::PAYLOAD_AT) + 30
    }

    pub(super) fn read_from(&self, position: &LogPosition) -> Result<(Vec<u64>, LogEnd), FirmwareError> {
        let mut numbers = Vec::new();
        let end = read_log(&self.m, position, &mut |g, _| {
            numbers.push(number_of(&g));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((numbers, end))
    }

    /// The numbers of the groups that are read from the start; the log must end where the writer goes on.
    pub(super) fn read(&self) -> Vec<u64> {
        let (numbers, end) = self.read_from(&self.start).unwrap();
        assert_eq!((end.lsn, end.position), (self.w.position().lsn - 1, self.w.position()));
        numbers
    }

    /// Flips a bit of a page at rest.
    pub(super) fn flip(&self, candidate: Candidate) {
        let g = *self.m.medium.geometry();
        let e = candidate.eblock;
        let bytes = g.wblock_bytes();
        // The medium programs in order: everything is read, erased and programmed again in the same generation.
        let all = self.m.medium.read_unverified(g.ppa(e, 0).unwrap(), g.eblock_bytes()).unwrap();
        let (generation, next) = (self.m.medium.generation(e), self.m.medium.next_wblock(e));
        let mut b = PageBufMut::zeroed(all.len());
        b.copy_from_slice(&all);
        b[(candidate.wblock * bytes + 200) as usize] ^= 4;
        self.m.medium.set_next_wblock(e, 0);
        self.m.medium.program_tagged_inside(e, 0, &b.freeze()).unwrap();
        self.m.medium.set_generation(e, generation);
        self.m.medium.set_next_wblock(e, next);
    }
}
