//! Single rows by id, at a snapshot.

use std::ops::Bound;
use std::sync::Arc;

use lode_page::{Value, row};

use crate::EngineError;
use crate::storage;
use crate::tables::delta::{Directory, RowId, delta_key, delta_range, id_of_key, tree_name};
use crate::tables::planted::{self, Planted};
use crate::tables::table::Table;
use crate::trees::{Snapshot, Tree};

impl Snapshot {
    /// The tree of a table; `None` if the reading transaction made the table, or the table has no delta.
    pub(in crate::tables) fn rows_tree(&self, t: &Table) -> Option<Tree> {
        t.delta()?;
        self.tree(&tree_name(t.id()))
    }

    /// Which page of the main of a table has which rows.
    pub(in crate::tables) fn directory(&self, t: &Table) -> Result<Arc<Directory>, EngineError> {
        if let Some(known) = t.directory.get() {
            return Ok(known.clone());
        }
        let read = match self.rows_tree(t) {
            Some(tree) => Directory::read(self, &tree, RowId::new(t.bounds_from))?,
            None => Directory::default(),
        };
        Ok(t.directory.get_or_init(|| Arc::new(read)).clone())
    }

    /// Sees to it that new rows of a table get ids beyond those of its delta.
    pub(in crate::tables) fn number_rows_on(&self, t: &Table) -> Result<(), EngineError> {
        let (Some(delta), Some(tree)) = (t.delta(), self.rows_tree(t)) else { return Ok(()) };
        let (low, high) = delta_range();
        let mut cursor = self.range_back(&tree, Bound::Included(&low), Bound::Excluded(&high))?;
        if let Some(last) = cursor.next()?.and_then(|(key, _)| id_of_key(key)) {
            planted::unless(Planted::IdsReused, || delta.ids_before(last.raw() + 1));
        }
        Ok(())
    }

    /// The values of a row in these columns, without what the reading transaction changed; `None` if there is no such row.
    pub(in crate::tables) fn values_of_row(
        &self,
        t: &Table,
        id: RowId,
        columns: &[u16],
    ) -> Result<Option<Vec<Value>>, EngineError> {
        if let Some(tree) = self.rows_tree(t)
            && let Some(found) = self.get_with(&tree, &delta_key(id), |image| values(t, image, columns))?
        {
            return found;
        }
        let Some((lpid, slot)) = self.directory(t)?.place(id) else { return Ok(None) };
        let page = storage::columns::columns(self.view(), &t.page_owner(), lpid, columns)?;
        Ok(Some(page.columns.iter().map(|c| c.value(slot as usize)).collect()))
    }
}

/// The values of an image in these columns; `None` if the row is gone.
pub(in crate::tables) fn values(
    t: &Table,
    image: &[u8],
    columns: &[u16],
) -> Result<Option<Vec<Value>>, EngineError> {
    if image.is_empty() {
        return Ok(None);
    }
    let mut all = row::decode(t.schema(), image)
        .map_err(|e| EngineError::invalid(t.name(), format!("its delta is damaged: {e}")))?;
    let of = |(i, &c): (usize, &u16)| match columns[i + 1..].contains(&c) {
        true => all[usize::from(c)].clone(),
        false => std::mem::replace(&mut all[usize::from(c)], Value::Null),
    };
    Ok(Some(columns.iter().enumerate().map(of).collect()))
}
