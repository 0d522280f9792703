//! The chain of mechanisms that a task sends its pages through.
//!
//! Invariant: rows and groups come out of an exact member; [`End`] cannot say otherwise.

use std::sync::Arc;

use lode_base::PageBuf;
use lode_command::{Answer, CommandError, HiddenRows, PageRows, ScanUnit};
use lode_program::answer::Member;
use lode_program::{ColumnSource, Meter, Passed, Program, RowMask, Verdict};

use super::{Asked, Exact, Fold, MECHANISMS, Page, Screen, Stage};
use crate::compute::columns::{Fetch, PageColumns};
use crate::compute::{Collect, PageCost};
use crate::planted::{self, Planted};

/// Compiled mechanisms in the order in which a page meets them.
pub(crate) struct Chain {
    asked: Asked,
    answer: Answer,
    screens: Vec<Box<dyn Screen>>,
    end: End,
    /// Rows that do not come out, whether they pass or not.
    hidden: Option<Arc<HiddenRows>>,
    /// What takes the keys of whole pages.
    collect: Option<Collect>,
}

/// Where a page that no screen kept back comes to.
enum End {
    /// Its name is the answer: the host reads it and filters.
    Names,
    /// Its bytes are the answer, as they are.
    Whole,
    /// A byte is the answer: whether the host has to read it, as far as the member knows.
    Hint(Option<Box<dyn Exact>>),
    /// All rows of the page are the answer, where one passes.
    Pages(Box<dyn Exact>),
    /// The rows that pass are the answer.
    Rows(Box<dyn Exact>),
    /// What is made of the rows that pass is the answer.
    Folded(Box<dyn Exact>, Box<dyn Fold>),
}

/// What a page came to.
pub(crate) struct PageAnswer {
    /// What it answers, beside what went to groups.
    pub(crate) rows: Option<PageRows>,
    /// Its bytes, if they are what it answers.
    pub(crate) bytes: Option<PageBuf>,
    /// Rows that pass and are not hidden.
    pub(crate) passed: u64,
    /// Whether the host has to read it, if hints are the answer.
    pub(crate) hint: Option<bool>,
    /// What it took so far: the answer itself is not in it.
    pub(crate) cost: PageCost,
}

impl PageAnswer {
    /// A page that answers nothing.
    fn nothing(cost: PageCost) -> Self {
        Self { rows: None, bytes: None, passed: 0, hint: None, cost }
    }
}

impl Chain {
    /// The members that `answer` names, for what is asked.
    ///
    /// # Errors
    /// [`CommandError::Invalid`] when the answer is not the program's.
    pub(crate) fn new(asked: Asked, answer: Answer) -> Result<Self, CommandError> {
        let asks = |m: &Member| answer.members().contains(m) && (asked.by_index || *m != Member::PageIndex);
        let named = MECHANISMS.iter().filter(|m| asks(&m.member()));
        let stages = named.filter_map(|m| m.compile(&asked)).collect();
        Self::of(asked, answer, stages)
    }

    /// A chain of these stages.
    ///
    /// # Errors
    /// [`CommandError::Invalid`] when the answer is not the program's, or when what is answered were rows that nothing
    /// exact looked at.
    pub(super) fn of(asked: Asked, answer: Answer, stages: Vec<Stage>) -> Result<Self, CommandError> {
        let invalid = |what: &str| Err(CommandError::Invalid(what.into()));
        if asked.program.aggregation().is_some() != (answer == Answer::Aggregate) {
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
            (Answer::Whole, None, None) => End::Whole,
            // Without a filter every row passes, and no page need be read to know it.
            (Answer::Hints { .. }, exact, None) => {
                End::Hint(exact.filter(|_| asked.program.filter().is_some()))
            }
            (Answer::Pages, Some(e), None) => End::Pages(e),
            (Answer::Rows, Some(e), None) => End::Rows(e),
            (Answer::Aggregate, Some(e), Some(f)) => End::Folded(e, f),
            (_, None, _) => {
                return invalid("rows are answered by a member that knows of each, and there is none");
            }
            _ => return invalid("the members of a task do not make its answer"),
        };
        Ok(Self { asked, answer, screens, end, hidden: None, collect: None })
    }

    /// The same chain, which hides these rows.
    pub(crate) fn hiding(self, hidden: Option<Arc<HiddenRows>>) -> Self {
        Self { hidden, ..self }
    }

    /// The same chain, which collects keys of the pages that it answers whole.
    pub(crate) fn collecting(self, collect: Option<Collect>) -> Self {
        Self { collect, ..self }
    }

    /// What it collected.
    pub(crate) fn collected(self) -> Option<Collect> {
        self.collect
    }

    /// The program.
    pub(crate) fn program(&self) -> &Program {
        &self.asked.program
    }

    /// Whether pages that the page index excludes answer nothing at all, so that many may be excluded together.
    pub(crate) fn skips_by_index(&self) -> bool {
        let asks = self.answer.members().contains(&Member::PageIndex)
            && self.asked.by_index
            && self.asked.program.filter().is_some();
        asks && !matches!(self.end, End::Hint(_))
    }

