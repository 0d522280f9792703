//! Rows that a transaction changed in tables with a delta, by id.
//!
//! ```text
//!   statement ─► layer ─► layers of similar size are merged ─► few layers, which snapshots share
//! ```
//!
//! Invariant: a later layer has what an earlier one has of a row, or something newer.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use lode_page::{DataType, Schema, Value, row};
use parking_lot::Mutex;

use super::ids::RowId;
use crate::EngineError;
use crate::tables::key::{key_of_values, key_with_nulls};

/// All values of a row as bytes.
pub(in crate::tables) type Image = Arc<[u8]>;

/// What a transaction did to a row.
#[derive(Clone, Debug)]
pub(in crate::tables) struct RowChange {
    /// The row at the transaction's begin; `None` if the transaction inserted it.
    pub(in crate::tables) before: Option<Image>,
    /// The row now; `None` if the transaction deleted it.
    pub(in crate::tables) after: Option<Image>,
    /// What the transaction had made of the row before it deleted it, if that was another row.
    pub(in crate::tables) deleted: Option<Image>,
}

impl RowChange {
    /// Bytes of memory.
    pub(in crate::tables) fn bytes(&self) -> usize {
        let image = |i: &Option<Image>| i.as_ref().map_or(0, |i| i.len() + 16);
        image(&self.before) + image(&self.after) + image(&self.deleted) + 64
    }
}

/// The rows that a transaction changed in one table.
#[derive(Clone, Debug, Default)]
pub(in crate::tables) struct OwnRows {
    layers: Vec<Arc<Layer>>,
}

/// What some statements did.
#[derive(Debug, Default)]
struct Layer {
    rows: BTreeMap<RowId, RowChange>,
    /// By columns, once they were asked for: the rows that have each key in them.
    by_key: Mutex<BTreeMap<Box<[u16]>, Arc<RowsByKey>>>,
}

type RowsByKey = BTreeMap<Vec<u8>, Vec<RowId>>;

impl OwnRows {
    /// What the transaction did to a row.
    pub(in crate::tables) fn get(&self, id: RowId) -> Option<&RowChange> {
        self.layers.iter().rev().find_map(|l| l.rows.get(&id))
    }

    /// Adds what a statement did. Each row keeps what it was at the transaction's begin.
    pub(in crate::tables) fn push(&mut self, mut rows: BTreeMap<RowId, RowChange>) {
        if rows.is_empty() {
            return;
        }
        while let Some(last) = self.layers.last()
            && last.rows.len() <= 2 * rows.len()
        {
            let last = self.layers.pop().expect("there is a last one");
            let older = Arc::try_unwrap(last).map_or_else(|shared| shared.rows.clone(), |own| own.rows);
            let newer = std::mem::replace(&mut rows, older);
            rows.extend(newer);
        }
        self.layers.push(Arc::new(Layer { rows, by_key: Mutex::default() }));
    }

    /// All rows, by ascending ids.
    pub(in crate::tables) fn merged(&self) -> BTreeMap<RowId, &RowChange> {
        let mut all = BTreeMap::new();
        for layer in &self.layers {
            all.extend(layer.rows.iter().map(|(&id, change)| (id, change)));
        }
        all
    }

    pub(in crate::tables) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The rows of this schema that have these values in the columns `key` now.
    pub(in crate::tables) fn with_key(
        &self,
        schema: &Schema,
        key: &[u16],
        values: &[Value],
    ) -> Result<Vec<RowId>, EngineError> {
        let of_key: Vec<DataType> = key.iter().map(|&c| schema.columns[usize::from(c)].data_type).collect();
        let bytes_of = |values: &[Value]| key_of_values(of_key.iter().copied(), values);
        let Some(bytes) = bytes_of(values) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for layer in &self.layers {
            for &id in layer.by_key(schema, key)?.get(&bytes).into_iter().flatten() {
                let now = self.get(id).and_then(|c| c.after.as_ref());
                let has_it = match now {
                    Some(image) => bytes_of(&values_of(schema, image, key)?).as_ref() == Some(&bytes),
                    None => false,
                };
                if has_it && !found.contains(&id) {
                    found.push(id);
                }
            }
        }
        Ok(found)
    }

    /// The rows of this schema whose keys in `columns` are from `low` on, up to `end`, now; each key is as entries of indexes have it.
    pub(in crate::tables) fn in_range(
        &self,
        schema: &Schema,
        columns: &[u16],
        low: &[u8],
        end: Bound<&[u8]>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, EngineError> {
        let mut found = Vec::new();
        for layer in &self.layers {
            let rows = layer.by_key(schema, columns)?;
            for (key, ids) in rows.range::<[u8], _>((Bound::Included(low), end)) {
                for &id in ids {
                    let Some(now) = self.get(id).and_then(|c| c.after.as_ref()) else { continue };
                    if entry_key(schema, now, columns)? == *key {
                        found.push((key.clone(), id));
                    }
                }
            }
        }
        Ok(found)
    }
}

impl Layer {
    fn by_key(&self, schema: &Schema, key: &[u16]) -> Result<Arc<RowsByKey>, EngineError> {
        if let Some(known) = self.by_key.lock().get(key) {
            return Ok(known.clone());
        }
        let mut rows = RowsByKey::new();
        for (&id, change) in &self.rows {
            let Some(image) = &change.after else { continue };
            let bytes = entry_key(schema, image, key)?;
            rows.entry(bytes).or_default().push(id);
        }
        Ok(self.by_key.lock().entry(key.into()).or_insert(Arc::new(rows)).clone())
    }
}

/// The key of an image in some columns, as entries of indexes have it, but not cut off.
fn entry_key(schema: &Schema, image: &[u8], columns: &[u16]) -> Result<Vec<u8>, EngineError> {
    let of_key = columns.iter().map(|&c| schema.columns[usize::from(c)].data_type);
    Ok(key_with_nulls(of_key, &values_of(schema, image, columns)?))
}

/// The values of an image in some columns.
pub(in crate::tables) fn values_of(
    schema: &Schema,
    image: &[u8],
    columns: &[u16],
) -> Result<Vec<Value>, EngineError> {
    let all = row::decode(schema, image)?;
    Ok(columns.iter().map(|&c| all[usize::from(c)].clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: Option<u8>, after: Option<u8>) -> RowChange {
        let image = |b: Option<u8>| b.map(|b| Image::from([b]));
        RowChange { before: image(before), after: image(after), deleted: None }
    }

    #[test]
    fn the_newest_change_of_a_row_shows_and_layers_stay_few() {
        let mut own = OwnRows::default();
        for n in 0..1000u64 {
            let row = RowId::new(n % 300);
            own.push(BTreeMap::from([(row, change(Some(0), Some((n / 300) as u8)))]));
        }
        assert!(own.layers.len() <= 10, "{} layers", own.layers.len());
        let merged = own.merged();
        assert_eq!(merged.len(), 300);
        for (id, c) in merged {
            let newest = if id.raw() < 100 { 3 } else { 2 };
            assert_eq!(c.after.as_deref(), Some(&[newest][..]));
            assert_eq!(own.get(id).unwrap().after.as_deref(), Some(&[newest][..]));
        }
        let saved = own.clone();
        own.push(BTreeMap::from([(RowId::new(5), change(Some(0), None))]));
        assert!(own.get(RowId::new(5)).unwrap().after.is_none());
        assert!(saved.get(RowId::new(5)).unwrap().after.is_some(), "a savepoint keeps what it had");
        assert!(own.get(RowId::new(999)).is_none());
    }
}
