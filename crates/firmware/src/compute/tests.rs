//! Every answer level against rows evaluated by hand, over pages of both shapes, with and without index entries.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lode_base::{CommitNo, EblockId, ExtentId, Geometry, Lpid, PageBuf, TableId, ViewId};
use lode_command::{
    Answer, CommandError, GroupRows, HiddenRows, PageHints, PageRange, PageRows, ScanCounts, ScanTask,
    ScanUnit, Skip,
};
use lode_page::{Column, ColumnBuilder, ColumnType, DataType, PageKind, PageMeta, Schema, Value, Values};
use lode_program::index::may_match;
use lode_program::{Aggregation, Call, CompareOp, Expr, IndexEntry, IndexRule, Matcher, Program};

use crate::ScanPlacement;

use super::{Located, PageAccess, PageCost, ScanRun, Together, entry_of};
use crate::entry::Entry;

const TYPES: [DataType; 4] =
    [DataType::Integer, DataType::Text, DataType::Decimal { precision: 12, scale: 2 }, DataType::BigInt];

fn schema(version: u32) -> Schema {
    let columns = TYPES.iter().enumerate().map(|(i, &data_type)| ColumnType { data_type, nullable: i == 1 });
    Schema { version, columns: columns.collect(), absent: Vec::new() }
}

/// Row `n` of the table: keys rise, texts repeat and are NULL here and there.
fn row(n: i64) -> Vec<Value> {
    let text = if n % 7 == 3 { Value::Null } else { Value::text(&format!("text {}", n % 5)) };
    vec![Value::Int(n), text, Value::Decimal(i128::from(n * 11 % 1000)), Value::Int(n * n)]
}

fn columns(rows: Range<i64>) -> Vec<Column> {
    let column = |i: usize| {
        let mut b = ColumnBuilder::new(TYPES[i]);
        rows.clone().for_each(|n| b.push(&row(n)[i]).unwrap());
        b.finish()
    };
    (0..TYPES.len()).map(column).collect()
}

pub(super) fn lpid(extent: u64, page: u16) -> Lpid {
    ExtentId::new(extent).unwrap().page(page)
}

pub(super) struct FakePage {
    bytes: PageBuf,
    pub(super) rows: Range<i64>,
    entry: Option<(Arc<IndexRule>, IndexEntry)>,
}

/// Pages by LPID, and the reads that were made of them.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) pages: BTreeMap<Lpid, FakePage>,
    /// Rows that the task hides, by page.
    hidden: BTreeMap<Lpid, BTreeSet<u32>>,
    pub(super) reads: RefCell<Vec<(Lpid, Range<u32>)>>,
    charged: RefCell<Vec<PageCost>>,
    /// Pages that were excluded with others.
    together: Cell<u64>,
}

impl Fake {
    /// A table of 41,000 rows over eight pages in two extents: small and large ones in turn, page 3:9 without an
    /// index entry, page 5:1 with one that was made for another version of the schema.
    pub(super) fn table() -> Self {
        let mut fake = Self::default();
        let places = [
            lpid(3, 0),
            lpid(3, 1),
            lpid(3, 5),
            lpid(3, 9),
            lpid(3, 1023),
            lpid(5, 0),
            lpid(5, 1),
            lpid(5, 2),
        ];
        let mut first = 0;
        for (i, at) in places.into_iter().enumerate() {
            let rows = first..first + if i % 2 == 0 { 10_000 } else { 250 };
            first = rows.end;
            fake.add(at, rows, (at != lpid(3, 9)).then_some(if at == lpid(5, 1) { 6 } else { 7 }));
        }
        fake
    }

    pub(super) fn add(&mut self, lpid: Lpid, rows: Range<i64>, rule_version: Option<u32>) {
        let kind = if rows.end - rows.start > 1000 { PageKind::Column } else { PageKind::Row };
        let meta =
            PageMeta { lpid, table: TableId::new(1), schema_version: 7, kind, commit: CommitNo::new(0) };
        let bytes = lode_page::encode(&meta, &columns(rows.clone()), 1 << 20).unwrap();
        let entry = rule_version.map(|version| {
            let entry = entry_of(&IndexRule::new(schema(7), vec![0]).unwrap(), lpid, &bytes).unwrap();
            (Arc::new(IndexRule::new(schema(version), vec![0]).unwrap()), entry)
        });
        self.pages.insert(lpid, FakePage { bytes, rows, entry });
    }

    fn rows(&self) -> impl Iterator<Item = (Lpid, i64)> {
        self.pages.iter().flat_map(|(&lpid, p)| p.rows.clone().map(move |n| (lpid, n)))
    }
}

/// Where a page lies.
pub(super) fn located(fake: &Fake, lpid: Lpid) -> Located {
    let ppa = Geometry::file(1 << 30).unwrap().ppa(EblockId::new(1), 0).unwrap();
    Located { lpid, entry: Entry::new(ppa, fake.pages[&lpid].bytes.len(), true) }
}

impl PageAccess for Fake {
    fn charge(&self, placement: ScanPlacement, cost: &PageCost) {
        assert_eq!(placement, ScanPlacement::Core, "where the task runs");
        self.charged.borrow_mut().push(*cost);
    }

