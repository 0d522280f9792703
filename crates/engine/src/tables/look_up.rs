//! Look-ups of pages by values of columns, many times over: what joins by index need.
//!
//! ```text
//!   columns ─┬─ the table is sorted by them? ─► bounds of its pages, in memory: as the inner nodes of a clustered index
//!            └─ a B+-tree begins with them?  ─► its entries
//!   values ──► pages that may have rows with these values
//! ```
//!
//! Invariant: a row of the table that has the values is on a page that was named, or on one of [`LookUps::others`].

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::PageRange;
use lode_page::{DataType, Value};

use super::bounds::{PageBounds, SORTED_PAGES_MAX};
use super::definition::{IndexKind, KeyOrder};
use super::delta::Directory;
use super::index::{KeyRange, Most};
use super::key::ordered_key;
use super::table::Table;
use crate::trees::{Snapshot, Tree};
use crate::{EngineError, HostWork};

/// Finds the pages of a table at a snapshot by values of some of its columns.
pub struct LookUps {
    snapshot: Snapshot,
    table: Arc<Table>,
    columns: Vec<u16>,
    types: Vec<DataType>,
    by: By,
}

enum By {
    Bounds(Arc<PageBounds>),
    Tree {
        index: String,
        tree: Tree,
        orders: Vec<KeyOrder>,
        value_bytes_max: usize,
        directory: Option<Arc<Directory>>,
    },
}

impl fmt::Debug for LookUps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.index().unwrap_or("order");
        write!(f, "LookUps({}, {index}, {:?})", self.table.name(), self.columns)
    }
}

impl Snapshot {
    /// How to find pages by values of these columns, or of those of them with which an index begins. `None` if no index helps, or if
    /// the reading transaction has changed the table.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn look_ups(&self, t: &Arc<Table>, columns: &[u16]) -> Result<Option<LookUps>, EngineError> {
        let type_of = |c: &u16| t.schema().columns[usize::from(*c)].data_type;
        // Equal floats may differ in their bits.
        let is_known = |c: &u16| columns.contains(c) && !type_of(c).is_float();
        if self.has_own_changes(t) {
            return Ok(None);
        }
        let found = |columns: &[u16], by| {
            let types = columns.iter().map(type_of).collect();
            Some(LookUps { snapshot: self.clone(), table: t.clone(), columns: columns.into(), types, by })
        };
        let first_known = |of: &[u16]| of.iter().take_while(|c| is_known(c)).count();
        let key = &t.def().primary_key;
        let key = &key[..first_known(key)];
        if !key.is_empty()
            && let Some(bounds) = self.bounds_now(t, key)?
            && bounds.columns.first() == Some(&0)
            && bounds.pages_a_value() <= SORTED_PAGES_MAX
        {
            return Ok(found(key, By::Bounds(bounds)));
        }
        let trees = t.indexes().iter().filter(|i| i.kind != IndexKind::Page);
        let Some(index) = trees.max_by_key(|i| first_known(&i.columns)) else { return Ok(None) };
        let columns = &index.columns[..first_known(&index.columns)];
        let Some(tree) = self.catalog().tree(&t.index_tree(index)).filter(|_| !columns.is_empty()) else {
            return Ok(None);
        };
        let orders = (0..columns.len()).map(|n| index.order(n)).collect();
        let directory = self.directory_of_entries(t)?;
        let value_bytes_max = index.entries.value_bytes_max();
        let by =
            By::Tree { index: index.name.clone(), tree: tree.clone(), orders, value_bytes_max, directory };
        Ok(found(columns, by))
    }
}

impl LookUps {
    /// The columns by whose values it finds pages, in the order of the values.
    pub fn columns(&self) -> &[u16] {
        &self.columns
    }

    /// The index that it uses; `None` for the order of the table itself.
    pub fn index(&self) -> Option<&str> {
        match &self.by {
            By::Bounds(_) => None,
            By::Tree { index, .. } => Some(index),
        }
    }

    /// Adds the pages that may have rows with these values, one for each column, in the order of [`LookUps::columns`]. A NULL finds
    /// nothing. False if the index was dropped meanwhile, so that all pages may have such rows.
    ///
    /// # Errors
    /// When the drive fails, or for values of other types.
    pub fn find(&self, values: &[Value], pages: &mut BTreeSet<Lpid>) -> Result<bool, EngineError> {
        if values.iter().any(Value::is_null) {
            return Ok(true);
        }
        let fits = |(v, t): (&Value, &DataType)| v.fits(*t);
        if values.len() != self.types.len() || !values.iter().zip(&self.types).all(fits) {
            return Err(EngineError::invalid(
                self.table.name(),
                "a look-up needs values of its columns' types",
            ));
        }
        match &self.by {
            By::Bounds(bounds) => {
                self.snapshot.computes(HostWork::Node, bounds.levels());
                pages.extend(bounds.candidates(values, &self.types));
            }
            By::Tree { tree, orders, value_bytes_max, directory, .. } => {
                let mut key = ordered_key(self.types.iter().copied(), orders.iter().copied(), values);
                key.truncate(*value_bytes_max);
                let range = KeyRange { low: key.clone(), high: key };
                let mut named = BTreeSet::new();
                let directory = directory.as_deref();
                let found = self.snapshot.pages_in(tree, &range, directory, None, Most::ALL, &mut named);
                // This check comes after the look-up. If the tree still exists now, the look-up has read a whole tree.
                if self.snapshot.is_dropped(tree) {
                    return Ok(false);
                }
                found?;
                pages.extend(named.into_iter().filter(|page| self.table.may_have_page(*page)));
            }
        }
        Ok(true)
    }

    /// What each look-up has to look at besides: the rows of a delta.
    pub fn others(&self) -> Option<PageRange> {
        self.table.delta_range()
    }
}
