//! The steps of a run: actions of the host, the power and the medium on a drive.
//!
//! A step does not name a page, extent or view by its number. It carries a seed and sizes, and selects among the
//! existing pages, extents and views when it is executed. So any step can be left out of a run, and the remaining steps
//! are still a valid run. The shrinker depends on this.

use std::fmt;

use lode_flash::FaultKind;

use crate::fault::FaultSet;
use crate::random::Random;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Allocates extents.
    Allocate {
        /// Whether the extents are for table pages, which can be indexed and scanned.
        rows: bool,
        /// The number of extents.
        count: u32,
    },
    /// Writes batches, in flight together in one queue, with reads of the same pages between them.
    Write {
        /// The batches, in the order of submission.
        batches: Vec<BatchPlan>,
        /// The number of reads between them.
        reads: u32,
    },
    /// Runs commands that must be refused as a whole.
    Refused {
        /// Selects the command.
        seed: u64,
    },
    /// Reads pages, whole or in part, at the newest commit or in a view.
    Read {
        /// Selects the pages.
        seed: u64,
        /// The number of reads.
        pages: u32,
    },
    /// Opens a view. Beyond the drive's limit, the oldest one is closed.
    OpenView,
    /// Closes a view.
    CloseView {
        /// Selects the view.
        which: u64,
    },
    /// Scans table pages in a view.
    Scan {
        /// Selects the pages, the program and the level.
        seed: u64,
    },
    /// Builds index entries for table pages that lack them.
    BuildIndex,
    /// Reads index entries and compares them with their pages.
    ReadIndex {
        /// Selects the view.
        seed: u64,
    },
    /// Asks for a checkpoint.
    Checkpoint,
    /// Makes all answered batches durable.
    Flush,
    /// Gives the drive time for background work.
    Work {
        /// The number of times.
        times: u32,
        /// Bytes that the drive may write each time.
        bytes: u64,
    },
    /// Writes new pages until the drive is filled to a percentage.
    Fill {
        /// Selects the contents.
        seed: u64,
        /// The percentage of the drive's capacity. If this is more than the drive can hold, pages are written until the
        /// drive refuses.
        percent: u32,
        /// Whether the batches are unforced.
        unforced: bool,
    },
    /// Overwrites existing pages, batch after batch.
    Overwrite {
        /// Selects the contents.
        seed: u64,
        /// The number of batches.
        batches: u32,
        /// Whether a few pages get most of the writes.
        hot: bool,
        /// Whether the batches are unforced.
        unforced: bool,
    },
    /// Compares everything, including open views, and runs the drive's own check.
    Check,
    /// Closes the drive in order and opens it again.
    Close {
        /// How it is opened again.
        cut: Cut,
    },
    /// Cuts the power now.
    Crash(Cut),
    /// Cuts the power during the next operations.
    CutAfter {
        /// The operations of the medium before the cut.
        operations: u64,
        /// How the power comes back.
        cut: Cut,
    },
    /// Lets one program find the file system full before it begins.
    NoSpaceAfter {
        /// The number of programs before it.
        programs: u64,
    },
    /// Arms a fault that will strike during the next operations.
    Arm {
        /// The kind of fault.
        kind: FaultKind,
        /// The number of operations to skip that it could strike.
        after: u64,
        /// Selects the details of the fault.
        seed: u64,
    },
    /// Changes a bit at rest.
    Flip {
        /// The kind of data.
        kind: FaultKind,
        /// Selects the bit.
        seed: u64,
    },
    /// Scrubs the drive.
    Scrub,
    /// Opens a session.
    OpenSession,
    /// Closes a session.
    CloseSession {
        /// Selects the session.
        which: u64,
    },
    /// Resumes a session.
    ResumeSession {
        /// Selects the session.
        which: u64,
    },
    /// Disarms all faults. The file system has space again.
    Disarm,
    /// Closes the drive in order, changes a bit at rest, and opens the drive again.
    CloseDamaged {
        /// The kind of data.
        kind: FaultKind,
        /// Selects the bit.
        seed: u64,
        /// How it is opened again.
        cut: Cut,
    },
}

/// How the power comes back after a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Selects which unsynced writes survive and which are torn.
    pub seed: u64,
    /// Further power cuts in the next recoveries, one per recovery, each after this many operations.
    pub again: Vec<u64>,
    /// A fault in the first recovery: its kind, the operations before it, its seed.
    pub fault: Option<(FaultKind, u64, u64)>,
}