    fn mapped(&self, view: ViewId, range: PageRange) -> Result<Vec<Located>, CommandError> {
        if view != ViewId::new(1) {
            return Err(CommandError::ViewClosed(view));
        }
        let (first, last) =
            (range.extent.page(range.first), range.extent.page(range.first + range.count - 1));
        Ok(self.pages.range(first..=last).map(|(&lpid, _)| located(self, lpid)).collect())
    }

    fn index_entry(&self, at: &Located) -> Result<Option<(Arc<IndexRule>, IndexEntry)>, CommandError> {
        Ok(self.pages[&at.lpid].entry.clone())
    }

    fn excluded(&self, view: ViewId, pages: PageRange, p: &Program) -> Result<Together, CommandError> {
        let mapped = self.mapped(view, pages)?;
        let mut union: Option<(Arc<IndexRule>, IndexEntry)> = None;
        for at in &mapped {
            let Some((rule, entry)) = self.index_entry(at)? else { return Ok(Together::default()) };
            match &mut union {
                Some((r, _)) if *r != rule => return Ok(Together::default()),
                Some((r, union)) => r.widen(union, &entry),
                None => union = Some((rule, entry)),
            }
        }
        let excluded = union.filter(|(rule, union)| !may_match(p, rule, union)).map(|_| mapped.len() as u64);
        self.together.set(self.together.get() + excluded.unwrap_or(0));
        Ok(Together { excluded, keys_compared: 1 })
    }

    fn read_past_matcher(&self, at: &Located) -> Result<(PageBuf, u64), CommandError> {
        self.read(at, 0..at.len_bytes())
    }

    fn read(&self, at: &Located, r: Range<u32>) -> Result<(PageBuf, u64), CommandError> {
        self.reads.borrow_mut().push((at.lpid, r.clone()));
        let media_bytes = r.end.next_multiple_of(4096) - r.start / 4096 * 4096;
        Ok((self.pages[&at.lpid].bytes.slice(r.start as usize..r.end as usize), media_bytes.into()))
    }
}

fn task(answer: Answer, program: Program) -> ScanTask {
    let range = |extent, first, count| PageRange { extent: ExtentId::new(extent).unwrap(), first, count };
    ScanTask {
        view: ViewId::new(1),
        pages: vec![range(3, 0, 1024), range(4, 0, 1024), range(5, 0, 2), range(5, 2, 1)],
        program: Arc::new(program),
        answer,
        unit_pages: 3,
        limit_rows: None,
        hidden: None,
        matcher: None,
        skip: Skip::Levels,
    }
}

fn run(fake: &Fake, task: ScanTask) -> Result<(Vec<PageRows>, ScanCounts), CommandError> {
    let all = run_units(fake, task)?;
    assert!(all.groups.is_empty());
    Ok((all.pages, all.counts))
}

/// All units of a task as one.
fn run_units(fake: &Fake, mut task: ScanTask) -> Result<ScanUnit, CommandError> {
    let unit_pages = task.unit_pages;
    let mut hidden = HiddenRows::default();
    fake.hidden.iter().for_each(|(&lpid, numbers)| hidden.push(lpid, numbers.iter().copied()));
    task.hidden = (!hidden.is_empty()).then(|| Arc::new(hidden));
    let mut run = ScanRun::new(task, ScanPlacement::Core)?;
    let mut all = ScanUnit::default();
    let mut together = fake.together.get();
    while let Some(unit) = run.next_unit(fake)? {
        together = fake.together.get() - together;
        assert!(unit.counts.pages - together <= unit_pages.into());
        together = fake.together.get();
        all.pages.extend(unit.pages);
        all.groups.extend(unit.groups);
        all.hints.extend(unit.hints);
        all.counts += unit.counts;
    }
    assert!(run.next_unit(fake)?.is_none());
    Ok(all)
}

pub(super) fn program(filter: Option<Expr>, projection: &[u16], slots: bool) -> Program {
    Program::check(schema(7), filter, projection.to_vec(), slots).unwrap()
}

/// `column op value`, for INTEGER and BIGINT columns.
fn compare(column: u16, op: CompareOp, value: i64) -> Expr {
    let constant = Expr::Const(Value::Int(value), TYPES[usize::from(column)]);
    Expr::compare(op, Expr::Column(column), constant)
}

pub(super) fn keys(from: i64, to: i64) -> Expr {
    Expr::And(vec![compare(0, CompareOp::GtEq, from), compare(0, CompareOp::Lt, to)])
}

pub(super) fn text_is(text: &str) -> Expr {
    Expr::compare(CompareOp::Eq, Expr::Column(1), Expr::Const(Value::text(text), DataType::Text))
}

/// The answered rows: page, row of the page, projected values.
pub(super) type Row = (Lpid, u32, Vec<Value>);

