//! Pages that a B+-tree index names for the keys of a join: an index look-up join, a build side at a time.
//!
//! ```text
//!   keys of the build side ─► sorted, each looked up once ─► pages that have them ─► a partition reads those of its pages
//! ```
//!
//! It is worth it where keys are few and their rows far apart. The page index excludes pages of which it knows bounds; a B+-tree
//! knows each value. Source: batched key access of MySQL, with the whole build side as the join buffer.

use std::sync::OnceLock;

use datafusion::error::Result;
use lode_command::PageRange;
use lode_program::Expr;

use super::access::with_implied;
use super::{ScanSpec, engine_error};

/// What an index says to all partitions of a scan. The first that asks looks the keys up.
#[derive(Debug, Default)]
pub(super) struct LookedUp(OnceLock<Option<Vec<PageRange>>>);

impl LookedUp {
    /// Those of `pages` that may have a row with one of the keys, and whether an index said so.
    ///
    /// # Errors
    /// When the drive fails.
    pub(super) fn of(
        &self,
        spec: &ScanSpec,
        keys: &[Expr],
        pages: Vec<PageRange>,
    ) -> Result<(Vec<PageRange>, bool)> {
        if keys.is_empty() {
            return Ok((pages, false));
        }
        if self.0.get().is_none() {
            let found = look_up(spec, keys)?;
            // Another partition may have been faster. It found the same.
            let _ = self.0.set(found);
        }
        Ok(match self.0.get().expect("it was set") {
            Some(found) => (within(&pages, found), true),
            None => (pages, false),
        })
    }
}

fn look_up(spec: &ScanSpec, keys: &[Expr]) -> Result<Option<Vec<PageRange>>> {
    let mut terms = match with_implied(spec.filter.as_ref(), &spec.implied) {
        Some(Expr::And(terms)) => terms,
        Some(one) => vec![one],
        None => Vec::new(),
    };
    terms.extend(keys.iter().cloned());
    let Some(most) = spec.index_pages_max else { return Ok(None) };
    let found = spec.snapshot.index_pages_by(&spec.table, &Expr::And(terms), most, spec.path);
    Ok(found.map_err(engine_error)?.map(|found| found.pages))
}

/// The pages that are in both.
fn within(pages: &[PageRange], found: &[PageRange]) -> Vec<PageRange> {
    let mut both = Vec::new();
    for p in pages {
        for f in found.iter().filter(|f| f.extent == p.extent) {
            let first = p.first.max(f.first);
            let end = (p.first + p.count).min(f.first + f.count);
            if first < end {
                both.push(PageRange { extent: p.extent, first, count: end - first });
            }
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use lode_base::ExtentId;

    use super::*;

    #[test]
    fn pages_in_both_are_each_there_once() {
        let range = |e, first, count| PageRange { extent: ExtentId::new(e).unwrap(), first, count };
        let pages = [range(1, 0, 10), range(2, 5, 5), range(1, 20, 10), range(3, 1000, 24)];
        let found = [range(3, 1023, 1), range(1, 2, 1), range(1, 8, 15), range(2, 0, 5)];
        let expected = [range(1, 2, 1), range(1, 8, 2), range(1, 20, 3), range(3, 1023, 1)];
        assert_eq!(within(&pages, &found), expected);
        assert_eq!(within(&pages, &[]), []);
    }
}
