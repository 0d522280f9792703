//! The drive's own pages: their frame, mapping pages, index pages, and the header of a block device.
#![no_main]

use lode_firmware::fuzz::{Kind, decode_all};
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 4] = [Kind::DrivePage, Kind::MapPage, Kind::IndexPage, Kind::BlockHeader];

// The first byte selects the structure.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(KINDS[usize::from(*kind) % KINDS.len()], bytes);
    }
});