pub(super) fn rows_of(pages: &[PageRows]) -> Vec<Row> {
    let rows = |p: &PageRows| {
        assert!(p.columns.iter().all(|c| c.rows() == p.rows as usize));
        let slot = |r| p.slots.as_ref().map_or(r, |s| s[r as usize]);
        let values = |r: u32| p.columns.iter().map(|c| c.value(r as usize)).collect();
        (0..p.rows).map(|r| (p.lpid, slot(r), values(r))).collect::<Vec<_>>()
    };
    pages.iter().flat_map(rows).collect()
}

/// What [`rows_of`] must give: the rows for which `passes`, evaluated by hand.
pub(super) fn by_hand(fake: &Fake, projection: &[u16], passes: &dyn Fn(i64) -> bool) -> Vec<Row> {
    let project = |n: i64| projection.iter().map(|&c| row(n)[usize::from(c)].clone()).collect();
    let slot = |lpid, n| (n - fake.pages[&lpid].rows.start) as u32;
    fake.rows().filter(|&(_, n)| passes(n)).map(|(lpid, n)| (lpid, slot(lpid, n), project(n))).collect()
}

type Passes = fn(i64) -> bool;

fn cases() -> Vec<(Option<Expr>, Passes)> {
    let text = |n: i64| n % 7 != 3 && n % 5 == 2;
    vec![
        (None, |_| true),
        (Some(keys(10_100, 10_400)), |n| (10_100..10_400).contains(&n)),
        (Some(keys(-5, 0)), |_| false),
        (Some(text_is("text 2")), text),
        (Some(Expr::And(vec![text_is("text 2"), keys(20_000, 31_000)])), |n| {
            n % 7 != 3 && n % 5 == 2 && (20_000..31_000).contains(&n)
        }),
        (Some(Expr::IsNull(Box::new(Expr::Column(1)))), |n| n % 7 == 3),
        (Some(compare(3, CompareOp::Lt, 10_000)), |n| n * n < 10_000),
    ]
}

#[test]
fn every_level_answers_what_rows_evaluated_by_hand_say() {
    let fake = Fake::table();
    for (filter, passes) in cases() {
        for projection in [&[][..], &[0], &[3, 1], &[2, 0, 1, 3, 1]] {
            let p = program(filter.clone(), projection, true);
            let expected = by_hand(&fake, projection, &passes);
            let with_rows: Vec<Lpid> = {
                let mut v: Vec<_> = expected.iter().map(|r| r.0).collect();
                v.dedup();
                v
            };

            let (pages, counts) = run(&fake, task(Answer::Rows, p.clone())).unwrap();
            assert_eq!(rows_of(&pages), expected, "{filter:?}");
            assert_eq!(counts.rows_out, expected.len() as u64);
            assert_eq!(counts.pages, fake.pages.len() as u64);
            assert_eq!(counts.pages_skipped + counts.pages_read, counts.pages);

            let (pages, counts) = run(&fake, task(Answer::Pages, p.clone())).unwrap();
            let whole = |n| with_rows.iter().any(|l| fake.pages[l].rows.contains(&n));
            assert_eq!(rows_of(&pages), by_hand(&fake, projection, &whole), "{filter:?}");
            assert_eq!(counts.rows_out, expected.len() as u64);

            let (pages, counts) = run(&fake, task(Answer::Index, p.clone())).unwrap();
            let can: Vec<Lpid> = pages.iter().map(|p| p.lpid).collect();
            assert!(with_rows.iter().all(|l| can.contains(l)), "{filter:?} lost a page");
            assert_eq!((counts.pages_read, counts.media_bytes), (0, 0));
            assert_eq!(counts.pages_skipped, (fake.pages.len() - can.len()) as u64);

            for (key, filter) in [(None, false), (None, true), (Some("text"), false), (Some("text 2"), true)]
            {
                // Keys must be in each page that has a row which passes.
                let key = key.filter(|k| with_rows.iter().all(|l| holds(&fake.pages[l].bytes, k)));
                let (flagged, counts) = hints(&fake, &p, filter, key);
                // Without a filter every row passes, and no page need be read to know it.
                let looks = filter && p.filter().is_some();
                match looks {
                    true => assert_eq!(flagged, with_rows),
                    false => assert!(with_rows.iter().all(|l| flagged.contains(l))),
                }
                let excluded = counts.pages_skipped + counts.pages_unmatched;
                let most = fake.pages.len() as u64 - excluded;
                assert!(flagged.len() as u64 <= most && (looks || flagged.len() as u64 == most));
                assert_eq!(counts.rows_out, 0);
                // The first row that passes is the last that is looked at.
                let rows = |l: &Lpid| fake.pages[l].rows.clone();
                let last = |l: &Lpid| rows(l).find(|n| passes(*n)).map_or(rows(l).end, |n| n + 1);
                let visited: i64 = fake.pages.keys().map(|l| last(l) - rows(l).start).sum();
                assert!(counts.rows_in <= visited as u64);
                assert!(excluded > 0 || !looks || counts.rows_in == visited as u64);
                assert!(key.is_some() || looks || counts.pages_read == 0);
            }

            let (pages, _) = run(&fake, task(Answer::Mapped, p)).unwrap();
            assert!(pages.iter().map(|p| p.lpid).eq(fake.pages.keys().copied()));
            assert!(pages.iter().all(|p| p.rows == 0 && p.columns.is_empty()));
        }
    }
}

