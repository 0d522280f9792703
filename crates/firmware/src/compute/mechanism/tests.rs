//! The table of mechanisms, what a chain refuses, and a screen of one's own.

use std::sync::Arc;

use lode_base::Lpid;
use lode_command::{Answer, CommandError, ScanUnit};
use lode_page::Value;
use lode_program::answer::Member;
use lode_program::{CompareOp, Expr, Program, Verdict};

use super::{Chain, MECHANISMS, Mechanism, Page, Screen, Stage};
use crate::compute::PageCost;
use crate::compute::tests::{Fake, by_hand, grouped, keys, located, lpid, program, rows_of, text_is};

/// Leaves pages unread that do not have the bytes of the text that a row must have: `c = 'text'` and nothing else.
/// Pages are not compressed, so the bytes of a value are in its page.
struct Matcher;

struct CompiledMatcher {
    wanted: Box<[u8]>,
}

impl Mechanism for Matcher {
    fn member(&self) -> Member {
        // One of its own in the tree.
        Member::PageIndex
    }

    fn compile(&self, p: &Arc<Program>) -> Option<Stage> {
        let Some(Expr::Compare(CompareOp::Eq, _, constant)) = p.filter() else { return None };
        let Expr::Const(Value::Bytes(wanted), _) = &**constant else { return None };
        Some(Stage::Screen(Box::new(CompiledMatcher { wanted: wanted.clone() })))
    }
}

impl Screen for CompiledMatcher {
    fn verdict(&self, page: &Page<'_>) -> Result<Verdict, CommandError> {
        let (bytes, _) = page.access.read(page.at, 0..page.at.len_bytes())?;
        // The bytes may be those of something else: never a Yes.
        let found = bytes.windows(self.wanted.len()).any(|w| *w == *self.wanted);
        Ok(if found { Verdict::Maybe } else { Verdict::No })
    }

    fn cost(&self, _: &mut PageCost) {}
}

/// Says the same of every page.
struct Always(Verdict);

impl Screen for Always {
    fn verdict(&self, _: &Page<'_>) -> Result<Verdict, CommandError> {
        Ok(self.0)
    }

    fn cost(&self, cost: &mut PageCost) {
        cost.index = true;
    }
}

fn always(verdict: Verdict) -> Stage {
    Stage::Screen(Box::new(Always(verdict)))
}

fn exact(p: &Arc<Program>) -> Stage {
    super::filter::Filter.compile(p).unwrap()
}

/// All pages through a chain: what they answer, and the pages that were skipped.
fn run(fake: &Fake, mut chain: Chain) -> (Vec<lode_command::PageRows>, u64) {
    let (mut unit, mut answers) = (ScanUnit::default(), Vec::new());
    for at in fake.pages.keys().map(|&l| located(fake, l)) {
        let answer = chain.page(&Page { at: &at, access: fake }, &mut unit).unwrap();
        let rows = answer.rows.as_ref().map_or(0, |r| u64::from(r.rows));
        assert_eq!(answer.passed, rows, "rows that pass come out");
        answers.extend(answer.rows);
    }
    (answers, unit.counts.pages_skipped)
}

#[test]
fn the_table_has_each_member_once_and_in_the_order_that_answers_name() {
    let members: Vec<Member> = MECHANISMS.iter().map(|m| m.member()).collect();
    assert!(members.is_sorted_by(|a, b| a < b), "{members:?}");
    for answer in [Answer::Mapped, Answer::Index, Answer::Pages, Answer::Rows, Answer::Aggregate] {
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
        let e = Chain::of(p.clone(), answer, stages).err().expect("refused");
        assert!(matches!(e, CommandError::Invalid(_)), "{e}");
    };
    for verdict in [Verdict::Maybe, Verdict::Yes] {
        refused(&rows, Answer::Rows, vec![always(verdict)]);
        refused(&rows, Answer::Pages, vec![always(verdict)]);
        refused(&groups, Answer::Aggregate, vec![always(verdict)]);
    }
    let fold = || super::aggregate::Aggregate.compile(&groups).unwrap();
    refused(&groups, Answer::Aggregate, vec![always(Verdict::Maybe), fold()]);
    refused(&groups, Answer::Aggregate, vec![exact(&groups)]);
    refused(&rows, Answer::Rows, vec![exact(&rows), exact(&rows)]);
    refused(&rows, Answer::Rows, vec![]);
    // What names pages has no need of one, and no use.
    refused(&rows, Answer::Index, vec![exact(&rows)]);
    assert!(Chain::of(rows.clone(), Answer::Index, vec![always(Verdict::Maybe)]).is_ok());
    assert!(Chain::of(groups.clone(), Answer::Aggregate, vec![exact(&groups), fold()]).is_ok());
}

#[test]
fn a_maybe_costs_time_and_no_answer() {
    let fake = Fake::table();
    let p = Arc::new(program(Some(keys(10_100, 10_400)), &[0], true));
    let expected = by_hand(&fake, &[0], &|n| (10_100..10_400).contains(&n));
    for screens in [vec![], vec![Verdict::Maybe], vec![Verdict::Maybe, Verdict::Maybe]] {
        let stages = screens.into_iter().map(always).chain([exact(&p)]).collect();
        let (answers, skipped) = run(&fake, Chain::of(p.clone(), Answer::Rows, stages).unwrap());
        assert_eq!((rows_of(&answers), skipped), (expected.clone(), 0));
    }
    let stages = vec![always(Verdict::Maybe), always(Verdict::No), exact(&p)];
    let (answers, skipped) = run(&fake, Chain::of(p.clone(), Answer::Rows, stages).unwrap());
    assert_eq!((rows_of(&answers), skipped), (vec![], fake.pages.len() as u64));
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "a screen said Yes")]
fn a_wrong_yes_is_noticed() {
    let fake = Fake::table();
    let p = Arc::new(program(Some(keys(10_100, 10_400)), &[0], true));
    run(&fake, Chain::of(p.clone(), Answer::Rows, vec![always(Verdict::Yes), exact(&p)]).unwrap());
}

#[test]
fn a_screen_of_ones_own_keeps_pages_back_and_changes_no_answer() {
    let mut fake = Fake::table();
    // Two rows, "text 0" and "text 1".
    fake.add(lpid(9, 0), 0..2, None);
    let without: Vec<Lpid> = vec![lpid(9, 0)];
    let check = |text: &str, skipped: u64| {
        let p = Arc::new(program(Some(text_is(text)), &[1], true));
        let chain = || vec![Matcher.compile(&p).unwrap(), exact(&p)];
        let plain = run(&fake, Chain::of(p.clone(), Answer::Rows, vec![exact(&p)]).unwrap());
        let screened = run(&fake, Chain::of(p.clone(), Answer::Rows, chain()).unwrap());
        assert_eq!(rows_of(&screened.0), rows_of(&plain.0));
        assert_eq!((plain.1, screened.1), (0, skipped), "{text}");
    };
    check("text 2", without.len() as u64);
    check("text 1", 0);
    // The bytes are in every page, and no row is equal to them.
    check("text", 0);
    check("no such text", fake.pages.len() as u64);
    let other = Arc::new(program(Some(keys(0, 5)), &[0], true));
    assert!(Matcher.compile(&other).is_none(), "it declines what it cannot look for");
}
