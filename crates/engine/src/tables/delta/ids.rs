//! Row ids, and the keys of a table's tree.

use lode_base::{ExtentId, Lpid, TableId};

use crate::trees::KEY_BYTES_MAX;

/// Bits of a row id: as many as the page and the slot of a row address have.
pub(in crate::tables) const ROW_ID_BITS: u32 = 42;
/// Extents from this number on are not the drive's: one for the delta of each table that there can be.
const DELTA_FIRST: u64 = (1 << 38) - (2 << 32);
const DELTA_END: u64 = (1 << 38) - (1 << 32);

const DELTA: u8 = b'd';
const PAGES: u8 = b'p';
const KEYS: u8 = b'k';
/// Bytes around a key in its entry: [`KEYS`], the number of the key, and the row id.
const AROUND_KEY_BYTES: usize = 1 + 2 + 8;
/// The most bytes of a key that an entry has.
pub(in crate::tables) const ENTRY_KEY_BYTES_MAX: usize = KEY_BYTES_MAX - AROUND_KEY_BYTES;

/// The number of a row of a table. A row keeps it for as long as it lives, wherever the row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::tables) struct RowId(u64);

impl RowId {
    /// The id with this number.
    ///
    /// # Panics
    /// When a table has used up its ids: 4.4 x 10^12 rows were inserted.
    pub(in crate::tables) fn new(raw: u64) -> Self {
        assert!(raw < 1 << ROW_ID_BITS, "a table has at most 2^42 row ids");
        Self(raw)
    }

    pub(in crate::tables) fn raw(self) -> u64 {
        self.0
    }

    /// The id behind this one.
    pub(in crate::tables) fn after(self) -> Option<Self> {
        (self.0 + 1 < 1 << ROW_ID_BITS).then_some(Self(self.0 + 1))
    }

    /// The id of the row that is so many rows behind this one.
    pub(in crate::tables) fn plus(self, rows: u64) -> Self {
        Self::new(self.0 + rows)
    }

    /// The page and the slot that stand for the row while the delta has it.
    pub(in crate::tables) fn place(self, t: TableId) -> (Lpid, u32) {
        (delta_extent(t).page((self.0 >> 32) as u16), self.0 as u32)
    }

    /// The row of a page and a slot of a delta.
    pub(in crate::tables) fn of_place(lpid: Lpid, slot: u32) -> Self {
        Self(u64::from(lpid.page()) << 32 | u64::from(slot))
    }
}

/// The extent of the delta of a table, as scans and addresses have it. Its pages stand for ranges of 2^32 row ids, and the slots for
/// the ids within them.
pub(in crate::tables) fn delta_extent(t: TableId) -> ExtentId {
    ExtentId::new(DELTA_FIRST + u64::from(t.raw())).expect("tables have numbers of 32 bits")
}

/// Whether an extent is that of a delta.
pub(in crate::tables) fn is_delta(e: ExtentId) -> bool {
    (DELTA_FIRST..DELTA_END).contains(&e.raw())
}

/// The name of the tree that has the delta, the directory and the keys of a table.
pub(in crate::tables) fn tree_name(t: TableId) -> String {
    format!("{TREE_PREFIX}{}", t.raw())
}

/// The prefix of the names of such trees.
pub(in crate::tables) const TREE_PREFIX: &str = "__lode_rows_";

/// The key of a row in the delta.
pub(in crate::tables) fn delta_key(id: RowId) -> [u8; 9] {
    with_prefix(DELTA, id)
}

/// The key of a page in the directory, by the first of its row ids.
pub(in crate::tables) fn page_key(first: RowId) -> [u8; 9] {
    with_prefix(PAGES, first)
}

fn with_prefix(prefix: u8, id: RowId) -> [u8; 9] {
    let mut key = [prefix; 9];
    key[1..].copy_from_slice(&id.0.to_be_bytes());
    key
}

/// What the entries of the `n`-th key of a table begin with, up to the row id. A key that is too long is cut.
pub(in crate::tables) fn key_prefix(n: usize, key: &[u8]) -> Vec<u8> {
    let n = u16::try_from(n).expect("a table has fewer keys than columns");
    let key = &key[..key.len().min(ENTRY_KEY_BYTES_MAX)];
    let mut prefix = Vec::with_capacity(AROUND_KEY_BYTES + key.len());
    prefix.push(KEYS);
    prefix.extend_from_slice(&n.to_be_bytes());
    prefix.extend_from_slice(key);
    prefix
}

/// The entry of a row in the `n`-th key of a table.
pub(in crate::tables) fn key_entry(n: usize, key: &[u8], id: RowId) -> Vec<u8> {
    let mut entry = key_prefix(n, key);
    entry.extend_from_slice(&id.0.to_be_bytes());
    entry
}

/// The row id at the end of a key of the tree.
pub(in crate::tables) fn id_of_key(key: &[u8]) -> Option<RowId> {
    let at = key.len().checked_sub(8)?;
    let raw = u64::from_be_bytes(key[at..].try_into().ok()?);
    (raw < 1 << ROW_ID_BITS).then_some(RowId(raw))
}

/// All keys of the tree that begin as those of the delta.
pub(in crate::tables) fn delta_range() -> (Vec<u8>, Vec<u8>) {
    (vec![DELTA], vec![DELTA + 1])
}

/// All keys of the tree that begin as those of the directory.
pub(in crate::tables) fn page_range() -> (Vec<u8>, Vec<u8>) {
    (vec![PAGES], vec![PAGES + 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_places_of_the_delta_and_come_back() {
        let t = TableId::new(u32::MAX);
        for raw in [0, 7, u64::from(u32::MAX), 1 << 32, (1 << ROW_ID_BITS) - 1] {
            let id = RowId::new(raw);
            let (lpid, slot) = id.place(t);
            assert!(is_delta(lpid.extent()));
            assert_eq!(RowId::of_place(lpid, slot), id);
            assert_eq!(id_of_key(&delta_key(id)), Some(id));
            assert_eq!(id_of_key(&key_entry(3, b"key", id)), Some(id));
        }
        let longest = key_entry(3, &[1; 2 * KEY_BYTES_MAX], RowId::new(7));
        assert_eq!((longest.len(), id_of_key(&longest)), (KEY_BYTES_MAX, Some(RowId::new(7))));
        assert!(delta_key(RowId::new(1)) < delta_key(RowId::new(256)));
        assert_eq!(id_of_key(b"short"), None);
        assert_eq!(id_of_key(&[255; 9]), None);
    }
}
