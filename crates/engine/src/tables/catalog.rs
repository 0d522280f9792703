//! The catalog: which tables there are, and where their pages lie. It lives in the drive, versioned like data.
//!
//! ```text
//!   page 0 of extent 0: root ─► a descriptor page for each table (in catalog extents) ─► the table's extents
//!
//!   a catalog page (little-endian):
//!    0  magic "LCAT"                        16  bytes of the body              u32
//!    4  kind: 1 root, 2 table       u8      20  CRC-32C of bytes 0..20 and     u32
//!    5  version of that kind        u8          the body
//!    6  0                           u16     24  body: JSON, then zeroes to a multiple of 64
//!    8  LPID                        u64
//! ```
//!
//! A commit that changes a table writes its descriptor in the same batch as its pages; the root changes only when
//! tables come or go. A root with trees and a table with constraints have version 2, one with ON DELETE CASCADE or SET NULL 3, all else 1. Invariants: names are unique;
//! an extent has one owner; descriptors lie in catalog extents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::checksum::{crc32c, crc32c_seeded};
use lode_base::{CELL_BYTES, EXTENT_PAGES, ExtentId, Lpid, PageBuf, PageBufMut, TableId, ViewId};
use lode_command::{Align, PageWrite, ReadRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::EngineError;
use crate::storage::store::Store;
use crate::tables::table::{Constraint, IndexKind, OnDelete, Rule, Table, TableDescriptor};
use crate::trees::Tree;

const MAGIC: [u8; 4] = *b"LCAT";
const HEADER_BYTES: usize = 24;
/// The newest version: tables whose foreign keys do something ON DELETE.
const VERSION: u8 = 3;
/// What all else is written as.
const VERSION_PLAIN: u8 = 1;
/// Roots with trees, and tables with constraints.
const VERSION_TREES: u8 = 2;
const KIND_ROOT: u8 = 1;
const KIND_TABLE: u8 = 2;
/// Descriptors read by one command.
const READ_PAGES: usize = 256;

/// All tables at one commit. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    /// Extents of the catalog itself; the root's is the first.
    pub(crate) extents: Vec<ExtentId>,
    /// The number of the next table or tree.
    pub(crate) next_table: u32,
    /// The trees, by name.
    pub(crate) trees: BTreeMap<String, Tree>,
}

#[derive(Serialize, Deserialize)]
struct Root {
    next_table: u32,
    extents: Vec<u64>,
    /// Descriptor pages.
    tables: Vec<u64>,
    /// Trees: number, name, root page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    trees: Vec<(u32, String, u64)>,
}

/// Where the root is.
pub(crate) fn root_lpid() -> Lpid {
    ExtentId::new(0).expect("0 is an extent").page(0)
}

impl Catalog {
    pub(crate) fn empty() -> Self {
        let extents = vec![root_lpid().extent()];
        Self { tables: BTreeMap::new(), extents, next_table: 1, trees: BTreeMap::new() }
    }

    /// The catalog at a view.
    pub(crate) fn read(store: &Store, view: ViewId) -> Result<Self, EngineError> {
        let lpid = root_lpid();
        let bad = |what: String| EngineError::BadCatalog { lpid, what };
        let root: Root = decode(KIND_ROOT, lpid, &store.read_page(Some(view), lpid)?)?;
        let mut catalog = Self { extents: Vec::new(), next_table: root.next_table, ..Self::empty() };
        for (id, name, page) in root.trees {
            let page = Lpid::from_raw(page).ok_or_else(|| bad(format!("page {page} is out of range")))?;
            if id == 0 || id >= root.next_table || catalog.trees.values().any(|t| t.id().raw() == id) {
                return Err(bad(format!("tree \"{name}\" has the number {id}")));
            }
            let tree = Tree::new(TableId::new(id), name.clone(), page);
            if catalog.trees.insert(name.clone(), tree).is_some() {
                return Err(bad(format!("two trees are called \"{name}\"")));
            }
        }
        for raw in root.extents {
            catalog
                .extents
                .push(ExtentId::new(raw).ok_or_else(|| bad(format!("extent {raw} is out of range")))?);
        }
        let mut owners: BTreeSet<ExtentId> = catalog.extents.iter().copied().collect();
        if owners.len() != catalog.extents.len() || catalog.extents.first() != Some(&lpid.extent()) {
            return Err(bad("the catalog's extents contradict each other".into()));
        }
        let lpids = root.tables.iter().map(|&raw| {
            let known = Lpid::from_raw(raw).filter(|l| owners.contains(&l.extent()));
            known.ok_or_else(|| bad(format!("page {raw} is outside the catalog")))
        });
        let lpids = lpids.collect::<Result<Vec<_>, _>>()?;
        for chunk in lpids.chunks(READ_PAGES) {
            let requests = chunk.iter().map(|&lpid| ReadRequest { lpid, range: None }).collect();
            let (pages, _) = store.read(Some(view), requests)?;
            for (&lpid, page) in chunk.iter().zip(&pages) {
                let bad = |what: String| EngineError::BadCatalog { lpid, what };
                let descriptor: TableDescriptor = decode(KIND_TABLE, lpid, page)?;
                let table = Table::from_descriptor(descriptor, lpid).map_err(bad)?;
                if table.id().raw() >= catalog.next_table {
                    return Err(bad(format!("table {} was never created", table.id())));
                }
                if let Some(e) = table.extents.iter().find(|e| !owners.insert(e.id)) {
                    return Err(bad(format!("extent {} has two owners", e.id)));
                }
                if let Some(other) = catalog.tables.insert(table.name().into(), Arc::new(table)) {
                    return Err(bad(format!("two tables are called \"{}\"", other.name())));
                }
            }
        }
        Ok(catalog)
    }

