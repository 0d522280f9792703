//! Plain files: the upper limit of the comparison.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::case::{Contestant, Done};
use crate::drive_host::DriveError;
use crate::random::Random;

const MB: usize = 1 << 20;
const BLOCK_BYTES: usize = 4096;
/// The size of the buffer from which both sides take their data.
pub(super) const SOURCE_BYTES: usize = 4 * MB;
/// The length of a file whose blocks are overwritten, in megabytes.
const RING_MB: u64 = 256;
/// The number of blocks in the ring of one thread's commits.
const COMMIT_BLOCKS: u64 = 4096;

/// Incompressible bytes.
pub(super) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(len).collect()
}

struct PlainFile {
    path: PathBuf,
    file: File,
}

impl PlainFile {
    fn new(dir: &Path, name: &str) -> Result<Self, DriveError> {
        let path = dir.join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        Ok(Self { file: file.map_err(DriveError::file(&path))?, path })
    }

    /// Makes a file whose blocks were all written and overwritten once, so that the file system has nothing left to
    /// allocate.
    fn written(dir: &Path, name: &str, mb: u64) -> Result<Self, DriveError> {
        let f = Self::new(dir, name)?;
        let data = noise(MB, 1);
        for _ in 0..2 {
            (0..mb).try_for_each(|i| f.write(&data, i * MB as u64))?;
            f.sync()?;
        }
        Ok(f)
    }

    fn write(&self, data: &[u8], at: u64) -> Result<(), DriveError> {
        self.file.write_all_at(data, at).map_err(DriveError::file(&self.path))
    }

    fn sync(&self) -> Result<(), DriveError> {
        self.file.sync_data().map_err(DriveError::file(&self.path))
    }
}

/// Writes of one size, one after the other, each with a sync. After `ring` bytes they start again at the beginning.
struct Writes {
    file: PlainFile,
    /// The source of the bytes. It is larger than a write, so that the CPU caches its bytes no better than Lode's.
    source: Vec<u8>,
    bytes: usize,
    at: u64,
    ring: u64,
    /// The number of operations that one write counts as.
    ops: u64,
}

impl Contestant for Writes {
    fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError> {
        let mut now = Instant::now();
        while now < end {
            let from = self.at as usize % (self.source.len() - self.bytes + 1);
            self.file.write(&self.source[from..from + self.bytes], self.at)?;
            self.file.sync()?;
            self.at = (self.at + self.bytes as u64) % self.ring;
            let before = std::mem::replace(&mut now, Instant::now());
            done.latencies.push(now - before);
            done.ops += self.ops;
            done.bytes += self.bytes as u64;
        }
        Ok(())
    }
}

pub(super) fn append(dir: &Path, _: u32, _: u32) -> Result<Box<dyn Contestant>, DriveError> {
    let file = PlainFile::new(dir, "plain")?;
    Ok(Box::new(Writes { file, source: noise(SOURCE_BYTES, 2), bytes: MB, at: 0, ring: u64::MAX, ops: 1 }))
}

pub(super) fn overwrite(dir: &Path, _: u32, _: u32) -> Result<Box<dyn Contestant>, DriveError> {
    let file = PlainFile::written(dir, "plain", RING_MB)?;
    Ok(Box::new(Writes {
        file,
        source: noise(SOURCE_BYTES, 2),
        bytes: MB,
        at: 0,
        ring: RING_MB * MB as u64,
        ops: 1,
    }))
}

/// Contestants that run at the same time, each on its thread.
pub(super) struct Threads<C>(pub(super) Vec<C>);

impl<C: Contestant + Send> Contestant for Threads<C> {
    fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError> {
        let run = |c: &mut C| {
            let mut done = Done::default();
            c.slice(end, &mut done).map(|()| done)
        };
        let all: Vec<Result<Done, DriveError>> = std::thread::scope(|s| {
            let threads: Vec<_> = self.0.iter_mut().map(|c| s.spawn(move || run(c))).collect();
            threads.into_iter().map(|t| t.join().expect("a contestant does not panic")).collect()
        });
        all.into_iter().try_for_each(|d| d.map(|d| done.add(d)))
    }
}

/// Commits of one block each. Each thread has its own file; `depth` commits are written together and share a sync.
pub(super) fn commits(dir: &Path, threads: u32, depth: u32) -> Result<Box<dyn Contestant>, DriveError> {
    let mb = COMMIT_BLOCKS * BLOCK_BYTES as u64 / MB as u64;
    let of = |i| {
        let file = PlainFile::written(dir, &format!("plain-{i}"), mb)?;
        let (source, bytes) = (noise(SOURCE_BYTES, 3), BLOCK_BYTES * depth as usize);
        Ok(Writes { file, source, bytes, at: 0, ring: mb * MB as u64, ops: depth.into() })
    };
    Ok(Box::new(Threads((0..threads).map(of).collect::<Result<_, DriveError>>()?)))
}

/// Reads random blocks into these buffers.
struct Reads {
    file: PlainFile,
    random: Random,
    buffers: Vec<[u8; BLOCK_BYTES]>,
}

/// The number of reads between two checks of the clock. It is a multiple of every depth.
pub(super) const READS_AT_A_TIME: u64 = 64;

impl Contestant for Reads {
    fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError> {
        let blocks = RING_MB * (MB / BLOCK_BYTES) as u64;
        let mut now = Instant::now();
        while now < end {
            for i in 0..READS_AT_A_TIME as usize {
                let at = self.random.below(blocks) * BLOCK_BYTES as u64;
                let i = i % self.buffers.len();
                let block = &mut self.buffers[i];
                self.file.file.read_exact_at(block, at).map_err(DriveError::file(&self.file.path))?;
                std::hint::black_box(&block);
            }
            let before = std::mem::replace(&mut now, Instant::now());
            done.latencies.push((now - before) / READS_AT_A_TIME as u32);
            done.ops += READS_AT_A_TIME;
            done.bytes += READS_AT_A_TIME * BLOCK_BYTES as u64;
        }
        Ok(())
    }
}

pub(super) fn reads(dir: &Path, threads: u32, depth: u32) -> Result<Box<dyn Contestant>, DriveError> {
    let file = PlainFile::written(dir, "plain", RING_MB)?;
    let of = |i| {
        let again = file.file.try_clone().map_err(DriveError::file(&file.path))?;
        let file = PlainFile { path: file.path.clone(), file: again };
        Ok(Reads { file, random: Random(i), buffers: vec![[0; BLOCK_BYTES]; depth as usize] })
    };
    Ok(Box::new(Threads((0..u64::from(threads)).map(of).collect::<Result<_, DriveError>>()?)))
}