/// The pages that hints flag. Each page that is mapped has a hint.
fn hints(fake: &Fake, p: &Program, filter: bool, key: Option<&str>) -> (Vec<Lpid>, ScanCounts) {
    let matcher = key.map(|k| Arc::new(Matcher::of_keys(&[k.as_bytes()], 1 << 1).unwrap()));
    let asked = ScanTask { matcher, ..task(Answer::Hints { filter }, p.clone()) };
    let unit = run_units(fake, asked).unwrap();
    assert!(unit.pages.is_empty() && unit.groups.is_empty());
    let all = unit
        .hints
        .iter()
        .flat_map(|h| (0u16..).zip(&h.bytes).map(|(i, _)| h.first.extent().page(h.first.page() + i)));
    assert!(all.eq(fake.pages.keys().copied()));
    (unit.hints.iter().flat_map(PageHints::flagged).collect(), unit.counts)
}

fn holds(page: &[u8], text: &str) -> bool {
    page.windows(text.len()).any(|w| w == text.as_bytes())
}

#[test]
fn hidden_rows_come_off_whatever_the_index_and_the_filter_say() {
    let mut fake = Fake::table();
    // Of page 3:1, with the keys from 10,000 to 10,249, two rows, and two that it does not have; of page 3:5 all but one; of page
    // 5:0 all; and of a page that is not mapped.
    fake.hidden.insert(lpid(3, 1), [0, 101, 250, u32::MAX].into());
    fake.hidden.insert(lpid(4, 7), [0].into());
    fake.hidden.insert(lpid(3, 5), (1..10_000).collect());
    fake.hidden.insert(lpid(5, 0), (0..250).collect());
    let hidden = |n: i64| {
        let (lpid, of) = fake.pages.iter().find(|(_, p)| p.rows.contains(&n)).unwrap();
        fake.hidden.get(lpid).is_some_and(|h| h.contains(&((n - of.rows.start) as u32)))
    };
    for (filter, passes) in cases().into_iter().chain([
        // The page index says Yes of pages 3:1 and 3:5.
        (Some(keys(10_000, 30_000)), (|n| (10_000..30_000).contains(&n)) as Passes),
    ]) {
        let comes_out = |n: i64| passes(n) && !hidden(n);
        let expected = by_hand(&fake, &[0, 1], &comes_out);
        let p = program(filter.clone(), &[0, 1], true);
        let (pages, counts) = run(&fake, task(Answer::Rows, p.clone())).unwrap();
        assert_eq!(rows_of(&pages), expected, "{filter:?}");
        assert_eq!(counts.rows_out, expected.len() as u64);

        if filter.is_some() {
            let mut with_rows: Vec<Lpid> = expected.iter().map(|r| r.0).collect();
            with_rows.dedup();
            let flagged = hints(&fake, &p, true, None).0;
            assert_eq!(flagged, with_rows, "a page all of whose rows are hidden is not flagged");
        }

        let (pages, _) = run(&fake, task(Answer::Pages, p)).unwrap();
        let shown = |n| expected.iter().any(|r| fake.pages[&r.0].rows.contains(&n)) && !hidden(n);
        assert_eq!(rows_of(&pages), by_hand(&fake, &[0, 1], &shown), "{filter:?}");

        let all = run_units(&fake, task(Answer::Aggregate, grouped(filter, &[], 1))).unwrap();
        let count: i64 = merged(&all.groups, 0).values().map(|g| g.0).sum();
        assert_eq!(count, expected.len() as i64, "a count takes rows after the hidden ones are off");
    }
}

#[test]
fn pages_without_a_sound_entry_are_never_skipped() {
    let fake = Fake::table();
    let (pages, counts) = run(&fake, task(Answer::Index, program(Some(keys(-5, 0)), &[0], false))).unwrap();
    let expected = [lpid(3, 9), lpid(5, 1)];
    assert!(pages.iter().map(|p| p.lpid).eq(expected), "without entry, or of another schema: {pages:?}");
    assert_eq!(counts.pages_skipped, 6);
}

#[test]
fn a_wrong_index_entry_would_be_noticed() {
    let mut fake = Fake::table();
    let filter = || program(Some(keys(10_100, 10_400)), &[0], true);
    let expected = by_hand(&fake, &[0], &|n| (10_100..10_400).contains(&n));
    assert_eq!(rows_of(&run(&fake, task(Answer::Rows, filter())).unwrap().0), expected);
    let other = fake.pages[&lpid(5, 0)].entry.clone();
    fake.pages.get_mut(&lpid(3, 1)).unwrap().entry = other;
    assert_ne!(rows_of(&run(&fake, task(Answer::Rows, filter())).unwrap().0), expected);
}

