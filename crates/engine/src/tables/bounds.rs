//! Bounds of the values of key columns in the pages of a table, which lookups by key keep for a version of the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::Lpid;
use lode_page::{DataType, Value};
use lode_program::key_of;
use parking_lot::Mutex;

/// The bounds of the pages of a version of a table, by key. `None` after the first lookup.
#[derive(Debug, Default)]
pub(super) struct KnownBounds(pub(super) Mutex<BTreeMap<Vec<u16>, Option<Arc<PageBounds>>>>);

/// For some key columns, the bounds of their values in each page.
#[derive(Debug)]
pub(super) struct PageBounds {
    /// The key columns that are in the page index, by their position in the key.
    pub(super) columns: Vec<usize>,
    /// Pages by the least value of the first of these columns.
    pub(super) pages: Vec<BoundedPage>,
    /// Up to each of these pages, the greatest value of that column.
    pub(super) max: Vec<u64>,
    /// Pages without an entry.
    pub(super) unknown: Vec<Lpid>,
}

#[derive(Debug)]
pub(super) struct BoundedPage {
    pub(super) lpid: Lpid,
    /// For each column, the least and the greatest order key. A page without values holds no key and is not listed.
    pub(super) bounds: Vec<(u64, u64)>,
}

impl PageBounds {
    /// The pages that a value within the bounds of the first of the columns is expected to be on, if all such values are as frequent.
    /// It is near 1 in a table that is sorted by that column.
    pub(super) fn pages_a_value(&self) -> f64 {
        let unknown = self.unknown.len() as f64;
        let Some(first) = self.pages.first() else { return unknown };
        let values = |(min, max): (u64, u64)| (max - min) as f64 + 1.0;
        let all = values((first.bounds[0].0, *self.max.last().expect("there is a page")));
        unknown + self.pages.iter().map(|p| values(p.bounds[0])).sum::<f64>() / all
    }

    /// The pages that may hold this key.
    pub(super) fn candidates(&self, values: &[Value], types: &[DataType]) -> Vec<Lpid> {
        let wanted: Vec<Option<u64>> = self.columns.iter().map(|&i| key_of(types[i], &values[i])).collect();
        let mut found = self.unknown.clone();
        // A value without an order key may be anywhere.
        let holds = |page: &&BoundedPage| {
            let each = page.bounds.iter().zip(&wanted);
            each.into_iter().all(|(&(min, max), v)| v.is_none_or(|v| (min..=max).contains(&v)))
        };
        let range = match wanted[0] {
            Some(v) => {
                let end = self.pages.partition_point(|p| p.bounds[0].0 <= v);
                self.max[..end].partition_point(|&max| max < v)..end
            }
            None => 0..self.pages.len(),
        };
        found.extend(self.pages[range].iter().filter(holds).map(|p| p.lpid));
        found
    }
}
