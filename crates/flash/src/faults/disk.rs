//! The host's file of a simulated medium: in memory, with partial loss of unsynced writes at a power cut.
//!
//! ```text
//!   FileBacking ── pwrite, punch, fdatasync ─► HostFile ─► bytes, journal of what is not synced
//!                                                 │            cut: both are kept as they are, writes go on
//!                                                 └─ asks the plan whether the host fails
//! ```
//!
//! A writer does not notice a power cut. Everything that it writes afterwards is lost.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::backing::{HostFile, Pieces};
use crate::faults::journal::{Journal, TEAR_BYTES};
use crate::faults::plan::{HostFailure, Plan};

/// The file's name in messages.
pub(crate) fn path() -> &'static Path {
    Path::new("<simulated>")
}

#[derive(Default)]
pub(crate) struct Disk {
    bytes: Pieces,
    len: AtomicU64,
    power: Mutex<Power>,
    locked: AtomicBool,
}

#[derive(Default)]
struct Power {
    journal: Journal,
    /// The state at a power cut: bytes and length. `journal` is not changed afterwards.
    cut: Option<(Pieces, u64)>,
    /// The bytes that writes still bring to the medium for certain. All later bytes are lost.
    torn: Option<u64>,
}

impl Disk {
    /// The file as it is found after the power cut, or as if power were cut now.
    pub(crate) fn found(&self, seed: u64) -> Self {
        let power = self.power.lock();
        let (bytes, len) = match &power.cut {
            Some((bytes, len)) => (bytes.copy(), *len),
            None => (self.bytes.copy(), self.len.load(Ordering::Acquire)),
        };
        let len = power.journal.undo(&bytes, len, seed);
        Self::new(bytes, len)
    }

    /// A copy of the file in which everything is durable.
    pub(crate) fn copy(&self) -> Self {
        Self::new(self.bytes.copy(), self.len.load(Ordering::Acquire))
    }

    fn new(bytes: Pieces, len: u64) -> Self {
        let power = Power { journal: Journal::synced(len), cut: None, torn: None };
        Self { bytes, len: AtomicU64::new(len), power: Mutex::new(power), locked: AtomicBool::new(false) }
    }

    /// Cuts the power: all later writes are lost.
    pub(crate) fn cut(&self) {
        let mut power = self.power.lock();
        power.torn = None;
        if power.cut.is_none() {
            power.cut = Some((self.bytes.copy(), self.len.load(Ordering::Acquire)));
        }
    }

    /// Of all bytes that are written until the power is cut, only the next `bytes` survive.
    pub(crate) fn tear(&self, bytes: u64) {
        self.power.lock().torn = Some(bytes);
    }

    /// Reads the file.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) {
        self.bytes.read(at, out);
    }

    /// Flips a bit, now and in the file that is found after a cut.
    pub(crate) fn flip(&self, at: u64, bit: u32) {
        let power = self.power.lock();
        for bytes in [Some(&self.bytes), power.cut.as_ref().map(|(b, _)| b)].into_iter().flatten() {
            let mut b = [0];
            bytes.read(at, &mut b);
            bytes.write(at, &[b[0] ^ (1 << bit)]);
        }
    }

    /// A copy of the bytes, to be read later as stale data.
    pub(crate) fn snapshot(&self) -> Pieces {
        self.bytes.copy()
    }

    pub(crate) fn write(&self, at: u64, data: &[u8]) {
        let mut power = self.power.lock();
        let end = at + data.len() as u64;
        let data = match &mut power.torn {
            None => data,
            Some(left) => {
                let part = (*left).min(data.len() as u64);
                *left -= part;
                &data[..part as usize]
            }
        };
        if power.cut.is_none() && power.torn.is_none() {
            power.journal.before_write(&self.bytes, at, data.len() as u64);
        }
        self.bytes.write(at, data);
        self.len.fetch_max(end, Ordering::AcqRel);
    }
}

/// The file, as an image opens it.
pub(crate) struct SimulatedFile {
    disk: Arc<Disk>,
    plan: Arc<Mutex<Plan>>,
    holds_lock: AtomicBool,
}

impl SimulatedFile {
    pub(crate) fn new(disk: Arc<Disk>, plan: Arc<Mutex<Plan>>) -> Self {
        Self { disk, plan, holds_lock: AtomicBool::new(false) }
    }

    /// Fails if the plan says so, after writing a part of `data` that its seed determines.
    fn before_write(&self, at: u64, len: u64, data: &[u8]) -> io::Result<()> {
        let needs_space = at + len > self.disk.len.load(Ordering::Acquire) || !self.disk.bytes.holds(at, len);
        let Some(HostFailure { kind, seed }) = self.plan.lock().host_write(needs_space) else {
            return Ok(());
        };
        let part = seed / 2 % (data.len() as u64 / TEAR_BYTES + 1) * TEAR_BYTES;
        if part > 0 {
            self.disk.write(at, &data[..part as usize]);
        }
        Err(kind)
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        if *self.holds_lock.get_mut() {
            self.disk.locked.store(false, Ordering::Release);
        }
    }
}

