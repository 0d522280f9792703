//! Sequences, views, schemas and comments that a transaction makes, changes and drops.

use std::sync::Arc;

use super::WriteTxn;
use crate::tables::objects::{self, Object, ObjectKind};

impl WriteTxn {
    /// The number of a new sequence.
    pub fn new_sequence(&self) -> u32 {
        self.snapshot.storage().extents().new_owner().raw()
    }

    /// The object of this kind and name, as the transaction has it.
    pub fn object(&self, kind: ObjectKind, name: &str) -> Option<&Object> {
        objects::get(&self.catalog.objects, kind, name)
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
