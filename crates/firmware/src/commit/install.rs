//! Installs a system action: what its record says becomes what readers see.
//!
//! Invariants: all pages that an installation touches were pinned before it, so that it neither fails nor waits. What an
//! action frees is what its record says (asserted).

use std::sync::Arc;

use lode_base::{EblockId, OwnerId};

use super::action::{Action, Installed};
use super::state::CommitState;
use crate::FirmwareError;
use crate::entry::Entry;
use crate::env::{Count, Env};
use crate::own::OwnKind;
use crate::pages::{Change, Pages, Pinned, Rule, Rules, by_extent, replace};
use crate::planted::at;
use crate::record::{Commit, LoggedWrite, Record};
use crate::space::Eblocks;

/// Installs the first staged action, which is durable.
pub(super) fn install(env: &Env, pages: &Pages, state: &mut CommitState, a: &Action) -> Installed {
    let mut installed = Installed { commit: state.staged.commit, ..Installed::default() };
    match &a.record {
        Record::Commit(c) => installed = commit(env, pages, state, c, a),
        Record::Moved { pages: moved, freed } => {
            let mut old = Vec::new();
            for (lpid, entry) in moved {
                let map = a.pins[&lpid.extent()].map();
                old.extend(map.load(lpid.page()));
                map.store(lpid.page(), Some(*entry));
                state.eblocks.add_live(*entry);
            }
            pages.inlined().forget_entries(env.epochs(), old.into_iter());
            pages.changed(&a.pins);
            at!(MovedNotFreed => (), free(&mut state.eblocks, freed));
            installed.pages = moved.len() as u64;
        }
        Record::Indexed { pages: indexed } => {
            indexed.iter().for_each(|p| set_index(&a.pins[&p.lpid.extent()], p));
            pages.changed(&a.pins);
            installed.pages = indexed.len() as u64;
        }
        Record::Flushed { pages: own, freed, .. } => {
            own.iter().for_each(|&(kind, number, home)| set_home(pages, state, kind, number, home));
            free(&mut state.eblocks, freed);
        }
        Record::SessionOpened { session } => state.sessions.opened(*session, true),
        Record::SessionClosed { session } => state.sessions.close(*session),
        Record::Checkpointed { .. } => {}
        r => unreachable!("no action has the record {r:?}"),
    }
    for copy in &a.copies {
        let relocated = || pages.versions().relocate(copy.lpid, copy.from, copy.to);
        if at!(MoveKeepsVersion => true, relocated()) {
            state.eblocks.unpin(copy.from);
            pages.inlined().forget_entries(env.epochs(), std::iter::once(copy.from));
            state.eblocks.pin(copy.to);
            installed.pages += 1;
        }
    }
    state.staged.overlay.installed(&a.record);
    if let Some(e) = state.eblocks.miscounted() {
        let what = format!("the summary of {e:?} counts less than is mapped there");
        env.fatal(&FirmwareError::damaged(env.medium().path(), what));
    }
    installed
}

/// A page gets an index entry that it was written without.
fn set_index(pinned: &Pinned, p: &LoggedWrite) {
    if let Some(index) = &p.index {
        pinned.set_index(p.lpid, index);
        pinned.map().store(p.lpid.page(), Some(p.entry));
    }
}

/// A page of the drive's own lies elsewhere, or nowhere.
fn set_home(pages: &Pages, state: &mut CommitState, kind: OwnKind, number: u64, home: Option<Entry>) {
    if let Some(home) = home {
        state.eblocks.add_live(home);
    }
    match kind {
        OwnKind::Map => pages.map().flushed(number, home),
        OwnKind::Index => pages.index().flushed(number, home),
        // The checkpoint on the medium names the old root until the next is durable.
        OwnKind::Root => state.tables.replace_root(home).into_iter().for_each(|old| state.eblocks.pin(old)),
        piece => state.tables.set(piece, number as usize, home),
    }
}

