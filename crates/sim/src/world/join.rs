//! Reads by the page index, and joins in the drive, compared with the oracle's rows.
//!
//! ```text
//!   program p, keys k ─► read pages of a view, collect ─► whole pages, and a set
//!                         ... writes, crashes, other programs under the same number ...
//!   program q ─────────► read pages of another view, among the set ─► pages, or: there is no such set
//! ```
//!
//! A set may be found only where the pages that it was collected from are what the view shows.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use lode_base::{ExtentId, Lpid};
use lode_command::{
    Among, Command, CommandError, IndexedRead, KeysRule, PageRange, Reply, ScanUnit, Skip, WholePage,
};
use lode_program::{KeysForm, Program};

use super::scan::Filter;
use super::{Done, ROWS, World};
use crate::content::{KEYS, Row, VALUES, schema};
use crate::failure::{FailureKind, wrong};
use crate::oracle::State;
use crate::random::Random;

/// Programs and keys that a host has at a time.
const NUMBERS: u64 = 2;

/// A filter of a registered program.
fn drawn(r: &mut Random) -> Filter {
    let low = r.below(KEYS) as i64;
    let below = r.once_in(2).then(|| r.below(VALUES) as i64);
    let (low, high) = match r.once_in(2) {
        true => (0, KEYS as i64),
        false => (low, low + r.skewed(0, KEYS) as i64),
    };
    Filter { low, high, below, keys: None }
}

/// What the host of the world has registered, since the drive was opened.
#[derive(Default)]
pub(super) struct Registered {
    programs: [Option<Filter>; NUMBERS as usize],
    keys: [Option<KeysRule>; NUMBERS as usize],
    collected: [Option<Collected>; NUMBERS as usize],
}

/// A set that a read collected.
struct Collected {
    /// The number of the program, if it was not replaced since.
    program: Option<usize>,
    state: Rc<State>,
    extents: Vec<ExtentId>,
}

