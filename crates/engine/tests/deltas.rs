//! The engine's tests of tables, with tables that have deltas.
#![allow(clippy::duplicate_mod, reason = "each of them brings what it shares with the others")]

mod support {
    use std::sync::Arc;

    use lode_command::Device;
    use lode_engine::{Changes, Layout};

    pub(crate) fn carry(device: Arc<dyn Device>) -> Arc<dyn Device> {
        device
    }

    /// A table of row pages has no delta.
    pub(crate) fn changes(layout: Layout) -> Changes {
        if layout == Layout::Row { Changes::Pages } else { Changes::Delta }
    }
}

#[path = "isolation.rs"]
mod isolation;
#[path = "model.rs"]
mod model;
#[path = "tables.rs"]
mod tables;
#[path = "transactions.rs"]
mod transactions;
