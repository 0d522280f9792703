//! A database of trees on a drive in one thread from one seed: transactions that run into each other, a medium that
//! fails, and a model that knows what each of them must see.
//!
//! ```text
//!   seed ─► KvScenario ─► steps ─► world { database on a drive on a medium that fails, model, history } ─► failure?
//! ```
//!
//! # What is allowed
//!
//! 1. **A read**, by key or by scan, answers what the newest commit before the transaction's snapshot left there, or the
//!    transaction's own newest write; for as long as the transaction is open, whatever is written back or evicted. Only a
//!    view that the drive had to close is "too old", and only where so many are open.
//! 2. **A commit** is refused as a conflict exactly if another one wrote one of its keys since its snapshot. Commit numbers
//!    rise. A commit that is refused, or that a full drive or a fault fails, changes nothing until the next opening.
//! 3. **After a power cut** every commit that was acknowledged as durable is there, whole; those after it, which returned
//!    before they were durable, up to some commit and none after that; the one under way whole or not at all.
//! 4. **A tree** that was created, loaded or dropped stays so; what is under way at a power cut did or did not happen, and of a
//!    load that was given up nothing is there. What happens to a loaded tree is held to the model, and no part of the history.
//! 5. **The database opens** after any power cut, also after cuts in the recoveries before; its check and the drive's find
//!    nothing: order, fences, levels, values, and exactly the pages in use that something names.
//! 6. **The history** of all transactions, those before a crash included, is one of snapshot isolation, as
//!    [`crate::history`] sees it, which knows nothing of the model.
//!
//! A fault excuses that the command which meets it fails by name, and that the database takes no writes until it is opened
//! again; never a wrong answer, nor the loss of what was durable.

mod content;
mod model;
mod scenario;
mod step;
mod world;

pub use scenario::{KV_FAULTS, KvMix, KvScenario};
pub use step::{KV_STEP_KINDS, KeysAt, Step as KvStep, Work};
