//! The check of a whole database: catalog against extents, every page, every index entry, every key.
//!
//! Each damage is reported as one line, and the check goes on. Only a drive that does not answer ends it.

use std::collections::{BTreeMap, BTreeSet};

use lode_base::{ExtentId, Lpid, OwnerId};
use lode_command::IndexedPage;
use lode_page::decode_page;
use lode_program::{IndexEntry, IndexRule};

use super::catalog::TableCatalog;
use super::collect::index_entries;
use super::definition::IndexKind;
use super::read::{self, Whole};
use super::table::Table;
use super::{check_rows, index, write};
use crate::EngineError;
use crate::storage::columns::check_page as check_owner;
use crate::trees::{self, REDO_OWNER, Snapshot};

/// Reports what is wrong with the database at a snapshot, which must be the newest. `tree_extents`: the extents of trees, with their
/// owners. A check of unsorted keys may hold `key_check_bytes` of hashes at a time.
pub(crate) fn check(
    snapshot: &Snapshot,
    tree_extents: &[(OwnerId, ExtentId)],
    key_check_bytes: usize,
) -> Result<Vec<String>, EngineError> {
    let mut problems = Vec::new();
    check_extents(snapshot, tree_extents, &mut problems)?;
    for tree in snapshot.trees() {
        let own = tree_extents.iter().filter(|(owner, _)| *owner == tree.owner()).map(|(_, e)| *e).collect();
        trees::check(snapshot, tree, &own, &mut problems)?;
    }
    for t in snapshot.tables() {
        let sound = problems.len();
        check_table(snapshot, t, &mut problems)?;
        if sound == problems.len() {
            match t.has_delta() {
                true => check_rows::check(snapshot, t, &mut problems)?,
                false => check_indexes(snapshot, t, &mut problems)?,
            }
        }
        if sound == problems.len() {
            problems.extend(problem(write::check_keys(snapshot, key_check_bytes, t))?);
        }
    }
    if problems.is_empty() {
        for t in snapshot.tables() {
            problems.extend(problem(write::check_foreign_keys(snapshot, t))?);
        }
    }
    Ok(problems)
}

/// What a check found, if it found something.
fn problem(checked: Result<(), EngineError>) -> Result<Option<String>, EngineError> {
    match checked {
        Ok(()) => Ok(None),
        Err(e) if e.is_of_drive() => Err(e),
        Err(e) => Ok(Some(e.to_string())),
    }
}

/// Every row has its entry in each B+-tree index of its table.
fn check_indexes(snapshot: &Snapshot, t: &Table, problems: &mut Vec<String>) -> Result<(), EngineError> {
    for index in t.indexes().iter().filter(|i| i.kind != IndexKind::Page) {
        let Some(tree) = snapshot.tree(&t.index_tree(index)) else {
            problems.push(format!("table \"{}\": index \"{}\" has no tree", t.name(), index.name));
            continue;
        };
        for page in index_entries(snapshot, t, &t.index_rule()?) {
            let IndexedPage { lpid, .. } = page?;
            let page = read::columns(snapshot, lpid, &index.columns)?;
            let missing = |key: Vec<u8>| Ok(snapshot.get(&tree, &index::entry(key, lpid))?.is_none());
            let missing = index::keys(&page.columns, index).into_iter().map(missing);
            let count =
                missing.collect::<Result<Vec<bool>, EngineError>>()?.into_iter().filter(|m| *m).count();
            if count > 0 {
                problems.push(format!(
                    "table \"{}\", page {lpid}: index \"{}\" lacks {count} entries",
                    t.name(),
                    index.name
                ));
            }
        }
    }
    Ok(())
}

