//! Pages of TPC-C: B+-tree leaves of 4 KB with the rows that the running phase writes, plain and compressed.
//!
//! ```text
//!   table (by how often its pages are written) ─► rows (TPC-C clause 1.3, 4.3) ─► a leaf, filled as B+-trees are ─► Snappy
//! ```
//!
//! The paper replays an I/O trace of AsterixDB under TPC-C, which is not published: "the average size of compressed pages was
//! 1.91KB". So this module generates pages: rows as TPC-C fills them, in leaves between half full and full,
//! compressed by Snappy, the default of AsterixDB. How often pages of a table are written follows from the mix of
//! transactions (clause 5.2.3) and the rows that each transaction changes. Hot tables (warehouse, district) stay
//! cached and are left out. Only the mean of 1.91 KB is fitted: the letters of a-strings come from an alphabet that
//! is small enough for this mean. (TPC-C requires 128 characters with no letter favoured. With all letters and
//! digits, Snappy finds nothing to compress.)

use lode_base::{PageBuf, PageBufMut};

use crate::random::Random;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// The mean size of compressed pages in the paper: 1.91 KB.
pub const PACKED_BYTES_MEAN: f64 = 1.91 * 1024.0;
/// The number of different pages. Writes take them in turn.
pub const POOL: usize = 4096;

/// A page as it is written.
#[derive(Clone, Debug)]
pub struct Page {
    /// The compressed page.
    pub packed: PageBuf,
    /// The same bytes at the beginning of a page of 4 KB.
    pub whole: PageBuf,
}

/// A table. Each variant says which rows a transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// Ten rows of New-Order, each on a page of its own.
    Stock,
    /// A row of Payment, ten of Delivery.
    Customer,
    /// Ten rows of New-Order side by side, and those of ten orders of Delivery.
    OrderLine,
    Orders,
    NewOrder,
    /// A row of Payment, appended behind all others: a new page for every eighty rows or so.
    History,
}

/// The number of pages written in a thousand transactions. New-Order is 45 % of the mix, Payment 43 %, Delivery 4 %.
const WRITTEN: [(Table, u64); 6] = [
    (Table::Stock, 4500),
    (Table::Customer, 430 + 400),
    (Table::OrderLine, 450 + 400),
    (Table::Orders, 450 + 400),
    (Table::NewOrder, 450 + 400),
    (Table::History, 5),
];

/// The pages of a seed.
pub fn pool(seed: u64) -> Vec<Page> {
    let mut random = Random(seed);
    let all: u64 = WRITTEN.iter().map(|w| w.1).sum();
    let mut encoder = snap::raw::Encoder::new();
    let page = |_| {
        let mut at = random.below(all);
        let table = WRITTEN.iter().find(|(_, share)| {
            let found = at < *share;
            at = at.saturating_sub(*share);
            found
        });
        let leaf = leaf(table.map_or(Table::Stock, |t| t.0), &mut random);
        let mut packed = encoder.compress_vec(&leaf).expect("4 KB can be compressed");
        if packed.len() >= PAGE_BYTES {
            // As in AsterixDB, a page that does not shrink is stored uncompressed.
            packed = leaf;
        }
        let mut whole = PageBufMut::zeroed(PAGE_BYTES);
        whole[..packed.len()].copy_from_slice(&packed);
        packed.resize(packed.len().max(lode_base::PAGE_BYTES_MIN), 0);
        Page { packed: PageBuf::copy_from(&packed), whole: whole.freeze() }
    };
    (0..POOL).map(page).collect()
}

/// The mean size of the compressed pages, in bytes.
pub fn mean_bytes(pool: &[Page]) -> f64 {
    pool.iter().map(|p| p.packed.len()).sum::<usize>() as f64 / pool.len() as f64
}

