//! What parts of this crate keep in a session, by its type. So a session need not know the parts that know it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// What is kept in a session. Shared by the session's clones.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Kept {
    /// What is kept of this type, made when it is asked for the first time. A clone of it must share it.
    pub(crate) fn of<T: Any + Send + Sync + Clone + Default>(&self) -> T {
        let mut kept = self.0.lock();
        let of_type = kept.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        of_type.downcast_ref::<T>().expect("it was put in by its type").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_own_which_clones_share() {
        let kept = Kept::default();
        *kept.of::<Arc<Mutex<u32>>>().lock() = 7;
        kept.of::<Arc<Mutex<String>>>().lock().push('x');
        assert_eq!(
            (*kept.clone().of::<Arc<Mutex<u32>>>().lock(), kept.of::<Arc<Mutex<String>>>().lock().len()),
            (7, 1)
        );
    }
}
