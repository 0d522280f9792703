//! The tables' part of the catalog.
//!
//! ```text
//!   root page ─► section "tables": a descriptor page for each table (in catalog extents) ─► the table's extents
//! ```
//!
//! A commit that changes a table writes the table's descriptor in the same batch as its pages. The root changes only when tables
//! come or go. A descriptor has version 2 if its table has constraints or B+-tree indexes, 3 if it has ON DELETE CASCADE or SET
//! NULL, 4 if it has a delta, 5 if it has `cluster_by` or was rewritten by VACUUM FULL, 6 if a constraint is DEFERRABLE
//! or `key_index` is not the default. It has version 7 if a column has a DEFAULT, a sequence or a generating expression, if ALTER TABLE
//! added or dropped columns, if an index was made within a transaction or renamed, if a key of a table with rows was added or dropped,
//! or if a foreign key has RESTRICT, SET DEFAULT or ON UPDATE. It has version 8 if the primary key has a name of its own, or a column
//! the place of another one, 9 if an index has hidden columns, or columns in another order than the usual one, and 10 if its pages
//! have a size of their own or fields for a pattern matcher.
//! Invariants: names are unique; an extent has one owner; descriptors are in catalog extents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, OwnerId, TableId};
use lode_command::{ExtentInfo, PageWrite, ReadRequest};

use super::definition::{Constraint, IndexKind, KeyIndex, ReferenceAction, Rule, TableDef};
use super::objects::{self, Objects};
use super::snapshot::{Tables, TablesState};
use super::table::{Table, TableDescriptor};
use crate::EngineError;
use crate::storage::catalog::{PageKind, Root, VERSION_PLAIN, decode, encode, root_lpid};
use crate::storage::view::View;
use crate::trees::{Above, Catalog, Snapshot};

const SECTION: &str = "tables";
/// Objects beside tables, and the page of their sequences' states. Only roots that have some have these sections.
const OBJECTS: &str = "objects";
const SEQUENCE_PAGE: &str = "sequence_page";
/// Descriptors read by one command.
const READ_PAGES: usize = 256;
/// A Lode that knows neither constraints nor trees of indexes would not keep them.
const VERSION_CONSTRAINTS: u8 = 2;
const VERSION_ON_DELETE: u8 = 3;
const VERSION_DELTA: u8 = 4;
const VERSION_CLUSTERED: u8 = 5;
const VERSION_KEYS: u8 = 6;
/// An older Lode would not fill columns, misread rows, look for trees and keys under other names, or leave an action out.
const VERSION_MIGRATED: u8 = 7;
/// An older Lode would forget the name of the primary key, or the places of columns.
const VERSION_NAMED: u8 = 8;
/// An older Lode would show the columns that only indexes have, or misread an index with descending columns.
const VERSION_HIDDEN: u8 = 9;
/// An older Lode would refuse the pages, or make pages of another size.
const VERSION_MATCHABLE: u8 = 10;

/// The catalog as a transaction has it: the tables, and where catalog pages lie.
#[derive(Clone, Debug)]
pub(super) struct TableCatalog {
    /// By name.
    pub(super) tables: Tables,
    /// Extents of the catalog itself. The root's is the first.
    pub(super) extents: Vec<ExtentId>,
    /// The number of the next table or tree.
    pub(super) next_owner: u32,
    pub(super) objects: Objects,
    /// The page of the states of sequences, from the first sequence on.
    pub(super) sequence_page: Option<Lpid>,
}

/// The root of a database without tables.
pub(crate) fn empty_root() -> Root {
    let mut root = Root::empty();
    root.sections.insert(SECTION.into(), serde_json::json!([]));
    root
}