/// Every extent has the owner that the catalog says, and the other way round.
fn check_extents(
    snapshot: &Snapshot,
    tree_extents: &[(OwnerId, ExtentId)],
    problems: &mut Vec<String>,
) -> Result<(), EngineError> {
    let catalog = TableCatalog::of(snapshot);
    let mut named: BTreeMap<ExtentId, OwnerId> =
        catalog.extents.iter().map(|&e| (e, OwnerId::CATALOG)).collect();
    for t in catalog.tables.values() {
        for e in &t.extents {
            if named.insert(e.id, t.id().into()).is_some() {
                problems.push(format!("table \"{}\": extent {} has another owner too", t.name(), e.id));
            }
        }
    }
    let of_trees: BTreeMap<ExtentId, OwnerId> = tree_extents.iter().map(|&(owner, e)| (e, owner)).collect();
    let (listed, unpublished) = snapshot.storage().extents().listed()?;
    for e in listed {
        if e.owner == REDO_OWNER || of_trees.get(&e.extent) == Some(&e.owner) {
            continue;
        }
        match named.remove(&e.extent) {
            Some(owner) if owner == e.owner => {}
            Some(owner) => problems.push(format!(
                "extent {} belongs to owner {} in the drive and to owner {owner} in the catalog",
                e.extent, e.owner
            )),
            None if unpublished.contains(&e.extent) => {}
            None => problems.push(format!("extent {} of owner {} is not in the catalog", e.extent, e.owner)),
        }
    }
    problems.extend(named.keys().map(|e| format!("extent {e} of the catalog is not in the drive")));
    Ok(())
}

fn check_table(snapshot: &Snapshot, t: &Table, problems: &mut Vec<String>) -> Result<(), EngineError> {
    let rule = t.index_rule()?;
    let (mut rows, mut bytes) = (0, 0);
    for (range, extent) in t.page_ranges().into_iter().zip(t.extents.iter().filter(|e| e.live > 0)) {
        let entries = snapshot.view().read_index(vec![range])?;
        let pages: BTreeSet<Lpid> = entries.iter().map(|e| e.lpid).collect();
        if pages.len() != usize::from(extent.live) {
            problems.push(format!(
                "table \"{}\": extent {} has {} pages, the catalog says {}",
                t.name(),
                extent.id,
                pages.len(),
                extent.live
            ));
        }
        for IndexedPage { lpid, entry, .. } in entries {
            match check_page(snapshot, t, &rule, lpid, entry.as_ref()) {
                Ok((page_rows, page_bytes)) => {
                    rows += page_rows;
                    bytes += page_bytes;
                }
                Err(e) if e.is_of_drive() => return Err(e),
                Err(e) => problems.push(match e {
                    e @ EngineError::BadPage { .. } => e.to_string(),
                    e => format!("table \"{}\", page {lpid}: {e}", t.name()),
                }),
            }
        }
    }
    for (what, got, said) in [("rows", rows, t.rows), ("bytes", bytes, t.bytes)] {
        if got != said {
            problems.push(format!("table \"{}\": {got} {what}, the catalog says {said}", t.name()));
        }
    }
    Ok(())
}

/// Decodes a page and compares it with its index entry; answers its rows and bytes.
fn check_page(
    snapshot: &Snapshot,
    t: &Table,
    rule: &IndexRule,
    lpid: Lpid,
    entry: Option<&IndexEntry>,
) -> Result<(u64, u64), EngineError> {
    let bad = |what: String| EngineError::BadPage { table: t.name().into(), lpid, what };
    let bytes = snapshot.view().read_page(lpid)?;
    let (page, mut columns) = decode_page(lpid, &bytes)?;
    check_owner(t.page_owner(), lpid, &page)?;
    t.schema().complete(&mut columns, page.rows());
    // A row that the delta has may have had a NULL before the column became NOT NULL.
    let overlay = snapshot.overlay(t)?;
    let hidden = overlay.as_ref().map_or(&[][..], |o| o.hidden.of(lpid));
    let shows = |row: &usize| hidden.binary_search(&(*row as u32)).is_err();
    for (c, column) in t.schema().columns.iter().zip(&columns) {
        if !c.nullable && (0..column.rows()).filter(shows).any(|row| column.is_null(row)) {
            return Err(bad("a NULL in a column that is NOT NULL".into()));
        }
    }
    if let Some(entry) = entry {
        let mut source = Whole(&columns);
        rule.check(entry).map_err(|e| bad(format!("its index entry: {e}")))?;
        let own = rule.entry(&mut source).map_err(|e| bad(e.to_string()))?;
        if own.rows() != entry.rows() {
            return Err(bad(format!("{} rows, its index entry says {}", own.rows(), entry.rows())));
        }
        if let Some(c) = rule.denied(entry, &own) {
            return Err(bad(format!("its index entry does not cover column {c}")));
        }
    }
    Ok((page.rows() as u64, bytes.len() as u64))
}
