//! A log-structured store in the host, on a drive of fixed blocks: what a drive of batches makes needless.
//!
//! ```text
//!   engine ─► Command ─► Lss: mapping, segments, cleaning, checkpoints, recovery ─► packets of blocks ─► any device
//! ```
//!
//! This is the *Block* of ELEOS §IX: the same drive behind a block-at-a-time interface, with log structuring above it in the
//! host's memory and on its CPU. It answers as a [`lode_command::Device`], so that the same engine runs on it.

mod blocks;
mod checkpoint;
mod clean;
mod clock;
mod device;
mod error;
mod layout;
mod map;
mod options;
mod recover;
mod store;

pub use blocks::{BLOCK_BYTES, BlockCounts, BlockOptions, Blocks, PACKET_BLOCKS};
pub use clock::Clock;
pub use device::Lss;
pub use error::LssError;
pub use options::{Cleaning, LssInfo, LssOptions};
