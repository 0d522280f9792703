//! The contents of a metadata-only medium: pages of users are not kept, the drive's own pages are kept in compact
//! form.
//!
//! ```text
//!   EBLOCK ─► generation, WBLOCKs programmed, and of those that are the drive's own: WBLOCK ─► packed bytes
//! ```
//!
//! Invariants: the contents of an EBLOCK belong to one generation, and are dropped with it; a WBLOCK that was
//! programmed but not kept held pages of users. No tags are kept, since nothing changes here except by programming.

mod packed;

use lode_base::{EblockId, Geometry, PageBuf, PageBufMut};
use parking_lot::RwLock;

use crate::Generation;

/// Every byte of a user's page reads as this.
const NOTHING: u8 = 0xA5;
/// The bytes of a buffer that all such reads share.
const NOTHING_BYTES: usize = 512 << 10;

/// The data of a program.
#[derive(Clone, Copy)]
pub(crate) enum Programmed<'a> {
    /// Pages of users, in so many WBLOCKs.
    Users(u32),
    /// WBLOCKs of the drive's own: log pages, whose tags lie inside, or structures of eight-byte words.
    Own { data: &'a [u8], log: bool },
}

#[derive(Clone, Default)]
struct Eblock {
    generation: u64,
    programmed: u32,
    /// For each kept WBLOCK: its number, the start of its packed form in `bytes`, and whether that is a patch of the
    /// one before.
    kept: Vec<(u32, u32, bool)>,
    bytes: Vec<u8>,
}

pub(crate) struct MetadataOnly {
    eblocks: Vec<RwLock<Eblock>>,
    wblock_bytes: u32,
    nothing: PageBuf,
}

/// Nothing was programmed there in the wanted generation. The EBLOCK has this generation.
pub(crate) struct NotThere(pub(crate) Generation);

impl Eblock {
    fn unit(&self, i: usize) -> &[u8] {
        let end = self.kept.get(i + 1).map_or(self.bytes.len(), |k| k.1 as usize);
        &self.bytes[self.kept[i].1 as usize..end]
    }

    /// Fills `unit` with a WBLOCK, if it is kept.
    fn unpack(&self, wblock: u32, unit: &mut [u8]) -> bool {
        let Ok(i) = self.kept.binary_search_by_key(&wblock, |k| k.0) else { return false };
        if self.kept[i].2 {
            packed::unpack(self.unit(i - 1), unit);
        }
        packed::unpack(self.unit(i), unit);
        true
    }

    /// Drops everything from a WBLOCK on.
    fn cut(&mut self, wblock: u32) {
        let left = self.kept.partition_point(|k| k.0 < wblock);
        if let Some(&(_, at, _)) = self.kept.get(left) {
            self.kept.truncate(left);
            self.bytes.truncate(at as usize);
        }
    }

    fn keep(&mut self, wblock: u32, wblock_bytes: usize, data: &[u8], log: bool) {
        let mut packed = Vec::with_capacity(wblock_bytes);
        let mut before: Option<&[u8]> = None;
        for (wblock, unit) in (wblock..).zip(data.chunks_exact(wblock_bytes)) {
            let at = u32::try_from(self.bytes.len() + packed.len()).expect("an EBLOCK has less than 4 GB");
            let is_patch = packed::pack(unit, before, !log, &mut packed);
            self.kept.push((wblock, at, is_patch));
            before = (!is_patch).then_some(unit);
        }
        // Most EBLOCKs keep only what is programmed at their close, so exactly its bytes are allocated.
        if self.bytes.capacity() - self.bytes.len() < packed.len() {
            self.bytes.reserve_exact(packed.len().max(self.bytes.len() / 4));
        }
        self.bytes.extend(packed);
    }
}

impl MetadataOnly {
    pub(crate) fn new(g: &Geometry) -> Self {
        Self {
            eblocks: (0..g.eblock_count()).map(|_| RwLock::default()).collect(),
            wblock_bytes: g.wblock_bytes(),
            nothing: PageBuf::copy_from(&vec![NOTHING; NOTHING_BYTES]),
        }
    }

    /// A copy.
    pub(crate) fn copy(&self) -> Self {
        let eblocks = self.eblocks.iter().map(|e| RwLock::new(e.read().clone())).collect();
        Self { eblocks, wblock_bytes: self.wblock_bytes, nothing: self.nothing.clone() }
    }

    /// Programs WBLOCKs from `wblock` on, in a generation.
    pub(crate) fn program(&self, e: EblockId, generation: Generation, wblock: u32, what: Programmed<'_>) {
        let mut eblock = self.eblocks[e.raw() as usize].write();
        if eblock.generation != generation.raw() {
            *eblock = Eblock { generation: generation.raw(), ..Eblock::default() };
        }
        // The remains of a failed program are overwritten.
        eblock.cut(wblock);
        eblock.programmed = wblock
            + match what {
                Programmed::Users(wblocks) => wblocks,
                Programmed::Own { data, log } => {
                    eblock.keep(wblock, self.wblock_bytes as usize, data, log);
                    data.len() as u32 / self.wblock_bytes
                }
            };
    }

    /// Drops the contents of an EBLOCK.
    pub(crate) fn forget(&self, e: EblockId) {
        *self.eblocks[e.raw() as usize].write() = Eblock::default();
    }

    /// Whether a WBLOCK was programmed in a generation.
    pub(crate) fn is_programmed(&self, e: EblockId, generation: Generation, wblock: u32) -> bool {
        let eblock = self.eblocks[e.raw() as usize].read();
        eblock.generation == generation.raw()
            && generation != Generation::UNKNOWN
            && wblock < eblock.programmed
    }

    /// Bytes of an EBLOCK from `offset` on: in a given generation; or in any, with zeroes behind the programmed
    /// WBLOCKs.
    pub(crate) fn read(
        &self,
        e: EblockId,
        generation: Option<Generation>,
        offset: u32,
        len: u32,
    ) -> Result<PageBuf, NotThere> {
        let eblock = self.eblocks[e.raw() as usize].read();
        let (first, end) = (offset / self.wblock_bytes, (offset + len).div_ceil(self.wblock_bytes));
        if let Some(g) = generation
            && (eblock.generation != g.raw() || g == Generation::UNKNOWN || end > eblock.programmed)
        {
            return Err(NotThere(Generation::from_raw(eblock.generation)));
        }
        let own = eblock.kept.partition_point(|k| k.0 < first);
        let is_own = eblock.kept.get(own).is_some_and(|k| k.0 < end);
        if !is_own && end <= eblock.programmed {
            return Ok(self.nothing(len));
        }
        let mut out = PageBufMut::scratch(((end - first) * self.wblock_bytes) as usize);
        for (wblock, unit) in (first..).zip(out.chunks_exact_mut(self.wblock_bytes as usize)) {
            if !eblock.unpack(wblock, unit) {
                unit.fill(if wblock < eblock.programmed { NOTHING } else { 0 });
            }
        }
        let start = (offset - first * self.wblock_bytes) as usize;
        Ok(out.freeze().slice(start..start + len as usize))
    }

    /// A user's page of `len` bytes.
    pub(crate) fn nothing(&self, len: u32) -> PageBuf {
        match len as usize {
            len if len <= NOTHING_BYTES => self.nothing.slice(..len),
            len => PageBuf::copy_from(&vec![NOTHING; len]),
        }
    }
}