    /// Gives the chain a program with another filter. What was folded so far stays.
    ///
    /// # Panics
    /// When the program differs in anything else.
    pub(crate) fn narrow(&mut self, program: Arc<Program>) {
        let old = &self.asked.program;
        let same = old.schema() == program.schema()
            && old.projection() == program.projection()
            && old.slots() == program.slots()
            && old.aggregation() == program.aggregation();
        assert!(same, "a running task may change its filter and nothing else");
        let asked = Asked { program, ..self.asked.clone() };
        let narrowed = Self::new(asked, self.answer).expect("the answer was the program's");
        let mut narrowed = narrowed.hiding(self.hidden.take()).collecting(self.collect.take());
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
        let (program, at) = (&*self.asked.program, page.at);
        let mut cost = PageCost { looked_up: true, ..PageCost::default() };
        if let End::Folded(_, fold) = &self.end {
            fold.cost(0, &mut cost);
        }
        unit.counts.pages += 1;
        let are_hints = matches!(self.end, End::Hint(_));
        let of_hint = |flagged: bool| are_hints.then_some(flagged);
        let (mut said, mut whole): (Verdict, Option<PageBuf>) = (Verdict::Maybe, None);
        for screen in &self.screens {
            let looked = screen.verdict(page)?;
            screen.cost(&looked, page, &mut cost);
            let is_read = looked.read.is_some();
            if let Some((bytes, media_bytes)) = looked.read {
                unit.counts.pages_read += 1;
                unit.counts.media_bytes += media_bytes;
                whole = Some(bytes);
            }
            match looked.verdict {
                Verdict::No => {
                    match is_read {
                        true => unit.counts.pages_unmatched += 1,
                        false => unit.counts.pages_skipped += 1,
                    }
                    return Ok(PageAnswer { hint: of_hint(false), ..PageAnswer::nothing(cost) });
                }
                Verdict::Maybe => {}
                Verdict::Yes => said = Verdict::Yes,
            }
        }
        let all_pass = said == Verdict::Yes || program.filter().is_none();
        let hides = || self.hidden.as_ref().is_some_and(|h| !h.of(at.lpid).is_empty());
        if let End::Folded(_, fold) = &mut self.end
            && all_pass
            && self.asked.by_index
            && whole.is_none()
            && !planted::instead(Planted::ProofOverHidden, hides, || false)
            && let Some(passed) = fold.take_unread(program, page)?
        {
            cost.keys_compared = cost.keys_compared.max(1);
            unit.counts.pages_skipped += 1;
            return Ok(PageAnswer { passed, ..PageAnswer::nothing(cost) });
        }
        let exact = match &self.end {
            End::Names => {
                return Ok(PageAnswer { rows: Some(PageRows::name(at.lpid)), ..PageAnswer::nothing(cost) });
            }
            End::Whole => {
                let (bytes, media_bytes) = page.access.read_own(at)?;
                unit.counts.pages_read += 1;
                unit.counts.media_bytes += media_bytes;
                cost.read = true;
                if let Some(collect) = &mut self.collect {
                    collect.take(program, at, &bytes, &mut cost, &mut unit.counts)?;
                }
                return Ok(PageAnswer { bytes: Some(bytes), ..PageAnswer::nothing(cost) });
            }
            End::Hint(None) => return Ok(PageAnswer { hint: of_hint(true), ..PageAnswer::nothing(cost) }),
            End::Hint(Some(e)) | End::Pages(e) | End::Rows(e) | End::Folded(e, _) => e,
        };

        unit.counts.pages_read += u64::from(whole.is_none());
        let mut media_bytes = 0;
        let fetch: &mut Fetch<'_> = &mut |range| {
            if let Some(whole) = &whole {
                at.check_has(&range)?;
                return Ok(whole.slice(range.start as usize..range.end as usize));
            }
            let (bytes, from_media) = page.access.read(at, range)?;
            media_bytes += from_media;
            Ok(bytes)
        };
        let mut meter = Meter::default();
        let columns = &mut PageColumns::open(at.lpid, at.len_bytes(), program.schema(), fetch)?;
        let rows = columns.rows();
        let mut passed = exact.passed(at, columns, &mut meter)?;
        debug_assert!(
            said != Verdict::Yes || passed.count() == rows,
            "page {}: a screen said Yes, and {} of {rows} rows pass",
            at.lpid,
            passed.count(),
        );
        let mut all = Passed::unfiltered(rows);
        let hidden = || self.hidden.as_ref().and_then(|h| mask_of(h.of(at.lpid), rows));
        let proven = || if said == Verdict::Yes { None } else { hidden() };
        if let Some(hidden) = planted::instead(Planted::ProofOverHidden, hidden, proven) {
            passed.hide(&hidden);
            all.hide(&hidden);
        }
        let count = passed.count();
        // A hint needs no more rows than the first that passes.
        let visited = if are_hints { passed.first().map_or(rows, |row| row + 1) } else { rows };
        exact.cost(visited as u64, &mut cost);
        let mut answer = None;
        if count > 0 {
            match &mut self.end {
                End::Folded(_, fold) => {
                    fold.take(program, at, &passed, columns, unit)?;
                    fold.cost(count as u64, &mut cost);
                }
                End::Pages(_) => answer = Some(all.rows_of(program, at.lpid, columns)?),
                End::Hint(_) => {}
                End::Rows(_) | End::Names | End::Whole => {
                    answer = Some(passed.rows_of(program, at.lpid, columns)?)
                }
            }
        }
        cost.unpacked_bytes = columns.unpacked_bytes();
        unit.counts.media_bytes += media_bytes;
        unit.counts.rows_in += visited as u64;
        unit.counts.values_compared += meter.values_compared;
        Ok(PageAnswer { rows: answer, bytes: None, passed: count as u64, hint: of_hint(count > 0), cost })
    }

    /// Whether something is left to answer after the last page.
    pub(crate) fn holds(&self) -> bool {
        matches!(&self.end, End::Folded(_, fold) if fold.holds())
    }

    /// Answers what is left after the last page.
    pub(crate) fn end(&mut self, unit: &mut ScanUnit) {
        if let End::Folded(_, fold) = &mut self.end {
            fold.end(&self.asked.program, unit);
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
