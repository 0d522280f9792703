//! Log pages.
#![no_main]

use lode_firmware::fuzz::{Structure, decode_all};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    decode_all(Structure::LogPage, bytes);
});
