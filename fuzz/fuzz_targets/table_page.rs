//! Table pages: header, directory and every column, both with a corrected checksum and unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lode_base::checksum::{crc32c_seeded, seed_of};
use lode_base::{Lpid, PageBuf};
use lode_page::{TablePage, decode_page, encode};

fn read(lpid: Lpid, bytes: &[u8]) {
    let page = PageBuf::copy_from(bytes);
    let _ = TablePage::open_prefix(lpid, bytes);
    let Ok((table, columns)) = decode_page(lpid, &page) else { return };
    for c in &columns {
        for row in 0..c.rows().min(64) {
            let _ = c.value(row);
        }
    }
    if columns.is_empty() {
        return;
    }
    // A decoded page must be the same after encoding and decoding again.
    let Ok(again) = encode(table.meta(), &columns, 1 << 20) else { return };
    let (_, same) = decode_page(lpid, &again).expect("what was written can be read");
    for (a, b) in columns.iter().zip(&same) {
        assert_eq!((a.rows(), a.data_type()), (b.rows(), b.data_type()));
        assert!((0..a.rows().min(64)).all(|row| format!("{:?}", a.value(row)) == format!("{:?}", b.value(row))));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let lpid = Lpid::from_raw(5 << 10 | 3).expect("48 bits");
    read(lpid, bytes);
    let mut page = bytes.to_vec();
    page.resize(page.len().max(64), 0);
    page[..4].copy_from_slice(b"LTAB");
    let bytes = page.len() as u32;
    page[12..16].copy_from_slice(&bytes.to_le_bytes());
    page[16..24].copy_from_slice(&lpid.raw().to_le_bytes());
    page[42..60].fill(0);
    let columns = usize::from(u16::from_le_bytes([page[40], page[41]]) % 8);
    page[40..42].copy_from_slice(&(columns as u16).to_le_bytes());
    let end = (64 + 32 * columns).min(page.len());
    let crc = crc32c_seeded(crc32c_seeded(seed_of(lpid.raw()), &page[..60]), &page[64..end]);
    page[60..64].copy_from_slice(&crc.to_le_bytes());
    read(lpid, &page);
});
