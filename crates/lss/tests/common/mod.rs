//! Helpers of the tests: drives for blocks, and stores on them.
#![allow(dead_code, unreachable_pub, missing_docs, unused_imports)]

use std::sync::Arc;

use lode_base::Geometry;
pub use lode_base::random::Random;
pub use lode_command::testing::{allocate, close_view, get, open_view, page, run, write};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_lss::{BlockOptions, Cleaning, Clock, Lss, LssError, LssOptions};

/// The number of blocks on the drives of these tests.
pub const BLOCKS: u64 = 2 + 32 * 32;

pub fn drive_options() -> DriveOptions {
    DriveOptions { checkpoint_log_bytes: 200 << 10, erased_kept: 2, ..DriveOptions::default() }
}

pub fn geometry() -> Geometry {
    Geometry::new(2, 1, 1, 4096, 4096, 256 << 10, 64).unwrap()
}

pub fn drive() -> Drive {
    Drive::format(Medium::memory(geometry()), drive_options()).unwrap()
}

/// Options with small segments, so that cleaning happens.
pub fn options(cleaning: Cleaning, whole_blocks: bool) -> LssOptions {
    LssOptions {
        segment_blocks: 32,
        whole_blocks,
        cleaning,
        checkpoint_bytes: Some(400 << 10),
        views_max: 4,
        ..LssOptions::default()
    }
}

pub fn format(d: &Drive, blocks: BlockOptions, options: LssOptions) -> Lss {
    Lss::format(Arc::new(d.clone()), BLOCKS, blocks, options, 99, &mut Clock::default()).unwrap()
}

pub fn open(d: &Drive, blocks: BlockOptions, options: LssOptions) -> Result<Lss, LssError> {
    Lss::open(Arc::new(d.clone()), BLOCKS, blocks, options, &mut Clock::default())
}
