//! New values of updated rows: in memory, and once a transaction has many of them, in pages of its own.
//!
//! ```text
//!   UPDATE ─► values, in memory ── more than a limit ─► pages of an extent whose owner no catalog knows ─► read again, page by page
//! ```
//!
//! The extents are fresh extents of the transaction. Its end releases them, and after a crash the next open does.
//! Savepoints and snapshots of the transaction share values, so values move to pages for all of them at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use lode_base::Lpid;
use lode_page::{Column, decode_page, ops};
use parking_lot::Mutex;

use crate::EngineError;
use crate::storage::Storage;

/// Pages of values that stay decoded. Values are read in about the order in which they were written.
const DECODED_PAGES: usize = 4;

/// The values that a transaction holds, and how it reads those that are in pages.
pub(crate) struct ValueStore {
    storage: Arc<Storage>,
    held_bytes: AtomicUsize,
    /// Values that are in memory, in the order in which they came. Some of them may be gone.
    held: Mutex<Vec<Weak<Stored>>>,
    decoded: Mutex<VecDeque<(Lpid, Arc<Vec<Column>>)>>,
}

/// New values of some rows: as many columns as are updated.
#[derive(Clone, Debug)]
pub(crate) struct NewValues(Arc<Stored>);

struct Stored {
    store: Arc<ValueStore>,
    bytes: usize,
    place: Mutex<Place>,
}

enum Place {
    Memory(Vec<Column>),
    /// Rows of pages of values, in this order.
    Pages(Vec<RowsOfPage>),
}

/// Rows of a page of values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsOfPage {
    pub(crate) lpid: Lpid,
    pub(crate) first: usize,
    pub(crate) rows: usize,
}

/// Values in memory that are on their way to pages.
pub(crate) struct Leaving {
    values: Arc<Stored>,
    pub(crate) columns: Vec<Column>,
}

impl ValueStore {
    pub(crate) fn new(storage: Arc<Storage>) -> Arc<Self> {
        Arc::new(Self {
            storage,
            held_bytes: AtomicUsize::new(0),
            held: Mutex::default(),
            decoded: Mutex::default(),
        })
    }

    /// Bytes of values in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Keeps values, in memory at first.
    pub(crate) fn keep(self: &Arc<Self>, columns: Vec<Column>) -> NewValues {
        let bytes = columns.iter().map(Column::unpacked_bytes).sum();
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = Mutex::new(Place::Memory(columns));
        let stored = Arc::new(Stored { store: self.clone(), bytes, place });
        let mut held = self.held.lock();
        // Those that are gone are forgotten, so that the list is at most twice as long as needed.
        if held.len() == held.capacity() {
            held.retain(|v| v.strong_count() > 0);
        }
        held.push(Arc::downgrade(&stored));
        NewValues(stored)
    }

    /// All values that are in memory.
    pub(crate) fn leaving(&self) -> Vec<Leaving> {
        let held = std::mem::take(&mut *self.held.lock());
        let leaving = held.into_iter().filter_map(|v| v.upgrade()).filter_map(|values| {
            let columns = match &*values.place.lock() {
                Place::Memory(columns) if !columns.is_empty() => columns.clone(),
                _ => return None,
            };
            Some(Leaving { values, columns })
        });
        leaving.collect()
    }

    fn page(&self, lpid: Lpid) -> Result<Arc<Vec<Column>>, EngineError> {
        let known = self.decoded.lock().iter().find(|(of, _)| *of == lpid).map(|(_, page)| page.clone());
        if let Some(page) = known {
            return Ok(page);
        }
        let bytes = self.storage.store().read_page(None, lpid)?;
        let page = Arc::new(decode_page(lpid, &bytes)?.1);
        let mut decoded = self.decoded.lock();
        decoded.push_back((lpid, page.clone()));
        if decoded.len() > DECODED_PAGES {
            decoded.pop_front();
        }
        Ok(page)
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.place.lock() {
            Place::Memory(columns) => write!(f, "{columns:?}"),
            Place::Pages(rows) => write!(f, "{rows:?}"),
        }
    }
}

impl Leaving {
    /// The values are in these rows of pages now.
    pub(crate) fn written_to(self, rows: Vec<RowsOfPage>) {
        let mut place = self.values.place.lock();
        if matches!(&*place, Place::Memory(_)) {
            *place = Place::Pages(rows);
            self.values.store.held_bytes.fetch_sub(self.values.bytes, Ordering::Relaxed);
        }
    }
}

impl NewValues {
    /// The values of the `i`-th of the updated columns.
    pub(crate) fn column(&self, i: usize) -> Result<Column, EngineError> {
        let rows = match &*self.0.place.lock() {
            Place::Memory(columns) => return Ok(columns[i].clone()),
            Place::Pages(rows) => rows.clone(),
        };
        let of = |r: &RowsOfPage| -> Result<Column, EngineError> {
            Ok(ops::slice(&self.0.store.page(r.lpid)?[i], r.first, r.rows))
        };
        let parts = rows.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        match <[Column; 1]>::try_from(parts) {
            Ok([alone]) => Ok(alone),
            Err(parts) => Ok(ops::concat(parts[0].data_type(), &parts)),
        }
    }

    /// The store that keeps them.
    pub(crate) fn store(&self) -> &Arc<ValueStore> {
        &self.0.store
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if matches!(self.place.get_mut(), Place::Memory(_)) {
            self.store.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}
