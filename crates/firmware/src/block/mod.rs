//! The block interface: the same drive as a conventional SSD of fixed blocks, 4 or 16 KB each.
//!
//! ```text
//!   read, write, trim, flush ─► LPID = 1,024 + LBA ─► one batch, or one read at a view ─► Drive
//!   extent 0: page 0 says what the blocks are      extents 1, 2, ...: blocks 0 to 1,023, 1,024 to 2,047, ...
//! ```
//!
//! Invariants: extents are handed out in order, without a gap, so that what a crash leaves of them is found by
//! their number; a block that was never written, or trimmed, reads as zeroes; a command beyond the capacity is
//! refused whole.
//!
//! What a conventional drive promises (NVMe's names), and what this one does:
//!
//! | of a conventional drive | here |
//! |---|---|
//! | AWUN: a read sees a write of up to so many blocks whole or not at all | every command, up to [`BlockDrive::transfer_blocks_max`] |
//! | AWUPF: the same through a power cut; often one block | the same: stronger |
//! | a write is durable after the next flush | durable when it completes: stronger |
//! | no order among writes that are under way | on one thread in order |
//! | deallocated blocks read as zeroes, once and for all (DLFEAT 1) | the same, durable when it completes |
//! | a deallocation of many blocks is not atomic | atomic in steps of up to `transfer_blocks_max` |
//!
//! Source: design, "Block interface"; the baseline of ELEOS §IX; NVM Command Set Specification 1.0 for the terms.

mod error;
mod header;
mod transport;

use std::collections::HashSet;
use std::ops::Range;

use lode_base::{EXTENT_PAGES, Lpid, OwnerId, PageBuf, PageBufMut, ViewId};
use lode_command::{Align, Batch, CommandError, Device, ExtentInfo, PageRange, PageWrite};
use parking_lot::Mutex;

pub use error::BlockError;
use header::Header;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use header::decodes as decodes_header;
use transport::Transport;

use crate::{Drive, FirmwareError};

/// The owner of every extent of a block drive.
const OWNER: OwnerId = OwnerId::new(u32::MAX - 1);

/// Block sizes that there are, in bytes.
const BLOCK_BYTES: [u32; 2] = [4096, 16_384];

/// Blocks that one command moves at most: an extent of them.
const TRANSFER_BLOCKS_MAX: u32 = EXTENT_PAGES as u32;

/// Times that a read begins anew because its view was closed for newer ones.
const VIEW_TRIES: u32 = 16;

const EXTENT_BLOCKS: u64 = EXTENT_PAGES as u64;

/// What the blocks of a new block drive shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// Bytes of a block: 4,096 or 16,384.
    pub block_bytes: u32,
    /// How many; `None` takes seven eighths of what is free, so that an eighth is left to collect garbage in.
    pub capacity_blocks: Option<u64>,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self { block_bytes: 4096, capacity_blocks: None }
    }
}

/// A drive of fixed blocks. Any number of threads may use it at once.
#[derive(Debug)]
pub struct BlockDrive {
    transport: Transport,
    header: Header,
    transfer_blocks_max: u32,
    align: Align,
    /// Extents handed out to blocks: 1 to this number.
    extents: Mutex<u64>,
}

impl BlockDrive {
    /// Makes blocks of an empty drive. Their size and number are kept with it.
    ///
    /// # Errors
    /// When the drive holds something, when there are no such blocks, when more are asked for than the medium
    /// has room for, or when the drive fails.
    pub fn make(drive: Drive, options: BlockOptions) -> Result<Self, BlockError> {
        let BlockOptions { block_bytes, capacity_blocks } = options;
        if !BLOCK_BYTES.contains(&block_bytes) {
            return Err(BlockError::BlockBytes { got: block_bytes });
        }
        let info = drive.info();
        let room = info.geometry.capacity_bytes() / u64::from(block_bytes);
        let capacity_blocks = capacity_blocks.unwrap_or(info.free_bytes / 8 * 7 / u64::from(block_bytes));
        if !(1..=room).contains(&capacity_blocks) {
            return Err(BlockError::Capacity { got: capacity_blocks, max: room });
        }
        let header = Header { block_bytes, capacity_blocks };
        let transport = Transport::new(drive);
        let found = transport.extents()?;
        // The extent of a making that was cut short holds nothing yet.
        let begun = |e: &ExtentInfo| {
            e.extent == Header::lpid().extent() && e.owner == OWNER && e.pages_mapped == Some(0)
        };
        match &found[..] {
            [] => transport.allocate(0, 1)?,
            [e] if begun(e) => {}
            _ => return Err(BlockError::NotEmpty { extents: found.len() }),
        }
        let page = PageWrite { lpid: Header::lpid(), data: header.encode(), align: Align::Cell };
        transport.write(Batch { writes: vec![page], ..Batch::default() })?;
        Self::with(transport, header, 0)
    }

