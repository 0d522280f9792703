//! Where work runs that must not run on the threads of the async runtime: work that waits, and work that is deep.

use crate::SqlError;

/// Planning takes some 40 KB a level in a debug build.
const DEEP_STACK_BYTES: usize = 128 << 20;

/// Runs `work` on a thread with a stack for the deepest statement. Dropping the future stops it.
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
            // Nobody waits any more when this fails.
            let _ = sender.send(result);
        });
    };
    thread.spawn(run).map_err(|e| SqlError::Invalid(format!("no thread for a deep statement: {e}")))?;
    receiver.await.map_err(|_| SqlError::Invalid("the statement failed: it is too deep".into()))?
}

/// Runs `work`, which may wait for the drive or for another writer, beside the runtime's own threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
) -> Result<T, SqlError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        Err(_) => Err(SqlError::Invalid("the database is shutting down".into())),
    }
}