#[test]
fn nothing_is_read_beyond_what_the_answer_needs() {
    let fake = Fake::table();
    let reads = |filter, projection: &[u16]| {
        fake.reads.borrow_mut().clear();
        let (_, counts) = run(&fake, task(Answer::Rows, program(filter, projection, false))).unwrap();
        let large =
            fake.reads.borrow().iter().filter(|r| r.0 == lpid(3, 0)).map(|r| r.1.clone()).collect::<Vec<_>>();
        (large, fake.reads.borrow().len(), counts)
    };
    let whole = fake.pages[&lpid(3, 0)].bytes.len() as u32;
    let (large, all, counts) = reads(Some(keys(10_100, 10_200)), &[0, 1, 2, 3]);
    assert_eq!(large, [], "skipped by its entry");
    assert_eq!((counts.pages_skipped, counts.pages_read), (5, 3));
    assert!(all <= 6, "a small page takes one read, a large one its start and the filter's column: {all}");
    assert_eq!(counts.rows_in, 250 + 250 + 10_000);
    assert!(counts.values_compared >= counts.rows_in && counts.media_bytes > 0);

    let (large, _, counts) = reads(Some(compare(3, CompareOp::Lt, -1)), &[0, 1, 2]);
    assert_eq!(large.len(), 2, "no row passed: its start and the filter's column");
    assert_eq!(large[0], 0..4096);
    assert!(large[1].len() < whole as usize * 2 / 3);
    assert!(counts.media_bytes < fake.pages.values().map(|p| p.bytes.len() as u64).sum::<u64>() * 2 / 3);
    assert_eq!(counts.rows_out, 0);

    let (large, ..) = reads(None, &[]);
    assert_eq!(large, std::slice::from_ref(&(0..4096)), "counting rows takes the start of the page");
    let (large, ..) = reads(None, &[0, 1, 2, 3]);
    assert_eq!(large.len(), 2, "neighbours are read together");
}

#[test]
fn whole_columns_are_the_pages_own_bytes() {
    let fake = Fake::table();
    let (pages, _) = run(&fake, task(Answer::Rows, program(None, &[3], false))).unwrap();
    for p in &pages {
        let Values::Fixed { data, .. } = p.columns[0].values() else { panic!("{:?}", p.columns[0]) };
        let page = fake.pages[&p.lpid].bytes.as_ptr_range();
        assert!(page.contains(&data.as_ptr()), "{} was copied", p.lpid);
    }
}

#[test]
fn a_limit_ends_the_task_early() {
    let fake = Fake::table();
    let check = |limit: u64, from: i64, pages_read: u64| {
        let filter = (from > 0).then(|| compare(0, CompareOp::GtEq, from));
        let t = task(Answer::Rows, program(filter, &[1, 0], true));
        let (pages, counts) = run(&fake, ScanTask { limit_rows: Some(limit), ..t }).unwrap();
        let mut expected = by_hand(&fake, &[1, 0], &|n| n >= from);
        expected.truncate(limit as usize);
        assert_eq!(rows_of(&pages), expected);
        assert_eq!(
            (counts.rows_out, counts.pages_read),
            (expected.len() as u64, pages_read),
            "limit {limit}"
        );
    };
    check(0, 0, 0);
    check(7, 0, 1);
    check(10_000, 0, 1);
    check(300, 9_990, 3);
    check(1 << 40, 0, 8);
}

#[test]
fn a_unit_ends_when_its_answer_is_large() {
    let mut fake = Fake::default();
    (0..100).for_each(|i| fake.add(lpid(3, i), 0..10_000, None));
    let t = task(Answer::Rows, program(None, &[0, 2, 3], false));
    let mut run = ScanRun::new(ScanTask { unit_pages: 1000, ..t }, ScanPlacement::Core).unwrap();
    let (mut units, mut pages) = (0, Vec::new());
    while let Some(unit) = run.next_unit(&fake).unwrap() {
        let bytes: u64 = unit.pages.iter().map(PageRows::link_bytes).sum();
        assert!(bytes < (1 << 20) + (300 << 10), "{bytes} bytes in a unit");
        pages.extend(unit.pages.iter().map(|p| p.lpid.page()));
        units += 1;
    }
    assert!(pages.into_iter().eq(0..100), "each page once, in order");
    assert!(units > 5, "{units}");
}

#[test]
fn a_run_time_filter_holds_from_the_next_unit_on() {
    let fake = Fake::table();
    let mut run = ScanRun::new(
        ScanTask { unit_pages: 1, ..task(Answer::Rows, program(None, &[0], false)) },
        ScanPlacement::Core,
    )
    .unwrap();
    let first = run.next_unit(&fake).unwrap().unwrap();
    assert_eq!(first.counts.rows_out, 10_000);
    run.narrow(Arc::new(program(None, &[0], false).with_filter(keys(0, 10_001)).unwrap()));
    let second = run.next_unit(&fake).unwrap().unwrap();
    assert_eq!(rows_of(&second.pages), [(lpid(3, 1), 0, vec![Value::Int(10_000)])]);
    for other in [program(None, &[1], false), program(None, &[0], true)] {
        assert!(catch_unwind(AssertUnwindSafe(|| run.narrow(Arc::new(other)))).is_err());
    }
}