    /// Opens the blocks of a drive on which they were made.
    ///
    /// # Errors
    /// When they were not, when what is kept of them is damaged or newer, or when the drive fails.
    pub fn open(drive: Drive) -> Result<Self, BlockError> {
        let transport = Transport::new(drive);
        let found = transport.extents()?;
        let in_order = |(i, e): (usize, &ExtentInfo)| e.owner == OWNER && e.extent.raw() == i as u64;
        if found.is_empty() || !found.iter().enumerate().all(in_order) || found[0].pages_mapped == Some(0) {
            return Err(BlockError::NoBlocks { extents: found.len() });
        }
        let page = transport.read(None, vec![Header::lpid()])?;
        let header = Header::decode(&page[0]).map_err(|what| BlockError::Damaged { what })?;
        Self::with(transport, header, found.len() as u64 - 1)
    }

    fn with(transport: Transport, header: Header, extents: u64) -> Result<Self, BlockError> {
        let id = transport.drive().identity();
        let block_bytes = header.block_bytes;
        let in_bytes = id.batch_bytes_max / (u64::from(block_bytes) + 16);
        let transfer_blocks_max =
            TRANSFER_BLOCKS_MAX.min(id.batch_pages_max).min(in_bytes.min(1 << 20) as u32);
        if block_bytes > id.page_bytes_max || transfer_blocks_max == 0 {
            return Err(BlockError::BlockBytes { got: block_bytes });
        }
        let whole_units = block_bytes.is_multiple_of(id.geometry.rblock_bytes());
        let align = if whole_units { Align::ReadUnit } else { Align::Cell };
        Ok(Self { transport, header, transfer_blocks_max, align, extents: Mutex::new(extents) })
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        self.header.block_bytes
    }

    /// Blocks: LBAs are below this.
    pub fn capacity_blocks(&self) -> u64 {
        self.header.capacity_blocks
    }

    /// Blocks that one read or write may move, all of which it moves as one: NVMe's MDTS, AWUN and AWUPF.
    pub fn transfer_blocks_max(&self) -> u32 {
        self.transfer_blocks_max
    }

    /// The drive below. Whoever writes to it past the blocks breaks them.
    pub fn drive(&self) -> &Drive {
        self.transport.drive()
    }

    /// Ends it in order, so that the next open has nothing to replay.
    ///
    /// # Errors
    /// As [`Drive::close`].
    pub fn close(self) -> Result<(), FirmwareError> {
        self.transport.into_drive().close()
    }

    /// Reads `count` blocks from `lba` on (1 or more), all as of one moment.
    ///
    /// # Errors
    /// When they do not lie on the drive, are more than a command moves, or one cannot be read back.
    pub fn read(&self, lba: u64, count: u32) -> Result<PageBuf, BlockError> {
        let range = self.checked(lba, count)?;
        let written = self.written_part(&range);
        if count == 1 {
            return match self.transport.read(None, written.map(lpid).collect()) {
                Ok(mut page) if !page.is_empty() => Ok(self.whole(page.remove(0))?),
                Ok(_) | Err(BlockError::Command(CommandError::Unmapped(_))) => Ok(self.zeroes(1)),
                Err(e) => Err(e),
            };
        }
        let mut tries = 0;
        loop {
            let view = self.transport.open_view()?;
            let blocks = self.read_at(view, &range, written.clone());
            // It may be closed already, to make room for newer ones.
            let closed = self.transport.close_view(view);
            match blocks {
                Err(BlockError::Command(CommandError::ViewClosed(_))) if tries < VIEW_TRIES => tries += 1,
                Ok(blocks) => return closed.map(|()| blocks),
                Err(e) => return Err(e),
            }
        }
    }

    /// The blocks of `range`, of which only those of `written` can be mapped, at a view.
    fn read_at(&self, view: ViewId, range: &Range<u64>, written: Range<u64>) -> Result<PageBuf, BlockError> {
        let all: Vec<Lpid> = written.clone().map(lpid).collect();
        // Mostly all of them are there.
        let (lpids, pages) = match self.transport.read(Some(view), all.clone()) {
            Ok(pages) => (all, pages),
            Err(BlockError::Command(CommandError::Unmapped(_))) => {
                let mapped = self.transport.mapped(view, extent_ranges(written))?;
                let there: HashSet<Lpid> = mapped.into_iter().collect();
                let lpids: Vec<_> = all.into_iter().filter(|l| there.contains(l)).collect();
                let pages = self.transport.read(Some(view), lpids.clone())?;
                (lpids, pages)
            }
            Err(e) => return Err(e),
        };
        let bytes = self.header.block_bytes as usize;
        let mut out = PageBufMut::zeroed((range.end - range.start) as usize * bytes);
        for (l, page) in lpids.into_iter().zip(pages) {
            let at = (lba_of(l) - range.start) as usize * bytes;
            out[at..at + bytes].copy_from_slice(&self.whole(page)?);
        }
        Ok(out.freeze())
    }

