//! Storage: all that the engine knows of its drive.
//!
//! ```text
//!   view.rs        a state of the drive, pinned            columns.rs, read_ahead.rs   columns of a page, through the pool
//!      └► Storage ─┬─ store.rs        sends commands       catalog.rs                  the catalog's pages, as bytes
//!                  ├─ pool.rs         pages in memory      clock.rs                    the host of a modelled device
//!                  ├─ extents.rs      hands out extents
//!                  └─ open_views.rs   counts views
//! ```
//!
//! Nothing here knows trees or tables. Nothing above this calls a [`lode_command::Device`].

pub(crate) mod catalog;
pub(crate) mod clock;
pub(crate) mod columns;
pub(crate) mod extents;
pub(crate) mod open_views;
pub(crate) mod pool;
pub(crate) mod read_ahead;
pub(crate) mod store;
pub(crate) mod view;

use std::sync::Arc;

use lode_command::Device;

use clock::HostClock;
use extents::Extents;
use open_views::OpenViews;
use pool::Pool;
use store::Store;

/// A drive, and what the host keeps of it. Every snapshot shares it.
pub(crate) struct Storage {
    store: Arc<Store>,
    pool: Pool,
    extents: Extents,
    views: OpenViews,
}

impl Storage {
    pub(crate) fn new(device: Arc<dyn Device>, host: Option<Arc<HostClock>>, pool_bytes: usize) -> Self {
        let store = Arc::new(Store::new(device, host));
        let extents = Extents::new(store.clone());
        Self { store, pool: Pool::new(pool_bytes), extents, views: OpenViews::default() }
    }

    /// Sends commands to the drive.
    #[inline]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The buffer pool.
    #[inline]
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Hands out extents.
    pub(crate) fn extents(&self) -> &Extents {
        &self.extents
    }

    /// Counts open views.
    pub(crate) fn views(&self) -> &OpenViews {
        &self.views
    }
}
