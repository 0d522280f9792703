//! Ctrl-C: asks the work in hand to stop, and a second one ends the process at once.
//!
//! A drive survives either: what was acknowledged is durable, what was not leaves no trace.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::{CliError, CliResult};

struct Flags {
    seen: Arc<AtomicBool>,
    /// Whether a signal ends the process at once: nothing is in hand, or one came already.
    at_once: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
}

static FLAGS: LazyLock<Flags> = LazyLock::new(|| Flags {
    seen: Arc::default(),
    at_once: Arc::default(),
    which: Arc::new(AtomicUsize::new(0)),
});

/// The signal of a file that may grow no further. Caught, the write fails instead, as on a full disk.
const SIGXFSZ: i32 = 25;

/// How long an interrupted task may take to its next wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a signal is looked for.
const INTERVAL: Duration = Duration::from_millis(20);

/// Catches SIGINT and SIGTERM from now on, and makes a file's limit an error of its write.
pub(crate) fn install() -> CliResult {
    signal_hook::flag::register(SIGXFSZ, Arc::default())
        .map_err(|e| CliError::Failed(format!("cannot catch signals: {e}")))?;
    for signal in [SIGINT, SIGTERM] {
        let hook = || {
            // The order counts: the second signal finds the flag that the first one set.
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

/// The signal that asked to stop, if one did.
pub(crate) fn signal() -> Option<i32> {
    FLAGS.seen.load(Ordering::Acquire).then(|| FLAGS.which.load(Ordering::Acquire) as i32)
}

/// Fails once a signal asked to stop.
pub(crate) fn check() -> CliResult {
    if signal().is_some() { Err(CliError::Interrupted) } else { Ok(()) }
}

/// Forgets the signal: the shell goes on after a cancelled statement.
pub(crate) fn forget() {
    FLAGS.seen.store(false, Ordering::Release);
    FLAGS.at_once.store(false, Ordering::Release);
}

/// Runs `wait`, which waits for input with nothing in hand: a signal ends the process at once.
pub(crate) fn idle<T>(wait: impl FnOnce() -> T) -> T {
    FLAGS.at_once.store(true, Ordering::Release);
    let result = wait();
    FLAGS.at_once.store(signal().is_some(), Ordering::Release);
    result
}

/// Runs `work` as a task of its own until it ends, or until a signal comes: then the task is dropped at its next
/// wait, and the command is interrupted, unless the task came to its end before that.
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
            // It ends at its next wait, which an operator that computes may reach late: then it is left behind.
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

/// Tells of a signal, and once more when [`PATIENCE`] is over. It watches until what it returns first is dropped.
///
/// A thread of its own, since the runtime's timers stand still while all of its threads compute.
fn watch() -> (Sender<()>, UnboundedReceiver<()>) {
    let (ended, has_ended) = std::sync::mpsc::channel();
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let waits = |time| has_ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        while waits(INTERVAL) {
            if signal().is_some() {
                // Nobody may listen any more.
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
