//! The catalog's pages, as bytes. It lives in the drive, versioned like data.
//!
//! ```text
//!   page 0 of extent 0: root ─► next owner, extents of the catalog, and a section for each part that keeps something there
//!
//!   a catalog page (little-endian):
//!    0  magic "LCAT"                        16  bytes of the body              u32
//!    4  kind: 1 root, 2 table,      u8      20  CRC-32C of bytes 0..20 and     u32
//!    5  version of that kind        u8          the body
//!    6  0                           u16     24  body: JSON, then zeroes to a multiple of 64
//!    8  LPID                        u64
//!
//!   the body of the root:  {"next_table":7,"extents":[0],"tables":[...],"trees":[...]}
//!                                                        └── sections, by name: JSON that only their owners read
//! ```
//!
//! Invariants: the root's extent is the first of the catalog's extents; no extent is listed twice.

use std::collections::{BTreeMap, BTreeSet};

use lode_base::checksum::{crc32c, crc32c_seeded};
use lode_base::{CELL_BYTES, ExtentId, Lpid, OwnerId, PageBuf, PageBufMut};
use lode_command::{Align, Batch, ExtentInfo, PageWrite};
use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::Storage;
use super::view::View;
use crate::EngineError;

const MAGIC: [u8; 4] = *b"LCAT";
const HEADER_BYTES: usize = 24;
/// The newest version of any catalog page.
const VERSION: u8 = 10;
/// The version of pages that every Lode can read.
pub(crate) const VERSION_PLAIN: u8 = 1;
const NEXT_OWNER: &str = "next_table";
const EXTENTS: &str = "extents";

/// What a catalog page describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Root = 1,
    Table = 2,
    /// Where sequences stand.
    Sequences = 3,
}

/// What the root page says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Root {
    /// The number of the next table or tree.
    pub(crate) next_owner: u32,
    /// Extents of the catalog itself. The root's is the first.
    pub(crate) extents: Vec<ExtentId>,
    /// What the parts of the engine keep in the root, each under its own name.
    pub(crate) sections: BTreeMap<String, Value>,
}

/// Where the root is.
pub(crate) fn root_lpid() -> Lpid {
    ExtentId::new(0).expect("0 is an extent").page(0)
}

/// Writes a first root to a drive without pages. `listed`: the extents of the drive.
///
/// # Errors
/// When the drive has pages but no catalog, or fails.
pub(crate) fn prepare(storage: &Storage, listed: &[ExtentInfo], first: &Root) -> Result<(), EngineError> {
    let root = root_lpid();
    // If the drive cannot count the pages of an extent, there are some.
    let pages: u64 = listed.iter().map(|e| e.pages_mapped.map_or(1, u64::from)).sum();
    let is_root = |e: &&ExtentInfo| e.extent == root.extent() && e.owner == OwnerId::CATALOG;
    let has_root = listed.iter().find(is_root);
    if pages > 0 {
        return has_root.map(drop).ok_or(EngineError::NoCatalog { pages });
    }
    let extent = match has_root {
        Some(e) => e.extent,
        None => storage.extents().allocate(OwnerId::CATALOG)?,
    };
    if extent != root.extent() {
        let what = format!("an empty drive handed out extent {extent} instead");
        return Err(EngineError::BadCatalog { lpid: root, what });
    }
    let writes = vec![first.encode(VERSION_PLAIN)];
    storage.store().write(Batch { writes, ..Batch::default() }).map(drop)
}

impl Root {
    /// The root of a database without anything.
    pub(crate) fn empty() -> Self {
        Self { next_owner: 1, extents: vec![root_lpid().extent()], sections: BTreeMap::new() }
    }

    /// The root at a view.
    pub(crate) fn read(view: &View) -> Result<Self, EngineError> {
        let lpid = root_lpid();
        let bad = |what: String| EngineError::BadCatalog { lpid, what };
        let mut sections: BTreeMap<String, Value> = decode(PageKind::Root, lpid, &view.read_page(lpid)?)?;
        let next_owner = taken(&mut sections, NEXT_OWNER).map_err(bad)?;
        let raw: Vec<u64> = taken(&mut sections, EXTENTS).map_err(bad)?;
        let extent = |raw| ExtentId::new(raw).ok_or_else(|| bad(format!("extent {raw} is out of range")));
        let extents = raw.into_iter().map(extent).collect::<Result<Vec<_>, _>>()?;
        let distinct: BTreeSet<ExtentId> = extents.iter().copied().collect();
        if distinct.len() != extents.len() || extents.first() != Some(&lpid.extent()) {
            return Err(bad("the catalog's extents contradict each other".into()));
        }
        Ok(Self { next_owner, extents, sections })
    }

