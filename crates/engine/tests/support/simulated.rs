//! A real drive on a medium whose power a test cuts.

use std::sync::Arc;

use lode_base::Geometry;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::{Faults, Medium};

pub(crate) fn new_drive() -> (Drive, Faults) {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 128).unwrap();
    let (medium, faults) = Medium::simulated(geometry);
    (Drive::format(medium, DriveOptions::default()).unwrap(), faults)
}

pub(crate) fn opened(drive: Drive) -> Database {
    Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap()
}
