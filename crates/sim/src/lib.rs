//! The whole drive in one thread from one seed: a workload, a medium that fails, and an oracle that knows every allowed
//! state.
//!
//! ```text
//!   seed ─► scenario ─► steps ─► world { drive on a medium that fails, oracle } ─► failure? ─► shrink ─► replay
//! ```
//!
//! # What is allowed
//!
//! 1. **A batch that was acknowledged** while there was power is there, whole, after every later open, until it is
//!    written over. Commit numbers are consecutive: the n-th batch that is acknowledged is commit n. One that is unforced
//!    shows at once, and is there for sure only once a later forced one, a flush, a checkpoint, or the opening or closing
//!    of a session was acknowledged, or the drive was closed. Until then a power cut, or the reopening of a drive that
//!    became read-only, may take the last of them along, whole, from any one on; what came after that one is gone too.
//! 2. **Batches under way at a power cut** are there whole or not at all. Those that are there are the first few in the
//!    order in which the queue took them. A batch that was refused while there was power is never there; one that the
//!    host's file failed (`Medium`, `ReadOnly`) may be, if no other batch was acknowledged between that and the reopen.
//! 3. **A view** shows exactly the commit that it was opened at, until it is closed or power goes. A view past the
//!    drive's limit closes the one with the oldest commit, which then answers "view closed" and nothing else.
//! 4. **A read beside batches** in one queue shows its page as it was before or after any one of them, whole.
//! 5. **An extent** is handed out to one owner at a time, and not while a view shows pages of it. One that was handed
//!    out is known after a power cut if a batch that wrote into it is there; otherwise it may be forgotten.
//! 6. **An index entry** is that of its page under a rule that stood at the view's commit or at any time since. A page
//!    that was written, or indexed by `BuildIndex`, under a rule that still stands has one.
//! 7. **A scan** answers the rows that pass, of the pages that are mapped at its view; by level: exactly the mapped
//!    pages; all pages with rows that pass, and mapped ones only; exactly the pages, or the rows, that pass.
//! 8. **A session** that was opened is open after a power cut, with the number of its last batch that is there. A batch
//!    that is not the next of its session is refused; the next one never is, unless one under way had its number.
//! 9. **A command that makes no sense** is refused, and changes nothing.
//! 10. **A full drive** refuses pages, never trims; and only when versions that are needed take half of the usable bytes
//!     that it reports, an EBLOCK a channel not counted.
//! 11. **The drive opens** after any power cut, also after cuts in the recoveries before; its own check, its scrub and
//!     its invariants find nothing.
//! 12. **A page that is to begin on a read unit** is read in as few of them as it fills. An EBLOCK that failed is never
//!     used again until the drive is opened anew. How often EBLOCKs were erased is remembered after a power cut, but for
//!     the last two times, and for what no group told of because the host failed.
//!
//! # What a fault excuses
//!
//! Nothing, unless it is named here. "Hit" is what the medium says that an injected fault changed, lost or hides.
//!
//! * *Programs and erasures that fail, reads that fail, are stale or misdirected once, one copy of a checkpoint record or
//!   of the superblock that is changed*: nothing. Only a read unit whose every retry was struck may be given up, and a
//!   drive may be read-only once its spares are used up, or when the log's three candidates failed.
//! * *Data or tags that were changed, lost, or put elsewhere, read units that fail for good*: a page may answer
//!   `Uncorrectable` if a hit lies within it, and that page only. A command may fail with a message of damage. An image
//!   may be refused as damaged, check and scrub may find something. The batches that were acknowledged last, together, and
//!   those right before them if all since were hit, may be gone after a reopen, whole, with sessions opened or closed
//!   since: nothing tells them from batches that were never finished. Where some of them were unforced, these are all up to
//!   the page of the log that the last but one says was durable: the last may be the only one that says so of several
//!   batches, of which the later ones freed what the earlier ones wrote (`oracle::Tail`). So is then what GC moved last; a
//!   page of which only that copy was left answers `Uncorrectable`. Never wrong bytes; never a batch in part.
//! * *Both copies of the superblock, or of a checkpoint record*: the image may be refused by name; not where the drive was
//!   closed in order and one of its two records is left. A scrub tells of each page that cannot be read.
//! * *A file system without room, a write or a sync that fails*: the command that meets it may fail by name, and the drive
//!   may be read-only until it is reopened. All that was acknowledged can be read all the while, and after the next open.
//!   A recovery that meets it may fail, and does not the next time.
//!
//! Whatever else an answer says is a failure, and so is a panic. There is no thread and no clock here: the caller owns
//! both.
//! Source: ELEOS §III to §VIII say what must hold; the form is that of TigerBeetle's and FoundationDB's simulators.

mod content;
mod coverage;
mod failure;
mod fault;
pub mod history;
mod host;
mod kv;
mod oracle;
mod random;
mod record;
mod run;
mod scenario;
mod shrink;
mod simulated;
mod step;
mod words;
mod world;

pub use coverage::Coverage;
pub use failure::{Failure, Kind};
pub use fault::{FAULTS, FaultSet};
pub use kv::{KV_FAULTS, KV_STEP_KINDS, KeysAt, KvMix, KvScenario, KvStep, Work};
pub use record::{Record, RecordError, VERSION as RECORD_VERSION};
pub use run::{Found, Outcome, Replay, run, search, shrink};
pub use scenario::{Mix, Scenario};
pub use simulated::{Options, Simulated};
pub use step::{AlignPlan, BatchPlan, Cut, RulePlan, STEP_KINDS, Spread, Step};
pub use world::Lens;

/// What is run of a seed that stands for a drive.
pub type RunOptions = Options<Scenario>;
/// What is run of a seed that stands for a database of trees.
pub type KvOptions = Options<KvScenario>;

/// `3-5,9`: numbers in rising order as a list of ranges.
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

/// The numbers in a list such as `3-5,9`.
///
/// # Errors
/// The part that is neither a number nor a range of rising numbers.
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
