//! A log-structured store in the host, on a drive of fixed blocks. A drive of batches makes such a store unnecessary.
//!
//! ```text
//!   engine ─► Command ─► Lss: mapping, segments, cleaning, checkpoints, recovery ─► packets of blocks ─► any device
//! ```
//!
//! This is the *Block* configuration of ELEOS §IX: the same drive behind a block-at-a-time interface, and log
//! structuring above it in the host's memory and on the host's CPU. [`Lss`] implements [`lode_command::Device`], so the
//! same engine runs on it.

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