impl Cut {
    /// Draws a cut without a fault in the recoveries.
    pub(crate) fn drawn(faults: &FaultSet, r: &mut Random) -> Self {
        let again = Self::again(faults, r);
        Self { seed: r.next(), again, fault: None }
    }

    /// Draws further cuts, if power cuts are among the faults.
    pub(crate) fn again(faults: &FaultSet, r: &mut Random) -> Vec<u64> {
        let cuts = if faults.has(FaultKind::PowerCut) && r.once_in(3) { r.between(1, 3) } else { 0 };
        (0..cuts).map(|_| r.skewed(0, 30)).collect()
    }
}

/// The plan of a batch. Its pages are selected when it is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Selects the pages and bytes.
    pub seed: u64,
    /// The number of pages to write.
    pub writes: u32,
    /// The shortest and the longest page, in bytes.
    pub bytes: (u32, u32),
    /// The number of pages to trim.
    pub trims: u32,
    /// The number of extents to release.
    pub releases: u32,
    /// How its pages are selected.
    pub spread: Spread,
    /// The alignment of its pages on the medium.
    pub align: AlignPlan,
    /// A change of the index rule of the table pages.
    pub rule: Option<RulePlan>,
    /// Whether it opens a view.
    pub pin: bool,
    /// Its session, if one is open.
    pub session: Option<SessionPlan>,
    /// Whether it may be answered before it is durable.
    pub unforced: bool,
}

/// The place of a batch in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPlan {
    /// Selects the session.
    pub which: u64,
    /// The difference between the batch's number and the next number of the session. 0 is right, a negative difference
    /// repeats a number, and a positive difference skips some.
    pub ahead: i64,
}

/// How pages are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All pages with the same probability.
    Uniform,
    /// In four of five cases, one of an eighth of the pages.
    Hot,
    /// The first unmapped pages.
    New,
}

/// The alignment of pages on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlignPlan {
    /// All pages packed in cells.
    Cells,
    /// All pages aligned to read units.
    Units,
    /// Some pages of each kind.
    Mixed,
}

