//! Composites of the page index: which kinds it keeps of which columns, chosen by filters that were asked.
//!
//! ```text
//!   filters ─┐
//!   pages   ─┴► pairs of which no row passes, and which the page index does not leave out yet
//!   columns × kinds × sizes ─► for each candidate, the pairs that it leaves out
//!                              ─► again and again the one with the most new pairs a byte, until none is left or has room
//! ```
//!
//! A column has one kind at most. A larger size takes the place of a smaller one where it leaves out more. A composite has one bitmap at
//! most, since CREATE INDEX names the domain of one.

use std::collections::{BTreeMap, BTreeSet};

use lode_base::Lpid;
use lode_base::wire::Writer;
use lode_command::CommandError;
use lode_page::wire::put_value;
use lode_page::{Constant, Schema};
use lode_program::index::bitmap::DOMAIN_MAX;
use lode_program::index::{ENTRY_BYTES_MAX, ENTRY_HEADER_BYTES, IndexEntry, IndexRule, KeptColumn, verdict};
use lode_program::{Expr, Meter, Passed, Program, Verdict};

use super::definition::Summary;
use super::delta::is_delta;
use super::evaluate::Numbered;
use super::table::Table;
use super::write::longest_entry;
use crate::EngineError;
use crate::trees::Snapshot;

/// Bytes of beginnings that are tried.
const PREFIX_BYTES: [u8; 3] = [12, 16, 32];
/// Bytes of the smallest filter that is tried. Each further one has twice as many.
const FILTER_BYTES_MIN: u16 = 8;

/// What a composite keeps, and what it leaves out of the pages that it was chosen by.
#[derive(Clone, Debug, PartialEq)]
pub struct Composite {
    /// What it keeps of each column, by column.
    pub columns: Vec<(u16, Summary)>,
    /// Bytes that it adds to the entry of each page.
    pub bytes: usize,
    /// Pairs of a filter and a page of which no row passes, and which the page index does not leave out without the composite.
    pub unneeded: usize,
    /// Those of them that it leaves out.
    pub left_out: usize,
}

/// What may be kept of a column.
struct Candidate {
    column: u16,
    summary: Summary,
    bytes: usize,
    /// The pairs that it leaves out, a bit each.
    left_out: Vec<bool>,
}

impl Snapshot {
    /// Notes that the table was asked for rows that pass this filter.
    pub fn note_filter(&self, t: &Table, filter: &Expr) {
        t.recent_filters.note(filter);
    }

    /// Which kinds the page index should keep of these columns, in at most so many bytes of each entry, so that scans with the filters
    /// of late leave out most of these pages. `None` if no filter was noted that looks at one of the columns.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub fn composite(
        &self,
        t: &Table,
        pages: &[Lpid],
        columns: &[u16],
        bytes: usize,
    ) -> Result<Option<Composite>, EngineError> {
        let asks = |p: &Program| p.filter_columns().iter().any(|c| columns.contains(c));
        let check = |f| Program::check(t.schema().clone(), Some(f), Vec::new(), false).ok();
        let filters: Vec<Program> =
            t.recent_filters.all().into_iter().filter_map(check).filter(asks).collect();
        if filters.is_empty() {
            return Ok(None);
        }
        let rule = t.index_rule()?;
        let asked = filters.iter().flat_map(Program::filter_columns);
        let numbers: BTreeSet<u16> = asked.chain(rule.columns()).chain(columns).copied().collect();
        let numbers: Vec<u16> = numbers.into_iter().collect();
        let mut drawn: Vec<Numbered<'_>> = Vec::with_capacity(pages.len());
        for lpid in pages.iter().filter(|lpid| !is_delta(lpid.extent())) {
            match self.read_columns(*lpid, &numbers) {
                Ok(page) if page.rows == 0 => {}
                Ok(page) => drawn.push(Numbered { numbers: &numbers, page }),
                // An extent may have places without a page.
                Err(EngineError::Drive(CommandError::Unmapped(_))) => {}
                Err(e) => return Err(e),
            }
        }
        let trial = Trial::of(t, &filters, &drawn, rule)?;
        // Pages are filled to what they have on average, or more.
        let page_bytes = (t.bytes() / t.pages().max(1)) as usize;
        let most = longest_entry(page_bytes).min(ENTRY_BYTES_MAX);
        let room = bytes.min(most.saturating_sub(trial.rule.entry_bytes()));
        let mut candidates = Vec::new();
        for &column in columns {
            for summary in summaries(t, column, &drawn, room) {
                candidates.extend(trial.candidate(t, column, summary));
            }
        }
        Ok(Some(choose(&candidates, trial.pairs.len(), room)))
    }
}

