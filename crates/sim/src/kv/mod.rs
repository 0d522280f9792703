//! A database of trees on a drive, in one thread, from one seed: conflicting transactions, a faulty medium, and a
//! model that knows what each transaction must see.
//!
//! ```text
//!   seed ─► KvScenario ─► steps ─► world { database on a drive on a medium that fails, model, history } ─► failure?
//! ```
//!
//! # What is allowed
//!
//! 1. **A read**, by key or by scan, answers the value of the newest commit in the transaction's snapshot, or the
//!    transaction's own newest write. This holds as long as the transaction is open, whatever is written back or
//!    evicted. A snapshot may be "too old" only if the drive had to close its view, and only if that many views are
//!    open.
//! 2. **A commit** is refused as a conflict if, and only if, another commit wrote one of its keys since its snapshot.
//!    Commit numbers increase. A commit that is refused, or that fails because of a full drive or a fault, changes
//!    nothing until the next opening.
//! 3. **After a power cut**, every commit that was acknowledged as durable is there, whole. Of the later commits,
//!    which returned before they were durable, a prefix is there. The commit under way is there whole or not at all.
//! 4. **A tree** that was created, loaded or dropped stays so. Such a change under way at a power cut happened or did
//!    not happen, and nothing remains of an abandoned load. Operations on a loaded tree are compared with the model
//!    and are not part of the history.
//! 5. **The database opens** after any power cut, also after cuts during earlier recoveries. Its check and the
//!    drive's find no error in order, fences, levels and values, and exactly the pages in use are referenced.
//! 6. **The history** of all transactions, including those before a crash, satisfies snapshot isolation.
//!    [`crate::history`] checks this without the model.
//!
//! After a fault, the affected command may fail with a named error, and the database may be read-only until it is
//! opened again. A fault never excuses a wrong answer or the loss of durable data.

mod content;
mod model;
mod scenario;
mod step;
mod world;

pub use scenario::{KV_FAULTS, KvMix, KvScenario};
pub use step::{KV_STEP_KINDS, KeysAt, Step as KvStep, Work};
