//! One run: the steps of a seed, or some of them, and what came of it.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::coverage::Coverage;
use crate::failure::{Failure, Kind, Wrong};
use crate::scenario::Scenario;
use crate::step::Step;
use crate::world::{Lens, World};

thread_local! {
    /// Whether a panic of this thread is told by the run that it is part of.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics of simulated drives off standard error: the run tells of them. Other panics are told as ever.
fn hear_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return before(info);
            }
            let what = info.payload_as_str().unwrap_or("a panic without a message");
            let at = info.location().map_or(String::new(), |l| format!(", at {}:{}", l.file(), l.line()));
            LAST_PANIC.set(format!("{what}{at}"));
        }));
    });
}

/// Runs this, and answers what goes wrong; a panic is wrong too.
pub(crate) fn caught(run: impl FnOnce() -> Result<(), Wrong>) -> Option<Wrong> {
    hear_panics();
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    match result {
        Ok(Ok(())) => None,
        Ok(Err(wrong)) => Some(wrong),
        Err(_) => Some(Wrong { kind: Kind::Panic, what: LAST_PANIC.take() }),
    }
}

/// Takes these steps, which carry their numbers in the whole list, and answers the first that goes wrong.
pub(crate) fn take_steps(
    scenario: &Scenario,
    steps: &[(usize, Step)],
    lens: Lens,
) -> (Option<Failure>, Coverage) {
    let at = Cell::new(0);
    let mut coverage = Coverage::default();
    let wrong = caught(|| {
        let mut world = World::new(scenario, lens)?;
        let result = steps
            .iter()
            .try_for_each(|(number, step)| {
                at.set(*number);
                world.step(step)
            })
            .and_then(|()| world.end());
        coverage = std::mem::take(&mut world.coverage);
        result
    });
    coverage.runs = 1;
    (wrong.map(|w| Failure { step: at.get(), kind: w.kind, what: w.what }), coverage)
}
