//! Scans, compared with the same program evaluated over the oracle's rows.

use std::sync::Arc;

use lode_base::{ExtentId, Lpid};
use lode_command::{
    Answer, Command, CommandError, GroupRows, HiddenRows, PageHints, PageRange, PageRows, Reply, ScanTask,
    Skip,
};
use lode_page::{DataType, Value};
use lode_program::{CompareOp, Expr, KeySet, Matcher, Program};

use super::{Done, ROWS, World, groups};
use crate::content::{KEYS, Row, VALUES, integer, schema};
use crate::failure::{FailureKind, wrong};
use crate::oracle::{Page, State};
use crate::random::Random;

/// `low <= key <= high`, and optionally `value < below` and `key IN keys`.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) below: Option<i64>,
    /// As a join sends them: ascending.
    pub(super) keys: Option<Vec<i64>>,
}

impl Filter {
    pub(super) fn passes(&self, &(key, value): &Row) -> bool {
        (self.low..=self.high).contains(&key)
            && self.below.is_none_or(|b| value.is_some_and(|v| v < b))
            && self.keys.as_ref().is_none_or(|keys| keys.binary_search(&key).is_ok())
    }

    pub(super) fn expr(&self) -> Expr {
        let int = |v: i64, t| Expr::Const(Value::Int(v), t);
        let key = DataType::BigInt;
        let between = Expr::between(Expr::Column(0), int(self.low, key), int(self.high, key));
        let mut terms = vec![between];
        if let Some(b) = self.below {
            terms.push(Expr::compare(CompareOp::Lt, Expr::Column(1), int(b, DataType::Integer)));
        }
        if let Some(keys) = &self.keys {
            let keys = Arc::new(KeySet::of_numbers(keys.clone()));
            terms.push(Expr::InKeys { value: Box::new(Expr::Column(0)), keys });
        }
        if terms.len() == 1 { terms.remove(0) } else { Expr::And(terms) }
    }
}

/// The request of a scan.
struct Asked {
    filter: Filter,
    projection: Vec<u16>,
    slots: bool,
    answer: Answer,
    limit_rows: Option<u64>,
    /// For an aggregation: whether it groups by value, and the most groups at a time.
    groups: Option<(bool, u32)>,
    /// Rows that the scan must not show.
    hidden: Arc<HiddenRows>,
}

impl World<'_> {
    pub(super) fn scan(&mut self, seed: u64) -> Done {
        let mut r = Self::random(seed);
        let Some((view, state)) = self.some_view(&mut r)? else { return Ok(()) };
        let extents = state.extents_of(ROWS);
        let pages = ranges(&extents, self.scenario.slots, &mut r);
        if pages.is_empty() {
            return Ok(());
        }
        let low = r.below(KEYS) as i64;
        let answer = *r
            .pick(&[
                Answer::Mapped,
                Answer::Index,
                Answer::Hints { filter: false },
                Answer::Hints { filter: true },
                Answer::Pages,
                Answer::Rows,
                Answer::Rows,
            ])
            .expect("there are some");
        let mut asked = Asked {
            filter: Filter {
                low,
                high: low + r.skewed(0, KEYS) as i64,
                below: r.once_in(2).then(|| r.below(VALUES) as i64),
                keys: None,
            },
            projection: r.pick(&[vec![0], vec![1, 0], vec![0, 1]]).expect("there are some").clone(),
            slots: r.once_in(2),
            answer,
            limit_rows: (answer == Answer::Rows && r.once_in(4)).then(|| r.skewed(1, 200)),
            groups: None,
            hidden: Arc::default(),
        };
        let unit_pages = r.skewed(1, 40) as u32;
        let cancel = r.once_in(8).then(|| r.below(3) as usize);
        if answer == Answer::Rows && r.once_in(3) {
            asked.answer = Answer::Aggregate;
            asked.limit_rows = None;
            asked.groups = Some((r.once_in(2), r.skewed(1, 100) as u32));
        }
        if r.once_in(3) {
            asked.hidden = Arc::new(hidden(&state, &extents, &mut r));
        }
        let matcher = matcher_of(&mut asked.filter, &mut r);
        asked.filter.keys = r.once_in(3).then(|| keys(&mut r));
        let program = program_of(&asked);
        let task = ScanTask {
            view,
            pages: pages.clone(),
            program: Arc::new(program),
            answer: asked.answer,
            unit_pages,
            limit_rows: asked.limit_rows,
            hidden: (!asked.hidden.is_empty()).then(|| asked.hidden.clone()),
            matcher: matcher.map(Arc::new),
            skip: if r.once_in(3) { Skip::Each } else { Skip::Levels },
        };
        let (units, end) = crate::host::scan(&*self.device, Command::Scan(task), cancel)?;
        if self.faults.is_cut() {
            return Ok(());
        }
        match end {
            Ok(Reply::Scanned(_)) => {}
            Err(CommandError::Cancelled) if cancel.is_some() => return Ok(()),
            answer => return self.failed("a scan", answer),
        }
        let (mut answered, mut groups) = (Vec::new(), Vec::new());
        for u in units {
            answered.extend(u.pages);
            answered.extend(u.hints.iter().flat_map(PageHints::flagged).map(PageRows::name));
            groups.extend(u.groups);
        }
        asked.holds(&state, &pages, &answered, &groups)
    }
}