impl World<'_> {
    /// Joins, some times.
    pub(super) fn joins(&mut self, r: &mut Random) -> Done {
        for _ in 0..r.between(1, 8) {
            self.join(r)?;
            if self.faults.is_cut() || self.read_only.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Registers what is not there, collects keys, and reads among collected ones.
    fn join(&mut self, r: &mut Random) -> Done {
        let (p, q, k) = (r.below(NUMBERS) as usize, r.below(NUMBERS) as usize, r.below(NUMBERS) as usize);
        for number in [p, q] {
            if self.registered.programs[number].is_none() || r.once_in(6) {
                self.register_program(number, drawn(r))?;
            }
        }
        if self.registered.keys[k].is_none() || r.once_in(8) {
            let form = match r.once_in(3) {
                true => KeysForm::Folded,
                false => KeysForm::Sized { bytes_max: r.skewed(64, 4000) as u32 },
            };
            self.register_keys(k, KeysRule { column: 0, all_rows: r.once_in(2), form })?;
        }
        let is_collected = self.registered.collected[k].is_some();
        if !is_collected || r.once_in(2) {
            self.collect(p, k, r)?;
        }
        self.read_among(q, k, r)
    }

    fn register_program(&mut self, number: usize, filter: Filter) -> Done {
        let program = Program::check(schema(), Some(filter.expr()), vec![], false);
        let program = program.expect("the program is of the schema");
        let command =
            Command::RegisterProgram { owner: ROWS, number: number as u32, program: Some(Arc::new(program)) };
        match self.run(command)? {
            _ if self.faults.is_cut() => Ok(()),
            Ok(Reply::Done) => {
                self.registered.programs[number] = Some(filter);
                for c in self.registered.collected.iter_mut().flatten() {
                    c.program = c.program.filter(|p| *p != number);
                }
                Ok(())
            }
            answer => self.failed("registering a program", answer),
        }
    }

    fn register_keys(&mut self, number: usize, rule: KeysRule) -> Done {
        let command = Command::RegisterKeys { owner: ROWS, number: number as u32, rule: Some(rule) };
        match self.run(command)? {
            _ if self.faults.is_cut() => Ok(()),
            Ok(Reply::Done) => {
                self.registered.keys[number] = Some(rule);
                self.registered.collected[number] = None;
                Ok(())
            }
            answer => self.failed("registering keys", answer),
        }
    }

    fn collect(&mut self, p: usize, k: usize, r: &mut Random) -> Done {
        let Some((view, state)) = self.some_view(r)? else { return Ok(()) };
        let Some(filter) = self.registered.programs[p].clone().filter(|_| self.registered.keys[k].is_some())
        else {
            return Ok(());
        };
        // Keys are collected from extents that the owner still has.
        let now = self.oracle.now.extents_of(ROWS);
        let extents: Vec<ExtentId> =
            state.extents_of(ROWS).into_iter().filter(|e| now.contains(e) && !r.once_in(8)).collect();
        let pages: Vec<PageRange> =
            extents.iter().map(|&extent| PageRange { extent, first: 0, count: 1024 }).collect();
        let read = IndexedRead {
            view,
            owner: ROWS,
            program: p as u32,
            pages: pages.clone(),
            unit_pages: r.skewed(1, 40) as u32,
            skip: if r.once_in(2) { Skip::Each } else { Skip::Levels },
            collect: Some(k as u32),
            among: None,
        };
        let cancel = r.once_in(8).then(|| r.below(3) as usize);
        let (units, end) = crate::host::scan(&*self.device, Command::ReadIndexed(read), cancel)?;
        if self.faults.is_cut() {
            return Ok(());
        }
        let last = match end {
            Ok(Reply::LastUnit { unit, .. }) => unit,
            Err(CommandError::Cancelled) if cancel.is_some() => return Ok(()),
            answer => return self.failed("a read that collects keys", answer),
        };
        self.coverage.met("keys collected");
        self.registered.collected[k] =
            Some(Collected { program: Some(p), state: state.clone(), extents: extents.clone() });
        let answered = whole_of(units, &last);
        holds(&state, &pages, &answered, |row| filter.passes(row))
    }

    fn read_among(&mut self, q: usize, k: usize, r: &mut Random) -> Done {
        let Some((view, state)) = self.some_view(r)? else { return Ok(()) };
        let Some(filter) = self.registered.programs[q].clone() else { return Ok(()) };
        // A host that registered keys names the program that it collected them by, or another one by mistake.
        let by = self.registered.collected[k].as_ref().and_then(|c| c.program);
        let program = by.filter(|_| !r.once_in(4)).unwrap_or(q);
        let Some(by_filter) = self.registered.programs[program].clone() else { return Ok(()) };
        let (pages, skip) = match r.once_in(3) {
            true => (ascending(&state), Skip::Sorted(0)),
            false => {
                let whole = |extent| PageRange { extent, first: 0, count: 1024 };
                (state.extents_of(ROWS).into_iter().map(whole).collect(), Skip::Levels)
            }
        };
        let among = Among { owner: ROWS, keys: k as u32, program: program as u32, column: 0 };
        let read = IndexedRead {
            view,
            owner: ROWS,
            program: q as u32,
            pages,
            unit_pages: r.skewed(1, 40) as u32,
            skip,
            collect: None,
            among: (!r.once_in(4)).then_some(among),
        };
        let (units, end) = crate::host::scan(&*self.device, Command::ReadIndexed(read.clone()), None)?;
        if self.faults.is_cut() {
            return Ok(());
        }
        let collected = self.registered.collected[k].as_ref();
        let last = match end {
            Ok(Reply::LastUnit { unit, .. }) => unit,
            Err(CommandError::NoKeys { .. }) if read.among.is_some() => {
                let is_there = |c: &Collected| c.program == Some(program) && c.state.commit == state.commit;
                return match collected.is_some_and(is_there) {
                    true => wrong(
                        FailureKind::Lost,
                        format!("keys {k} that were collected at view {view} are gone"),
                    ),
                    false => Ok(()),
                };
            }
            Err(CommandError::NotRegistered { .. }) if self.registered.keys[k].is_none() => return Ok(()),
            answer => return self.failed("a read among keys", answer),
        };
        let answered = whole_of(units, &last);
        if read.among.is_none() {
            return holds(&state, &read.pages, &answered, |row| filter.passes(row));
        }
        let Some(c) = collected.filter(|c| c.program == Some(program)) else {
            let what = format!("keys {k} are found, which program {program} did not collect");
            return wrong(FailureKind::Answer, what);
        };
        if !pages_of(&c.state).eq(pages_of(&state)) {
            let what = format!(
                "keys {k}, collected at commit {}, are found at commit {}, where pages are others",
                c.state.commit, state.commit
            );
            return wrong(FailureKind::WrongBytes, what);
        }
        self.coverage.met("pages read among collected keys");
        let rows = c.extents.iter().flat_map(|&e| c.state.pages_of(e)).flat_map(|(_, p)| p.content.rows());
        let keys: BTreeSet<i64> = rows.filter(|row| by_filter.passes(row)).map(|row| row.0).collect();
        holds(&state, &read.pages, &answered, |row| filter.passes(row) && keys.contains(&row.0))
    }
}

/// The table pages of a state: which contents lie where.
fn pages_of(state: &State) -> impl Iterator<Item = (Lpid, crate::content::Content)> + '_ {
    state.extents_of(ROWS).into_iter().flat_map(|e| state.pages_of(e)).map(|(l, p)| (l, p.content))
}

