//! The fixed workload: all that a drive does, on one so small that it is full most of the time.
//!
//! ```text
//!   format ─► batches, sessions, views, index ─► full, GC ─► a program fails, its EBLOCK is emptied ─► close
//!   ─► open ─► more, GC, another failure ─► power cut ─► recovery ─► more
//! ```
//!
//! Which operations it takes follows from the drive alone: two runs are the same.

use lode_base::{Geometry, OwnerId};
use lode_command::{Batch, Command};
use lode_firmware::{DriveInfo, DriveOptions};
use lode_flash::Medium;

use crate::common::{Random, page, rule, table_page};
use crate::host::{Fault, Host, INDEXED, PLAIN, Stop};

/// A drive for the workload.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) geometry: Geometry,
    pub(crate) options: DriveOptions,
    /// Longest page that fills the drive.
    pub(crate) page_bytes_max: u64,
}

/// What the drive did in one opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) operations: u64,
    pub(crate) info: DriveInfo,
}

fn part(h: &Host) -> Part {
    Part { operations: h.faults.operations(), info: h.drive().info() }
}

impl Shape {
    pub(crate) fn small() -> Self {
        Self {
            geometry: Geometry::new(1, 1, 1, 4096, 4096, 64 << 10, 40).unwrap(),
            options: DriveOptions {
                map_cache_bytes: 36 << 10,
                index_cache_bytes: 8 << 10,
                checkpoint_log_bytes: 128 << 10,
                views_max: 4,
                erased_kept: 2,
                spare_eblocks: Some(4),
                ..DriveOptions::default()
            },
            page_bytes_max: 24_000,
        }
    }

    /// Two channels, WBLOCKs of two read units, no copies of the log.
    pub(crate) fn wide() -> Self {
        Self {
            geometry: Geometry::new(2, 1, 1, 4096, 8192, 128 << 10, 64).unwrap(),
            options: DriveOptions {
                map_cache_bytes: 36 << 10,
                index_cache_bytes: 8 << 10,
                checkpoint_log_bytes: 512 << 10,
                log_copies: 1,
                erased_kept: 4,
                rest_steps: Some(0),
                spare_eblocks: Some(4),
                ..DriveOptions::default()
            },
            page_bytes_max: 100_000,
        }
    }

    /// Carries the workload out, up to where its power is cut.
    pub(crate) fn run(&self, fault: Option<Fault>) -> (Host, Vec<Part>) {
        let (medium, faults) = Medium::simulated(self.geometry);
        let mut h = Host::new(faults, self.options.clone(), fault);
        let mut parts = Vec::new();
        if self.phases(&mut h, medium, &mut parts).is_ok() {
            h.verify();
            parts.push(part(&h));
        }
        (h, parts)
    }

    fn phases(&self, h: &mut Host, medium: Medium, parts: &mut Vec<Part>) -> Result<(), Stop> {
        h.format(medium)?;
        few_batches(h)?;
        self.fill(h)?;
        overwrite(h, 60)?;
        a_program_fails(h)?;
        releases(h)?;
        h.close()?;
        parts.push(part(h));
        h.open_next(1)?;
        h.open_session()?;
        h.open_view()?;
        self.fill(h)?;
        overwrite(h, 20)?;
        a_program_fails(h)?;
        overwrite(h, 10)?;
        parts.push(part(h));
        h.open_next(7)?;
        overwrite(h, 20)?;
        h.ask(Command::Checkpoint)?;
        overwrite(h, 3)
    }

    /// Until there is no room.
    fn fill(&self, h: &mut Host) -> Result<(), Stop> {
        for _ in 0..200 {
            let len = self.page_bytes_max / 2 + h.random.below(self.page_bytes_max / 2);
            let lpid = h.lpid(PLAIN);
            let data = h.random.bytes(len as usize);
            let pin = h.random.below(8) == 0 && h.views_left();
            let refused = h.refused;
            h.write(Batch { writes: vec![page(lpid, &data)], pin, ..Batch::default() })?;
            if h.refused > refused {
                break;
            }
        }
        h.close_views()?;
        let trims = h.now.pages.keys().copied().step_by(4).collect();
        h.write(Batch { trims, ..Batch::default() })?;
        h.work(3)
    }
}

fn few_batches(h: &mut Host) -> Result<(), Stop> {
    h.allocate(PLAIN)?;
    h.allocate(PLAIN)?;
    h.allocate(INDEXED)?;
    let owner = OwnerId::new(INDEXED);
    h.open_session()?;
    for n in 0..8 {
        let mut batch = h.batch(5, 6000);
        batch.session = h.next_of_session();
        h.write(batch)?;
        if n == 4 {
            h.open_view()?;
        }
    }
    for n in 0..3 {
        let lpid = h.lpid(INDEXED);
        h.write(Batch { writes: vec![table_page(lpid, INDEXED, &[n, 9 * n, 4])], ..Batch::default() })?;
    }
    h.write(Batch { index_rules: vec![(owner, Some(rule()))], ..Batch::default() })?;
    h.ask(Command::BuildIndex(owner))?;
    for n in 0..3 {
        let lpid = h.lpid(INDEXED);
        h.write(Batch { writes: vec![table_page(lpid, INDEXED, &[n, 7 * n, 2])], ..Batch::default() })?;
    }
    h.ask(Command::Checkpoint)?;
    let batches = (0..4).map(|_| h.batch(4, 9000)).collect();
    h.write_together(batches)
}

/// Overwrites at random, on a drive that has little room.
fn overwrite(h: &mut Host, batches: u32) -> Result<(), Stop> {
    for n in 0..batches {
        let mut batch = h.batch(3, 12_000);
        if n % 4 == 0 {
            batch.session = h.next_of_session();
        }
        if !h.write(batch)? {
            h.close_views()?;
            let trims = h.now.pages.keys().copied().step_by(5).collect();
            h.write(Batch { trims, ..Batch::default() })?;
        }
        if n % 16 == 15 {
            h.work(2)?;
        }
    }
    Ok(())
}

/// A program of a batch fails: its EBLOCK is emptied, and never used again.
fn a_program_fails(h: &mut Host) -> Result<(), Stop> {
    if h.views_left() {
        h.open_view()?;
    }
    h.fail_a_program();
    overwrite(h, 3)?;
    h.work(8)?;
    h.close_views()
}

/// Extents come and go.
fn releases(h: &mut Host) -> Result<(), Stop> {
    if let Some(new) = h.allocate(PLAIN)? {
        let data = Random(3).bytes(3000);
        h.write(Batch { writes: vec![page(new.page(1), &data)], ..Batch::default() })?;
    }
    if h.now.extents.values().filter(|o| **o == PLAIN).count() > 2 {
        let first = *h.now.extents.iter().find(|(_, o)| **o == PLAIN).expect("there are some").0;
        h.write(Batch { releases: vec![first], ..Batch::default() })?;
    }
    h.close_session()?;
    h.ask(Command::Checkpoint)?;
    overwrite(h, 10)
}
