//! Commits: system actions, from their staging to what readers see.
//!
//! ```text
//!   stage (commit lock): number, old addresses ─► log group, one sync (leader) ─► install, in order ─► readers
//!       └─ what is staged and not installed: the overlay, which the next to be staged sees
//! ```
//!
//! What must hold: actions are installed in the order in which they were staged; an action is installed only once its
//! record is durable, or in the log if all of its group are unforced; an action that fails after it was staged takes all
//! that were staged after it along.
//!
//! | file | job |
//! |---|---|
//! | `action.rs` | what an action is, and where whoever waits for it finds its outcome |
//! | `state.rs`, `staged.rs`, `overlay.rs`, `progress.rs` | what has an order, under the commit lock |
//! | `leader.rs`, `group.rs` | group commit |
//! | `pending.rs` | groups in the power-protected buffer, and groups in log pages |
//! | `install.rs` | how an action becomes visible |
//! | `flush.rs`, `reclaim.rs` | syncs that share; EBLOCKs that nobody needs, and the proof that they may be reused |
//!
//! Source: ELEOS §IV (system actions), §IV-C (forced commit records), §VIII-C2 (AVAIL).

mod action;
mod committer;
mod flush;
mod group;
mod install;
mod leader;
mod overlay;
mod pending;
mod progress;
mod reclaim;
mod staged;
mod state;

pub(crate) use action::{Action, Copied, Freed, Slot};
pub(crate) use committer::{Commits, Committer};
pub(crate) use state::CommitState;
