//! Tags, and the records of epochs and checkpoints.
#![no_main]

use lode_flash::fuzz::{Kind, decode_all};
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 2] = [Kind::Tag, Kind::Record];

// The first byte says which.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(KINDS[usize::from(*kind) % KINDS.len()], bytes);
    }
});
