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
use std::time::Duration;

use lode_engine::Progress;

/// How often a drive at rest is asked whether there is something to do. One at which nothing happened for so long tidies up.
const INTERVAL: Duration = Duration::from_millis(100);
/// What a step may write, in bytes, about.
const STEP_BYTES: u64 = 1 << 20;
/// Steps that are made when the drive is about to be closed: they clean up what the last statements left, some 60 MB of
/// it, which takes well below a second.
const LAST_STEPS: u32 = 128;

pub(crate) struct Worker {
    work: Arc<dyn Fn(u64) -> Progress + Send + Sync>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// A thread that works for a drive: `work` makes a step that writes so many bytes, about.
    pub(crate) fn start(work: impl Fn(u64) -> Progress + Send + Sync + 'static) -> io::Result<Self> {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let work: Arc<dyn Fn(u64) -> Progress + Send + Sync> = Arc::new(work);
        let step = work.clone();
        let run = move || {
            let mut progress = Progress::Idle;
            loop {
                let pause = if progress == Progress::More { Duration::ZERO } else { INTERVAL };
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                progress = step(STEP_BYTES);
            }
        };
        let thread = std::thread::Builder::new().name("lode-worker".into()).spawn(run)?;
        Ok(Self { work, stop: Some(stop), thread: Some(thread) })
    }

    /// Does what is left to do, within bounds, and ends.
    pub(crate) fn finish(mut self) {
        self.end();
        for _ in 0..LAST_STEPS {
            if (self.work)(STEP_BYTES) == Progress::Idle {
                break;
            }
        }
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