impl HostFile for SimulatedFile {
    fn pread(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let n = self.disk.len.load(Ordering::Acquire).saturating_sub(at).min(out.len() as u64) as usize;
        self.disk.read(at, &mut out[..n]);
        Ok(n)
    }

    fn pwrite(&self, at: u64, data: &[u8]) -> io::Result<usize> {
        self.before_write(at, data.len() as u64, data)?;
        self.disk.write(at, data);
        Ok(data.len())
    }

    fn fdatasync(&self) -> io::Result<()> {
        if let Some(HostFailure { kind, .. }) = self.plan.lock().host_sync() {
            return Err(kind);
        }
        let mut power = self.disk.power.lock();
        if power.cut.is_none() {
            power.journal = Journal::synced(self.disk.len.load(Ordering::Acquire));
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.before_write(len, 0, &[])?;
        self.disk.len.store(len, Ordering::Release);
        Ok(())
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        let mut power = self.disk.power.lock();
        if power.cut.is_none() {
            power.journal.before_punch(&self.disk.bytes, at, len);
        }
        self.disk.bytes.punch(at, len);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.len.load(Ordering::Acquire))
    }

    fn try_lock(&self) -> io::Result<bool> {
        let free = !self.disk.locked.swap(true, Ordering::AcqRel);
        self.holds_lock.store(free, Ordering::Release);
        Ok(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_is_found_and_of_the_rest_whatever_a_seed_picks() {
        let disk = Arc::new(Disk::default());
        let file = SimulatedFile::new(disk.clone(), Arc::default());
        let write = |at, n: u8| assert_eq!(file.pwrite(at, &[n; 8192]).unwrap(), 8192);
        write(0, 1);
        write(65_536, 1);
        file.fdatasync().unwrap();
        write(8192, 2);
        write(8192 + 4096, 3);
        file.punch(65_536, 65_536).unwrap();
        write(24_576, 4);
        disk.cut();
        write(0, 9);
        file.fdatasync().unwrap();
        // The outcomes: lost, whole, and torn at 512 bytes; for a sector that was written twice; for a hole.
        let mut seen = [[0; 3]; 3];
        for seed in 0..400 {
            let found = disk.found(seed);
            let mut out = vec![0; 73_728];
            found.read(0, &mut out);
            assert_eq!(out[..8192], [1; 8192], "seed {seed}");
            assert!(out[8192..12_288].iter().all(|b| [0, 2].contains(b)));
            let count = |range: std::ops::Range<usize>, n: u8| out[range].iter().filter(|&&b| b == n).count();
            for (sector, new) in [(8192, 2), (24_576, 4)] {
                match count(sector..sector + 4096, new) {
                    0 => seen[0][0] += 1,
                    4096 => seen[0][1] += 1,
                    n => seen[0][2] += u32::from(n % 512 == 0),
                }
            }
            match (count(12_288..16_384, 2), count(12_288..16_384, 3)) {
                (4096, 0) => seen[1][0] += 1,
                (0, 4096) => seen[1][1] += 1,
                (0, 0) => seen[1][2] += 1,
                (two, three) => assert_eq!((two % 512, three % 512), (0, 0), "seed {seed}"),
            }
            match count(65_536..73_728, 1) {
                8192 => seen[2][0] += 1,
                0 => seen[2][1] += 1,
                4096 => seen[2][2] += 1,
                n => assert_eq!(n % 512, 0),
            }
            assert!(found.len.load(Ordering::Relaxed) >= 73_728, "a synced length stays");
            let again = disk.found(seed);
            let mut same = vec![0; 73_728];
            again.read(0, &mut same);
            assert!(same == out, "a seed picks the same again");
        }
        assert!(seen.iter().flatten().all(|&n| n > 8), "{seen:?}");
    }

    #[test]
    fn of_a_torn_write_the_beginning_is_found_and_no_more() {
        let disk = Arc::new(Disk::default());
        let file = SimulatedFile::new(disk.clone(), Arc::default());
        disk.tear(5120);
        file.pwrite(0, &[1; 4096]).unwrap();
        file.pwrite(8192, &[2; 4096]).unwrap();
        file.pwrite(16_384, &[3; 4096]).unwrap();
        disk.cut();
        for seed in 0..20 {
            let mut out = vec![0; 20_480];
            disk.found(seed).read(0, &mut out);
            let counts = [1, 2, 3].map(|n| out.iter().filter(|&&b| b == n).count());
            assert_eq!(counts, [4096, 1024, 0]);
        }
    }
}