/// A filter of one key now and then, and the keys that a matcher looks for: the value of the key as the pages have it, alone or beside
/// bytes of which either is enough.
fn matcher_of(filter: &mut Filter, r: &mut Random) -> Option<Matcher> {
    if !r.once_in(3) {
        return None;
    }
    filter.high = filter.low;
    let key = filter.low.to_le_bytes();
    let matcher = match r.once_in(2) {
        true => Matcher::of_keys(&[&key], 1 << 1),
        false => Matcher::of_keys(&[&key, b"in no page"], 1 << 1 | 1 << 2 | 1 << 3),
    };
    Some(matcher.expect("few keys, and short ones"))
}

/// Keys of which a set is a list or, with the many that no row has, a bitmap.
fn keys(r: &mut Random) -> Vec<i64> {
    let part = r.skewed(1, 20);
    let mut keys: Vec<i64> = (0..KEYS as i64).filter(|_| r.once_in(part)).collect();
    if r.once_in(3) {
        keys.extend(KEYS as i64..KEYS as i64 + 1100);
    }
    keys
}

fn program_of(asked: &Asked) -> Program {
    let program = Program::check(schema(), Some(asked.filter.expr()), asked.projection.clone(), asked.slots);
    let program = program.expect("the program is of the schema");
    match asked.groups {
        None => program,
        Some((by_value, groups_max)) => {
            let of = groups::aggregation(by_value, groups_max);
            program.with_aggregation(of).expect("the aggregation is of the schema")
        }
    }
}

/// Draws rows to hide of some pages, and numbers that no row has.
fn hidden(state: &State, extents: &[ExtentId], r: &mut Random) -> HiddenRows {
    let mut hidden = HiddenRows::default();
    let mut pages: Vec<(Lpid, usize)> = Vec::new();
    for &extent in extents {
        pages.extend(state.pages_of(extent).map(|(lpid, page)| (lpid, page.content.rows().len())));
    }
    pages.sort_unstable();
    for (lpid, rows) in pages {
        let numbers: Vec<u32> = match r.below(3) {
            0 => Vec::new(),
            1 => (0..rows as u32 + 2).collect(),
            _ => (0..rows as u32 + 2).filter(|_| r.once_in(3)).collect(),
        };
        hidden.push(lpid, numbers);
    }
    hidden
}

/// Selects whole extents and parts of them, each page at most once.
fn ranges(extents: &[ExtentId], slots: u16, r: &mut Random) -> Vec<PageRange> {
    let mut ranges = Vec::new();
    for &extent in extents {
        match r.below(4) {
            0 => {}
            1 => {
                let first = r.below(slots.into()) as u16;
                ranges.push(PageRange { extent, first, count: 1 + r.below(slots.into()) as u16 });
            }
            _ => ranges.push(PageRange { extent, first: 0, count: 1024 }),
        }
    }
    ranges
}

impl Asked {
    /// Whether a row passes and comes out.
    fn comes_out(&self, lpid: Lpid, number: usize, row: &Row) -> bool {
        self.filter.passes(row) && !self.is_hidden(lpid, number)
    }

    fn is_hidden(&self, lpid: Lpid, number: usize) -> bool {
        self.hidden.of(lpid).binary_search(&(number as u32)).is_ok()
    }

