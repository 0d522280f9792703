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

/// Rows of a page on average.
pub fn rows_per_page(rows: u64, pages: u64) -> f64 {
    rows as f64 / pages.max(1) as f64
}

/// The probability that a page of so many rows has none of those that pass, where a row passes with probability `passing` whatever the others
/// do.
pub fn page_lacks(passing: f64, rows: f64) -> f64 {
    (1.0 - passing).powf(rows)
}

/// The probability that all discounts of a page lie on one side of Q6's: of 0.00 to 0.10, those from 0.05 to 0.07 pass.
pub fn q6_by_range(rows: u32) -> f64 {
    let all = |of: f64| (of / 11.0).powi(rows as i32);
    all(5.0) + all(3.0)
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

    #[test]
    fn no_page_lacks_what_many_rows_have() {
        let power = |p: f64| p.log10().floor();
        assert_eq!((power(q6_by_range(120)), power(page_lacks(3.0 / 11.0, 120.0))), (-42.0, -17.0));
        assert_eq!(page_lacks(0.5, 2.0), 0.25);
        assert_eq!(rows_per_page(240, 2), 120.0);
    }
}
