//! Sequences, views, schemas and comments that a transaction makes, changes and drops.

use std::sync::Arc;

use super::WriteTxn;
use crate::tables::objects::{self, Object, ObjectKind, SequenceDef, ViewDef};
use crate::tables::table::Table;

impl WriteTxn {
    /// The number of a new sequence or view.
    pub fn new_object(&self) -> u32 {
        self.snapshot.storage().extents().new_owner().raw()
    }

    /// The object of this kind and name, as the transaction has it.
    pub fn object(&self, kind: ObjectKind, name: &str) -> Option<&Object> {
        objects::get(&self.catalog.objects, kind, name)
    }

    /// The sequences, by name, as the transaction has them.
    pub fn sequences(&self) -> impl Iterator<Item = (&str, &SequenceDef)> {
        objects::sequences(&self.catalog.objects)
    }

    /// The views, by name, as the transaction has them.
    pub fn views(&self) -> impl Iterator<Item = (&str, &ViewDef)> {
        objects::views(&self.catalog.objects)
    }

    /// The objects of a kind, by name, as the transaction has them.
    pub fn objects(&self, kind: ObjectKind) -> impl Iterator<Item = (&str, &Object)> {
        let named = self.catalog.objects.get(&kind).into_iter().flatten();
        named.map(|(name, object)| (name.as_str(), object))
    }

    /// The tables, as the transaction has them.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.catalog.tables.values()
    }

    /// Whether a table has an index of this name.
    pub fn has_index(&self, name: &str) -> bool {
        self.catalog.tables.values().any(|t| t.indexes().iter().any(|i| i.name == name))
    }

    /// Makes or replaces an object.
    pub fn put_object(&mut self, name: &str, object: Object) {
        self.current = None;
        let named = Arc::make_mut(&mut self.catalog.objects).entry(object.kind()).or_default();
        named.insert(name.into(), object);
    }

    /// Drops an object. Answers it, if it was there.
    pub fn drop_object(&mut self, kind: ObjectKind, name: &str) -> Option<Object> {
        self.object(kind, name)?;
        self.current = None;
        Arc::make_mut(&mut self.catalog.objects).get_mut(&kind)?.remove(name)
    }
}
