//! The host's file of a simulated medium: in memory, and found in part after a power cut.
//!
//! ```text
//!   FileBacking ── pwrite, punch, fdatasync ─► HostFile ─► bytes, journal of what is not synced
//!                                                 │            cut: both are kept as they are, writes go on
//!                                                 └─ asks the plan whether the host fails
//! ```
//!
//! Whoever writes does not notice that the power was cut: nothing that it then does is found.

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
    /// What a cut left: the bytes and the length then, `journal` as it was.
    cut: Option<(Pieces, u64)>,
    /// Bytes that writes still bring to the medium, and for certain; what follows them is lost.
    torn: Option<u64>,
}

impl Disk {
    /// The file as it is found after the cut, or as if power were cut now.
    pub(crate) fn found(&self, seed: u64) -> Self {
        let power = self.power.lock();
        let (bytes, len) = match &power.cut {
            Some((bytes, len)) => (bytes.copy(), *len),
            None => (self.bytes.copy(), self.len.load(Ordering::Acquire)),
        };
        let len = power.journal.undo(&bytes, len, seed);
        Self::new(bytes, len)
    }

    /// The same file, all of it durable.
    pub(crate) fn copy(&self) -> Self {
        Self::new(self.bytes.copy(), self.len.load(Ordering::Acquire))
    }

    fn new(bytes: Pieces, len: u64) -> Self {
        let power = Power { journal: Journal::synced(len), cut: None, torn: None };
        Self { bytes, len: AtomicU64::new(len), power: Mutex::new(power), locked: AtomicBool::new(false) }
    }

    /// Nothing that is written from here on is found.
    pub(crate) fn cut(&self) {
        let mut power = self.power.lock();
        power.torn = None;
        if power.cut.is_none() {
            power.cut = Some((self.bytes.copy(), self.len.load(Ordering::Acquire)));
        }
    }

    /// Of what is written from here on, until the power is cut, `bytes` are found and no more.
    pub(crate) fn tear(&self, bytes: u64) {
        self.power.lock().torn = Some(bytes);
    }

    /// What the file holds, and what is found of it.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) {
        self.bytes.read(at, out);
    }

    /// Changes a bit, for those who read on and for those who find the file after a cut.
    pub(crate) fn flip(&self, at: u64, bit: u32) {
        let power = self.power.lock();
        for bytes in [Some(&self.bytes), power.cut.as_ref().map(|(b, _)| b)].into_iter().flatten() {
            let mut b = [0];
            bytes.read(at, &mut b);
            bytes.write(at, &[b[0] ^ (1 << bit)]);
        }
    }

    /// The bytes as they are now, to be read when they are stale.
    pub(crate) fn snapshot(&self) -> Pieces {
        self.bytes.copy()
    }

    fn write(&self, at: u64, data: &[u8]) {
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

    /// Fails as the plan says, after a part of `data` that its seed picks.
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