#[test]
fn a_run_time_filter_leaves_the_groups_so_far_as_they_are() {
    let fake = Fake::table();
    let p = grouped(None, &[], 1);
    let t = ScanTask { unit_pages: 1, ..task(Answer::Aggregate, p.clone()) };
    let mut run = ScanRun::new(t, ScanPlacement::Core).unwrap();
    assert!(run.next_unit(&fake).unwrap().unwrap().groups.is_empty(), "one group has room");
    run.narrow(Arc::new(p.with_filter(keys(0, 10_001)).unwrap()));
    let mut groups = Vec::new();
    while let Some(unit) = run.next_unit(&fake).unwrap() {
        groups.extend(unit.groups);
    }
    assert_eq!(merged(&groups, 0).values().map(|g| g.0).collect::<Vec<_>>(), [10_001]);
}

#[test]
fn pages_that_are_not_what_the_program_names_are_errors() {
    let check = |bytes: &dyn Fn(&PageBuf) -> PageBuf, program: &Program, expected: &str| {
        let mut fake = Fake::table();
        let page = fake.pages.get_mut(&lpid(3, 5)).unwrap();
        page.bytes = bytes(&page.bytes);
        let mut run = ScanRun::new(task(Answer::Rows, program.clone()), ScanPlacement::Core).unwrap();
        let e = loop {
            match run.next_unit(&fake) {
                Ok(unit) => assert!(unit.is_some(), "{expected}: nothing was noticed"),
                Err(e) => break e,
            }
        };
        assert!(matches!(e, CommandError::BadPage { .. }), "{e}");
        assert!(e.to_string().contains(expected), "{e}");
        assert!(run.next_unit(&fake).unwrap().is_none(), "the task is over");
    };
    let same = |b: &PageBuf| b.clone();
    let ours = program(None, &[0], false);
    check(&|_| PageBuf::copy_from(&[0; 64]), &ours, "page 3:5 is not what the program expects");
    check(&|_| PageBuf::copy_from(&[0x5a; 9000]), &ours, "page 3:5");
    check(&|b| b.slice(..b.len() - 64), &ours, "page 3:5");
    let of = |schema: Schema| Program::check(schema, None, vec![0], false).unwrap();
    check(&same, &of(schema(8)), "it has schema version 7, not 8");
    let mut other = schema(7);
    other.columns.pop();
    check(&same, &of(other.clone()), "it has 4 columns, not 3");
    other.columns.push(ColumnType { data_type: DataType::Date, nullable: false });
    check(&same, &of(other), "column 3 is BIGINT, not DATE");
}

/// The schema after ALTER TABLE added a TEXT and a BIGINT that no page has.
fn schema_with_more() -> Schema {
    let mut s = schema(7);
    let added = [(DataType::Text, Value::text("new")), (DataType::BigInt, Value::Null)];
    for (data_type, absent) in added {
        s.columns.push(ColumnType { data_type, nullable: true });
        s.absent.push(absent.into());
    }
    s
}

#[test]
fn columns_that_were_added_after_the_pages_were_written_have_their_constants() {
    let fake = Fake::table();
    let equals =
        |v: &str| Expr::compare(CompareOp::Eq, Expr::Column(4), Expr::Const(Value::text(v), DataType::Text));
    let of = |filter: Expr, projection: &[u16]| {
        let p = Program::check(schema_with_more(), Some(filter), projection.into(), false).unwrap();
        run_units(&fake, task(Answer::Rows, p)).unwrap()
    };
    let all = of(equals("new"), &[4, 0, 5]);
    assert_eq!(all.counts.rows_out, 41_000);
    for page in &all.pages {
        let n = |row: usize| fake.pages[&page.lpid].rows.start + row as i64;
        for row in [0, page.rows as usize - 1] {
            let got: Vec<Value> = page.columns.iter().map(|c| c.value(row)).collect();
            assert_eq!(got, [Value::text("new"), Value::Int(n(row)), Value::Null]);
        }
    }
    assert_eq!(of(equals("old"), &[0]).counts.rows_out, 0);
    assert_eq!(of(Expr::IsNull(Box::new(Expr::Column(5))), &[0]).counts.rows_out, 41_000);
    // Entries that were made before still exclude pages, by the columns that they know.
    fake.reads.borrow_mut().clear();
    let few = of(Expr::And(vec![keys(0, 99), equals("new")]), &[5]);
    assert_eq!((few.counts.rows_out, few.counts.pages_skipped), (99, 5));
    let by = Aggregation { group_by: vec![4, 5], calls: vec![Call::CountRows], groups_max: 9 };
    let p =
        Program::check(schema_with_more(), None, Vec::new(), false).unwrap().with_aggregation(by).unwrap();
    let groups = run_units(&fake, task(Answer::Aggregate, p)).unwrap().groups;
    let of_group = |g: &GroupRows, row: usize| g.columns.iter().map(|c| c.value(row)).collect::<Vec<_>>();
    assert!(groups.iter().all(|g| g.rows == 1 && of_group(g, 0)[..2] == [Value::text("new"), Value::Null]));
}

