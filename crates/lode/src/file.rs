//! The geometry of image files.

use lode_base::{Geometry, GeometryError};

use crate::Error;

/// The least capacity of an image, in bytes: GC needs room to work in.
pub const CAPACITY_BYTES_MIN: u64 = 128 << 20;
/// Capacity of an image that is made without saying which, in bytes. It is a limit: the file grows as it is filled.
pub const CAPACITY_BYTES: u64 = 64 << 30;
/// The smallest EBLOCK, in bytes: tables have pages of up to 1 MB.
const EBLOCK_BYTES_MIN: u64 = 2 << 20;

/// The default geometry of an image file. Small images get smaller EBLOCKs, since a drive keeps a dozen EBLOCKs in reserve.
///
/// # Errors
/// When there is no such image.
pub fn file_geometry(capacity_bytes: u64) -> Result<Geometry, GeometryError> {
    const EBLOCKS: u64 = 256;
    let file = Geometry::file(capacity_bytes)?;
    let eblock = (capacity_bytes / EBLOCKS).next_power_of_two().max(EBLOCK_BYTES_MIN);
    if eblock >= u64::from(file.eblock_bytes()) {
        return Ok(file);
    }
    let (r, w) = (file.rblock_bytes(), file.wblock_bytes());
    Geometry::new(1, 1, 1, r, w, eblock as u32, (capacity_bytes / eblock) as u32)
}

/// As [`file_geometry`], of a capacity that a user chose.
pub(crate) fn chosen_geometry(capacity_bytes: u64) -> Result<Geometry, Error> {
    if capacity_bytes < CAPACITY_BYTES_MIN {
        let what =
            format!("a drive has a capacity of at least {CAPACITY_BYTES_MIN} bytes, not {capacity_bytes}");
        return Err(Error::Capacity(what));
    }
    file_geometry(capacity_bytes).map_err(|e| Error::Capacity(e.to_string()))
}
