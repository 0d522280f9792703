//! A memory image whose power can be cut at any write or sync: what was not synced by then is there in part.
//!
//! ```text
//!   write ─► live (what the drive reads)          cut: durable and pending stay as they are, live goes on
//!        └─► pending ── sync ─► durable           found after the cut: durable, and of pending what a seed picks
//! ```
//!
//! As a page cache does, each sector goes to the medium as it was at some moment since the last sync, in no order among
//! sectors. A sector can tear at a multiple of 512 bytes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::FlashError;
use crate::backing::{Backing, MemoryBacking};

const SECTOR_BYTES: u64 = 4096;
const TEAR_BYTES: usize = 512;

enum Change {
    Write(u64, Vec<u8>),
    Punch(u64, u64),
}

struct Journal {
    durable: MemoryBacking,
    pending: Vec<Change>,
    /// Changes and syncs until the power is cut.
    left: Option<u64>,
    cut: bool,
    /// Preparations until one finds no space.
    full_after: Option<u64>,
}

impl Journal {
    /// Counts an operation; false once the power is cut.
    fn counts(&mut self) -> bool {
        match &mut self.left {
            Some(0) => self.cut = true,
            Some(left) => *left -= 1,
            None => {}
        }
        !self.cut
    }

    fn change(&mut self, c: Change) {
        if !self.cut {
            // The change at which power is cut is under way: it may be found, whole or torn.
            self.pending.push(c);
            self.counts();
        }
    }
}

fn apply(to: &MemoryBacking, c: Change) {
    let done = match c {
        Change::Write(at, data) => to.write(at, &data, "write"),
        Change::Punch(at, len) => to.punch(at, len),
    };
    done.expect("memory takes all");
}

/// The switch of a medium whose power can be cut.
#[derive(Clone)]
pub(crate) struct Switch(Arc<Mutex<Journal>>);

impl Switch {
    pub(crate) fn cut_after(&self, operations: u64) {
        self.0.lock().left = Some(operations);
    }

    pub(crate) fn cut(&self) {
        self.0.lock().cut = true;
    }

    pub(crate) fn full_after(&self, preparations: u64) {
        self.0.lock().full_after = Some(preparations);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.0.lock().cut
    }

    /// The image as it is found after the cut, or as if power were cut now.
    pub(crate) fn found(&self, seed: u64) -> MemoryBacking {
        let j = self.0.lock();
        let found = j.durable.duplicate();
        let mut random = seed;
        let mut below = |n: u64| {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let mixed = (random ^ (random >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
            (mixed ^ (mixed >> 33)) % n
        };
        let mut sectors: BTreeMap<u64, Vec<(u64, &[u8])>> = BTreeMap::new();
        for c in &j.pending {
            match c {
                Change::Write(at, data) => {
                    let mut done = 0;
                    while done < data.len() {
                        let at = at + done as u64;
                        let part = ((SECTOR_BYTES - at % SECTOR_BYTES) as usize).min(data.len() - done);
                        sectors.entry(at / SECTOR_BYTES).or_default().push((at, &data[done..done + part]));
                        done += part;
                    }
                }
                // A hole shows at once, or never.
                Change::Punch(at, len) if below(2) == 0 => apply(&found, Change::Punch(*at, *len)),
                Change::Punch(..) => {}
            }
        }
        let mode = below(5);
        for writes in sectors.into_values() {
            let count = match mode {
                0 => writes.len(),
                1 => 0,
                2 if below(8) > 0 => writes.len(),
                3 if below(8) > 0 => 0,
                _ => below(writes.len() as u64 + 1) as usize,
            };
            for (i, (at, data)) in writes[..count].iter().enumerate() {
                let torn = i + 1 == count && mode > 1 && below(16) == 0;
                let len = if torn { below(8) as usize * TEAR_BYTES } else { data.len() };
                apply(&found, Change::Write(*at, data[..len.min(data.len())].to_vec()));
            }
        }
        found
    }
}

pub(crate) struct FadingBacking {
    live: MemoryBacking,
    switch: Switch,
}

impl FadingBacking {
    /// An image with these bytes, all of them durable.
    pub(crate) fn new(durable: MemoryBacking) -> Self {
        let live = durable.duplicate();
        let journal = Journal { durable, pending: Vec::new(), left: None, cut: false, full_after: None };
        Self { live, switch: Switch(Arc::new(Mutex::new(journal))) }
    }

    pub(crate) fn switch(&self) -> Switch {
        self.switch.clone()
    }
}

impl Backing for FadingBacking {
    fn path(&self) -> &Path {
        self.live.path()
    }

    fn read(&self, at: u64, out: &mut [u8], operation: &'static str) -> Result<(), FlashError> {
        self.live.read(at, out, operation)
    }

    fn write(&self, at: u64, data: &[u8], operation: &'static str) -> Result<(), FlashError> {
        self.switch.0.lock().change(Change::Write(at, data.into()));
        self.live.write(at, data, operation)
    }

    fn prepare_group(&self, group: u64, ahead: bool) -> Result<(), FlashError> {
        let mut j = self.switch.0.lock();
        match &mut j.full_after {
            Some(0) => {
                j.full_after = None;
                let full = io::Error::from(io::ErrorKind::StorageFull);
                return Err(FlashError::io(self.path(), "grow the image", full));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        drop(j);
        self.live.prepare_group(group, ahead)
    }

    fn punch(&self, at: u64, len: u64) -> Result<(), FlashError> {
        self.switch.0.lock().change(Change::Punch(at, len));
        self.live.punch(at, len)
    }

    fn forget_group(&self, group: u64) {
        self.live.forget_group(group);
    }

    fn sync(&self) -> Result<(), FlashError> {
        let mut j = self.switch.0.lock();
        if !j.cut && j.counts() {
            let pending = std::mem::take(&mut j.pending);
            pending.into_iter().for_each(|c| apply(&j.durable, c));
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.live.len()
    }

    fn copy(&self) -> Option<Box<dyn Backing>> {
        self.live.copy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_is_found_and_of_the_rest_whatever_a_seed_picks() {
        let b = FadingBacking::new(MemoryBacking::new());
        let write = |at, n: u8| b.write(at, &[n; 8192], "write").unwrap();
        write(0, 1);
        b.sync().unwrap();
        write(8192, 2);
        let s = b.switch();
        s.cut_after(0);
        write(16_384, 3);
        assert!(s.is_cut());
        b.sync().unwrap();
        write(0, 4);
        let (mut lost, mut torn, mut whole) = (0, 0, 0);
        for seed in 0..200 {
            let found = s.found(seed);
            let mut out = vec![0; 24_576];
            found.read(0, &mut out, "read").unwrap();
            assert_eq!(out[..8192], [1; 8192]);
            assert!(out[8192..16_384].iter().all(|b| [0, 2].contains(b)));
            match out[16_384..].iter().filter(|&&b| b == 3).count() {
                0 => lost += 1,
                8192 => whole += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 20 && torn > 20 && whole > 20, "{lost} {torn} {whole}");
    }
}