    /// What a section says; `what` is wrong with it otherwise.
    pub(crate) fn section<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, EngineError> {
        let bad = |what: String| EngineError::BadCatalog { lpid: root_lpid(), what };
        let body = self.sections.get(name).cloned();
        body.map(|body| serde_json::from_value(body).map_err(|e| bad(e.to_string()))).transpose()
    }

    /// Its page.
    pub(crate) fn encode(&self, version: u8) -> PageWrite {
        encode(PageKind::Root, version, root_lpid(), self)
    }
}

impl Serialize for Root {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let extents: Vec<u64> = self.extents.iter().map(|e| e.raw()).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(NEXT_OWNER, &self.next_owner)?;
        map.serialize_entry(EXTENTS, &extents)?;
        for (name, body) in &self.sections {
            map.serialize_entry(name, body)?;
        }
        map.end()
    }
}

/// Takes an entry out of a body; what is wrong with it otherwise.
fn taken<T: DeserializeOwned>(body: &mut BTreeMap<String, Value>, name: &str) -> Result<T, String> {
    let value = body.remove(name).ok_or_else(|| format!("missing field `{name}`"))?;
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// A catalog page with this body.
pub(crate) fn encode(kind: PageKind, version: u8, lpid: Lpid, body: &impl Serialize) -> PageWrite {
    debug_assert!(version <= VERSION, "this Lode would not open a page of version {version}");
    let body = serde_json::to_vec(body).expect("numbers, strings and lists can be written as JSON");
    let mut page = PageBufMut::zeroed((HEADER_BYTES + body.len()).next_multiple_of(CELL_BYTES));
    page[..4].copy_from_slice(&MAGIC);
    page[4] = kind as u8;
    page[5] = version;
    page[8..16].copy_from_slice(&lpid.raw().to_le_bytes());
    page[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let checksum = crc32c_seeded(crc32c(&page[..20]), &body);
    page[20..24].copy_from_slice(&checksum.to_le_bytes());
    page[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(&body);
    PageWrite { lpid, data: page.freeze(), align: Align::Cell }
}

/// Checks a catalog page; answers its body.
pub(crate) fn decode<T: DeserializeOwned>(
    kind: PageKind,
    lpid: Lpid,
    page: &PageBuf,
) -> Result<T, EngineError> {
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
    if page[5] == 0 || page[4] != kind as u8 || page[6..8] != [0; 2] {
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

    fn decoded(page: &PageBuf) -> Result<Value, EngineError> {
        decode(PageKind::Root, root_lpid(), page)
    }

    #[test]
    fn any_flipped_byte_of_a_page_is_found() {
        let page = Root::empty().encode(VERSION_PLAIN);
        assert!(decoded(&page.data).is_ok());
        for at in 0..page.data.len() {
            let mut bytes = page.data.to_vec();
            bytes[at] ^= 0x10;
            assert!(decoded(&PageBuf::copy_from(&bytes)).is_err(), "byte {at}");
        }
        for n in 0..HEADER_BYTES {
            assert!(decoded(&page.data.slice(..n)).is_err(), "cut to {n}");
        }
    }

    #[test]
    fn a_newer_page_is_named_as_such() {
        let mut bytes = Root::empty().encode(VERSION_PLAIN).data.to_vec();
        bytes[5] = VERSION + 3;
        let e = decoded(&PageBuf::copy_from(&bytes)).err().unwrap();
        let found = VERSION + 3;
        let expected =
            format!("catalog page 0:0 has format version {found}; this Lode reads up to {VERSION}");
        assert_eq!(e.to_string(), expected);
    }

    #[test]
    fn a_page_in_the_wrong_place_is_found() {
        let page = Root::empty().encode(VERSION_PLAIN);
        let elsewhere = page.lpid.extent().page(1);
        assert!(decode::<Value>(PageKind::Root, elsewhere, &page.data).is_err());
        assert!(decode::<Value>(PageKind::Table, page.lpid, &page.data).is_err());
    }

    #[test]
    fn the_root_lists_its_own_entries_first_and_then_the_sections_by_name() {
        let mut root = Root::empty();
        root.sections.insert("trees".into(), serde_json::json!([[2, "a", 1025]]));
        root.sections.insert("tables".into(), serde_json::json!([1]));
        let page = root.encode(2);
        let body = br#"{"next_table":1,"extents":[0],"tables":[1],"trees":[[2,"a",1025]]}"#;
        assert_eq!(&page.data[HEADER_BYTES..HEADER_BYTES + body.len()], body);
        assert_eq!(decoded(&page.data).unwrap(), serde_json::from_slice::<Value>(body).unwrap());
    }
}
