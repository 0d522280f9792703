//! The stores, one file each, and their settings.
//!
//! | store | a commit is durable by | else |
//! |---|---|---|
//! | Lode | one batch and `fdatasync` | defaults |
//! | RocksDB | `WriteOptions::sync` | block cache, Bloom filters of 10 bits, two background jobs, log files used again |
//! | RocksDB blob | the same | values from 256 bytes in blob files, which are collected |
//! | LMDB | its default (`fdatasync`, then the meta page) | a map of 64 GiB |
//! | redb | `Durability::Immediate` | cache |
//! | fjall | `PersistMode::SyncData` | cache, two worker threads, no compression |
//! | fjall separated | the same | values from 256 bytes apart |
//! | SQLite | WAL and `synchronous = FULL` | cache, memory map, checkpoints every 64 MiB of log |

#[cfg(feature = "stores")]
pub(crate) mod fjall;
#[cfg(feature = "stores")]
pub(crate) mod lmdb;
pub(crate) mod lode;
#[cfg(feature = "stores")]
pub(crate) mod redb;
#[cfg(feature = "stores")]
pub(crate) mod rocksdb;
pub(crate) mod sqlite;
pub(crate) mod sqlite_sql;
pub(crate) mod sqlite_tpcc;

use std::time::Duration;

#[cfg(feature = "stores")]
use lode_workload::kv::{Contest, Contestant, DeviceContest, Entry, Sizes};
#[cfg(feature = "stores")]
use lode_workload::store::KeyValue;
use lode_workload::store::{StoreError, StoreResult};

/// The smallest value that is stored apart from its key, in stores that support this.
pub(crate) const SEPARATE_BYTES_MIN: u32 = 256;
/// The number of background threads of stores that have some: one per core.
pub(crate) const BACKGROUND_THREADS: usize = 2;

/// All stores, each with this much cache.
#[cfg(feature = "stores")]
pub(crate) fn all(sizes: Sizes, cache_bytes: usize, seed: u64) -> Vec<Entry> {
    fn entry<S: KeyValue + 'static>(
        name: &str,
        settings: &str,
        (sizes, seed): (Sizes, u64),
        make: impl Fn(&std::path::Path) -> StoreResult<S> + 'static,
    ) -> Entry {
        let make = move |dir: &std::path::Path| {
            let contest = Contest::new(make(dir)?, sizes, seed);
            Ok(Box::new(contest) as Box<dyn Contestant>)
        };
        Entry { name: name.into(), settings: settings.into(), make: Box::new(make) }
    }
    let of = (sizes, seed);
    let device = move |dir: &std::path::Path| {
        let (device, upkeep) = lode::drive(dir)?;
        let contest = DeviceContest::new(&device, upkeep, sizes, seed)?;
        Ok(Box::new(contest) as Box<dyn Contestant>)
    };
    vec![
        Entry {
            name: "Lode, its drive".into(),
            settings: "batches straight to the drive; each is synced".into(),
            make: Box::new(device),
        },
        entry("Lode", "a tree of the embedded API; each commit is synced", of, move |dir| {
            lode::key_value(dir, cache_bytes)
        }),
        entry("RocksDB", "sync = true; two background jobs; log files are used again", of, move |dir| {
            rocksdb::Rocks::new(dir, cache_bytes, false)
        }),
        entry("RocksDB blob", "as RocksDB, with values from 256 bytes in blob files", of, move |dir| {
            rocksdb::Rocks::new(dir, cache_bytes, true)
        }),
        entry("fjall", "PersistMode::SyncData; two workers", of, move |dir| {
            fjall::Fjall::new(dir, cache_bytes, false)
        }),
        entry("fjall separated", "as fjall, with values from 256 bytes apart", of, move |dir| {
            fjall::Fjall::new(dir, cache_bytes, true)
        }),
        entry("LMDB", "default: synced", of, lmdb::Lmdb::new),
        entry("redb", "Durability::Immediate", of, move |dir| redb::Redb::new(dir, cache_bytes)),
        entry("SQLite", "WAL, synchronous = FULL, checkpoints every 64 MiB of log", of, move |dir| {
            sqlite::Sqlite::new(dir, cache_bytes)
        }),
    ]
}

/// Waits until a store reports several times in a row that it is at rest.
pub(crate) fn settled(is_busy: impl Fn() -> Result<bool, StoreError>) -> StoreResult {
    const LOOKS: u32 = 5;
    let mut quiet = 0;
    while quiet < LOOKS {
        quiet = if is_busy()? { 0 } else { quiet + 1 };
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