/// A change of an index rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePlan {
    /// Registers a rule for these columns.
    Register(&'static [u16]),
    /// Registers a rule for these columns whose entries are too long for an index page of a whole extent.
    RegisterLong(&'static [u16]),
    /// Drops the rule.
    Drop,
}

/// The columns that a rule may index.
pub(crate) const INDEXED_COLUMNS: [&[u16]; 3] = [&[0], &[1], &[1, 0]];

/// The kinds of steps, in the order of [`Step::kind`].
pub const STEP_KINDS: [&str; 29] = [
    "allocate",
    "write",
    "refused command",
    "read",
    "open view",
    "close view",
    "scan",
    "build index",
    "read index",
    "checkpoint",
    "work",
    "fill",
    "overwrite",
    "check",
    "close",
    "crash",
    "cut after",
    "no space after",
    "several batches in flight",
    "arm a fault",
    "flip a bit",
    "disarm",
    "scrub",
    "open session",
    "close session",
    "resume session",
    "write in a session",
    "flush",
    "close, damaged at rest",
];

impl Step {
    /// Its index in [`STEP_KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Allocate { .. } => 0,
            Self::Write { batches, .. } if batches.len() > 1 => 18,
            Self::Write { batches, .. } if batches.iter().any(|b| b.session.is_some()) => 26,
            Self::Write { .. } => 1,
            Self::Refused { .. } => 2,
            Self::Read { .. } => 3,
            Self::OpenView => 4,
            Self::CloseView { .. } => 5,
            Self::Scan { .. } => 6,
            Self::BuildIndex => 7,
            Self::ReadIndex { .. } => 8,
            Self::Checkpoint => 9,
            Self::Work { .. } => 10,
            Self::Fill { .. } => 11,
            Self::Overwrite { .. } => 12,
            Self::Check => 13,
            Self::Close { .. } => 14,
            Self::Crash(_) => 15,
            Self::CutAfter { .. } => 16,
            Self::NoSpaceAfter { .. } => 17,
            Self::Arm { .. } => 19,
            Self::Flip { .. } => 20,
            Self::Disarm => 21,
            Self::Scrub => 22,
            Self::OpenSession => 23,
            Self::CloseSession { .. } => 24,
            Self::ResumeSession { .. } => 25,
            Self::Flush => 27,
            Self::CloseDamaged { .. } => 28,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocate { rows: true, count } => write!(f, "allocate {count} extents for table pages"),
            Self::Allocate { rows: false, count } => write!(f, "allocate {count} extents"),
            Self::Write { batches, reads } => {
                if batches.len() > 1 {
                    write!(f, "{} batches in flight: ", batches.len())?;
                }
                for (i, b) in batches.iter().enumerate() {
                    write!(f, "{}{b}", if i > 0 { "; " } else { "" })?;
                }
                if *reads > 0 { write!(f, "; {reads} reads between") } else { Ok(()) }
            }
            Self::Refused { .. } => write!(f, "a command that must be refused"),
            Self::Read { pages, .. } => write!(f, "read {pages} pages"),
            Self::OpenView => write!(f, "open a view"),
            Self::CloseView { .. } => write!(f, "close a view"),
            Self::Scan { .. } => write!(f, "scan table pages"),
            Self::BuildIndex => write!(f, "build the index"),
            Self::ReadIndex { .. } => write!(f, "read the index"),
            Self::Checkpoint => write!(f, "checkpoint"),
            Self::Flush => write!(f, "flush"),
            Self::Work { times, bytes } => write!(f, "background work, {times} times up to {bytes} bytes"),
            Self::Fill { percent, unforced, .. } => write!(f, "fill to {percent} %{}", force(*unforced)),
            Self::Overwrite { batches, hot, unforced, .. } => {
                let hot = if *hot { "hot" } else { "uniform" };
                write!(f, "overwrite with {batches} batches, {hot}{}", force(*unforced))
            }
            Self::Check => write!(f, "compare all"),
            Self::Close { cut } => write!(f, "close and reopen{}", cuts(cut)),
            Self::Crash(cut) => write!(f, "power cut and reopen{}", cuts(cut)),
            Self::CutAfter { operations, cut } => {
                write!(f, "power will be cut after {operations} operations{}", cuts(cut))
            }
            Self::NoSpaceAfter { programs } => write!(f, "no space after {programs} programs"),
            Self::Arm { kind, after, .. } => write!(f, "{} after {after} operations", kind.name()),
            Self::Flip { kind, .. } => write!(f, "{} at rest", kind.name()),
            Self::Disarm => write!(f, "no more faults for now"),
            Self::Scrub => write!(f, "scrub"),
            Self::OpenSession => write!(f, "open a session"),
            Self::CloseSession { .. } => write!(f, "close a session"),
            Self::ResumeSession { .. } => write!(f, "resume a session"),
            Self::CloseDamaged { kind, cut, .. } => {
                write!(f, "close, {} at rest, and reopen{}", kind.name(), cuts(cut))
            }
        }
    }
}

fn force(unforced: bool) -> &'static str {
    if unforced { ", without force" } else { "" }
}

/// Describes what happens in the recoveries.
fn cuts(cut: &Cut) -> String {
    let mut text = String::new();
    if let Some((kind, after, _)) = cut.fault {
        text += &format!(", {} in recovery after {after}", kind.name());
    }
    if !cut.again.is_empty() {
        let each: Vec<String> = cut.again.iter().map(u64::to_string).collect();
        text += &format!(", cut in recovery after {}", each.join(", "));
    }
    text
}

impl fmt::Display for BatchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.writes > 0 {
            let (from, to) = self.bytes;
            parts.push(format!(
                "write {} pages of {from} to {to} bytes ({:?}, {:?})",
                self.writes, self.spread, self.align
            ));
        }
        if self.trims > 0 {
            parts.push(format!("trim {}", self.trims));
        }
        if self.releases > 0 {
            parts.push(format!("release {} extents", self.releases));
        }
        match self.rule {
            Some(RulePlan::Register(columns)) => parts.push(format!("index columns {columns:?}")),
            Some(RulePlan::RegisterLong(columns)) => {
                parts.push(format!("index columns {columns:?} with long entries"));
            }
            Some(RulePlan::Drop) => parts.push("drop the index rule".into()),
            None => {}
        }
        if self.pin {
            parts.push("pin a view".into());
        }
        match self.session.map(|s| s.ahead) {
            Some(0) => parts.push("in a session".into()),
            Some(n) => parts.push(format!("in a session, {n} ahead")),
            None => {}
        }
        write!(f, "{}{}", parts.join(", "), force(self.unforced))
    }
}
