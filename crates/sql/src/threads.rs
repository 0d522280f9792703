//! Runs work that must not run on the async runtime's own threads: work that blocks, and work that needs a deep
//! stack.

use crate::SqlError;
use crate::error::state;

/// Planning takes about 40 KB per level in a debug build.
const DEEP_STACK_BYTES: usize = 128 << 20;

/// Runs `work` on a thread whose stack is large enough for the deepest statement. Dropping the future stops it.
pub(crate) async fn on_deep_stack<T: Send + 'static>(
    work: impl Future<Output = Result<T, SqlError>> + Send + 'static,
) -> Result<T, SqlError> {
    let runtime = tokio::runtime::Handle::current();
    let (mut sender, receiver) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("lode-deep".into()).stack_size(DEEP_STACK_BYTES);
    let run = move || {
        runtime.block_on(async move {
            let result = tokio::select! {
                result = work => result,
                () = sender.closed() => return,
            };
            // This fails only if nobody waits any more.
            let _ = sender.send(result);
        });
    };
    thread.spawn(run).map_err(|e| {
        let message = format!("no thread for a deep statement: {e}");
        SqlError::failed(state::INSUFFICIENT_RESOURCES, message)
    })?;
    let too_deep = || SqlError::failed(state::STATEMENT_TOO_COMPLEX, "the statement failed: it is too deep");
    receiver.await.map_err(|_| too_deep())?
}

/// Runs `work`, which may wait for the drive or for another writer, on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
) -> Result<T, SqlError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        Err(_) => Err(SqlError::shutting_down()),
    }
}
