//! A batch is staged: it gets its commit number, and what it replaces is resolved.
//!
//! All of this is one moment in the order of all actions, under the commit lock.

use std::sync::Arc;

use lode_base::{EXTENT_PAGES, PageBuf};
use lode_command::Batch;

use super::batch::{Placed, Prepared};
use super::writer::Writer;
use crate::commit::{Action, CommitState, Freed, Slot};
use crate::entry::Entry;
use crate::pages::{by_extent, is_long};
use crate::planted::at;
use crate::record::{Commit, LoggedWrite, Record};

impl Writer<'_> {
    /// Stages a batch that may come next.
    pub(super) fn stage(
        self,
        state: &mut CommitState,
        batch: &Batch,
        prepared: &mut Prepared,
        placed: Placed,
    ) -> Arc<Slot> {
        let g = *self.env().geometry();
        let Placed { places, pins, eblocks, .. } = placed;
        let number = state.staged_commit() + 1;
        let rules = match batch.index_rules.is_empty() {
            true => state.staged_rules().clone(),
            false => Arc::new(state.staged_rules().with(&batch.index_rules, number)),
        };
        if batch.index_rules.iter().flat_map(|(_, r)| r).any(|r| is_long(r.entry_bytes())) {
            self.pages().rules().note_long();
        }
        let mut freed = Freed::default();
        let mut writes = Vec::with_capacity(batch.writes.len());
        let mut inlined = Vec::new();
        let entries = std::mem::take(&mut prepared.entries);
        let mut pinned = by_extent(|e| pins[&e].map());
        for (((p, owner), index), ppa) in batch.writes.iter().zip(&prepared.owners).zip(entries).zip(&places)
        {
            let rule = || owner.and_then(|o| rules.get(o));
            let index = index.and_then(|bytes| Some((rule()?.number, bytes)));
            let entry = match ppa {
                Some(ppa) => Entry::new(*ppa, p.data.len(), index.is_none()),
                None => {
                    // A copy, since the page may be a small part of what the host keeps together.
                    inlined.push(PageBuf::copy_from(&p.data));
                    let n = self.pages().inlined().number();
                    Entry::inlined(n, p.data.len(), index.is_none())
                }
            };
            let old = state.staged_entry(p.lpid, pinned(p.lpid.extent()));
            old.into_iter().for_each(|e| freed.add(&g, e));
            state.stage_entry(p.lpid, Some(entry));
            state.eblocks_mut().advance_clock(entry);
            let index = index.map(|(rule, bytes)| (at!(IndexWrongRule => number, rule), bytes));
            writes.push(LoggedWrite { lpid: p.lpid, entry, index });
        }
        drop(pinned);
        for lpid in &batch.trims {
            if let Some(p) = pins.get(&lpid.extent()) {
                state.staged_entry(*lpid, p.map()).into_iter().for_each(|e| freed.add(&g, e));
                state.stage_entry(*lpid, None);
            }
        }
        for extent in &batch.releases {
            if let Some(p) = pins.get(extent) {
                for page in 0..EXTENT_PAGES as u16 {
                    let lpid = extent.page(page);
                    if let Some(e) = state.staged_entry(lpid, p.map()) {
                        freed.add(&g, e);
                        state.stage_entry(lpid, None);
                    }
                }
            }
            state.stage_release(*extent);
        }
        state.stage_commit(number, rules, batch.session);
        let record = Record::Commit(Commit {
            number,
            session: batch.session.map(|s| (s.session, s.wsn)),
            writes,
            trims: batch.trims.clone(),
            releases: batch.releases.clone(),
            rules: batch.index_rules.clone(),
            freed: freed.into_vec(),
            inlined,
        });
        // A modelled device is asked for the time that it takes until a batch is durable: each waits for its own.
        let unforced = batch.unforced && self.medium().model().is_none();
        let action = Action::new(record).pinned(pins).entered(eblocks);
        state.stage(action.with_view(batch.pin).unforced(unforced))
    }
}
