//! The layout of the store on the blocks.
//!
//! ```text
//!   LBA 0, 1   anchors, written in turns          LBA 2 on   segments of `segment_blocks` blocks each
//!
//!   anchor     magic "LODELSS\0" 8 | version 2 | zero 2 | segment blocks 4 | store 8 | number 8 | segments 4 | head: segment 4,
//!              block 4, next 4, sequence 8 | roots 4 | an entry of 8 each | ... | CRC-32C 4 at 4,092
//!   segment    units, one after the other; a unit begins at a block
//!   unit       header 64 | pages, each aligned to 64 bytes or to a block | records of 12 | zero up to a block
//!   header     magic 4 | last of its group 1 | zero 3 | store 8 | sequence 8 | commit 8 | blocks 4 | records 4 | their offset 4 |
//!              next segment 4 | CRC-32C of all behind the header 4 | zero 8 | CRC-32C of the header 4
//!   record     LPID or extent, 48 bits; kind 8; zero 8 | length of the page, or owner 4
//!   entry      cell of 64 bytes from LBA 0, 43 bits | length in bytes, 21 bits; 0 is none
//! ```
//!
//! All numbers are little-endian. A unit is valid if its sequence number is the next one and both checksums are
//! right, so a torn unit ends the log. A group of units is valid if its last unit is valid.

use lode_base::checksum::{crc32c, crc32c_seeded};
use lode_base::{CELL_BYTES, PAGE_BYTES_LIMIT, PageBuf, PageBufMut};

use crate::blocks::BLOCK_BYTES;

/// The LBA of the first segment.
pub(crate) const FIRST_SEGMENT_LBA: u64 = 2;
const ANCHOR_MAGIC: [u8; 8] = *b"LODELSS\0";
const UNIT_MAGIC: u32 = 0x554C_4F4C;
const VERSION: u16 = 1;
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const RECORD_BYTES: usize = 12;
const ANCHOR_HEAD_BYTES: usize = 64;
/// The most pieces of a root that an anchor can name.
pub(crate) const ROOTS_MAX: usize = (BLOCK_BYTES - ANCHOR_HEAD_BYTES - 4) / 8;

/// The place and length of a page. 0 means that it is unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub(crate) struct Entry(pub(crate) u64);

const LEN_BITS: u32 = 21;
const _: () = assert!(PAGE_BYTES_LIMIT == 1 << LEN_BITS);

impl Entry {
    pub(crate) fn new(byte: u64, len: usize) -> Self {
        debug_assert!(byte.is_multiple_of(CELL_BYTES as u64) && len < PAGE_BYTES_LIMIT);
        Self((byte / CELL_BYTES as u64) << LEN_BITS | len as u64)
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The offset of its first byte from LBA 0.
    pub(crate) fn byte(self) -> u64 {
        (self.0 >> LEN_BITS) * CELL_BYTES as u64
    }

    pub(crate) fn len(self) -> usize {
        (self.0 & (PAGE_BYTES_LIMIT as u64 - 1)) as usize
    }
}

/// What a record describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// A page.
    Page = 0,
    /// A page that begins at a block.
    PageAtBlock = 1,
    /// Unmaps a page.
    Trim = 2,
    /// Releases an extent.
    Release = 3,
    /// Allocates an extent.
    Allocate = 4,
    /// A mapping page of an extent.
    Map = 5,
    /// A piece of the root.
    Root = 6,
    /// A moved old version that a view shows. Recovery ignores it.
    Old = 7,
}

impl RecordKind {
    const ALL: [Self; 8] = [
        Self::Page,
        Self::PageAtBlock,
        Self::Trim,
        Self::Release,
        Self::Allocate,
        Self::Map,
        Self::Root,
        Self::Old,
    ];

    /// Whether the unit holds bytes for the record.
    pub(crate) fn has_bytes(self) -> bool {
        !matches!(self, Self::Trim | Self::Release | Self::Allocate)
    }

