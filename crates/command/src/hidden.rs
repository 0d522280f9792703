//! Hidden rows: rows of pages that a scan does not show. Either the host holds newer versions of these rows, or it
//! knows that they are deleted.
//!
//! ```text
//!   numbers:  | 4 9 70 | 0 | 5 6 7 8 |        row numbers within a page, ascending
//!   pages:    5:1 -> 3   5:2 -> 4  7:0 -> 8   each page with the end of its row numbers in the list above
//! ```
//!
//! Invariants: pages ascend. The row numbers of a page ascend. Every page in the list hides at least one row.

use lode_base::Lpid;

use crate::PageRange;

/// The row numbers that a scan does not show, by page. A row number that its page does not have hides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenRows {
    pages: Vec<(Lpid, u32)>,
    numbers: Vec<u32>,
}

impl HiddenRows {
    /// Adds a page, and hides some of its rows.
    ///
    /// # Panics
    /// When the page is not above the last one, or the numbers do not ascend.
    pub fn push(&mut self, lpid: Lpid, numbers: impl IntoIterator<Item = u32>) {
        assert!(self.pages.last().is_none_or(|(last, _)| *last < lpid), "pages that hide rows ascend");
        let from = self.numbers.len();
        self.numbers.extend(numbers);
        let added = &self.numbers[from..];
        assert!(added.windows(2).all(|pair| pair[0] < pair[1]), "numbers of hidden rows ascend");
        if !added.is_empty() {
            let end = u32::try_from(self.numbers.len()).expect("fewer than 2^32 rows are hidden");
            self.pages.push((lpid, end));
        }
    }

    /// Returns whether no row is hidden.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns the number of hidden rows of all pages.
    pub fn rows(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the hidden row numbers of a page, ascending.
    pub fn of(&self, lpid: Lpid) -> &[u32] {
        self.pages.binary_search_by_key(&lpid, |(at, _)| *at).map_or(&[], |at| self.numbers_at(at))
    }

    /// Returns the pages with hidden rows, ascending, and their row numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Lpid, &[u32])> {
        (0..self.pages.len()).map(|at| (self.pages[at].0, self.numbers_at(at)))
    }

    /// Returns the hidden rows of the pages in these ranges.
    pub fn within(&self, ranges: &[PageRange]) -> Self {
        let mut found: Vec<usize> = Vec::new();
        for r in ranges.iter().filter(|r| r.count > 0) {
            let (first, last) = (r.extent.page(r.first), r.extent.page(r.first + (r.count - 1)));
            let from = self.pages.partition_point(|(at, _)| *at < first);
            found.extend((from..self.pages.len()).take_while(|at| self.pages[*at].0 <= last));
        }
        found.sort_unstable();
        found.dedup();
        let mut part = Self::default();
        for at in found {
            part.push(self.pages[at].0, self.numbers_at(at).iter().copied());
        }
        part
    }

    /// Returns the bytes on the link: 12 per page and 4 per row.
    pub fn link_bytes(&self) -> usize {
        self.pages.len() * 12 + self.numbers.len() * 4
    }

    fn numbers_at(&self, at: usize) -> &[u32] {
        let from = at.checked_sub(1).map_or(0, |before| self.pages[before].1);
        &self.numbers[from as usize..self.pages[at].1 as usize]
    }
}

#[cfg(test)]
mod tests {
    use lode_base::ExtentId;

    use super::*;

    fn lpid(extent: u64, page: u16) -> Lpid {
        ExtentId::new(extent).unwrap().page(page)
    }

    fn some() -> HiddenRows {
        let mut hidden = HiddenRows::default();
        hidden.push(lpid(5, 1), [4, 9, 70]);
        hidden.push(lpid(5, 2), [0]);
        hidden.push(lpid(5, 3), []);
        hidden.push(lpid(7, 0), 5..9);
        hidden
    }

    #[test]
    fn each_page_has_its_own_numbers() {
        let hidden = some();
        assert_eq!((hidden.rows(), hidden.is_empty(), hidden.link_bytes()), (8, false, 3 * 12 + 8 * 4));
        assert_eq!(hidden.of(lpid(5, 1)), [4, 9, 70]);
        assert_eq!(hidden.of(lpid(5, 2)), [0]);
        assert_eq!(hidden.of(lpid(7, 0)), [5, 6, 7, 8]);
        for without in [lpid(5, 0), lpid(5, 3), lpid(9, 9)] {
            assert_eq!(hidden.of(without), [0; 0]);
        }
        assert!(hidden.iter().map(|(at, _)| at).eq([lpid(5, 1), lpid(5, 2), lpid(7, 0)]));
        assert!(HiddenRows::default().is_empty());
    }

    #[test]
    fn a_part_has_the_pages_of_its_ranges_alone() {
        let range = |extent, first, count| PageRange { extent: ExtentId::new(extent).unwrap(), first, count };
        let part = some().within(&[range(7, 0, 1024), range(5, 2, 100), range(5, 2, 1)]);
        assert!(part.iter().map(|(at, _)| at).eq([lpid(5, 2), lpid(7, 0)]));
        assert_eq!(part.of(lpid(7, 0)), [5, 6, 7, 8]);
        assert!(some().within(&[range(6, 0, 1024)]).is_empty());
    }

    #[test]
    #[should_panic(expected = "ascend")]
    fn numbers_that_do_not_ascend_are_a_bug() {
        some().push(lpid(8, 0), [3, 3]);
    }
}
