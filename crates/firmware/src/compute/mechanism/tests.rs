//! The table of mechanisms, what a chain refuses, and the pattern matcher.

use std::sync::Arc;

use lode_command::{Answer, CommandError, ScanCounts, ScanUnit};
use lode_program::answer::Member;
use lode_program::{Matcher, Program, Verdict};

use super::matcher::PatternMatcher;
use super::{Asked, Chain, Looked, MECHANISMS, Mechanism, Page, Screen, Stage};
use crate::compute::PageCost;
use crate::compute::tests::{Fake, by_hand, grouped, keys, located, lpid, program, rows_of, text_is};

/// Says the same of every page.
struct Always(Verdict);

impl Screen for Always {
    fn verdict(&self, _: &Page<'_>) -> Result<Looked, CommandError> {
        Ok(Looked::unread(self.0, 1))
    }

    fn cost(&self, looked: &Looked, _: &Page<'_>, cost: &mut PageCost) {
        cost.keys_compared += looked.keys_compared;
    }
}

fn always(verdict: Verdict) -> Stage {
    Stage::Screen(Box::new(Always(verdict)))
}

fn asked(program: &Arc<Program>) -> Asked {
    Asked { program: program.clone(), matcher: None, by_index: true }
}

fn exact(p: &Arc<Program>) -> Stage {
    super::filter::Filter.compile(&asked(p)).unwrap()
}

/// All pages through a chain: what they answer, and the counts.
fn run(fake: &Fake, mut chain: Chain) -> (Vec<lode_command::PageRows>, ScanCounts) {
    let (mut unit, mut answers) = (ScanUnit::default(), Vec::new());
    for at in fake.pages.keys().map(|&l| located(fake, l)) {
        let answer = chain.page(&Page { at: &at, access: fake }, &mut unit).unwrap();
        let rows = answer.rows.as_ref().map_or(0, |r| u64::from(r.rows));
        assert_eq!(answer.passed, rows, "rows that pass come out");
        answers.extend(answer.rows);
    }
    (answers, unit.counts)
}

#[test]
fn the_table_has_each_member_once_and_in_the_order_that_answers_name() {
    let members: Vec<Member> = MECHANISMS.iter().map(|m| m.member()).collect();
    assert!(members.is_sorted_by(|a, b| a < b), "{members:?}");
    for answer in Answer::ALL {
        let named = answer.members();
        assert!(named.is_sorted_by(|a, b| a < b) && named.iter().all(|m| members.contains(m)), "{answer:?}");
    }
    assert_eq!(Answer::Aggregate.members(), members);
}

#[test]
fn a_maybe_with_nothing_exact_behind_it_answers_no_rows() {
    let rows = Arc::new(program(Some(keys(0, 5)), &[0], true));
    let groups = Arc::new(grouped(Some(keys(0, 5)), &[1], 9));
    let refused = |p: &Arc<Program>, answer, stages: Vec<Stage>| {
        let e = Chain::of(asked(p), answer, stages).err().expect("refused");
        assert!(matches!(e, CommandError::Invalid(_)), "{e}");
    };
    for verdict in [Verdict::Maybe, Verdict::Yes] {
        refused(&rows, Answer::Rows, vec![always(verdict)]);
        refused(&rows, Answer::Pages, vec![always(verdict)]);
        refused(&groups, Answer::Aggregate, vec![always(verdict)]);
    }
    let fold = || super::aggregate::Aggregate.compile(&asked(&groups)).unwrap();
    refused(&groups, Answer::Aggregate, vec![always(Verdict::Maybe), fold()]);
    refused(&groups, Answer::Aggregate, vec![exact(&groups)]);
    refused(&rows, Answer::Rows, vec![exact(&rows), exact(&rows)]);
    refused(&rows, Answer::Rows, vec![]);
    // What names pages has no need of one, and no use.
    refused(&rows, Answer::Index, vec![exact(&rows)]);
    assert!(Chain::of(asked(&rows), Answer::Index, vec![always(Verdict::Maybe)]).is_ok());
    assert!(Chain::of(asked(&groups), Answer::Aggregate, vec![exact(&groups), fold()]).is_ok());
}

