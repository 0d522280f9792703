//! Simulates the whole drive in one thread from one seed: a workload, a faulty medium, and an oracle that knows every
//! allowed state.
//!
//! ```text
//!   seed ─► scenario ─► steps ─► world { drive on a medium that fails, oracle } ─► failure? ─► shrink ─► replay
//! ```
//!
//! # What is allowed
//!
//! 1. **A batch that was acknowledged** while there was power is whole after every later open, until it is
//!    overwritten. Commit numbers are consecutive: the n-th acknowledged batch is commit n. An unforced batch is
//!    visible at once. It is certainly durable once a later forced batch, a flush, a checkpoint, or the opening or
//!    closing of a session was acknowledged, or the drive was closed. Until then, a power cut or the reopening of a
//!    read-only drive may lose a suffix of the unforced batches: one whole batch and all batches after it.
//! 2. **Batches under way at a power cut** survive whole or not at all. The surviving ones are a prefix, in the order
//!    in which the queue took them. A batch that was refused while there was power never takes effect. A batch that
//!    failed because of the host's file (`Medium`, `ReadOnly`) may survive if no other batch was acknowledged between
//!    the failure and the reopen.
//! 3. **A view** shows exactly the commit at which it was opened, until it is closed or the power is cut. A view
//!    beyond the drive's limit closes the view with the oldest commit, which then answers only "view closed".
//! 4. **A read between batches** in one queue returns its page, whole, as of before or after any one of them.
//! 5. **An extent** is allocated to one owner at a time, and not while a view shows pages of it. After a power cut,
//!    an allocation is known if a batch that wrote to the extent is there; otherwise it may be lost.
//! 6. **An index entry** fits its page and a rule that was in force at the view's commit or at any time since. A page
//!    that was written, or indexed by `BuildIndex`, under a rule still in force has an entry.
//! 7. **A scan** answers the matching rows of the pages that are mapped in its view. Its level decides which pages it
//!    answers: exactly the mapped pages; or mapped pages that include all pages with matching rows; or exactly the
//!    matching pages or rows.
//! 8. **A session** that was opened is open after a power cut, with the number of its last surviving batch. The drive
//!    refuses a batch that is not the next of its session. It never refuses the next batch, unless a batch under way
//!    had the same number.
//! 9. **An invalid command** is refused and changes nothing.
//! 10. **A full drive** refuses pages, but never trims. It may be full only if the needed versions take at least half
//!     of the usable bytes that it reports, not counting an EBLOCK per channel.
//! 11. **The drive opens** after any power cut, also after cuts during earlier recoveries. Its own check, its scrub
//!     and its invariants find no error.
//! 12. **A page that should begin on a read unit** is read with as few read units as it fills. A failed EBLOCK is not
//!     used again until the drive is reopened. The erase counts survive a power cut, except for the last two erasures
//!     and those that no log group recorded because the host failed.
//!
//! # What a fault excuses
//!
//! A fault excuses only what is named here. "Hit" means that, according to the medium, an injected fault changed, lost
//! or hides data.
//!
//! * *Failed programs and erasures; a single failed, stale or misdirected read; one changed copy of a checkpoint
//!   record or of the superblock*: nothing. Only a read unit whose retries were all struck may be given up, and a
//!   drive may be read-only if its spares are used up or the log's three candidates failed.
//! * *Changed, lost or misplaced data or tags; read units that fail for good*: a page may answer `Uncorrectable` if
//!   it contains a hit, and only that page. A command may fail with a message about damage. An image may be refused
//!   as damaged, and check and scrub may find errors. The last acknowledged batches may be lost after a reopen,
//!   whole, together with sessions opened or closed since. So may the batches right before them if all later ones
//!   were hit. The reason is that lost batches look like batches that were never finished. If some of them were
//!   unforced, the loss may reach back to the log page that the last page but one proves durable. The last page may
//!   then be the only proof for several batches, and the later ones of these may have freed the data of the earlier
//!   ones (`oracle::Tail`). The same holds for the last moves of GC: a page whose only copy was moved then answers
//!   `Uncorrectable`. Wrong bytes and partial batches are never excused.
//! * *Both copies of the superblock, or of a checkpoint record*: the image may be refused with a named error, unless
//!   the drive was closed in order and one of its two records is left. A scrub reports each page that cannot be read.
//! * *A full file system, a failed write or a failed sync*: the affected command may fail with a named error, and the
//!   drive may be read-only until it is reopened. All acknowledged data stays readable, also after the next open. An
//!   affected recovery may fail; the next one must succeed.
//!
//! Any other answer is a failure, and so is a panic. The simulation has no threads and no clock. The caller owns both.
//! Source: ELEOS §III to §VIII for the rules; the simulators of TigerBeetle and FoundationDB for the form.

mod content;
mod coverage;
mod crowd;
mod failure;
mod fault;
pub mod history;
mod host;
mod kv;
mod machine;
mod oracle;
mod random;
mod record;
mod run;
mod scenario;
mod shrink;
mod simulated;
mod step;
mod tables;
mod words;
mod world;

pub use coverage::Coverage;
pub use failure::{Failure, FailureKind};
pub use fault::{FAULTS, FaultSet};
pub use kv::{KV_FAULTS, KV_STEP_KINDS, KeysAt, KvMix, KvScenario, KvStep, Work};
pub use record::{Record, RecordError, VERSION as RECORD_VERSION};
pub use run::{Found, Outcome, Replay, run, search, shrink};
pub use scenario::{Mix, Scenario};
pub use simulated::{Options, Simulated};
pub use step::{AlignPlan, BatchPlan, Cut, RulePlan, STEP_KINDS, Spread, Step};
pub use tables::{TABLES_FAULTS, TABLES_STEP_KINDS, TablesMix, TablesScenario, TablesStep, TablesWork, What};
pub use world::Lens;

/// The options of a run of the drive's simulation.
pub type RunOptions = Options<Scenario>;
/// The options of a run of the simulation of trees.
pub type KvOptions = Options<KvScenario>;
/// The options of a run of the simulation of tables.
pub type TablesOptions = Options<TablesScenario>;

/// Formats increasing numbers as a list of ranges: `3-5,9`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == n => *end = n,
            _ => parts.push((n, n)),
        }
    }
    let part =
        |(from, to): (usize, usize)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

/// Parses a list such as `3-5,9`.
///
/// # Errors
/// The part that is neither a number nor a range of increasing numbers.
pub fn parse_ranges(list: &str) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        match (from.trim().parse::<usize>(), to.trim().parse::<usize>()) {
            (Ok(from), Ok(to)) if from <= to && to < 1 << 20 => numbers.extend(from..=to),
            _ => return Err(part.to_string()),
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_steps_come_back() {
        for (numbers, text) in [(vec![3, 4, 5, 9], "3-5,9"), (vec![0], "0"), (vec![1, 3], "1,3")] {
            assert_eq!(ranges(&numbers), text);
            assert_eq!(parse_ranges(text), Ok(numbers));
        }
        assert_eq!(parse_ranges("5-3"), Err("5-3".into()));
        assert_eq!(parse_ranges("1,x"), Err("x".into()));
    }
}
