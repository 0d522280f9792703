//! B+-tree nodes, both with corrected magic, version and LPID and unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    lode_page::node::fuzz(bytes);
    let mut page = bytes.to_vec();
    page.resize(page.len().max(64), 0);
    page[..5].copy_from_slice(b"LBTN\x01");
    page[8..16].copy_from_slice(&7u64.to_le_bytes());
    page[34..40].fill(0);
    lode_page::node::fuzz(&page);
});
