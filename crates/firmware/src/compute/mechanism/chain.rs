//! The chain of mechanisms that a task sends its pages through.
//!
//! Invariant: rows and groups come out of an exact member; [`End`] cannot say otherwise.

use std::sync::Arc;

use lode_command::{Answer, CommandError, HiddenRows, PageRows, ScanUnit};
use lode_program::{ColumnSource, Meter, Passed, Program, RowMask, Verdict};

use super::{Exact, Fold, MECHANISMS, Page, Screen, Stage};
use crate::compute::PageCost;
use crate::compute::columns::{Fetch, PageColumns};
use crate::planted::{self, Planted};

/// Compiled mechanisms in the order in which a page meets them.
pub(crate) struct Chain {
    program: Arc<Program>,
    answer: Answer,
    screens: Vec<Box<dyn Screen>>,
    end: End,
    /// Rows that do not come out, whether they pass or not.
    hidden: Option<Arc<HiddenRows>>,
}

/// Where a page that no screen kept back comes to.
enum End {
    /// Its name is the answer: the host reads it and filters.
    Names,
    /// The whole page is the answer, where a row passes.
    Whole(Box<dyn Exact>),
    /// The rows that pass are the answer.
    Rows(Box<dyn Exact>),
    /// What is made of the rows that pass is the answer.
    Folded(Box<dyn Exact>, Box<dyn Fold>),
}

/// What a page came to.
pub(crate) struct PageAnswer {
    /// What it answers, beside what went to groups.
    pub(crate) rows: Option<PageRows>,
    /// Rows that pass and are not hidden.
    pub(crate) passed: u64,
    /// What it took so far: the answer itself is not in it.
    pub(crate) cost: PageCost,
}

impl Chain {
    /// The members that `answer` names, for `program`.
    ///
    /// # Errors
    /// [`CommandError::Invalid`] when the answer is not the program's.
    pub(crate) fn new(program: Arc<Program>, answer: Answer) -> Result<Self, CommandError> {
        let named = MECHANISMS.iter().filter(|m| answer.members().contains(&m.member()));
        let stages = named.filter_map(|m| m.compile(&program)).collect();
        Self::of(program, answer, stages)
    }

    /// A chain of these stages.
    ///
    /// # Errors
    /// [`CommandError::Invalid`] when the answer is not the program's, or when what is answered were rows that nothing
    /// exact looked at.
    pub(super) fn of(
        program: Arc<Program>,
        answer: Answer,
        stages: Vec<Stage>,
    ) -> Result<Self, CommandError> {
        let invalid = |what: &str| Err(CommandError::Invalid(what.into()));
        if program.aggregation().is_some() != (answer == Answer::Aggregate) {
            return invalid("a program with an aggregation answers groups, and no other does");
        }
        let (mut screens, mut exact, mut fold) = (Vec::new(), None, None);
        for stage in stages {
            let twice = match stage {
                Stage::Screen(s) => {
                    screens.push(s);
                    false
                }
                Stage::Exact(e) => exact.replace(e).is_some(),
                Stage::Fold(f) => fold.replace(f).is_some(),
            };
            if twice {
                return invalid("a task has one exact member, and makes one thing of its rows");
            }
        }
        let end = match (answer, exact, fold) {
            (Answer::Mapped | Answer::Index, None, None) => End::Names,
            (Answer::Pages, Some(e), None) => End::Whole(e),
            (Answer::Rows, Some(e), None) => End::Rows(e),
            (Answer::Aggregate, Some(e), Some(f)) => End::Folded(e, f),
            (_, None, _) => {
                return invalid("rows are answered by a member that knows of each, and there is none");
            }
            _ => return invalid("the members of a task do not make its answer"),
        };
        Ok(Self { program, answer, screens, end, hidden: None })
    }

    /// The same chain, which hides these rows.
    pub(crate) fn hiding(self, hidden: Option<Arc<HiddenRows>>) -> Self {
        Self { hidden, ..self }
    }

    /// The program.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Gives the chain a program with another filter. What was folded so far stays.
    ///
    /// # Panics
    /// When the program differs in anything else.
    pub(crate) fn narrow(&mut self, program: Arc<Program>) {
        let old = &self.program;
        let same = old.schema() == program.schema()
            && old.projection() == program.projection()
            && old.slots() == program.slots()
            && old.aggregation() == program.aggregation();
        assert!(same, "a running task may change its filter and nothing else");
        let narrowed = Self::new(program, self.answer).expect("the answer was the program's");
        let mut narrowed = narrowed.hiding(self.hidden.take());
        if let (End::Folded(_, new), End::Folded(_, so_far)) = (&mut narrowed.end, &mut self.end) {
            std::mem::swap(new, so_far);
        }
        *self = narrowed;
    }

