//! The thread for a drive's background work. A drive itself has no threads.
//!
//! ```text
//!   opened ─► Worker: work, a bounded step at a time, while there is more; else a look now and then ─► finish: the rest
//! ```
//!
//! Invariants: the thread ends before the drive is closed, and when the worker is dropped. A step is short, so
//! commands do not wait long for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lode_engine::{Database, EngineError, Progress};

/// How often the worker asks an idle drive for work. A drive that was idle for this long cleans up.
const INTERVAL: Duration = Duration::from_millis(100);
/// About how many bytes a step may write.
const STEP_BYTES: u64 = 1 << 20;
/// The most steps before the drive is closed. They reclaim the space that the last statements freed: up to some 60
/// MB, in well below a second.
const LAST_STEPS: u32 = 128;

/// What a worker does upkeep for: a drive, or a database on one.
pub trait Upkeep: Send + Sync + 'static {
    /// Does a step of background work that writes about `write_bytes`.
    fn work(&self, write_bytes: u64) -> Progress;

    /// How often the worker calls [`Upkeep::sync`], or `None` for never.
    fn group(&self) -> Option<Duration> {
        None
    }

    /// Makes pending commits durable. An error is not lost: the next commit or close fails with it again.
    fn sync(&self) {}

    /// Writes back changes that the next opening would otherwise have to replay.
    ///
    /// # Errors
    /// If a write fails. Commits stay as durable as they were.
    fn flush(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Upkeep for Database {
    fn work(&self, write_bytes: u64) -> Progress {
        Self::work(self, write_bytes)
    }

    fn group(&self) -> Option<Duration> {
        Self::group(self)
    }

    fn sync(&self) {
        let _ = Self::sync(self);
    }

    fn flush(&self) -> Result<(), EngineError> {
        match Self::flush(self) {
            // The redo log already holds the changes for which there is no space.
            Err(EngineError::OutOfSpace { .. }) => Ok(()),
            flushed => flushed,
        }
    }
}

/// A thread that does the background work of a drive and syncs the commits of
/// [`Durability::Group`](crate::Durability::Group).
pub struct Worker {
    upkeep: Arc<dyn Upkeep>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread for a drive, or for a database on one.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(upkeep: impl Upkeep) -> io::Result<Self> {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let upkeep: Arc<dyn Upkeep> = Arc::new(upkeep);
        let worker = upkeep.clone();
        let run = move || {
            let (mut progress, mut synced, mut looked) = (Progress::Idle, Instant::now(), Instant::now());
            loop {
                let group = worker.group().unwrap_or(INTERVAL).min(INTERVAL);
                let pause = if progress == Progress::More { Duration::ZERO } else { group };
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                if worker.group().is_some_and(|g| synced.elapsed() >= g) {
                    worker.sync();
                    synced = Instant::now();
                }
                if progress == Progress::More || looked.elapsed() >= INTERVAL {
                    progress = worker.work(STEP_BYTES);
                    looked = Instant::now();
                }
            }
        };
        let thread = std::thread::Builder::new().name("lode-worker".into()).spawn(run)?;
        Ok(Self { upkeep, stop: Some(stop), thread: Some(thread) })
    }

    /// Ends the thread and does the remaining work, up to a limit.
    ///
    /// # Errors
    /// If changed pages cannot be written back. Their commits stay as durable as they were.
    pub fn finish(mut self) -> Result<(), EngineError> {
        self.end();
        self.upkeep.flush()?;
        for _ in 0..LAST_STEPS {
            if self.upkeep.work(STEP_BYTES) == Progress::Idle {
                break;
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}
