//! Tags, and the records of epochs and checkpoints.
#![no_main]

use lode_flash::fuzz::{FuzzTarget, decode_all};
use libfuzzer_sys::fuzz_target;

const KINDS: [FuzzTarget; 2] = [FuzzTarget::Tag, FuzzTarget::Record];

// The first byte selects the structure.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(KINDS[usize::from(*kind) % KINDS.len()], bytes);
    }
});
