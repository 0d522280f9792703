//! The image header: superblock alone, and a whole image whose structures are forged and which is then opened.
#![no_main]

use lode_flash::fuzz::{Kind, decode_all};
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 2] = [Kind::Superblock, Kind::Image];

// The first byte says which.
fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        decode_all(KINDS[usize::from(*kind) % KINDS.len()], bytes);
    }
});