/// The tables that a root names, at a view.
pub(crate) fn read(view: &View, root: &Root) -> Result<Above, EngineError> {
    let bad = |what: String| EngineError::BadCatalog { lpid: root_lpid(), what };
    let listed: Option<Vec<u64>> = root.section(SECTION)?;
    let listed = listed.ok_or_else(|| bad(format!("missing field `{SECTION}`")))?;
    let mut owned: BTreeSet<ExtentId> = root.extents.iter().copied().collect();
    let lpids = listed.into_iter().map(|raw| {
        let known = Lpid::from_raw(raw).filter(|l| owned.contains(&l.extent()));
        known.ok_or_else(|| bad(format!("page {raw} is outside the catalog")))
    });
    let lpids = lpids.collect::<Result<Vec<_>, _>>()?;
    let mut tables: BTreeMap<String, Arc<Table>> = BTreeMap::new();
    for chunk in lpids.chunks(READ_PAGES) {
        let requests = chunk.iter().map(|&lpid| ReadRequest { lpid, range: None }).collect();
        let (pages, _) = view.read(requests)?;
        for (&lpid, page) in chunk.iter().zip(&pages) {
            let bad = |what: String| EngineError::BadCatalog { lpid, what };
            let descriptor: TableDescriptor = decode(PageKind::Table, lpid, page)?;
            let table = Table::from_descriptor(descriptor, lpid).map_err(bad)?;
            if table.id().raw() >= root.next_owner {
                return Err(bad(format!("table {} was never created", table.id())));
            }
            if let Some(e) = table.extents.iter().find(|e| !owned.insert(e.id)) {
                return Err(bad(format!("extent {} has two owners", e.id)));
            }
            if let Some(other) = tables.insert(table.name().into(), Arc::new(table)) {
                return Err(bad(format!("two tables are called \"{}\"", other.name())));
            }
        }
    }
    let objects = objects::from_listed(root.section(OBJECTS)?.unwrap_or_default()).map_err(bad)?;
    let page: Option<u64> = root.section(SEQUENCE_PAGE)?;
    let page = page.map(|raw| {
        let known = Lpid::from_raw(raw).filter(|l| root.extents.contains(&l.extent()));
        known.ok_or_else(|| bad(format!("page {raw} is outside the catalog")))
    });
    Ok(Above::new(TablesState::new(Arc::new(tables), objects, page.transpose()?, None)))
}

/// Whether a catalog knows an extent: it names the extent, or trees have its owner.
pub(crate) fn known_extents(catalog: &Catalog) -> impl Fn(&ExtentInfo) -> bool {
    let state: &TablesState = catalog.above();
    let of_tables = state.tables().values().flat_map(|t| t.extents.iter().map(|e| e.id));
    let named: BTreeSet<ExtentId> = catalog.root().extents.iter().copied().chain(of_tables).collect();
    let owners = catalog.tree_owners();
    move |e| named.contains(&e.extent) || owners.contains(&e.owner)
}

impl TableCatalog {
    /// The catalog that a snapshot shows.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let root = snapshot.catalog().root();
        let tables = snapshot.tables_state().tables().clone();
        let (objects, sequence_page) = snapshot.tables_state().objects();
        let (objects, extents) = (objects.clone(), root.extents.clone());
        Self { tables, extents, next_owner: root.next_owner, objects, sequence_page }
    }

    /// The table of this name.
    pub(super) fn table(&self, name: &str) -> Result<&Arc<Table>, EngineError> {
        self.tables.get(name).ok_or_else(|| EngineError::NoSuchTable(name.into()))
    }

    /// Checks the foreign keys of a definition against the tables that they reference, of which it may be one.
    pub(super) fn check_parents(&self, def: &TableDef) -> Result<(), EngineError> {
        for c in &def.constraints {
            let Rule::ForeignKey { columns, parent, parent_columns, .. } = &c.rule else { continue };
            let parent = if *parent == def.name { def } else { self.table(parent.as_str())?.def() };
            def.check_parent(c, columns, parent, parent_columns)?;
        }
        Ok(())
    }

    /// The table of this number.
    pub(super) fn table_of_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.values().find(|t| t.id() == id)
    }

    /// Extents that it names.
    pub(super) fn named_extents(&self) -> BTreeSet<ExtentId> {
        let of_tables = self.tables.values().flat_map(|t| t.extents.iter().map(|e| e.id));
        self.extents.iter().copied().chain(of_tables).collect()
    }

    /// Gives a new table a page for its descriptor. `allocate` gives another extent if the catalog has no free page.
    pub(super) fn place(
        &mut self,
        t: &mut Table,
        allocate: impl FnOnce(OwnerId) -> Result<ExtentId, EngineError>,
    ) -> Result<(), EngineError> {
        self.next_owner = self.next_owner.max(t.id().raw() + 1);
        t.descriptor = self.new_page(allocate)?;
        Ok(())
    }

    /// Takes these objects. The states of the first sequences get a page.
    pub(super) fn set_objects(
        &mut self,
        objects: Objects,
        allocate: impl FnOnce(OwnerId) -> Result<ExtentId, EngineError>,
    ) -> Result<(), EngineError> {
        let greatest = objects::sequences(&objects).map(|(_, def)| def.id).max();
        self.objects = objects;
        if let Some(id) = greatest {
            self.next_owner = self.next_owner.max(id + 1);
            if self.sequence_page.is_none() {
                self.sequence_page = Some(self.new_page(allocate)?);
            }
        }
        Ok(())
    }

    fn new_page(
        &mut self,
        allocate: impl FnOnce(OwnerId) -> Result<ExtentId, EngineError>,
    ) -> Result<Lpid, EngineError> {
        if let Some(lpid) = self.free_page() {
            return Ok(lpid);
        }
        let extent = allocate(OwnerId::CATALOG)?;
        self.extents.push(extent);
        Ok(extent.page(0))
    }

    /// A page of the catalog's extents that no table uses; `None` when another extent is needed.
    fn free_page(&self) -> Option<Lpid> {
        let mut used = descriptors(&self.tables);
        used.insert(root_lpid());
        used.extend(self.sequence_page);
        let mut pages = self.extents.iter().flat_map(|e| (0..EXTENT_PAGES as u16).map(|p| e.page(p)));
        pages.find(|p| !used.contains(p))
    }

    /// This catalog, with the trees of a snapshot.
    pub(super) fn published(&self, snapshot: &Snapshot) -> Catalog {
        let listed: Vec<u64> = self.tables.values().map(|t| t.descriptor.raw()).collect();
        let mut root = snapshot.catalog().root().clone();
        (root.next_owner, root.extents) = (self.next_owner, self.extents.clone());
        root.sections.insert(SECTION.into(), listed.into());
        let objects = objects::listed(&self.objects);
        match objects.is_empty() {
            true => drop(root.sections.remove(OBJECTS)),
            false => {
                let section =
                    serde_json::to_value(objects).expect("names and numbers can be written as JSON");
                root.sections.insert(OBJECTS.into(), section);
            }
        }
        if let Some(page) = self.sequence_page {
            root.sections.insert(SEQUENCE_PAGE.into(), page.raw().into());
        }
        let state = TablesState::new(self.tables.clone(), self.objects.clone(), self.sequence_page, None);
        snapshot.catalog().with_above(root, Above::new(state))
    }

    /// Pages to write and to trim so that the drive's catalog, which a snapshot shows, becomes this one.
    pub(super) fn changes_from(
        &self,
        snapshot: &Snapshot,
        page_bytes_max: usize,
    ) -> Result<(Vec<PageWrite>, Vec<Lpid>), EngineError> {
        let old = snapshot.tables_state().tables();
        let mut writes = Vec::new();
        for t in self.tables.values() {
            if old.get(t.name()).is_some_and(|o| Arc::ptr_eq(o, t)) {
                continue;
            }
            let write = encode(PageKind::Table, version_of(t), t.descriptor, &t.to_descriptor());
            if write.data.len() > page_bytes_max {
                let bytes = write.data.len();
                let what = format!("its description takes {bytes} bytes, a page holds {page_bytes_max}");
                return Err(EngineError::invalid(t.name(), what));
            }
            writes.push(write);
        }
        let trims = descriptors(old).difference(&descriptors(&self.tables)).copied().collect();
        writes.extend(self.published(snapshot).root_page(snapshot.catalog(), page_bytes_max)?);
        Ok((writes, trims))
    }
}