    fn align(self) -> usize {
        if self == Self::PageAtBlock { BLOCK_BYTES } else { CELL_BYTES }
    }
}

/// An item to write to the log.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: RecordKind,
    /// The LPID, extent, or number of the root's piece.
    pub(crate) name: u64,
    /// The owner of an allocated extent.
    pub(crate) owner: u32,
    /// Its bytes, if its kind has any.
    pub(crate) data: PageBuf,
}

/// A record that was read from a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: RecordKind,
    pub(crate) name: u64,
    pub(crate) owner: u32,
    /// The offset of the bytes from the beginning of the unit, if the record has any.
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// The header of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Header {
    pub(crate) last: bool,
    pub(crate) store: u64,
    pub(crate) sequence: u64,
    pub(crate) commit: u64,
    pub(crate) blocks: u32,
    pub(crate) records: u32,
    pub(crate) records_at: u32,
    pub(crate) next: u32,
    pub(crate) crc: u32,
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*b[at..].first_chunk().expect("the bytes are there"))
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*b[at..].first_chunk().expect("the bytes are there"))
}

impl Header {
    fn encode(&self, out: &mut [u8]) {
        out[..HEADER_BYTES].fill(0);
        out[..4].copy_from_slice(&UNIT_MAGIC.to_le_bytes());
        out[4] = u8::from(self.last);
        out[8..16].copy_from_slice(&self.store.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.commit.to_le_bytes());
        for (at, v) in
            [self.blocks, self.records, self.records_at, self.next, self.crc].into_iter().enumerate()
        {
            out[32 + 4 * at..36 + 4 * at].copy_from_slice(&v.to_le_bytes());
        }
        let crc = crc32c(&out[..60]);
        out[60..64].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes a header at the beginning of a block, if it is a valid header of this store.
    pub(crate) fn decode(b: &[u8], store: u64, segment_blocks: u32) -> Option<Self> {
        if b.len() < HEADER_BYTES || u32_at(b, 0) != UNIT_MAGIC || u32_at(b, 60) != crc32c(&b[..60]) {
            return None;
        }
        let h = Self {
            last: b[4] != 0,
            store: u64_at(b, 8),
            sequence: u64_at(b, 16),
            commit: u64_at(b, 24),
            blocks: u32_at(b, 32),
            records: u32_at(b, 36),
            records_at: u32_at(b, 40),
            next: u32_at(b, 44),
            crc: u32_at(b, 48),
        };
        let end = u64::from(h.records_at) + u64::from(h.records) * RECORD_BYTES as u64;
        let sound = h.store == store
            && (1..=segment_blocks).contains(&h.blocks)
            && h.records_at as usize >= HEADER_BYTES
            && end <= u64::from(h.blocks) * BLOCK_BYTES as u64;
        sound.then_some(h)
    }

    /// Decodes the records of a unit from its blocks. `None` if the checksum is wrong.
    pub(crate) fn records(&self, blocks: &[PageBuf]) -> Option<Vec<Record>> {
        if blocks.len() != self.blocks as usize {
            return None;
        }
        let mut crc = crc32c(&blocks[0][HEADER_BYTES..]);
        for b in &blocks[1..] {
            crc = crc32c_seeded(crc, b);
        }
        if crc != self.crc {
            return None;
        }
        self.records_unchecked(blocks)
    }

    /// As [`Header::records`], without checking the checksum: the drive has checked the bytes.
    pub(crate) fn records_unchecked(&self, blocks: &[PageBuf]) -> Option<Vec<Record>> {
        let bytes = assemble(blocks, self.records_at as usize, self.records as usize * RECORD_BYTES);
        let (mut at, mut found) = (HEADER_BYTES, Vec::with_capacity(self.records as usize));
        for r in bytes.chunks_exact(RECORD_BYTES) {
            let word = u64_at(r, 0);
            let kind = RecordKind::ALL.into_iter().find(|k| *k as u64 == word >> 48)?;
            let value = u32_at(r, 8);
            let (mut offset, mut len, mut owner) = (0, 0, value);
            if kind.has_bytes() {
                (offset, len, owner) = (at.next_multiple_of(kind.align()), value as usize, 0);
                at = offset + len;
                if at > self.records_at as usize || len >= PAGE_BYTES_LIMIT {
                    return None;
                }
            }
            found.push(Record { kind, name: word & ((1 << 48) - 1), owner, offset, len });
        }
        Some(found)
    }
}

/// Returns a range of bytes from consecutive blocks. A range that lies in one block is not copied.
pub(crate) fn assemble(blocks: &[PageBuf], from: usize, len: usize) -> PageBuf {
    let (first, within) = (from / BLOCK_BYTES, from % BLOCK_BYTES);
    if len == 0 {
        return PageBuf::empty();
    }
    if within + len <= BLOCK_BYTES {
        return blocks[first].slice(within..within + len);
    }
    let mut out = PageBufMut::scratch(len);
    let (mut done, mut block, mut within) = (0, first, within);
    while done < len {
        let part = (BLOCK_BYTES - within).min(len - done);
        out[done..done + part].copy_from_slice(&blocks[block][within..within + part]);
        (done, block, within) = (done + part, block + 1, 0);
    }
    out.freeze()
}

/// Lays out as many of `items` as fit in `room` blocks as one unit. Returns their offsets and the end of the pages,
/// in bytes.
pub(crate) fn fit(items: &[Item], room: u32) -> (Vec<usize>, usize) {
    let room = room as usize * BLOCK_BYTES;
    let (mut offsets, mut end) = (Vec::with_capacity(items.len()), HEADER_BYTES);
    for item in items {
        let (at, next) = match item.kind.has_bytes() {
            true => {
                let at = end.next_multiple_of(item.kind.align());
                (at, at + item.data.len())
            }
            false => (end, end),
        };
        if next.next_multiple_of(4) + RECORD_BYTES * (offsets.len() + 1) > room {
            break;
        }
        offsets.push(at);
        end = next;
    }
    (offsets, end)
}

/// Assembles the blocks of a unit whose items lie at `offsets`. A page of whole blocks that begins at a block is not
/// copied.
pub(crate) fn unit(header: &Header, items: &[Item], offsets: &[usize], end: usize) -> Vec<PageBuf> {
    let records_at = end.next_multiple_of(4);
    let all = (records_at + RECORD_BYTES * items.len()).next_multiple_of(BLOCK_BYTES);
    let mut pieces = Pieces { start: 0, first: None, blocks: Vec::with_capacity(all / BLOCK_BYTES), crc: 0 };
    let mut stretch: Vec<(usize, &[u8])> = Vec::with_capacity(items.len());
    for (item, &at) in items.iter().zip(offsets) {
        if !item.kind.has_bytes() {
            continue;
        }
        if item.kind == RecordKind::PageAtBlock && item.data.len().is_multiple_of(BLOCK_BYTES) {
            pieces.stretch(&mut stretch, at);
            pieces.direct(&item.data);
        } else {
            stretch.push((at, &item.data));
        }
    }
    let mut records = Vec::with_capacity(RECORD_BYTES * items.len());
    for item in items {
        let value = if item.kind.has_bytes() { item.data.len() as u32 } else { item.owner };
        records.extend((item.name | (item.kind as u64) << 48).to_le_bytes());
        records.extend(value.to_le_bytes());
    }
    stretch.push((records_at, &records));
    pieces.stretch(&mut stretch, all);
    let (mut first, mut blocks) =
        (pieces.first.take().expect("a unit begins with its header"), pieces.blocks);
    let header = Header {
        blocks: (all / BLOCK_BYTES) as u32,
        records: items.len() as u32,
        records_at: records_at as u32,
        crc: pieces.crc,
        ..*header
    };
    header.encode(&mut first);
    let first = first.freeze();
    let head = (0..first.len()).step_by(BLOCK_BYTES).map(|at| first.slice(at..at + BLOCK_BYTES));
    blocks.splice(0..0, head);
    blocks
}

/// A unit under assembly.
struct Pieces {
    start: usize,
    /// The first block or blocks, which begin with the header.
    first: Option<PageBufMut>,
    /// The blocks after them.
    blocks: Vec<PageBuf>,
    crc: u32,
}

impl Pieces {
    /// Writes the packed parts up to `end`, the end of a block. Gaps are zero.
    fn stretch(&mut self, parts: &mut Vec<(usize, &[u8])>, end: usize) {
        if end == self.start {
            return;
        }
        let mut b = PageBufMut::scratch(end - self.start);
        let mut at = 0;
        if self.first.is_none() {
            at = HEADER_BYTES;
        }
        for (offset, bytes) in parts.drain(..) {
            let offset = offset - self.start;
            b[at..offset].fill(0);
            b[offset..offset + bytes.len()].copy_from_slice(bytes);
            at = offset + bytes.len();
        }
        b[at..].fill(0);
        self.start = end;
        if self.first.is_none() {
            self.crc = crc32c(&b[HEADER_BYTES..]);
            self.first = Some(b);
        } else {
            self.crc = crc32c_seeded(self.crc, &b);
            let b = b.freeze();
            self.blocks.extend((0..b.len()).step_by(BLOCK_BYTES).map(|at| b.slice(at..at + BLOCK_BYTES)));
        }
    }