    fn holds(&self, state: &State, ranges: &[PageRange], answered: &[PageRows], parts: &[GroupRows]) -> Done {
        let mapped: Vec<(Lpid, &Page)> = ranges
            .iter()
            .flat_map(|r| {
                let pages = r.first..r.first + r.count;
                state.pages_of(r.extent).filter(move |(l, _)| pages.contains(&l.page()))
            })
            .collect();
        let got: Vec<Lpid> = answered.iter().map(|p| p.lpid).collect();
        let passing = |p: &Page| p.content.rows().iter().any(|row| self.filter.passes(row));
        let at = format!("a scan at commit {}", state.commit);
        match self.answer {
            Answer::Mapped => {
                if !got.iter().eq(mapped.iter().map(|p| &p.0)) {
                    return wrong(FailureKind::WrongBytes, format!("{at} names other pages than are mapped"));
                }
            }
            Answer::Index => {
                if let Some((l, _)) = mapped.iter().find(|(l, p)| passing(p) && !got.contains(l)) {
                    return wrong(
                        FailureKind::Lost,
                        format!("{at} leaves page {l} out, which has rows that pass"),
                    );
                }
                if let Some(l) = got.iter().find(|l| !mapped.iter().any(|(m, _)| m == *l)) {
                    return wrong(
                        FailureKind::WrongBytes,
                        format!("{at} names page {l}, which is not mapped"),
                    );
                }
            }
            Answer::Hints { filter } => {
                let comes_out = |l: Lpid, p: &Page| {
                    let rows = p.content.rows();
                    rows.iter().enumerate().any(|(number, row)| self.comes_out(l, number, row))
                };
                let lost = mapped.iter().find(|(l, p)| comes_out(*l, p) && !got.contains(l));
                if let Some((l, _)) = lost {
                    let what = format!("{at} flags page {l} not, which has rows that pass");
                    return wrong(FailureKind::Lost, what);
                }
                let may_be = |l: &Lpid| mapped.iter().any(|(m, p)| m == l && (!filter || comes_out(*m, p)));
                if let Some(l) = got.iter().find(|l| !may_be(l)) {
                    let what = format!("{at} flags page {l}, which has no rows that pass");
                    return wrong(FailureKind::WrongBytes, what);
                }
            }
            Answer::Pages | Answer::Rows => return self.rows_hold(&at, &mapped, answered),
            Answer::Whole => unreachable!("no scan asks for whole pages"),
            Answer::Aggregate => {
                let (by_value, groups_max) = self.groups.expect("groups were asked for");
                let rows = mapped.iter().flat_map(|(l, p)| {
                    let rows = p.content.rows().into_iter().enumerate();
                    rows.filter(|(number, row)| self.comes_out(*l, *number, row)).map(|(_, row)| row)
                });
                let expected = groups::of_rows(by_value, rows);
                if groups::of_parts(by_value, groups_max, parts).is_none_or(|got| got != expected) {
                    return wrong(
                        FailureKind::WrongBytes,
                        format!("{at} answers other groups than its rows make"),
                    );
                }
            }
        }
        Ok(())
    }

    fn rows_hold(&self, at: &str, mapped: &[(Lpid, &Page)], answered: &[PageRows]) -> Done {
        let mut answered = answered.iter().peekable();
        let mut rows_seen = 0u64;
        for (lpid, page) in mapped {
            let rows = page.content.rows();
            let passed: Vec<usize> =
                (0..rows.len()).filter(|&i| self.comes_out(*lpid, i, &rows[i])).collect();
            if passed.is_empty() {
                continue;
            }
            if self.limit_rows.is_some_and(|limit| rows_seen >= limit) && answered.peek().is_none() {
                return Ok(());
            }
            let Some(got) = answered.next_if(|p| p.lpid == *lpid) else {
                return wrong(
                    FailureKind::Lost,
                    format!("{at} does not answer page {lpid}, which has rows that pass"),
                );
            };
            let shown = (0..rows.len()).filter(|&i| !self.is_hidden(*lpid, i));
            let expected = if self.answer == Answer::Rows { passed } else { shown.collect() };
            rows_seen += u64::from(got.rows);
            // A limit may cut the rows of a page short.
            let cut = self.limit_rows.is_some_and(|limit| rows_seen >= limit) && answered.peek().is_none();
            let as_many =
                if cut { got.rows as usize <= expected.len() } else { got.rows as usize == expected.len() };
            if !as_many || got.columns.len() != self.projection.len() {
                let what = format!("{at}: page {lpid} answers {} rows of {}", got.rows, expected.len());
                return wrong(FailureKind::WrongBytes, what);
            }
            for (i, &row) in expected.iter().take(got.rows as usize).enumerate() {
                let same = |(&c, column): (&u16, &lode_page::Column)| {
                    let value = if c == 0 { Some(rows[row].0) } else { rows[row].1 };
                    integer(column, i) == value
                };
                let slot = match (&got.slots, self.slots) {
                    (Some(slots), _) => slots.get(i) == Some(&(row as u32)),
                    (None, true) => row == i,
                    (None, false) => true,
                };
                if !slot || !self.projection.iter().zip(&got.columns).all(same) {
                    return wrong(FailureKind::WrongBytes, format!("{at}: row {row} of page {lpid}"));
                }
            }
        }
        match answered.next() {
            Some(p) => wrong(
                FailureKind::WrongBytes,
                format!("{at} answers page {}, of which no row passes", p.lpid),
            ),
            None => Ok(()),
        }
    }
}
