//! Statistics of a table at a snapshot, from the drive's page index: no page is read for them.

use super::own::OwnChanges;
use super::read::{Whole, own_columns};
use super::statistics::{TableSize, TableStatistics};
use super::table::Table;
use crate::EngineError;
use crate::trees::Snapshot;
use lode_command::IndexedPage;
use lode_program::index::SHORT_ENTRY_BYTES_MAX;
use lode_program::{IndexEntry, IndexRule};

/// Extents whose entries are read by one command, where entries are short.
const READ_EXTENTS: usize = 16;

/// Extents whose entries by this rule one command reads: of short ones an answer has at most 32 MB, and of long ones fewer are read at a time.
pub(super) fn extents_at_once(rule: &IndexRule) -> usize {
    (READ_EXTENTS * SHORT_ENTRY_BYTES_MAX / rule.entry_bytes().max(SHORT_ENTRY_BYTES_MAX)).max(1)
}

/// The index entries of all pages of a table, read as they are asked for.
pub(super) fn index_entries<'a>(
    snapshot: &'a Snapshot,
    t: &Table,
    rule: &IndexRule,
) -> impl Iterator<Item = Result<IndexedPage, EngineError>> + 'a {
    let commands: Vec<_> = t.page_ranges().chunks(extents_at_once(rule)).map(<[_]>::to_vec).collect();
    commands.into_iter().flat_map(|ranges| match snapshot.view().read_index(ranges) {
        Ok(pages) => pages.into_iter().map(Ok).collect(),
        Err(e) => vec![Err(e)],
    })
}

impl Snapshot {
    /// Rows, sizes, bounds of values. They are collected from the page index once for each version of a table.
    pub fn statistics(&self, t: &Table) -> Result<TableStatistics, EngineError> {
        let of_pages = self.statistics_of_pages(t)?;
        match self.overlay(t)? {
            Some(overlay) if !overlay.is_empty() => {
                let rule = t.index_rule()?;
                let rows = overlay.rows_with(t.rows);
                let shown = overlay.parts.iter().filter(|p| p.rows() > 0);
                let size = TableSize { rows, bytes: of_pages.bytes + overlay.bytes(), pages: of_pages.pages };
                let entries: Option<Vec<IndexEntry>> = shown.map(|p| p.chunk.entry(&rule).cloned()).collect();
                let grown = entries.and_then(|e| of_pages.grown(t.schema(), size, &rule, &e));
                Ok(grown.unwrap_or_else(|| TableStatistics::unknown(t.schema(), size)))
            }
            _ => Ok(of_pages),
        }
    }

    fn statistics_of_pages(&self, t: &Table) -> Result<TableStatistics, EngineError> {
        if let Some(known) = t.statistics.get() {
            return Ok(known.clone());
        }
        let collected = match self.own() {
            // A transaction that changes no page of a table shares it with others.
            Some(own) if own.base().tables().any(|b| std::ptr::eq(b.as_ref(), t)) => collect(own.base(), t)?,
            Some(own) if own.changes_table(t.id()) => with_own(self, own, t)?,
            _ => collect(self, t)?,
        };
        Ok(t.statistics.get_or_init(|| collected).clone())
    }
}

fn unknown(t: &Table) -> TableStatistics {
    TableStatistics::unknown(t.schema(), t.size())
}

fn collect(snapshot: &Snapshot, t: &Table) -> Result<TableStatistics, EngineError> {
    let mut stats = TableStatistics::none(t.schema(), t.size());
    let rule = t.index_rule()?;
    for page in index_entries(snapshot, t, &rule) {
        // A page without an entry may hold anything.
        let Some(entry) = page?.entry else { return Ok(unknown(t)) };
        rule.check(&entry)?;
        if !stats.widen(&rule, &entry) {
            return Ok(unknown(t));
        }
    }
    stats.name_bounds(t.schema(), &rule);
    Ok(stats)
}

/// The statistics of a table that the reading transaction changed: those at its begin, widened by what it put in.
fn with_own(snapshot: &Snapshot, own: &OwnChanges, t: &Table) -> Result<TableStatistics, EngineError> {
    let rule = t.index_rule()?;
    let base = match own.base().tables().find(|b| b.id() == t.id()) {
        // The drive's entries are those of the index at the begin.
        Some(base) if base.index_rule()?.entry_form() != rule.entry_form() => return Ok(unknown(t)),
        Some(base) => own.base().statistics(base)?,
        None => TableStatistics::none(t.schema(), t.size()),
    };
    if t.extents.iter().any(|e| own.is_loaded(e.id)) {
        return Ok(unknown(t));
    }
    let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
    let mut entries = Vec::new();
    for lpid in own.pages_in_memory(t.id()).chain(own.edited_pages(t)) {
        let page = own_columns(snapshot, own, lpid, &all)?;
        if page.rows > 0 {
            entries.extend(rule.entry(&mut Whole(&page.columns)));
        }
    }
    Ok(base.grown(t.schema(), t.size(), &rule, &entries).unwrap_or_else(|| unknown(t)))
}