    /// The table of this name.
    pub(crate) fn table(&self, name: &str) -> Result<&Arc<Table>, EngineError> {
        self.tables.get(name).ok_or_else(|| EngineError::NoSuchTable(name.into()))
    }

    /// Whether this is a tree of the catalog.
    pub(crate) fn has_tree(&self, tree: &Tree) -> bool {
        self.trees.get(tree.name()).is_some_and(|t| Arc::ptr_eq(&t.inner, &tree.inner) || t == tree)
    }

    /// The table that a page belongs to.
    pub(crate) fn owner_of(&self, lpid: Lpid) -> Option<&Arc<Table>> {
        self.tables.values().find(|t| t.extent_index(lpid.extent()).is_some())
    }

    /// A page of the catalog's extents that no table uses; `None` when a further extent is needed.
    pub(crate) fn free_page(&self) -> Option<Lpid> {
        let mut used: BTreeSet<Lpid> = self.tables.values().map(|t| t.descriptor).collect();
        used.insert(root_lpid());
        let mut pages = self.extents.iter().flat_map(|e| (0..EXTENT_PAGES as u16).map(|p| e.page(p)));
        pages.find(|p| !used.contains(p))
    }

    /// Pages to write and to trim so that the drive's catalog, which is `old`, becomes this one.
    pub(crate) fn changes_from(
        &self,
        old: &Self,
        page_bytes_max: usize,
    ) -> Result<(Vec<PageWrite>, Vec<Lpid>), EngineError> {
        let mut writes = Vec::new();
        for t in self.tables.values() {
            if !old.tables.get(t.name()).is_some_and(|o| Arc::ptr_eq(o, t)) {
                // A Lode that knows neither constraints nor trees of indexes would not hold them.
                let plain =
                    t.def().constraints.is_empty() && t.indexes().iter().all(|i| i.kind == IndexKind::Page);
                let acts = |c: &Constraint| matches!(c.rule, Rule::ForeignKey { on_delete, .. } if on_delete != OnDelete::NoAction);
                let version = match plain {
                    true => VERSION_PLAIN,
                    false if t.def().constraints.iter().any(acts) => VERSION,
                    false => VERSION_TREES,
                };
                let write = encode(KIND_TABLE, version, t.descriptor, &t.to_descriptor());
                if write.data.len() > page_bytes_max {
                    let what = format!(
                        "its description takes {} bytes, a page holds {page_bytes_max}",
                        write.data.len()
                    );
                    return Err(EngineError::invalid(t.name(), what));
                }
                writes.push(write);
            }
        }
        let pages = |c: &Self| c.tables.values().map(|t| t.descriptor).collect::<BTreeSet<Lpid>>();
        let (pages_old, pages_new) = (pages(old), pages(self));
        let trims: Vec<Lpid> = pages_old.difference(&pages_new).copied().collect();
        let same = pages_old == pages_new && old.extents == self.extents && old.next_table == self.next_table;
        let same = same && old.trees == self.trees;
        if !same {
            let root = self.root_page();
            if root.data.len() > page_bytes_max {
                let what =
                    format!("the catalog takes {} bytes, a page holds {page_bytes_max}", root.data.len());
                return Err(EngineError::BadCatalog { lpid: root.lpid, what });
            }
            writes.push(root);
        }
        Ok((writes, trims))
    }

