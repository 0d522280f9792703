//! The filters that scans of a table had last: a sample of what is asked of it.
//!
//! They are in memory alone, and all versions of the table share them: some 64 KB at most, usually less than 10.

use std::collections::VecDeque;
use std::sync::Arc;

use lode_program::Expr;
use parking_lot::Mutex;

/// Filters that are kept of a table.
const FILTERS_MAX: usize = 64;
/// Filters that take more bytes on the link are not kept.
const FILTER_BYTES_MAX: usize = 4096;

/// The last filters, oldest first, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentFilters(Arc<Mutex<VecDeque<Expr>>>);

impl RecentFilters {
    /// Keeps a filter, in the place of the oldest if there are many. IS NOT NULL alone hardly ever leaves a page out, and is not kept.
    pub(super) fn note(&self, filter: &Expr) {
        if matches!(filter, Expr::Not(of) if matches!(**of, Expr::IsNull(_))) {
            return;
        }
        let mut filters = self.0.lock();
        if filters.back() == Some(filter) || filter.link_bytes() > FILTER_BYTES_MAX {
            return;
        }
        match filters.iter().position(|f| f == filter) {
            Some(at) => drop(filters.remove(at)),
            None if filters.len() == FILTERS_MAX => drop(filters.pop_front()),
            None => {}
        }
        filters.push_back(filter.clone());
    }

    /// Those that are kept, oldest first.
    pub(super) fn all(&self) -> Vec<Expr> {
        self.0.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use lode_page::{DataType, Value};
    use lode_program::CompareOp;

    use super::*;

    fn filter(v: i64) -> Expr {
        let constant = Expr::Const(Value::Int(v), DataType::Integer);
        Expr::compare(CompareOp::Eq, Expr::Column(0), constant)
    }

    #[test]
    fn the_last_filters_are_kept_once_each() {
        let filters = RecentFilters::default();
        for v in 0..100 {
            filters.note(&filter(v));
            filters.note(&filter(0));
        }
        let kept = filters.all();
        assert_eq!((kept.len(), &kept[0], &kept[63]), (64, &filter(37), &filter(0)));
        let wide = Value::Bytes(vec![b'x'; 5000].into());
        filters.note(&Expr::compare(CompareOp::Eq, Expr::Column(1), Expr::Const(wide, DataType::Text)));
        assert_eq!(filters.all(), kept);
    }
}