fn descriptors(tables: &BTreeMap<String, Arc<Table>>) -> BTreeSet<Lpid> {
    tables.values().map(|t| t.descriptor).collect()
}

/// The version of a table's descriptor.
fn version_of(t: &Table) -> u8 {
    let acts = |c: &Constraint| matches!(c.rule, Rule::ForeignKey { on_delete, .. } if on_delete.acts());
    let has_later_action = |c: &Constraint| match c.rule {
        Rule::ForeignKey { on_delete, on_update, .. } => {
            matches!(on_delete, ReferenceAction::Restrict | ReferenceAction::SetDefault)
                || on_update != ReferenceAction::NoAction
        }
        _ => false,
    };
    let plain = t.def().constraints.is_empty() && t.indexes().iter().all(|i| i.kind == IndexKind::Page);
    let options = &t.def().options;
    match plain {
        _ if options.page_bytes.is_some() || options.encoding.has_matchable() => VERSION_MATCHABLE,
        _ if t.def().columns.iter().any(|c| c.hidden.is_some()) => VERSION_HIDDEN,
        _ if t.indexes().iter().any(|i| !i.orders.is_empty()) => VERSION_HIDDEN,
        _ if t.def().primary_key_name.is_some() || t.def().columns.iter().any(|c| c.place.is_some()) => {
            VERSION_NAMED
        }
        _ if t.def().has_added_or_dropped() || t.def().columns.iter().any(|c| !c.fill.is_null()) => {
            VERSION_MIGRATED
        }
        _ if t.has_own_names() || t.def().constraints.iter().any(has_later_action) => VERSION_MIGRATED,
        _ if t.def().has_deferrable() || t.def().options.key_index != KeyIndex::Tree => VERSION_KEYS,
        _ if t.is_rewritten || !t.def().options.cluster_by.is_empty() => VERSION_CLUSTERED,
        _ if t.has_delta() => VERSION_DELTA,
        true => VERSION_PLAIN,
        false if t.def().constraints.iter().any(acts) => VERSION_ON_DELETE,
        false => VERSION_CONSTRAINTS,
    }
}
