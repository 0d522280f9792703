//! The drive's own pages: their frame, mapping pages, index pages, and the header of a block device.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lode_firmware::fuzz::{Structure, decode_all};

const STRUCTURES: [Structure; 4] =
    [Structure::DrivePage, Structure::MapPage, Structure::IndexPage, Structure::BlockHeader];

// The first byte selects the structure.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(STRUCTURES[usize::from(*kind) % STRUCTURES.len()], bytes);
    }
});
