//! Why a block command, or a block drive, failed.

use lode_command::{CommandError, DeviceError};

/// Why a block command, or a block drive, failed. Each message is one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BlockError {
    /// Blocks that are not there.
    #[error("blocks {lba} to {lba} + {count} are beyond the drive, which has {capacity_blocks}")]
    OutOfRange {
        /// The first.
        lba: u64,
        /// How many.
        count: u64,
        /// How many there are.
        capacity_blocks: u64,
    },
    /// A read or write of no block, or of more than go as one.
    #[error("a command of {got} blocks; 1 to {max} are allowed")]
    TransferBlocks {
        /// Asked for.
        got: u64,
        /// At most.
        max: u32,
    },
    /// Bytes that are not whole blocks.
    #[error("{got_bytes} bytes are not a multiple of the block size, {block_bytes}")]
    PartOfBlock {
        /// Bytes given.
        got_bytes: usize,
        /// Bytes of a block.
        block_bytes: u32,
    },
    /// A block size that does not exist, or that the drive takes no pages of.
    #[error(
        "blocks of {got} bytes; 4096 and 16384 are possible, within the drive's limits of pages and batches"
    )]
    BlockBytes {
        /// Asked for.
        got: u32,
    },
    /// No blocks, or more than fit.
    #[error("a capacity of {got} blocks; the medium has room for 1 to {max}")]
    Capacity {
        /// Asked for.
        got: u64,
        /// At most.
        max: u64,
    },
    /// Blocks are made of an empty drive.
    #[error("the drive is not empty: {extents} extents have an owner")]
    NotEmpty {
        /// Extents with an owner.
        extents: usize,
    },
    /// The drive holds something else, or nothing.
    #[error("the drive was not made for blocks: its {extents} extents have other owners")]
    NoBlocks {
        /// Extents with an owner.
        extents: usize,
    },
    /// What is kept of the blocks is not what was written.
    #[error("the block drive is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// The drive refused or failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The drive cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
