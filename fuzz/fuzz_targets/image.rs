//! The image header: a single superblock, and a whole image with forged structures that is then opened.
#![no_main]

use lode_flash::fuzz::{FuzzTarget, decode_all};
use libfuzzer_sys::fuzz_target;

const KINDS: [FuzzTarget; 2] = [FuzzTarget::Superblock, FuzzTarget::Image];

// The first byte selects the target.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(KINDS[usize::from(*kind) % KINDS.len()], bytes);
    }
});