/// A leaf: a header, rows by key, free space, offsets of the rows from the end.
fn leaf(table: Table, random: &mut Random) -> Vec<u8> {
    // Random insertion makes leaves between half full and full with a density of 1 / x^2, so they are ln 2 full on
    // average (Yao, 1978).
    let fill = 1.0 / (2.0 - random.fraction());
    let most = (PAGE_BYTES as f64 * fill) as usize;
    let mut page = vec![0u8; PAGE_BYTES];
    let warehouse = random.below(1000) as u32 + 1;
    let district = random.below(10) as u32 + 1;
    let mut key = random.below(90_000) as u32 + 1;
    page[0..4].copy_from_slice(&warehouse.to_le_bytes());
    let (mut end, mut rows) = (32, 0usize);
    let mut row = Vec::with_capacity(700);
    loop {
        row.clear();
        fill_row(table, random, &mut row, (warehouse, district, key));
        if end + row.len() + 2 * (rows + 1) > most {
            break;
        }
        page[end..end + row.len()].copy_from_slice(&row);
        let slot = PAGE_BYTES - 2 * (rows + 1);
        page[slot..slot + 2].copy_from_slice(&(end as u16).to_le_bytes());
        (end, rows, key) = (end + row.len(), rows + 1, key + 1);
    }
    page[4..6].copy_from_slice(&(rows as u16).to_le_bytes());
    page
}

fn int(row: &mut Vec<u8>, v: u32) {
    row.extend(v.to_le_bytes());
}

fn long(row: &mut Vec<u8>, v: u64) {
    row.extend(v.to_le_bytes());
}

/// A string of random length, after its length.
fn text(row: &mut Vec<u8>, random: &mut Random, from: u64, to: u64) {
    const LETTERS: &[u8] = b"ETAOIN";
    let len = from + random.below(to - from + 1);
    row.extend((len as u16).to_le_bytes());
    row.extend((0..len).map(|_| LETTERS[random.below(LETTERS.len() as u64) as usize]));
}

/// A row of TPC-C (clause 1.3), as clause 4.3.3 fills it and transactions change it.
fn fill_row(
    table: Table,
    random: &mut Random,
    row: &mut Vec<u8>,
    (warehouse, district, key): (u32, u32, u32),
) {
    let date = 1_600_000_000_000 + random.below(100_000_000);
    int(row, warehouse);
    match table {
        Table::Stock => {
            int(row, key);
            int(row, 10 + random.below(91) as u32);
            (0..10).for_each(|_| text(row, random, 24, 24));
            int(row, random.below(500) as u32);
            int(row, random.below(100) as u32);
            int(row, random.below(10) as u32);
            text(row, random, 26, 50);
        }
        Table::Customer => {
            int(row, district);
            int(row, key);
            text(row, random, 8, 16);
            row.extend(b"\x02\0OE");
            text(row, random, 8, 15);
            (0..3).for_each(|_| text(row, random, 10, 20));
            text(row, random, 2, 2);
            row.extend(b"\x09\0");
            row.extend(format!("{:04}11111", random.below(10_000)).as_bytes());
            row.extend(format!("{:016}", random.below(10_000_000_000_000_000)).as_bytes());
            long(row, date);
            row.extend(if random.below(10) == 0 { b"\x02\0BC" } else { b"\x02\0GC" });
            long(row, 5_000_000);
            int(row, random.below(5001) as u32);
            long(row, random.below(1_000_000));
            long(row, random.below(1_000_000));
            int(row, random.below(50) as u32);
            int(row, random.below(5) as u32);
            text(row, random, 300, 500);
        }
        Table::OrderLine => {
            int(row, district);
            int(row, key / 10);
            int(row, key % 10 + 1);
            int(row, random.below(100_000) as u32 + 1);
            int(row, warehouse);
            long(row, if random.below(2) == 0 { 0 } else { date });
            int(row, 5);
            long(row, random.below(999_999));
            text(row, random, 24, 24);
        }
        Table::Orders => {
            int(row, district);
            int(row, key);
            int(row, random.below(3000) as u32 + 1);
            long(row, date);
            int(row, random.below(11) as u32);
            int(row, 5 + random.below(11) as u32);
            int(row, 1);
        }
        Table::NewOrder => {
            int(row, district);
            int(row, key);
        }
        Table::History => {
            int(row, random.below(3000) as u32 + 1);
            int(row, district);
            int(row, warehouse);
            int(row, district);
            long(row, date);
            long(row, 1000);
            text(row, random, 12, 24);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_compress_to_what_the_paper_says_and_come_back() {
        let pool = pool(1);
        let mean = mean_bytes(&pool);
        assert!((mean / PACKED_BYTES_MEAN - 1.0).abs() < 0.02, "{mean} bytes on average");
        let mut decoder = snap::raw::Decoder::new();
        for p in pool.iter().step_by(50) {
            let leaf = decoder.decompress_vec(&p.packed).expect("it is Snappy");
            assert_eq!(leaf.len(), PAGE_BYTES);
            assert_eq!(&p.whole[..p.packed.len()], &p.packed[..]);
        }
    }
}
