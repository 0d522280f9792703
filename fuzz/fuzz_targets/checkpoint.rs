//! Checkpoint record, root, and the tables that are one blob or a row of descriptors.
#![no_main]

use lode_firmware::fuzz::{Kind, decode_all};
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 6] = [Kind::Checkpoint, Kind::Root, Kind::Open, Kind::Rules, Kind::Sessions, Kind::Summary];

// The first byte says which.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(KINDS[usize::from(*kind) % KINDS.len()], bytes);
    }
});