#[test]
fn a_rule_of_before_columns_were_added_indexes_pages_with_them_and_the_other_way_round() {
    let (old, new) = (schema(7), schema_with_more());
    let meta = |lpid| PageMeta {
        lpid,
        table: TableId::new(1),
        schema_version: 7,
        kind: PageKind::Column,
        commit: CommitNo::new(0),
    };
    let mut all = columns(0..100);
    let short = lode_page::encode(&meta(lpid(3, 0)), &all, 1 << 20).unwrap();
    new.complete(&mut all, 100);
    let long = lode_page::encode(&meta(lpid(3, 0)), &all, 1 << 20).unwrap();
    let entry = |schema: &Schema, columns: &[u16], page: &PageBuf| {
        entry_of(&IndexRule::new(schema.clone(), columns.to_vec()).unwrap(), lpid(3, 0), page)
    };
    assert_eq!(entry(&old, &[0, 1], &long), entry(&old, &[0, 1], &short));
    assert_eq!(entry(&new, &[0, 4, 5], &long), entry(&new, &[0, 4, 5], &short));
    let mut other = old;
    other.columns[3].data_type = DataType::Date;
    assert!(entry(&other, &[0], &long).is_err());
}

#[test]
fn impossible_tasks_are_refused() {
    let good = task(Answer::Rows, program(None, &[0], false));
    let range = |first, count| PageRange { extent: ExtentId::new(3).unwrap(), first, count };
    for pages in [vec![range(0, 0)], vec![range(1000, 25)], vec![range(u16::MAX, u16::MAX)]] {
        let e = ScanRun::new(ScanTask { pages, ..good.clone() }, ScanPlacement::Core).err().unwrap();
        assert!(matches!(e, CommandError::Invalid(_)), "{e}");
    }
    assert!(ScanRun::new(ScanTask { unit_pages: 0, ..good.clone() }, ScanPlacement::Core).is_err());
    let mut closed = ScanRun::new(ScanTask { view: ViewId::new(2), ..good }, ScanPlacement::Core).unwrap();
    assert_eq!(closed.next_unit(&Fake::table()).unwrap_err(), CommandError::ViewClosed(ViewId::new(2)));
}

pub(super) fn grouped(filter: Option<Expr>, group_by: &[u16], groups_max: u32) -> Program {
    let calls = vec![
        Call::CountRows,
        Call::Sum(Expr::Column(2)),
        Call::Max(Expr::Column(3)),
        Call::Count(Expr::Column(1)),
    ];
    let a = Aggregation { group_by: group_by.into(), calls, groups_max };
    program(filter, &[], false).with_aggregation(a).unwrap()
}

/// Rows, sum of the decimals, greatest BIGINT, texts: by key.
type Groups = BTreeMap<String, (i64, i128, Option<i64>, i64)>;

fn merged(parts: &[GroupRows], keys: usize) -> Groups {
    let mut groups = Groups::new();
    for part in parts {
        for row in 0..part.rows as usize {
            let value = |c: usize| part.columns[c].value(row);
            let key = format!("{:?}", (0..keys).map(value).collect::<Vec<_>>());
            let g = groups.entry(key).or_default();
            let int = |v| if let Value::Int(i) = v { Some(i) } else { None };
            g.0 += int(value(keys)).unwrap();
            g.1 += if let Value::Decimal(d) = value(keys + 1) { d } else { 0 };
            g.2 = g.2.max(int(value(keys + 2)));
            g.3 += int(value(keys + 3)).unwrap();
        }
    }
    groups
}

#[test]
fn groups_are_what_rows_aggregated_by_hand_are_however_small_the_table() {
    let fake = Fake::table();
    for (filter, passes) in cases() {
        for (group_by, groups_max) in [(&[][..], 1), (&[1], 100), (&[1], 2), (&[1, 2], 700), (&[0], 40)] {
            let mut expected = Groups::new();
            for (_, n) in fake.rows().filter(|&(_, n)| passes(n)) {
                let values = row(n);
                let key = group_by.iter().map(|&c| values[usize::from(c)].clone()).collect::<Vec<_>>();
                let g = expected.entry(format!("{key:?}")).or_default();
                g.0 += 1;
                g.1 += i128::from(n * 11 % 1000);
                g.2 = g.2.max(Some(n * n));
                g.3 += i64::from(!values[1].is_null());
            }
            let rows: i64 = expected.values().map(|g| g.0).sum();
            fake.charged.borrow_mut().clear();
            let p = grouped(filter.clone(), group_by, groups_max);
            let all = run_units(&fake, task(Answer::Aggregate, p)).unwrap();
            assert_eq!(merged(&all.groups, group_by.len()), expected, "{filter:?} by {group_by:?}");
            assert!(all.pages.is_empty());
            assert!(all.groups.iter().all(|g| g.rows > 0 && g.rows <= groups_max.max(1)));
            let groups: u64 = all.groups.iter().map(|g| u64::from(g.rows)).sum();
            assert_eq!((all.counts.rows_out, all.counts.groups_out), (rows as u64, groups));
            let charged = fake.charged.borrow();
            let sum = |f: fn(&PageCost) -> u64| charged.iter().map(f).sum::<u64>();
            assert_eq!(sum(|c| c.rows_aggregated), rows as u64, "each row is paid for");
            assert_eq!((sum(|c| c.rows_out), sum(|c| c.rows_in)), (groups, all.counts.rows_in));
            assert_eq!(sum(|c| c.bytes_out), all.link_bytes());
            assert!(charged.iter().all(|c| c.grouped != group_by.is_empty() || c.rows_aggregated == 0));
        }
    }
}

