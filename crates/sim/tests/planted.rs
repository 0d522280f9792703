//! Plants faults in the firmware, one after the other. The simulation finds each within its budget of seeds, and the
//! seed passes without the fault. `cargo test -p lode-sim --features planted --test planted -- --nocapture` prints
//! the table. `LODE_PLANTED=MoveForgets` plants only that fault and prints the shortest replay; `LODE_SEEDS` sets the
//! number of seeds.
//!
//! Two faults have separate tests. `WeakForgotten` shows in no answer of the drive; a test below finds it.
//! `StagedBehindAcknowledged` needs a second thread; `cargo test -p lode-firmware --features planted` finds it.

mod common;

use common::Planting;
use lode_base::{ExtentId, Geometry, Lpid, OwnerId, PageBuf, VirtualTime};
use lode_command::{
    Align, Batch, Command, CommandError, Device, Outcome, PageWrite, ReadRequest, Reply, Until,
};
use lode_firmware::{Drive, DriveOptions, Planted, plant};
use lode_flash::{FaultKind, Faults, Medium};
use lode_sim::Scenario;

#[test]
fn every_planted_fault_is_found() {
    let elsewhere = &[Planted::StagedBehindAcknowledged, Planted::WeakForgotten];
    Planting { all: Planted::ALL, plant, elsewhere }.every_fault_is_found::<Scenario>(76);
}

fn drive(options: DriveOptions) -> (Drive, Faults, ExtentId) {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 64).unwrap();
    let (medium, faults) = Medium::simulated(geometry);
    let drive = Drive::format(medium, options).unwrap();
    let allocate = Command::AllocateExtents { owner: OwnerId::new(3), count: 1 };
    let Ok(Reply::Extents(extents)) = run(&drive, allocate) else { panic!("no extent") };
    (drive, faults, extents[0])
}

fn run(drive: &Drive, c: Command) -> Result<Reply, CommandError> {
    let mut q = drive.open_queue(1).unwrap();
    assert!(q.submit(VirtualTime::ZERO, c).is_ok(), "the queue is empty");
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    match out.remove(0).outcome {
        Outcome::Done(answer) => answer,
        Outcome::Unit(_) => panic!("a unit of no scan"),
    }
}

fn write(lpid: Lpid, bytes: usize, with: u8) -> Command {
    let data = PageBuf::copy_from(&vec![with; bytes]);
    Command::Write(Batch { writes: vec![PageWrite { lpid, data, align: Align::Cell }], ..Batch::default() })
}

fn read(drive: &Drive, lpid: Lpid) -> Option<u8> {
    match run(drive, Command::Read { view: None, pages: vec![ReadRequest { lpid, range: None }] }) {
        Ok(Reply::Pages(pages)) => Some(pages[0][0]),
        _ => None,
    }
}

/// The number of EBLOCKs that a scrub empties because a read was retried there.
fn refreshed(fault: Option<Planted>) -> u64 {
    let (drive, faults, extent) = drive(DriveOptions { inline_bytes_max: 0, ..DriveOptions::default() });
    // Writes three EBLOCKs of pages, so that the first is closed.
    for n in 0..48 {
        run(&drive, write(extent.page(n), 15_000, 1)).unwrap();
    }
    plant(fault);
    faults.arm(FaultKind::ReadFailsOnce, 0, 1);
    assert_eq!(read(&drive, extent.page(0)), Some(1), "the next try succeeds");
    let report = drive.scrub().unwrap();
    plant(None);
    report.refreshed
}

#[test]
fn what_was_hard_to_read_is_moved() {
    assert!(refreshed(None) > 0, "without the fault");
    assert_eq!(refreshed(Some(Planted::WeakForgotten)), 0, "with it");
}
