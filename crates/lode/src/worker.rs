//! The thread that a drive's background work runs on: a drive has none of its own.
//!
//! ```text
//!   opened ─► Worker: work, a bounded step at a time, while there is more; else a look now and then ─► finish: the rest
//! ```
//!
//! Invariants: the thread ends before the drive is closed, and when its owner is dropped. A step is short, so that nobody waits long
//! for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lode_engine::{Database, EngineError, Progress};

/// How often an idle drive is asked for work. A drive that was idle for this long tidies up.
const INTERVAL: Duration = Duration::from_millis(100);
/// About how many bytes a step may write.
const STEP_BYTES: u64 = 1 << 20;
/// Most steps before the drive is closed. They clean up what the last statements left: up to some 60 MB, in well below a second.
const LAST_STEPS: u32 = 128;

/// What a worker works for.
pub trait Upkeep: Send + Sync + 'static {
    /// Does a step of background work that writes about this many bytes.
    fn work(&self, write_bytes: u64) -> Progress;

    /// How often [`Upkeep::sync`] is wanted, if at all.
    fn group(&self) -> Option<Duration> {
        None
    }

    /// Makes pending commits durable. What fails here fails again, and is reported, at the next commit or close.
    fn sync(&self) {}

    /// Writes back what the next opening would otherwise have to replay.
    ///
    /// # Errors
    /// When it cannot be written; what was committed is as durable as it was.
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
            // Redo has what there is no room for otherwise.
            Err(EngineError::OutOfSpace { .. }) => Ok(()),
            flushed => flushed,
        }
    }
}

/// A thread that does the background work of a drive, and syncs commits that nobody waits for.
pub struct Worker {
    upkeep: Arc<dyn Upkeep>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread that works for a drive, or for a database on one.
    ///
    /// # Errors
    /// When no thread can be started.
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

    /// Does the remaining work, within bounds, and ends the thread.
    ///
    /// # Errors
    /// When changed pages cannot be written back; their commits are as durable as they were.
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
