//! Pages that a scan must read, by arithmetic: from the rows of a page and the dates of the rows, without a drive.
//!
//! ```text
//!   rows in order of the key:   |....|....|..xx|xxxx|xx..|....|      x: rows in the range
//!   pages of 4 rows                       └─ 3 of 6 ──┘
//! ```

/// Pages of a table in order of its key that have a row of the range: of `before` rows that come before it and `within` rows in it, with
/// so many rows on each page.
pub fn sorted_range(before: u64, within: u64, rows_per_page: f64) -> f64 {
    if within == 0 {
        return 0.0;
    }
    let page = |row: u64| (row as f64 / rows_per_page).floor();
    page(before + within - 1) - page(before) + 1.0
}

/// Bytes of the paper's tree of rows, full as a tree is that grew by inserts (ln 2): a key and an address for each row. Inner nodes are few.
pub fn tree_of_rows_bytes(rows: u64, key_bytes: u64, address_bytes: u64) -> f64 {
    (rows * (key_bytes + address_bytes)) as f64 / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_that_the_range_touches() {
        assert_eq!(sorted_range(10, 8, 4.0), 3.0);
        assert_eq!(
            (sorted_range(8, 4, 4.0), sorted_range(7, 2, 4.0), sorted_range(5, 0, 4.0)),
            (1.0, 2.0, 0.0)
        );
        assert_eq!(tree_of_rows_bytes(1000, 4, 8).round(), 17_312.0);
    }
}
