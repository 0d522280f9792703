//! The right to write: one commit, write-back or definition at a time.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Who has the right to write.
#[derive(Default)]
pub(crate) struct WriteRight {
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Default)]
struct State {
    is_taken: bool,
    /// Threads that wait for it.
    waiting: u32,
}

/// The right to write. It is given back when this drops.
pub(crate) struct Permit(Arc<WriteRight>);

impl WriteRight {
    /// Waits for the right to write.
    pub(crate) fn acquire(self: &Arc<Self>) -> Permit {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.is_taken {
            self.given_back.wait(&mut state);
        }
        state.waiting -= 1;
        state.is_taken = true;
        Permit(self.clone())
    }

    /// Whether a thread waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.lock().waiting > 0
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state.lock().is_taken = false;
        self.0.given_back.notify_one();
    }
}