    /// Writes whole blocks from `lba` on: all of them or none, and durable on return.
    ///
    /// # Errors
    /// When `data` is not whole blocks, is more than a command moves, does not lie on the drive, or when the
    /// drive fails; then nothing of it is written.
    pub fn write(&self, lba: u64, data: &PageBuf) -> Result<(), BlockError> {
        let bytes = self.header.block_bytes as usize;
        if !data.len().is_multiple_of(bytes) {
            return Err(BlockError::PartOfBlock {
                got_bytes: data.len(),
                block_bytes: self.header.block_bytes,
            });
        }
        let range = self.checked(lba, u32::try_from(data.len() / bytes).unwrap_or(u32::MAX))?;
        self.hand_out_up_to(range.end)?;
        let page = |(i, lba): (usize, u64)| {
            let data = data.slice(i * bytes..(i + 1) * bytes);
            PageWrite { lpid: lpid(lba), data, align: self.align }
        };
        let writes = range.enumerate().map(page).collect();
        self.transport.write(Batch { writes, ..Batch::default() })
    }

    /// Unmaps `count` blocks from `lba` on (none, or any number): they read as zeroes, durably on return. It is
    /// done in steps of up to [`BlockDrive::transfer_blocks_max`] blocks, each whole or not at all, in order.
    ///
    /// # Errors
    /// When they do not lie on the drive, or when the drive fails; then later steps are not done.
    pub fn trim(&self, lba: u64, count: u64) -> Result<(), BlockError> {
        let capacity_blocks = self.header.capacity_blocks;
        let end = lba.checked_add(count).filter(|end| *end <= capacity_blocks);
        let end = end.ok_or(BlockError::OutOfRange { lba, count, capacity_blocks })?;
        let written = self.written_part(&(lba..end));
        for from in written.clone().step_by(self.transfer_blocks_max as usize) {
            let to = (from + u64::from(self.transfer_blocks_max)).min(written.end);
            self.transport.write(Batch { trims: (from..to).map(lpid).collect(), ..Batch::default() })?;
        }
        Ok(())
    }

    /// Every write and trim that returned is durable already; this asks whether the drive still takes writes.
    ///
    /// # Errors
    /// When it does not.
    pub fn flush(&self) -> Result<(), BlockError> {
        self.transport.write(Batch::default())
    }

    /// The blocks of a read or write, if it is one.
    fn checked(&self, lba: u64, count: u32) -> Result<Range<u64>, BlockError> {
        let capacity_blocks = self.header.capacity_blocks;
        let (wide, max) = (u64::from(count), self.transfer_blocks_max);
        if count == 0 || count > max {
            return Err(BlockError::TransferBlocks { got: wide, max });
        }
        match lba.checked_add(wide) {
            Some(end) if end <= capacity_blocks => Ok(lba..end),
            _ => Err(BlockError::OutOfRange { lba, count: wide, capacity_blocks }),
        }
    }

    /// The part of `range` that lies in extents which were handed out: all else reads as zeroes.
    fn written_part(&self, range: &Range<u64>) -> Range<u64> {
        let end = *self.extents.lock() * EXTENT_BLOCKS;
        range.start.min(end)..range.end.min(end)
    }

    /// Sees to it that blocks below `end` have extents. Those behind a gap get theirs too: a mapping page takes
    /// no room before a block in it is written.
    fn hand_out_up_to(&self, end: u64) -> Result<(), BlockError> {
        let needed = end.div_ceil(EXTENT_BLOCKS);
        let mut extents = self.extents.lock();
        if needed > *extents {
            self.transport.allocate(*extents + 1, needed - *extents)?;
            *extents = needed;
        }
        Ok(())
    }

    fn zeroes(&self, count: u32) -> PageBuf {
        PageBufMut::zeroed(count as usize * self.header.block_bytes as usize).freeze()
    }

    /// A page that is a block.
    fn whole(&self, page: PageBuf) -> Result<PageBuf, BlockError> {
        let (got, expected) = (page.len(), self.header.block_bytes);
        if got != expected as usize {
            let what = format!("a block has {got} bytes, expected {expected}");
            return Err(BlockError::Damaged { what });
        }
        Ok(page)
    }
}

/// The page that a block is. Blocks of a drive of 256 TB stay far below 2^48.
fn lpid(lba: u64) -> Lpid {
    Lpid::from_raw(EXTENT_BLOCKS + lba).expect("an LBA was checked against the capacity")
}

/// The block that a page is.
fn lba_of(l: Lpid) -> u64 {
    l.raw() - EXTENT_BLOCKS
}

/// The pages of blocks, extent by extent.
fn extent_ranges(blocks: Range<u64>) -> Vec<PageRange> {
    let mut ranges = Vec::new();
    let mut at = blocks.start;
    while at < blocks.end {
        let first = lpid(at);
        let count = (EXTENT_BLOCKS - u64::from(first.page())).min(blocks.end - at);
        ranges.push(PageRange { extent: first.extent(), first: first.page(), count: count as u16 });
        at += count;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_extents() {
        let parts = |blocks| -> Vec<_> {
            extent_ranges(blocks).iter().map(|r| (r.extent.raw(), r.first, r.count)).collect()
        };
        assert_eq!(parts(0..1024), [(1, 0, 1024)]);
        assert_eq!(parts(1023..2050), [(1, 1023, 1), (2, 0, 1024), (3, 0, 2)]);
        assert_eq!(parts(7..7), []);
        assert_eq!((lpid(2049).extent().raw(), lpid(2049).page(), lba_of(lpid(2049))), (3, 1, 2049));
    }
}
