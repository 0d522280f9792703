//! The thread that a drive's background work runs on: a drive has none of its own.
//!
//! ```text
//!   opened ─► Worker: work, a bounded step at a time, while there is more; else a look now and then ─► finish: the rest
//! ```
//!
//! Invariants: it ends before the drive is closed, and when what holds it goes away; a step is short, so that nobody waits
//! for it long.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lode_engine::{Database, EngineError, Progress};

/// How often a drive at rest is asked whether there is something to do. One at which nothing happened for so long tidies up.
const INTERVAL: Duration = Duration::from_millis(100);
/// What a step may write, in bytes, about.
const STEP_BYTES: u64 = 1 << 20;
/// Steps that are made when the drive is about to be closed: they clean up what the last statements left, some 60 MB of
/// it, which takes well below a second.
const LAST_STEPS: u32 = 128;

/// What a worker does for whom.
pub trait Upkeep: Send + Sync + 'static {
    /// A step of background work that writes so many bytes, about.
    fn work(&self, write_bytes: u64) -> Progress;

    /// How often [`Upkeep::sync`] is wanted, if at all.
    fn group(&self) -> Option<Duration> {
        None
    }

    /// Makes durable what waits for it. What fails here fails again for whoever commits or closes, and is told there.
    fn sync(&self) {}

    /// Writes back what the next opening would have to work off.
    ///
    /// # Errors
    /// When it can not be written; what was committed is as durable as it was.
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

/// A thread that works for a drive, and makes commits durable that wait for no one.
pub struct Worker {
    upkeep: Arc<dyn Upkeep>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// A thread that works for a drive, or for a database on one.
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

    /// Does what is left to do, within bounds, and ends.
    ///
    /// # Errors
    /// When changed pages can not be written back; their commits are as durable as they were.
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