    fn direct(&mut self, data: &PageBuf) {
        self.crc = crc32c_seeded(self.crc, data);
        self.blocks.extend((0..data.len()).step_by(BLOCK_BYTES).map(|at| data.slice(at..at + BLOCK_BYTES)));
        self.start += data.len();
    }
}

/// The place where the log continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Head {
    pub(crate) segment: u32,
    pub(crate) block: u32,
    /// The segment that follows this one.
    pub(crate) next: u32,
    /// The sequence number of the next unit.
    pub(crate) sequence: u64,
}

/// The place of a checkpoint, and the place where the log continues after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) store: u64,
    pub(crate) number: u64,
    pub(crate) segment_blocks: u32,
    pub(crate) segments: u32,
    pub(crate) head: Head,
    pub(crate) roots: Vec<Entry>,
}

impl Anchor {
    /// The LBA of the slot to which the anchor is written.
    pub(crate) fn lba(&self) -> u64 {
        self.number % FIRST_SEGMENT_LBA
    }

    pub(crate) fn encode(&self) -> PageBuf {
        let mut b = Vec::with_capacity(BLOCK_BYTES);
        b.extend(ANCHOR_MAGIC);
        b.extend(VERSION.to_le_bytes());
        b.extend([0; 2]);
        b.extend(self.segment_blocks.to_le_bytes());
        b.extend(self.store.to_le_bytes());
        b.extend(self.number.to_le_bytes());
        for v in [self.segments, self.head.segment, self.head.block, self.head.next] {
            b.extend(v.to_le_bytes());
        }
        b.extend(self.head.sequence.to_le_bytes());
        b.extend((self.roots.len() as u32).to_le_bytes());
        b.resize(ANCHOR_HEAD_BYTES, 0);
        self.roots.iter().for_each(|r| b.extend(r.0.to_le_bytes()));
        b.resize(BLOCK_BYTES - 4, 0);
        let crc = crc32c(&b);
        b.extend(crc.to_le_bytes());
        PageBuf::copy_from(&b)
    }