/// Entries that are looked at for 50 keys: extents and groups of pages are excluded together where keys ascend, and where they do not,
/// asking about them costs two entries.
#[test]
fn many_pages_are_excluded_by_few_entries() {
    let count = |place: fn(i64) -> i64| {
        let mut fake = Fake::default();
        for n in 0..3 * 1024 {
            let at = lpid(3 + n as u64 / 1024, (n % 1024) as u16);
            fake.add(at, place(n) * 10..place(n) * 10 + 10, Some(7));
        }
        let range = |extent| PageRange { extent: ExtentId::new(extent).unwrap(), first: 0, count: 1024 };
        let pages = (3..6).map(range).collect();
        let p = program(Some(keys(20_005, 20_055)), &[0], false);
        let (_, counts) = run(&fake, ScanTask { pages, ..task(Answer::Rows, p) }).unwrap();
        assert_eq!((counts.pages, counts.pages_skipped, counts.rows_out), (3 * 1024, 3 * 1024 - 6, 50));
        fake.charged.borrow().iter().map(|c| c.keys_compared).sum::<u64>()
    };
    // Extents 0 and 1; of extent 1 all groups, of which two are looked into; behind those one, since pages before it were not excluded; the
    // group before the last has to be asked page by page, too.
    let ascending = count(|n| n);
    assert!(ascending < 3 + 2 * 32 + 4 * 32, "{ascending} entries");
    let mixed = count(|n| n * 1_001 % 3072);
    assert!((3 * 1024..3 * 1024 + 12).contains(&mixed), "{mixed} entries");
}

#[test]
fn an_aggregation_reads_its_columns_and_no_others() {
    let fake = Fake::table();
    let of = |program: Program, answer| {
        fake.reads.borrow_mut().clear();
        let counts = run_units(&fake, task(answer, program)).unwrap().counts;
        (fake.reads.borrow().len(), counts.media_bytes)
    };
    let of_all = |calls| {
        let all = Aggregation { group_by: vec![], calls, groups_max: 1 };
        of(program(None, &[], false).with_aggregation(all).unwrap(), Answer::Aggregate)
    };
    // Only pages without an index entry are read to be counted.
    let (pages, bytes) = of(program(None, &[], false), Answer::Rows);
    assert_eq!((of_all(vec![Call::CountRows]), pages, bytes), ((2, 12_288), 8, 49_152));
    assert_eq!(of_all(vec![Call::Sum(Expr::Column(2))]), of(program(None, &[2], false), Answer::Rows));
    assert_eq!(
        of(grouped(None, &[1], 9), Answer::Aggregate).1,
        of(program(None, &[1, 2, 3], false), Answer::Rows).1
    );
}

#[test]
fn groups_and_programs_that_do_not_go_together_are_refused() {
    let refused = |answer, p: Program| {
        let e = ScanRun::new(task(answer, p), ScanPlacement::Core).err().unwrap();
        assert!(matches!(e, CommandError::Invalid(_)), "{e}");
    };
    refused(Answer::Aggregate, program(None, &[0], false));
    refused(Answer::Rows, grouped(None, &[1], 9));
    refused(Answer::Mapped, grouped(None, &[1], 9));
    let mut run = ScanRun::new(task(Answer::Aggregate, grouped(None, &[1], 9)), ScanPlacement::Core).unwrap();
    run.narrow(Arc::new(grouped(None, &[1], 9).with_filter(keys(0, 5)).unwrap()));
    for other in [grouped(None, &[1], 10), grouped(None, &[0], 9), program(None, &[], false)] {
        assert!(catch_unwind(AssertUnwindSafe(|| run.narrow(Arc::new(other)))).is_err());
    }
}

#[test]
fn an_aggregate_that_overflows_ends_the_task_with_an_error_that_names_the_page() {
    let fake = Fake::table();
    // Squares of squares of n^2, as decimals: 10^76 and more.
    let wide = Expr::Cast(Box::new(Expr::Column(3)), DataType::Decimal { precision: 38, scale: 0 });
    let square = |e: Expr| Expr::Arith(lode_program::ArithOp::Mul, Box::new(e.clone()), Box::new(e));
    let a =
        Aggregation { group_by: vec![], calls: vec![Call::Sum(square(square(square(wide))))], groups_max: 1 };
    let p = program(None, &[], false).with_aggregation(a).unwrap();
    let mut run = ScanRun::new(task(Answer::Aggregate, p), ScanPlacement::Core).unwrap();
    let e = loop {
        match run.next_unit(&fake) {
            Ok(unit) => assert!(unit.is_some(), "nothing was noticed"),
            Err(e) => break e,
        }
    };
    assert!(matches!(e, CommandError::Overflow(_)), "{e}");
    assert!(run.next_unit(&fake).unwrap().is_none(), "the task is over");
}
