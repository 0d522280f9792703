//! What a snapshot shows of tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::PageRange;

use super::objects::{self, AllObjects, Object, ObjectKind, Objects};
use super::own::{OwnChanges, ShownRows};
use super::table::Table;
use crate::EngineError;
use crate::storage::columns::{PageOwner, PageOwners};
use crate::trees::{Above, Catalog, Snapshot};

/// Tables by name. A state and the transactions that change none of them share one map.
pub(super) type Tables = Arc<BTreeMap<String, Arc<Table>>>;

/// The tables' part of a state, which trees carry.
pub(super) struct TablesState {
    tables: Tables,
    objects: Objects,
    sequence_page: Option<Lpid>,
    /// Within a transaction, its own changes.
    own: Option<OwnChanges>,
    has_deltas: bool,
}

impl TablesState {
    pub(super) fn new(
        tables: Tables,
        objects: Objects,
        sequence_page: Option<Lpid>,
        own: Option<OwnChanges>,
    ) -> Self {
        let has_deltas = tables.values().any(|t| t.has_delta());
        Self { tables, objects, sequence_page, own, has_deltas }
    }

    /// The tables, by name.
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The objects beside tables, and the page of the states of sequences.
    pub(super) fn objects(&self) -> (&Objects, Option<Lpid>) {
        (&self.objects, self.sequence_page)
    }

    /// Whether a table has a delta.
    pub(super) fn has_deltas(&self) -> bool {
        self.has_deltas
    }

    /// The table that a page belongs to.
    pub(super) fn table_of(&self, lpid: Lpid) -> Result<&Arc<Table>, EngineError> {
        let owner = self.tables.values().find(|t| t.extent_index(lpid.extent()).is_some());
        owner.ok_or_else(|| EngineError::invalid("", format!("page {lpid} belongs to no table")))
    }
}

impl PageOwners for TablesState {
    fn owner_of(&self, lpid: Lpid) -> Result<PageOwner<'_>, EngineError> {
        self.table_of(lpid).map(|t| t.page_owner())
    }
}

/// The catalog of trees with these tables, whose section of the root is not changed.
pub(super) fn shown(catalog: &Catalog, state: TablesState) -> Catalog {
    catalog.showing(Above::new(state))
}

impl Snapshot {
    pub(super) fn tables_state(&self) -> &TablesState {
        self.catalog().above()
    }

    /// The same state with other tables, without changes of a transaction.
    pub(super) fn showing(&self, tables: Tables) -> Self {
        let (objects, page) = self.tables_state().objects();
        self.with_catalog(shown(self.catalog(), TablesState::new(tables, objects.clone(), page, None)))
    }

    /// The reading transaction's own changes.
    pub(super) fn own(&self) -> Option<&OwnChanges> {
        self.tables_state().own.as_ref()
    }

    /// A table as it was when the reading transaction began, if it was there: what the drive's entries are of.
    pub(super) fn as_begun(&self, t: &Table) -> Option<&Arc<Table>> {
        self.own().map_or(self, |own| own.base()).tables().find(|b| b.id() == t.id())
    }

    /// The rows of a table with a delta that the reading transaction changed.
    pub(super) fn own_rows(&self, t: &Table) -> Option<&ShownRows> {
        self.own()?.rows(t.id())
    }

    /// Whether a table has changes that only the reading transaction sees.
    pub fn has_own_changes(&self, t: &Table) -> bool {
        self.own().is_some_and(|own| own.changes_table(t.id()))
    }

    /// The tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables_state().tables.values()
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.tables_state().tables.get(name).cloned()
    }

    /// The objects of a kind, by name.
    pub fn objects(&self, kind: ObjectKind) -> impl Iterator<Item = (&str, &Object)> {
        let named = self.tables_state().objects.get(&kind).into_iter().flatten();
        named.map(|(name, object)| (name.as_str(), object))
    }

    /// All objects and tables.
    pub fn all_objects(&self) -> AllObjects {
        let state = self.tables_state();
        AllObjects { objects: state.objects.clone(), tables: state.tables.clone() }
    }

    /// The object of this kind and name.
    pub fn object(&self, kind: ObjectKind, name: &str) -> Option<&Object> {
        objects::get(&self.tables_state().objects, kind, name)
    }

    /// The pages of a table of this snapshot. A partition may take any part of them.
    pub fn page_ranges(&self, t: &Table) -> Vec<PageRange> {
        t.all_ranges()
    }
}
