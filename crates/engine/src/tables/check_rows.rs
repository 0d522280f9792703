//! The check of a table with a delta: the directory names the table's pages, and every row has its entries.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::Answer;
use lode_page::Value;
use lode_program::Program;

use crate::EngineError;
use crate::tables::collect::index_entries;
use crate::tables::definition::IndexKind;
use crate::tables::delta::RowId;
use crate::tables::overlay::id_at;
use crate::tables::table::Table;
use crate::tables::{index, read};
use crate::trees::Snapshot;

/// Reports what is wrong with the directory and with the entries of a table.
pub(in crate::tables) fn check(
    snapshot: &Snapshot,
    t: &Table,
    problems: &mut Vec<String>,
) -> Result<(), EngineError> {
    let mut say = |what: String| problems.push(format!("table \"{}\": {what}", t.name()));
    if snapshot.rows_tree(t).is_none() {
        say("its tree of rows is missing".into());
        return Ok(());
    }
    let directory = snapshot.directory(t)?;
    let pages = index_entries(snapshot, t, &t.index_rule()?).map(|p| p.map(|p| p.lpid));
    let mut pages: BTreeSet<Lpid> = pages.collect::<Result<_, _>>()?;
    let mut end: Option<RowId> = None;
    for (&first, span) in directory.spans() {
        if !pages.remove(&span.lpid) {
            say(format!(
                "its directory names page {}, which is not there or has another place too",
                span.lpid
            ));
            continue;
        }
        let rows = read::page(snapshot, span.lpid)?.rows();
        if rows != span.rows as usize {
            say(format!("page {} has {rows} rows, its directory says {}", span.lpid, span.rows));
            continue;
        }
        if end.is_some_and(|end| end >= first) {
            say(format!("the ids of page {} overlap those of the page before", span.lpid));
        }
        end = Some(span.id(first, span.rows.saturating_sub(1)));
    }
    if let Some(lpid) = pages.first() {
        say(format!("its directory does not name page {lpid}"));
    }
    check_entries(snapshot, t, &mut say)
}

fn check_entries(snapshot: &Snapshot, t: &Table, say: &mut dyn FnMut(String)) -> Result<(), EngineError> {
    let directory = snapshot.directory(t)?;
    let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
    let keys: Vec<(usize, Vec<u16>)> = t.keys().map(|(_, key)| key.to_vec()).enumerate().collect();
    let mut trees = Vec::new();
    for i in t.indexes().iter().filter(|i| i.kind != IndexKind::Page) {
        match snapshot.tree(&t.index_tree(i)) {
            Some(tree) => trees.push((i, tree, 0u64)),
            None => say(format!("index \"{}\" has no tree", i.name)),
        }
    }
    let mut lost_keys = vec![0u64; keys.len()];
    let program = Arc::new(Program::check(t.schema().clone(), None, all, true)?);
    let mut scan = snapshot.scan(t, snapshot.page_ranges(t), program, Answer::Rows, None)?;
    while let Some(unit) = scan.next()? {
        for page in &unit.pages {
            for row in 0..page.rows as usize {
                let slot = page.slots.as_ref().map_or(row as u32, |s| s[row]);
                let Some(id) = id_at(&directory, page.lpid, slot) else {
                    say(format!("row {slot} of page {} has no id", page.lpid));
                    return Ok(());
                };
                let values = |columns: &[u16]| -> Vec<Value> {
                    columns.iter().map(|&c| page.columns[usize::from(c)].value(row)).collect()
                };
                for (n, key) in &keys {
                    let of_key = values(key);
                    if !of_key.contains(&Value::Null)
                        && !snapshot.rows_of_key(t, *n, key, &of_key)?.contains(&id)
                    {
                        lost_keys[*n] += 1;
                    }
                }
                for (i, tree, lost) in &mut trees {
                    let types: Vec<_> =
                        i.columns.iter().map(|&c| page.columns[usize::from(c)].data_type()).collect();
                    let entry = index::row_entry(i, &types, &values(&i.columns), id);
                    *lost += u64::from(snapshot.get(tree, &entry)?.is_none());
                }
            }
        }
    }
    for (n, lost) in lost_keys.into_iter().enumerate().filter(|(_, lost)| *lost > 0) {
        say(format!("{lost} rows are not found by key {n}"));
    }
    for (i, _, lost) in trees.into_iter().filter(|(_, _, lost)| *lost > 0) {
        say(format!("index \"{}\" lacks {lost} entries", i.name));
    }
    Ok(())
}
