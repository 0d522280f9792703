//! Tables with deltas on a drive, in one thread, from one seed: transactions interleaved, merges, definitions, old snapshots,
//! a faulty medium, and a model that knows the rows.
//!
//! ```text
//!   seed ─► TablesScenario ─► steps ─► world { database on a drive on a medium that fails, model of rows } ─► failure?
//! ```
//!
//! # What is allowed
//!
//! 1. **A read** answers the rows of the snapshot with the transaction's own changes: by a scan, by pages, by a key, by an
//!    index, and as a count. This holds for as long as the snapshot is held, whatever is merged meanwhile. A snapshot may be
//!    "too old" only if the drive had to close its view.
//! 2. **A commit** conflicts if, and only if, another commit changed one of its rows since its snapshot, or the definition of
//!    a table that it changes. It breaks a constraint if, and only if, the rows after it would. Otherwise it succeeds.
//! 3. **A merge**, a flush and background work change no row.
//! 4. **After a power cut**, every commit and every definition that was acknowledged as durable is there, whole. Of the
//!    later ones, a prefix is there. The one under way is there whole or not at all.
//! 5. **The database opens** after any power cut. Its check finds every row by its keys and in its indexes, the directory
//!    names the pages, and there is one tree of rows for each table with a delta.
//!
//! After a fault, the affected command may fail with a named error, and the database may be read-only until it is opened
//! again. A fault never excuses a wrong answer or the loss of durable rows.

mod model;
mod rows;
mod scenario;
mod step;
mod world;

pub use scenario::{TABLES_FAULTS, TablesMix, TablesScenario};
pub use step::{TABLES_STEP_KINDS, TablesStep, TablesWork, What};