/// The pairs of a filter and a page by which candidates are compared.
struct Trial<'a> {
    filters: &'a [Program],
    pages: &'a [Numbered<'a>],
    /// The page index as it is.
    rule: IndexRule,
    /// Filter and page of each pair.
    pairs: Vec<(usize, usize)>,
}

impl<'a> Trial<'a> {
    fn of(
        t: &Table,
        filters: &'a [Program],
        pages: &'a [Numbered<'a>],
        rule: IndexRule,
    ) -> Result<Self, EngineError> {
        let mut pairs = Vec::new();
        for (p, page) in pages.iter().enumerate() {
            let entry = rule.entry(&mut page.clone()).map_err(|e| invalid(t, &e))?;
            for (f, filter) in filters.iter().enumerate() {
                let passed = Passed::of(filter, &mut page.clone(), &mut Meter::default());
                let no_row_passes = passed.map_err(|e| invalid(t, &e))?.count() == 0;
                if no_row_passes && verdict(filter, &rule, &entry) != Verdict::No {
                    pairs.push((f, p));
                }
            }
        }
        Ok(Self { filters, pages, rule, pairs })
    }

    /// What keeping this of a column would leave out; `None` if the page index cannot keep it, or has it already.
    fn candidate(&self, t: &Table, column: u16, summary: Summary) -> Option<Candidate> {
        let has = |(of, s): (u16, &Summary)| of == column && s.kind().id() == summary.kind().id();
        if t.summaries().any(has) || summary == Summary::Range && t.index_columns().contains(&column) {
            return None;
        }
        let rule = rule_of(t.schema(), column, &summary)?;
        let entries: Vec<IndexEntry> =
            self.pages.iter().map(|page| rule.entry(&mut page.clone()).ok()).collect::<Option<_>>()?;
        let leaves_out =
            |&(f, p): &(usize, usize)| verdict(&self.filters[f], &rule, &entries[p]) == Verdict::No;
        let left_out: Vec<bool> = self.pairs.iter().map(leaves_out).collect();
        let bytes = rule.entry_bytes() - ENTRY_HEADER_BYTES;
        left_out.contains(&true).then_some(Candidate { column, summary, bytes, left_out })
    }
}

/// The rule of entries that have nothing but this of a column; `None` if its kind cannot keep it.
fn rule_of(schema: &Schema, column: u16, summary: &Summary) -> Option<IndexRule> {
    let (kind, form) = (summary.kind(), summary.form());
    let t = schema.columns[usize::from(column)].data_type;
    let can_keep = kind.keeps(t) && kind.check_form(t, &form).is_ok();
    can_keep
        .then(|| IndexRule::of_kinds(schema.clone(), vec![(kind, vec![KeptColumn { column, form }])]).ok())?
}

