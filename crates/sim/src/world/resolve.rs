//! Makes a batch from a plan. It selects among the existing pages and extents.

use std::collections::BTreeSet;

use lode_base::{CELL_BYTES, ExtentId, Lpid, OwnerId};
use lode_command::{Align, Batch, Identity, PageWrite, SessionWrite};

use super::{PLAIN, ROWS};
use crate::content::{Content, index_rule, long_index_rule};
use crate::oracle::{Change, Page, State};
use crate::random::{Random, nth};
use crate::scenario::Scenario;
use crate::step::{AlignPlan, BatchPlan, RulePlan, Spread};

/// The most rows of a table page.
const ROWS_MAX: u64 = 120;

/// The batch of a plan, and the change that it makes to `state`.
pub(super) fn resolve(plan: &BatchPlan, state: &State, s: &Scenario, id: &Identity) -> (Batch, Change) {
    let mut r = Random::of_seed(plan.seed);
    let mut change = Change { unforced: plan.unforced, ..Change::default() };
    let mut batch = Batch { pin: plan.pin, unforced: plan.unforced, ..Batch::default() };
    let extents: Vec<(ExtentId, OwnerId)> = state.extents.iter().map(|(e, x)| (*e, x.owner)).collect();
    if plan.releases > 0 && extents.len() > 3 {
        change.releases.extend(r.pick(&extents).map(|x| x.0));
    }
    let kept: Vec<_> = extents.into_iter().filter(|x| !change.releases.contains(&x.0)).collect();
    let mut taken = BTreeSet::new();
    let mut bytes = 0u64;
    let mut fresh = Fresh { extent: 0, page: 0 };
    for i in 0..plan.writes.min(id.batch_pages_max.saturating_sub(plan.trims)) {
        let place = match plan.spread {
            Spread::New => fresh.next(&kept, state, s.slots),
            Spread::Uniform => pick(&kept, s.slots, false, &mut r),
            Spread::Hot => pick(&kept, s.slots, true, &mut r),
        };
        let Some((lpid, owner)) = place else { break };
        let seed = nth(plan.seed, u64::from(i) << 8 | 1);
        let len = r.between(plan.bytes.0.into(), plan.bytes.1.into()).min(id.page_bytes_max.into()) as u32;
        let content = match owner {
            ROWS => Content::Rows { seed, rows: 1 + r.below(ROWS_MAX) as u32 },
            _ => Content::Bytes { seed, len },
        };
        let align = match plan.align {
            AlignPlan::Cells => Align::Cell,
            AlignPlan::Units => Align::ReadUnit,
            AlignPlan::Mixed if r.once_in(2) => Align::ReadUnit,
            AlignPlan::Mixed => Align::Cell,
        };
        if !taken.insert(lpid) {
            continue;
        }
        let data = content.bytes(lpid, owner);
        bytes += data.len() as u64 + 16;
        if bytes + 8 * u64::from(plan.trims + plan.releases) + 64 > id.batch_bytes_max {
            break;
        }
        let (len, aligned) = (data.len() as u32, align == Align::ReadUnit);
        let before = if aligned { s.geometry.rblock_bytes() } else { CELL_BYTES as u32 };
        let media_bytes = len.next_multiple_of(CELL_BYTES as u32) + before - CELL_BYTES as u32;
        change.writes.push((lpid, Page { content, owner, len, aligned, media_bytes, indexed_by: None }));
        batch.writes.push(PageWrite { lpid, data, align });
    }
    for _ in 0..plan.trims {
        if let Some((lpid, _)) = pick(&kept, s.slots, plan.spread == Spread::Hot, &mut r)
            && taken.insert(lpid)
        {
            change.trims.push(lpid);
        }
    }
    match plan.rule {
        Some(RulePlan::Register(columns)) => change.rules.push((ROWS, Some(index_rule(columns)))),
        Some(RulePlan::RegisterLong(columns)) => {
            let long = long_index_rule(columns, s.geometry.eblock_bytes());
            change.rules.push((ROWS, Some(long.unwrap_or_else(|| index_rule(columns)))));
        }
        Some(RulePlan::Drop) => change.rules.push((ROWS, None)),
        None => {}
    }
    let sessions: Vec<_> = state.sessions.iter().collect();
    if let Some(p) = plan.session
        && let Some((session, highest)) = sessions.get((p.which % sessions.len().max(1) as u64) as usize)
    {
        let (session, wsn) = (**session, (**highest + 1).saturating_add_signed(p.ahead));
        change.session = Some((session, wsn));
        batch.session = Some(SessionWrite { session, wsn });
    }
    batch.trims = change.trims.clone();
    batch.releases = change.releases.clone();
    batch.index_rules = change.rules.clone();
    (batch, change)
}

/// A random page of these extents.
fn pick(extents: &[(ExtentId, OwnerId)], slots: u16, hot: bool, r: &mut Random) -> Option<(Lpid, OwnerId)> {
    let (extents_in, slots_in) = match hot && r.below(5) > 0 {
        true => (extents.len().div_ceil(3), slots.div_ceil(3)),
        false => (extents.len(), slots),
    };
    let &(extent, owner) = r.pick(&extents[..extents_in])?;
    Some((extent.page(r.below(slots_in.into()) as u16), owner))
}

/// Iterates over unmapped pages.
struct Fresh {
    extent: usize,
    page: u16,
}

impl Fresh {
    fn next(
        &mut self,
        extents: &[(ExtentId, OwnerId)],
        state: &State,
        slots: u16,
    ) -> Option<(Lpid, OwnerId)> {
        loop {
            let &(extent, owner) = extents.get(self.extent)?;
            let lpid = extent.page(self.page);
            self.page += 1;
            if self.page == slots {
                (self.extent, self.page) = (self.extent + 1, 0);
            }
            if !state.pages.contains_key(&lpid) {
                return Some((lpid, owner));
            }
        }
    }
}

/// A random page of any extent.
pub(super) fn any_page(state: &State, slots: u16, r: &mut Random) -> Option<Lpid> {
    let extents: Vec<_> = state.extents.iter().map(|(e, x)| (*e, x.owner)).collect();
    pick(&extents, slots, false, r).map(|p| p.0)
}

const _: () = assert!(PLAIN.raw() != ROWS.raw());