/// Pages whose keys ascend from page to page.
fn ascending(state: &State) -> Vec<PageRange> {
    let mut ends: Vec<(i64, i64, Lpid)> = Vec::new();
    for (lpid, content) in pages_of(state) {
        let keys = || content.rows().into_iter().map(|row| row.0);
        ends.extend(keys().min().zip(keys().max()).map(|(min, max)| (min, max, lpid)));
    }
    ends.sort_unstable();
    let mut last = i64::MIN;
    ends.retain(|&(min, max, _)| {
        let follows = min >= last;
        if follows {
            last = max;
        }
        follows
    });
    ends.iter().map(|(.., l)| PageRange { extent: l.extent(), first: l.page(), count: 1 }).collect()
}

fn whole_of(units: Vec<ScanUnit>, last: &ScanUnit) -> Vec<WholePage> {
    units.into_iter().flat_map(|u| u.whole).chain(last.whole.iter().cloned()).collect()
}

/// Each page answered is one of those asked for, as it was written; each that has a row that passes is answered.
fn holds(state: &State, asked: &[PageRange], answered: &[WholePage], passes: impl Fn(&Row) -> bool) -> Done {
    let is_asked = |l: Lpid| {
        let within = |r: &PageRange| (r.first..r.first + r.count).contains(&l.page());
        asked.iter().any(|r| r.extent == l.extent() && within(r))
    };
    let mut named = BTreeSet::new();
    for WholePage { lpid, bytes } in answered {
        let page = state.pages.get(lpid).filter(|_| is_asked(*lpid));
        let is_it = page.is_some_and(|p| p.content.is(*lpid, ROWS, 0..p.len, bytes));
        if !is_it || !named.insert(*lpid) {
            let what = format!("page {lpid} at commit {}, answered whole", state.commit);
            return wrong(FailureKind::WrongBytes, what);
        }
    }
    let lost = state.pages.iter().find(|(l, p)| {
        p.owner == ROWS && is_asked(**l) && !named.contains(l) && p.content.rows().iter().any(&passes)
    });
    match lost {
        Some((l, _)) => {
            let what =
                format!("a read at commit {} leaves page {l} out, which has rows that pass", state.commit);
            wrong(FailureKind::Lost, what)
        }
        None => Ok(()),
    }
}
