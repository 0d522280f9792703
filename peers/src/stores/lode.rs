//! Lode: a drive in a file, alone or with the engine above it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lode::{Division, Memory};
use lode_base::Geometry;
use lode_bench::sql::LodeSql;
use lode_command::{Budget, Device};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{Drive, DriveOptions, FirmwareError};
use lode_workload::lode::LodeStore;
use lode_workload::measure::Causes;
use lode_workload::store::{OneTree, StoreError, StoreResult};
use lode_workload::upkeep::{Steps, Upkeep};

/// The capacity of the image. It is much more than is written, as for a user's file.
const CAPACITY_BYTES: u64 = 64 << 30;
/// About how many bytes a step of background work may write.
const STEP_BYTES: u64 = 1 << 20;
/// The seed of the image's identity. Any number will do.
const SEED: u64 = 1;

fn make(dir: &Path) -> StoreResult<Drive> {
    let geometry = Geometry::file(CAPACITY_BYTES).map_err(FirmwareError::from).map_err(StoreError::failed)?;
    Drive::create_file(&dir.join("peer.lode"), geometry, DriveOptions::default(), SEED)
        .map_err(StoreError::failed)
}

fn causes(drive: &Drive) -> impl Fn() -> Option<Causes> + Send + Sync + use<> {
    let drive = drive.clone();
    move || {
        let info = drive.info();
        Some(Causes {
            pages: info.user_bytes_written,
            collection: info.gc_bytes_moved,
            all: info.media_bytes_written,
        })
    }
}

/// A drive.
pub(crate) fn drive(dir: &Path) -> StoreResult<(Arc<dyn Device>, Arc<dyn Upkeep>)> {
    let drive = make(dir)?;
    let device: Arc<dyn Device> = Arc::new(drive.clone());
    let worker = device.clone();
    let step = move || worker.work(lode_base::VirtualTime::ZERO, Budget { write_bytes: STEP_BYTES });
    Ok((device, Arc::new(Steps::new(step, causes(&drive)))))
}

/// A database, and its background work.
pub(crate) fn database(dir: &Path, cache_bytes: usize) -> StoreResult<(LodeStore, Arc<dyn Upkeep>)> {
    let drive = make(dir)?;
    let options =
        DatabaseOptions { frame_bytes: cache_bytes, now: Some(Instant::now), ..DatabaseOptions::default() };
    let store = LodeStore(Database::open(Arc::new(drive.clone()), options)?);
    let upkeep = Arc::new(store.upkeep(causes(&drive)));
    Ok((store, upkeep))
}

/// SQL on a database, and its background work. The memory is divided as in `lode sql`.
pub(crate) fn sql(dir: &Path, memory_bytes: u64) -> StoreResult<(LodeSql, Arc<dyn Upkeep>)> {
    let drive = make(dir)?;
    let memory = Memory::divided(memory_bytes, Division::Queries);
    let options = DatabaseOptions { now: Some(Instant::now), ..memory.database };
    let store = LodeStore(Database::open(Arc::new(drive.clone()), options)?);
    let sql = LodeSql::new(store.0.clone(), memory.query_bytes, dir).map_err(StoreError::failed)?;
    Ok((sql, Arc::new(store.upkeep(causes(&drive)))))
}

/// One tree of a database.
pub(crate) fn key_value(dir: &Path, cache_bytes: usize) -> StoreResult<OneTree<LodeStore, Arc<dyn Upkeep>>> {
    let (store, upkeep) = database(dir, cache_bytes)?;
    OneTree::new(store, "kv", upkeep)
}
