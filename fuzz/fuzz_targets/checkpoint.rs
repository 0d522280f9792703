//! The checkpoint record, the root, and the tables that are stored as one blob or as a list of descriptors.
#![no_main]

use lode_firmware::fuzz::{Kind, decode_all};
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 6] = [Kind::Checkpoint, Kind::Root, Kind::Open, Kind::Rules, Kind::Sessions, Kind::Summary];

// The first byte selects the structure.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(KINDS[usize::from(*kind) % KINDS.len()], bytes);
    }
});
