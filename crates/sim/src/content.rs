//! The content of a page, represented by a seed. The bytes are generated when the page is written and again when it
//! is compared.
//!
//! ```text
//!   Bytes { seed, len }   word i of the page is the i-th number of the seed
//!   Rows  { seed, rows }  a table page of (key BIGINT, value INTEGER or NULL)
//! ```
//!
//! Invariant: no two writes have the same seed, so that an older version differs from a newer one.

use std::ops::Range;

use lode_base::{CommitNo, Lpid, OwnerId, PageBuf, PageBufMut, TableId};
use lode_page::{Column, ColumnBuilder, ColumnType, DataType, PageKind, PageMeta, Schema, Value, encode};
use lode_program::index::bitmap::{self, Bitmap};
use lode_program::index::bloom::BLOOM;
use lode_program::index::range::RANGE;
use lode_program::index::{Bounds, KeptColumn, KindColumns, kept};
use lode_program::{IndexEntry, IndexRule, key_of};

use crate::random::{Random, nth};

/// The width of the range that holds the keys of a page of rows.
const KEY_SPAN: u64 = 60;
/// All keys are below this.
pub(crate) const KEYS: u64 = 1000;
/// All values are below this.
pub(crate) const VALUES: u64 = 100;
const TYPES: [DataType; 2] = [DataType::BigInt, DataType::Integer];

/// The content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Plain bytes.
    Bytes {
        /// The seed of the bytes.
        seed: u64,
        /// The number of bytes.
        len: u32,
    },
    /// A table page.
    Rows {
        /// The seed of the rows.
        seed: u64,
        /// The number of rows.
        rows: u32,
    },
}

/// A key and a value, or NULL.
pub(crate) type Row = (i64, Option<i64>);

/// The schema of all pages of rows.
pub(crate) fn schema() -> Schema {
    let column = |i: usize| ColumnType { data_type: TYPES[i], nullable: i == 1 };
    Schema { version: 1, columns: vec![column(0), column(1)], absent: Vec::new() }
}

/// The index rule for these columns: their ranges; of two columns, also which values the first has, and a filter of the other's.
pub(crate) fn index_rule(columns: &[u16]) -> IndexRule {
    let mut kinds: Vec<KindColumns> = vec![(&RANGE, kept(columns))];
    if let [first, other] = *columns {
        let values: Vec<Value> = (0..40).map(Value::Int).collect();
        kinds.push((&Bitmap, vec![KeptColumn { column: first, form: bitmap::domain(&values) }]));
        kinds.push((&BLOOM, vec![KeptColumn { column: other, form: 20u16.to_le_bytes().into() }]));
    }
    IndexRule::of_kinds(schema(), kinds).expect("the columns are those of the schema")
}

/// As [`index_rule`], with entries of more than 2,000 bytes; `None` if their index pages do not fit an EBLOCK of so many bytes.
pub(crate) fn long_index_rule(columns: &[u16], eblock_bytes: u32) -> Option<IndexRule> {
    let filter_bytes = match eblock_bytes >> 10 {
        0..128 => return None,
        128..512 => 2100u16,
        _ => 7000,
    };
    let keeps = *columns.last().expect("a rule has columns");
    let filter = KeptColumn { column: keeps, form: filter_bytes.to_le_bytes().into() };
    let kinds: Vec<KindColumns> = vec![(&RANGE, kept(columns)), (&BLOOM, vec![filter])];
    Some(IndexRule::of_kinds(schema(), kinds).expect("the columns are those of the schema"))
}

/// Whether entries of a rule are kept by parts of extents.
pub(crate) fn is_long(rule: &IndexRule) -> bool {
    rule.entry_bytes() > 2000
}

impl Content {
    /// Its seed.
    pub(crate) fn seed(&self) -> u64 {
        match *self {
            Self::Bytes { seed, .. } | Self::Rows { seed, .. } => seed,
        }
    }