fn free(eblocks: &mut Eblocks, freed: &[(EblockId, u32)]) {
    for &(e, bytes) in freed {
        eblocks.sub_live(e, bytes);
    }
}

/// What a batch replaced.
#[derive(Default)]
struct Freed {
    /// Bytes in EBLOCKs.
    bytes: u64,
    /// Inlined pages that no view shows.
    inlined: Vec<u32>,
}

fn commit(env: &Env, pages: &Pages, state: &mut CommitState, c: &Commit, a: &Action) -> Installed {
    let old_rules = pages.rules().get();
    let owner = |extent| pages.extents().owner(extent);
    c.inlined().for_each(|(lpid, number, data)| pages.inlined().insert(number, lpid, data.clone()));
    if pages.registered().has_keys() {
        let written = c.writes.iter().map(|p| p.lpid.extent()).chain(c.trims.iter().map(|l| l.extent()));
        let mut owner_of = by_extent(owner);
        let owners = written.chain(c.releases.iter().copied()).filter_map(&mut owner_of).collect();
        pages.registered().changed(&owners, c.number);
    }
    let mut install = pages.versions().install(c.number);
    let mut freed = Freed::default();
    let eblocks = &mut state.eblocks;
    let mut change = |pinned: &Pinned, old_rule: Option<&Rule>, change: &Change<'_>| {
        let replaced = replace(&mut install, pinned, old_rule, change);
        if let Some(new) = change.entry {
            eblocks.add_live(new);
        }
        let Some(old) = replaced else { return };
        match old.entry.inlined_number() {
            None => {
                if old.pinned {
                    eblocks.pin(old.entry);
                }
                freed.bytes += u64::from(old.entry.cells_bytes());
            }
            Some(number) => {
                freed.inlined.extend((!at!(InlinedVersionGone => false, old.pinned)).then_some(number))
            }
        }
    };
    let mut of = by_extent(|e| (rule_of(&old_rules, owner(e)), &a.pins[&e]));
    for page in &c.writes {
        let (old_rule, pinned) = of(page.lpid.extent());
        let to = Change { lpid: page.lpid, entry: Some(page.entry), index: page.index.as_ref() };
        change(pinned, old_rule, &to);
    }
    for &lpid in &c.trims {
        if let Some(p) = a.pins.get(&lpid.extent()) {
            let old_rule = rule_of(&old_rules, owner(lpid.extent()));
            change(p, old_rule, &Change { lpid, entry: None, index: None });
        }
    }
    for &extent in &c.releases {
        if let Some(p) = a.pins.get(&extent) {
            let old_rule = rule_of(&old_rules, owner(extent));
            for (page, _) in p.map().mapped().collect::<Vec<_>>() {
                change(p, old_rule, &Change { lpid: extent.page(page), entry: None, index: None });
            }
        }
        pages.drop_parts(extent);
        pages.extents_mut().release(extent, c.number);
    }
    pages.changed(&a.pins);
    free(&mut state.eblocks, &c.freed);
    let said = c.freed.iter().map(|f| u64::from(f.1)).sum::<u64>();
    assert_eq!(said, freed.bytes, "commit {} frees what it said when it was staged", c.number);
    pages.inlined().forget(env.epochs(), freed.inlined);
    if !c.rules.is_empty() {
        pages.rules().publish(Arc::new(old_rules.with(&c.rules, c.number)));
    }
    if let Some((session, wsn)) = c.session {
        state.sessions.apply(session, wsn);
    }
    let bytes = c.writes.iter().map(|w| w.entry.len_bytes() as u64).sum();
    env.count(Count::UserBytes, bytes);
    state.staged.commit = c.number;
    let view = install.finish(a.opens_view);
    Installed { commit: c.number, view, pages: c.writes.len() as u64, bytes }
}

fn rule_of(rules: &Rules, owner: Option<OwnerId>) -> Option<&Rule> {
    owner.and_then(|o| rules.get(o))
}