#[test]
fn a_maybe_costs_time_and_no_answer() {
    let fake = Fake::table();
    let p = Arc::new(program(Some(keys(10_100, 10_400)), &[0], true));
    let expected = by_hand(&fake, &[0], &|n| (10_100..10_400).contains(&n));
    for screens in [vec![], vec![Verdict::Maybe], vec![Verdict::Maybe, Verdict::Maybe]] {
        let stages = screens.into_iter().map(always).chain([exact(&p)]).collect();
        let (answers, counts) = run(&fake, Chain::of(asked(&p), Answer::Rows, stages).unwrap());
        assert_eq!((rows_of(&answers), counts.pages_skipped), (expected.clone(), 0));
    }
    let stages = vec![always(Verdict::Maybe), always(Verdict::No), exact(&p)];
    let (answers, counts) = run(&fake, Chain::of(asked(&p), Answer::Rows, stages).unwrap());
    assert_eq!((rows_of(&answers), counts.pages_skipped), (vec![], fake.pages.len() as u64));
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "a screen said Yes")]
fn a_wrong_yes_is_noticed() {
    let fake = Fake::table();
    let p = Arc::new(program(Some(keys(10_100, 10_400)), &[0], true));
    run(&fake, Chain::of(asked(&p), Answer::Rows, vec![always(Verdict::Yes), exact(&p)]).unwrap());
}

#[test]
fn the_matcher_drops_pages_without_its_keys_and_changes_no_answer() {
    let mut fake = Fake::table();
    // Two rows, "text 0" and "text 1".
    fake.add(lpid(9, 0), 0..2, None);
    let pages = fake.pages.len() as u64;
    let check = |text: &str, key: &str, dropped: u64| {
        let p = Arc::new(program(Some(text_is(text)), &[1], true));
        let matcher = Some(Arc::new(Matcher::of_keys(&[key.as_bytes()], 1 << 1).unwrap()));
        let with = Asked { program: p.clone(), matcher, by_index: true };
        let stages = || vec![PatternMatcher.compile(&with).unwrap(), exact(&p)];
        let plain = run(&fake, Chain::of(asked(&p), Answer::Rows, vec![exact(&p)]).unwrap());
        let matched = run(&fake, Chain::of(with.clone(), Answer::Rows, stages()).unwrap());
        assert_eq!(rows_of(&matched.0), rows_of(&plain.0));
        assert_eq!((matched.1.pages_skipped, matched.1.pages_unmatched), (0, dropped), "{text}");
        assert_eq!((matched.1.pages_read, plain.1.pages_read), (pages, pages), "each page is read once");
        assert!(matched.1.rows_in <= plain.1.rows_in);
    };
    check("text 2", "text 2", 1);
    check("text 1", "text 1", 0);
    // The bytes are in every page, and no row is equal to them.
    check("text", "text", 0);
    check("no such text", "no such text", pages);
    let p = Arc::new(program(Some(text_is("text")), &[1], true));
    assert!(PatternMatcher.compile(&asked(&p)).is_none(), "it has no keys");
}

#[test]
fn a_page_that_the_matcher_read_is_not_read_again() {
    let fake = Fake::table();
    let p = Arc::new(program(Some(text_is("text 2")), &[1, 0], true));
    let matcher = Some(Arc::new(Matcher::of_keys(&[b"text 2"], 1 << 1).unwrap()));
    let chain = Chain::new(Asked { program: p, matcher, by_index: true }, Answer::Rows).unwrap();
    let (answers, counts) = run(&fake, chain);
    assert!(!answers.is_empty());
    let whole: Vec<_> = fake.pages.keys().map(|l| (*l, 0..located(&fake, *l).len_bytes())).collect();
    assert_eq!(*fake.reads.borrow(), whole);
    assert_eq!(counts.pages_read, whole.len() as u64);
}
