//! Ctrl-C: the first one asks the work in hand to stop, the second one ends the process at once.
//!
//! A drive survives both: acknowledged work is durable, and the rest leaves no trace.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::{CliError, CliResult};

struct Flags {
    seen: Arc<AtomicBool>,
    /// Whether the next signal ends the process at once, because no work is in hand or a signal came before.
    at_once: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
}

static FLAGS: LazyLock<Flags> = LazyLock::new(|| Flags {
    seen: Arc::default(),
    at_once: Arc::default(),
    which: Arc::new(AtomicUsize::new(0)),
});

/// The signal for a write beyond the limit of file sizes. Because it is caught, the write fails instead, as on a full
/// disk.
const SIGXFSZ: i32 = 25;

/// How long an interrupted task may take to reach its next await.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the watcher checks for a signal.
const INTERVAL: Duration = Duration::from_millis(20);

/// Catches SIGINT and SIGTERM, and makes a write beyond the limit of file sizes an error.
pub(crate) fn install() -> CliResult {
    signal_hook::flag::register(SIGXFSZ, Arc::default())
        .map_err(|e| CliError::Failed(format!("cannot catch signals: {e}")))?;
    for signal in [SIGINT, SIGTERM] {
        let hook = || {
            // The order matters: the second signal must find the flag that the first one has set.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&FLAGS.at_once),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&FLAGS.at_once))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&FLAGS.which), signal as usize)?;
            signal_hook::flag::register(signal, Arc::clone(&FLAGS.seen))
        };
        hook().map_err(|e: std::io::Error| CliError::Failed(format!("cannot catch signals: {e}")))?;
    }
    Ok(())
}

/// The signal that asked to stop, if one came.
pub(crate) fn signal() -> Option<i32> {
    FLAGS.seen.load(Ordering::Acquire).then(|| FLAGS.which.load(Ordering::Acquire) as i32)
}

/// Fails if a signal has asked to stop.
pub(crate) fn check() -> CliResult {
    if signal().is_some() { Err(CliError::Interrupted) } else { Ok(()) }
}

/// Forgets the signal, so that the shell continues after a cancelled statement.
pub(crate) fn forget() {
    FLAGS.seen.store(false, Ordering::Release);
    FLAGS.at_once.store(false, Ordering::Release);
}

/// Runs `wait`, which waits for input while no work is in hand. A signal then ends the process at once.
pub(crate) fn idle<T>(wait: impl FnOnce() -> T) -> T {
    FLAGS.at_once.store(true, Ordering::Release);
    let result = wait();
    FLAGS.at_once.store(signal().is_some(), Ordering::Release);
    result
}

/// Runs `work` as a separate task. After a signal, the task is dropped at its next await and the command is
/// interrupted, unless the task ends before that.
pub(crate) async fn until_signal<T, F>(work: F) -> CliResult<T>
where
    T: Send + 'static,
    F: Future<Output = CliResult<T>> + Send + 'static,
{
    let mut task = tokio::spawn(work);
    let (_ended, mut watch) = watch();
    let ended = tokio::select! {
        ended = &mut task => ended,
        _ = watch.recv() => {
            task.abort();
            // The task ends at its next await. An operator that computes may reach it late; then the task is left
            // behind.
            tokio::select! {
                ended = task => ended,
                _ = watch.recv() => return Err(CliError::Interrupted),
            }
        }
    };
    match ended {
        Ok(result) => result,
        Err(e) if e.is_cancelled() => Err(CliError::Interrupted),
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}

/// Starts a thread that reports a signal to the returned receiver, and again after [`PATIENCE`]. The thread ends when
/// the returned sender is dropped.
///
/// It is a separate thread because the runtime's timers stand still while all its threads compute.
fn watch() -> (Sender<()>, UnboundedReceiver<()>) {
    let (ended, has_ended) = std::sync::mpsc::channel();
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let waits = |time| has_ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        while waits(INTERVAL) {
            if signal().is_some() {
                // The receiver may be gone.
                let _ = tell.send(());
                if waits(PATIENCE) {
                    let _ = tell.send(());
                }
                return;
            }
        }
    });
    (ended, told)
}