    /// What a page answers, and what it took.
    ///
    /// # Errors
    /// Those of the page; the chain is then of no use.
    pub(crate) fn page(&mut self, page: &Page<'_>, unit: &mut ScanUnit) -> Result<PageAnswer, CommandError> {
        let (program, at) = (&*self.program, page.at);
        let mut cost = PageCost { looked_up: true, ..PageCost::default() };
        if let End::Folded(_, fold) = &self.end {
            fold.cost(0, &mut cost);
        }
        unit.counts.pages += 1;
        let mut said = Verdict::Maybe;
        for screen in &self.screens {
            screen.cost(&mut cost);
            match screen.verdict(page)? {
                Verdict::No => {
                    unit.counts.pages_skipped += 1;
                    return Ok(PageAnswer { rows: None, passed: 0, cost });
                }
                Verdict::Maybe => {}
                Verdict::Yes => said = Verdict::Yes,
            }
        }
        let exact = match &self.end {
            End::Names => {
                let name = PageRows { lpid: at.lpid, rows: 0, columns: Vec::new(), slots: None };
                return Ok(PageAnswer { rows: Some(name), passed: 0, cost });
            }
            End::Whole(e) | End::Rows(e) | End::Folded(e, _) => e,
        };

        unit.counts.pages_read += 1;
        let mut media_bytes = 0;
        let fetch: &mut Fetch<'_> = &mut |range| {
            let (bytes, from_media) = page.access.read(at, range)?;
            media_bytes += from_media;
            Ok(bytes)
        };
        let mut meter = Meter::default();
        let columns = &mut PageColumns::open(at.lpid, at.len_bytes(), program.schema(), fetch)?;
        let rows = columns.rows();
        let mut passed = exact.passed(at, columns, &mut meter)?;
        exact.cost(rows as u64, &mut cost);
        debug_assert!(
            said != Verdict::Yes || passed.count() == rows,
            "page {}: a screen said Yes, and {} of {rows} rows pass",
            at.lpid,
            passed.count(),
        );
        let mut whole = Passed::unfiltered(rows);
        let hidden = || self.hidden.as_ref().and_then(|h| mask_of(h.of(at.lpid), rows));
        let proven = || if said == Verdict::Yes { None } else { hidden() };
        if let Some(hidden) = planted::instead(Planted::ProofOverHidden, hidden, proven) {
            passed.hide(&hidden);
            whole.hide(&hidden);
        }
        let count = passed.count();
        let mut answer = None;
        if count > 0 {
            match &mut self.end {
                End::Folded(_, fold) => {
                    fold.take(program, at, &passed, columns, unit)?;
                    fold.cost(count as u64, &mut cost);
                }
                End::Whole(_) => answer = Some(whole.rows_of(program, at.lpid, columns)?),
                End::Rows(_) | End::Names => answer = Some(passed.rows_of(program, at.lpid, columns)?),
            }
        }
        cost.unpacked_bytes = columns.unpacked_bytes();
        unit.counts.media_bytes += media_bytes;
        unit.counts.rows_in += rows as u64;
        unit.counts.values_compared += meter.values_compared;
        Ok(PageAnswer { rows: answer, passed: count as u64, cost })
    }

    /// Whether something is left to answer after the last page.
    pub(crate) fn holds(&self) -> bool {
        matches!(&self.end, End::Folded(_, fold) if fold.holds())
    }

    /// Answers what is left after the last page.
    pub(crate) fn end(&mut self, unit: &mut ScanUnit) {
        if let End::Folded(_, fold) = &mut self.end {
            fold.end(&self.program, unit);
        }
    }
}

/// A mask of the rows of a page with these numbers; `None` if the page has none of them.
fn mask_of(numbers: &[u32], rows: usize) -> Option<RowMask> {
    let numbers = &numbers[..numbers.partition_point(|n| (*n as usize) < rows)];
    if numbers.is_empty() {
        return None;
    }
    Some(RowMask::of_rows(numbers.iter().map(|&n| n as usize), rows))
}
