//! What a clean close leaves on the medium.

mod common;

use common::*;
use lode_base::Geometry;
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::Medium;

/// A close without its last sync was found by no test: the drive opens from one checkpoint record, and the other is there for
/// when that one is damaged.
#[test]
fn power_that_goes_after_a_close_finds_both_checkpoint_records() {
    let geometry = Geometry::new(2, 1, 1, 4096, 4096, 256 << 10, 48).unwrap();
    for seed in 0..40 {
        let (m, faults) = Medium::simulated(geometry);
        let drive = Drive::format(m, DriveOptions::default()).unwrap();
        let extent = allocate(&drive, 7, 1)[0];
        for n in 0..20 {
            put(&drive, extent.page(n), &[n as u8; 5000]).unwrap();
        }
        drive.close().unwrap();
        faults.cut();
        let (m, _faults) = faults.restored(seed).unwrap();
        let [one, other] = m.read_checkpoint_records().unwrap();
        assert!(
            one.is_some() && one == other,
            "seed {seed}: a record was not durable when the drive was closed"
        );
        let drive = Unrecovered::new(m, DriveOptions::default()).recover().unwrap();
        assert!(drive.info().recovery.clean, "seed {seed}");
        assert_eq!(get(&drive, None, extent.page(19)), Some(vec![19; 5000]));
    }
}