    /// The rows. Plain bytes have none.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let &Self::Rows { seed, rows } = self else { return Vec::new() };
        let mut r = Random::of_seed(seed);
        let base = r.below(KEYS - KEY_SPAN);
        let mut row = |_| {
            let key = base + r.below(KEY_SPAN);
            let value = (!r.once_in(5)).then(|| r.below(VALUES) as i64);
            (key as i64, value)
        };
        (0..rows).map(&mut row).collect()
    }

    /// The bytes of the page when it is written to `lpid`.
    pub(crate) fn bytes(&self, lpid: Lpid, owner: OwnerId) -> PageBuf {
        match *self {
            Self::Bytes { seed, len } => {
                let mut page = PageBufMut::zeroed(len as usize);
                for (i, word) in page.chunks_mut(8).enumerate() {
                    word.copy_from_slice(&nth(seed, i as u64).to_le_bytes()[..word.len()]);
                }
                page.freeze()
            }
            Self::Rows { .. } => {
                let mut columns = TYPES.map(ColumnBuilder::new);
                for (key, value) in self.rows() {
                    let values = [Value::Int(key), value.map_or(Value::Null, Value::Int)];
                    for (column, value) in columns.iter_mut().zip(&values) {
                        column.push(value).expect("the value is of the column's type");
                    }
                }
                let table = TableId::new(owner.raw());
                let (kind, commit) = (PageKind::Row, CommitNo::new(0));
                let meta = PageMeta { lpid, table, schema_version: 1, kind, commit };
                encode(&meta, &columns.map(ColumnBuilder::finish), 1 << 20).expect("few rows fit")
            }
        }
    }

    /// Whether `got` equals this part of the page.
    pub(crate) fn is(&self, lpid: Lpid, owner: OwnerId, range: Range<u32>, got: &[u8]) -> bool {
        if got.len() != range.len() {
            return false;
        }
        let Self::Bytes { seed, .. } = *self else {
            return self.bytes(lpid, owner)[range.start as usize..range.end as usize] == *got;
        };
        let mut at = range.start as usize;
        let mut got = got;
        while !got.is_empty() {
            let word = nth(seed, (at / 8) as u64).to_le_bytes();
            let from = at % 8;
            let part = (8 - from).min(got.len());
            if got[..part] != word[from..from + part] {
                return false;
            }
            at += part;
            got = &got[part..];
        }
        true
    }

    /// Whether `entry` is the index entry of these rows under `rule`.
    pub(crate) fn has_entry(&self, rule: &IndexRule, entry: &IndexEntry) -> bool {
        if entry.encoded_bytes() != rule.entry_bytes() {
            return false;
        }
        let rows = self.rows();
        let column = |i: u16| -> Vec<Option<i64>> {
            rows.iter().map(|&(key, value)| if i == 0 { Some(key) } else { value }).collect()
        };
        let same = |&c: &u16| {
            let values = column(c);
            let key = |v: Option<&i64>| v.and_then(|v| key_of(TYPES[usize::from(c)], &Value::Int(*v)));
            let range = key(values.iter().flatten().min()).zip(key(values.iter().flatten().max()));
            let expected = Bounds { keys: range, has_nulls: values.contains(&None) };
            rule.bounds(entry, c) == Some(expected)
        };
        entry.rows() as usize == rows.len() && rule.columns().iter().all(same)
    }
}

/// The value of a column in a row: an integer or NULL.
pub(crate) fn integer(column: &Column, row: usize) -> Option<i64> {
    match column.value(row) {
        Value::Int(v) => Some(v),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_page_is_known_and_nothing_else_is() {
        let lpid = Lpid::from_raw(5).unwrap();
        let owner = OwnerId::new(3);
        for content in [Content::Bytes { seed: 4, len: 203 }, Content::Rows { seed: 4, rows: 9 }] {
            let page = content.bytes(lpid, owner);
            for range in [0..page.len(), 3..64, 63..64, 17..17, 8..160] {
                let (from, to) = (range.start as u32, range.end as u32);
                assert!(content.is(lpid, owner, from..to, &page[range.clone()]), "{range:?}");
                if !range.is_empty() {
                    let mut other = page[range.clone()].to_vec();
                    *other.last_mut().unwrap() ^= 1;
                    assert!(!content.is(lpid, owner, from..to, &other));
                    assert!(!content.is(lpid, owner, from..to, &other[1..]));
                }
            }
        }
    }

    #[test]
    fn the_entry_of_a_page_is_known() {
        let rows = Content::Rows { seed: 11, rows: 40 };
        let page = rows.bytes(Lpid::from_raw(5).unwrap(), OwnerId::new(9));
        let (_, columns) = lode_page::decode_page(Lpid::from_raw(5).unwrap(), &page).unwrap();
        let rule = index_rule(&[1, 0]);
        let entry = rule.entry(&mut Columns(columns)).unwrap();
        assert!(rows.has_entry(&rule, &entry));
        assert!(!Content::Rows { seed: 12, rows: 40 }.has_entry(&rule, &entry));
        assert!(!Content::Rows { seed: 11, rows: 41 }.has_entry(&rule, &entry));
    }

    struct Columns(Vec<Column>);

    impl lode_program::ColumnSource for Columns {
        type Error = ();
        fn rows(&self) -> usize {
            self.0[0].rows()
        }
        fn column(&mut self, column: u16) -> Result<Column, ()> {
            Ok(self.0[usize::from(column)].clone())
        }
    }
}