    pub(crate) fn root_page(&self) -> PageWrite {
        let root = Root {
            next_table: self.next_table,
            extents: self.extents.iter().map(|e| e.raw()).collect(),
            tables: self.tables.values().map(|t| t.descriptor.raw()).collect(),
            trees: self.trees.values().map(|t| (t.id().raw(), t.name().into(), t.root().raw())).collect(),
        };
        // A Lode that knows no trees would take their extents for orphans.
        let version = if self.trees.is_empty() { VERSION_PLAIN } else { VERSION_TREES };
        encode(KIND_ROOT, version, root_lpid(), &root)
    }
}

fn encode(kind: u8, version: u8, lpid: Lpid, body: &impl Serialize) -> PageWrite {
    let body = serde_json::to_vec(body).expect("numbers, strings and lists can be written as JSON");
    let mut page = PageBufMut::zeroed((HEADER_BYTES + body.len()).next_multiple_of(CELL_BYTES));
    page[..4].copy_from_slice(&MAGIC);
    page[4] = kind;
    page[5] = version;
    page[8..16].copy_from_slice(&lpid.raw().to_le_bytes());
    page[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let checksum = crc32c_seeded(crc32c(&page[..20]), &body);
    page[20..24].copy_from_slice(&checksum.to_le_bytes());
    page[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(&body);
    PageWrite { lpid, data: page.freeze(), align: Align::Cell }
}

fn decode<T: DeserializeOwned>(kind: u8, lpid: Lpid, page: &PageBuf) -> Result<T, EngineError> {
    let bad = |what: &str| EngineError::BadCatalog { lpid, what: what.into() };
    if page.len() < HEADER_BYTES || page[..4] != MAGIC {
        return Err(bad("not a catalog page"));
    }
    if page[5] > VERSION {
        return Err(EngineError::NewerCatalog { lpid, version: page[5], known: VERSION });
    }
    let number = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"));
    let body_bytes = number(16) as usize;
    let body =
        page[HEADER_BYTES..].get(..body_bytes).ok_or_else(|| bad("the body is longer than the page"))?;
    if crc32c_seeded(crc32c(&page[..20]), body) != number(20) {
        return Err(bad("wrong checksum"));
    }
    if page[5] == 0 || page[4] != kind || page[6..8] != [0; 2] {
        return Err(bad("a page of another kind"));
    }
    if page[8..16] != lpid.raw().to_le_bytes() {
        return Err(bad("the page of another LPID"));
    }
    if page[HEADER_BYTES + body_bytes..].iter().any(|&b| b != 0) {
        return Err(bad("bytes behind the body"));
    }
    serde_json::from_slice(body).map_err(|e| bad(&e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_byte_of_a_page_is_found() {
        let page = Catalog::empty().root_page();
        assert!(decode::<Root>(KIND_ROOT, page.lpid, &page.data).is_ok());
        for at in 0..page.data.len() {
            let mut bytes = page.data.to_vec();
            bytes[at] ^= 0x10;
            assert!(decode::<Root>(KIND_ROOT, page.lpid, &PageBuf::copy_from(&bytes)).is_err(), "byte {at}");
        }
        for n in 0..HEADER_BYTES {
            assert!(decode::<Root>(KIND_ROOT, page.lpid, &page.data.slice(..n)).is_err(), "cut to {n}");
        }
    }

    #[test]
    fn a_newer_page_is_named_as_such() {
        let page = Catalog::empty().root_page();
        let mut bytes = page.data.to_vec();
        bytes[5] = 9;
        let e = decode::<Root>(KIND_ROOT, page.lpid, &PageBuf::copy_from(&bytes)).err().unwrap();
        assert_eq!(e.to_string(), "catalog page 0:0 has format version 9; this Lode reads up to 3");
    }

    #[test]
    fn a_page_in_the_wrong_place_is_found() {
        let page = Catalog::empty().root_page();
        let elsewhere = page.lpid.extent().page(1);
        assert!(decode::<Root>(KIND_ROOT, elsewhere, &page.data).is_err());
        assert!(decode::<Root>(KIND_TABLE, page.lpid, &page.data).is_err());
    }
}