/// All that is tried of a column.
fn summaries(t: &Table, column: u16, pages: &[Numbered<'_>], room: usize) -> Vec<Summary> {
    let mut all = vec![Summary::Range];
    all.extend(PREFIX_BYTES.map(|bytes| Summary::Prefix { bytes }));
    let sizes = || std::iter::successors(Some(FILTER_BYTES_MIN), |n| n.checked_mul(2));
    for bytes in sizes().take_while(|n| usize::from(*n) <= room) {
        all.push(Summary::Bloom { bytes });
        all.push(Summary::Trigram { bytes });
    }
    all.extend(values(column, pages).map(|values| Summary::Bitmap { values }));
    let t = t.schema().columns[usize::from(column)].data_type;
    all.retain(|s| s.kind().keeps(t));
    all
}

/// The different values of a column in these pages; `None` if they are more than a domain has, or if half of the pages have values that
/// the other half has not: then pages that were not drawn have others as well.
fn values(column: u16, pages: &[Numbered<'_>]) -> Option<Vec<Constant>> {
    let mut values: BTreeMap<Vec<u8>, Constant> = BTreeMap::new();
    let mut bytes = Vec::new();
    let first_half = pages.len().div_ceil(2);
    for (n, page) in pages.iter().enumerate() {
        let column = page.of(column);
        for row in (0..column.rows()).filter(|&row| !column.is_null(row)) {
            let value = column.value(row);
            bytes.clear();
            put_value(&mut Writer::new(&mut bytes), &value);
            if !values.contains_key(&bytes) {
                if values.len() == DOMAIN_MAX || n >= first_half {
                    return None;
                }
                values.insert(bytes.clone(), Constant::from(value));
            }
        }
    }
    (!values.is_empty()).then(|| values.into_values().collect())
}

/// The composite of at most `room` bytes that leaves out the most of so many pairs, as far as taking the best next step finds it.
fn choose<'a>(candidates: &'a [Candidate], pairs: usize, room: usize) -> Composite {
    let mut taken: Vec<&'a Candidate> = Vec::new();
    let left_out =
        |taken: &[&Candidate]| (0..pairs).filter(|&pair| taken.iter().any(|c| c.left_out[pair])).count();
    let bytes = |taken: &[&Candidate]| taken.iter().map(|c| c.bytes).sum::<usize>();
    loop {
        let (so_far, used) = (left_out(&taken), bytes(&taken));
        let step = |c: &'a Candidate| {
            let mut next: Vec<&'a Candidate> = taken.clone();
            next.retain(|t| t.column != c.column);
            next.push(c);
            let bitmaps = next.iter().filter(|c| matches!(c.summary, Summary::Bitmap { .. })).count();
            let (gained, added) = (left_out(&next).checked_sub(so_far)?, bytes(&next).saturating_sub(used));
            let fits = bytes(&next) <= room && bitmaps <= 1 && gained > 0;
            fits.then(|| (gained as f64 / added.max(1) as f64, next))
        };
        let best = candidates.iter().filter_map(step).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, next)) = best else { break };
        taken = next;
    }
    // What was taken early may leave out nothing that what was taken later does not.
    let mut n = 0;
    while n < taken.len() {
        let mut others = taken.clone();
        others.remove(n);
        if left_out(&others) == left_out(&taken) {
            taken = others;
        } else {
            n += 1;
        }
    }
    let mut columns: Vec<(u16, Summary)> = taken.iter().map(|c| (c.column, c.summary.clone())).collect();
    columns.sort_by_key(|(column, _)| *column);
    Composite { columns, bytes: bytes(&taken), unneeded: pairs, left_out: left_out(&taken) }
}

fn invalid(t: &Table, e: &dyn std::fmt::Display) -> EngineError {
    EngineError::invalid(t.name(), e.to_string())
}

#[cfg(test)]
mod tests {
    use lode_page::Value;

    use super::*;

    fn candidate(column: u16, summary: Summary, bytes: usize, left_out: &str) -> Candidate {
        Candidate { column, summary, bytes, left_out: left_out.chars().map(|c| c == 'x').collect() }
    }

    fn bitmap() -> Summary {
        Summary::Bitmap { values: vec![Constant::from(Value::Int(1))] }
    }

    #[test]
    fn the_best_for_its_bytes_is_taken_as_far_as_there_is_room() {
        let candidates = [
            candidate(3, Summary::Bloom { bytes: 8 }, 8, "x...."),
            candidate(3, Summary::Bloom { bytes: 16 }, 16, "xxx.."),
            candidate(3, Summary::Bloom { bytes: 32 }, 32, "xxx.."),
            candidate(1, Summary::Trigram { bytes: 20 }, 20, "...x."),
            candidate(7, Summary::Range, 4, "x...."),
        ];
        let of = |room| choose(&candidates, 5, room);
        assert_eq!(of(3), Composite { columns: Vec::new(), bytes: 0, unneeded: 5, left_out: 0 });
        assert_eq!((of(4).columns, of(4).left_out), (vec![(7, Summary::Range)], 1));
        // The range was taken first, and leaves out nothing of its own once the filter is there.
        assert_eq!(
            (of(20).columns, of(20).bytes, of(20).left_out),
            (vec![(3, Summary::Bloom { bytes: 16 })], 16, 3)
        );
        let all = of(60);
        let bloom = (3, Summary::Bloom { bytes: 16 });
        assert!(all.columns.contains(&bloom) && all.columns.contains(&(1, Summary::Trigram { bytes: 20 })));
        assert_eq!(all.left_out, 4);
    }

    #[test]
    fn a_composite_has_one_bitmap() {
        let candidates = [
            candidate(0, bitmap(), 2, "xx.."),
            candidate(1, bitmap(), 2, "..x."),
            candidate(1, Summary::Bloom { bytes: 8 }, 8, "..xx"),
        ];
        let of = choose(&candidates, 4, 100);
        assert_eq!(of.columns, [(0, bitmap()), (1, Summary::Bloom { bytes: 8 })]);
    }
}