    /// Decodes an anchor, if the block is one.
    pub(crate) fn decode(b: &[u8]) -> Option<Self> {
        let whole = b.len() == BLOCK_BYTES && b[..8] == ANCHOR_MAGIC && u32_at(b, 4092) == crc32c(&b[..4092]);
        if !whole || u16::from_le_bytes([b[8], b[9]]) > VERSION {
            return None;
        }
        let roots = u32_at(b, 56) as usize;
        let a = Self {
            segment_blocks: u32_at(b, 12),
            store: u64_at(b, 16),
            number: u64_at(b, 24),
            segments: u32_at(b, 32),
            head: Head {
                segment: u32_at(b, 36),
                block: u32_at(b, 40),
                next: u32_at(b, 44),
                sequence: u64_at(b, 48),
            },
            roots: (0..roots.min(ROOTS_MAX)).map(|i| Entry(u64_at(b, ANCHOR_HEAD_BYTES + 8 * i))).collect(),
        };
        let sound = roots <= ROOTS_MAX
            && a.head.segment < a.segments
            && a.head.next < a.segments
            && a.head.block <= a.segment_blocks;
        sound.then_some(a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: RecordKind, name: u64, len: usize) -> Item {
        let bytes: Vec<u8> = (0..len).map(|i| (i as u64 * 7 + name) as u8).collect();
        Item { kind, name, owner: 9, data: PageBuf::copy_from(&bytes) }
    }

    #[test]
    fn a_unit_comes_back_and_no_other_bytes_do() {
        let items = [
            item(RecordKind::Page, 5, 100),
            item(RecordKind::Allocate, 3, 0),
            item(RecordKind::PageAtBlock, 6, 8192),
            item(RecordKind::PageAtBlock, 7, 5000),
            item(RecordKind::Page, 8, 4000),
            item(RecordKind::Trim, 5, 0),
            item(RecordKind::PageAtBlock, 9, 4096),
        ];
        let (offsets, end) = fit(&items, 100);
        assert_eq!(offsets.len(), items.len());
        let header = Header { store: 77, sequence: 5, commit: 2, next: 4, last: true, ..Header::default() };
        let blocks = unit(&header, &items, &offsets, end);
        let found = Header::decode(&blocks[0], 77, 100).unwrap();
        assert_eq!((found.sequence, found.commit, found.next, found.last), (5, 2, 4, true));
        let records = found.records(&blocks).unwrap();
        for (r, i) in records.iter().zip(&items) {
            assert_eq!((r.kind, r.name), (i.kind, i.name));
            if i.kind.has_bytes() {
                assert_eq!(&assemble(&blocks, r.offset, r.len)[..], &i.data[..], "{r:?}");
            }
        }
        assert_eq!(records.len(), items.len());
        assert_eq!(Header::decode(&blocks[0], 78, 100), None, "another store");
        for block in 0..blocks.len() {
            for at in [0, 7, 63, 64, 1000, 4095] {
                let mut other = blocks.clone();
                let mut bytes = other[block].to_vec();
                bytes[at] ^= 4;
                other[block] = PageBuf::copy_from(&bytes);
                let read = Header::decode(&other[0], 77, 100).and_then(|h| h.records(&other));
                assert_eq!(read, None, "byte {at} of block {block}");
            }
        }
    }

    #[test]
    fn as_many_fit_as_there_is_room_for() {
        let items: Vec<Item> = (0..100).map(|n| item(RecordKind::Page, n, 1000)).collect();
        for room in 1..20 {
            let (offsets, end) = fit(&items, room);
            let bytes = end.next_multiple_of(4) + RECORD_BYTES * offsets.len();
            assert!(bytes <= room as usize * BLOCK_BYTES);
            assert!(bytes + 1024 + 64 + RECORD_BYTES > room as usize * BLOCK_BYTES);
        }
        assert_eq!(fit(&[item(RecordKind::Page, 1, 5000)], 1).0.len(), 0);
    }

    #[test]
    fn an_anchor_comes_back_and_no_other_bytes_do() {
        let head = Head { segment: 3, block: 9, next: 4, sequence: 88 };
        let a = Anchor {
            store: 5,
            number: 7,
            segment_blocks: 255,
            segments: 10,
            head,
            roots: vec![Entry(99); 3],
        };
        let bytes = a.encode();
        assert_eq!(Anchor::decode(&bytes), Some(a));
        for at in 0..bytes.len() {
            let mut other = bytes.to_vec();
            other[at] ^= 1;
            assert_eq!(Anchor::decode(&other), None, "byte {at}");
        }
    }
}
