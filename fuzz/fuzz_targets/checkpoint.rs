//! The checkpoint record, the root, and the tables that are stored as one blob or as a list of descriptors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lode_firmware::fuzz::{Structure, decode_all};

const STRUCTURES: [Structure; 6] = [
    Structure::Checkpoint,
    Structure::Root,
    Structure::Open,
    Structure::Rules,
    Structure::Sessions,
    Structure::Summary,
];

// The first byte selects the structure.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(STRUCTURES[usize::from(*kind) % STRUCTURES.len()], bytes);
    }
});
