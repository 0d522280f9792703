//! The steps of a run: what a host, the power and the medium do to a drive.
//!
//! A step names no page, extent or view by its number: it carries a seed and sizes, and picks among what is there when
//! its turn comes. So any step can be left out of a run and the rest still means something, which is what the shrinker
//! lives on.

use std::fmt;

use lode_flash::FaultKind;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Extents are handed out.
    Allocate {
        /// Whether for table pages, which can be indexed and scanned.
        rows: bool,
        /// How many.
        count: u32,
    },
    /// Batches, in flight together in one queue, and reads of what they write between them.
    Write {
        /// The batches, in the order in which they are submitted.
        batches: Vec<BatchPlan>,
        /// Reads submitted between them.
        reads: u32,
    },
    /// Commands that must be refused whole.
    Refused {
        /// Which of them, and how.
        seed: u64,
    },
    /// Pages are read, whole or in part, at the newest commit or at a view.
    Read {
        /// Which.
        seed: u64,
        /// How many.
        pages: u32,
    },
    /// A view is opened; beyond the drive's limit the oldest one closes.
    OpenView,
    /// A view is closed.
    CloseView {
        /// Which, of those that are open.
        which: u64,
    },
    /// Table pages are scanned at a view.
    Scan {
        /// Which pages, which program, and how deep.
        seed: u64,
    },
    /// Index entries are made for table pages that lack them.
    BuildIndex,
    /// Index entries are read and compared with their pages.
    ReadIndex {
        /// At which view.
        seed: u64,
    },
    /// A checkpoint is asked for.
    Checkpoint,
    /// All batches that were answered are made durable.
    Flush,
    /// The drive gets time for background work.
    Work {
        /// How often.
        times: u32,
        /// Bytes that it may write each time.
        bytes: u64,
    },
    /// New pages are written until the drive is so full.
    Fill {
        /// What is written.
        seed: u64,
        /// How full, in percent of its capacity; beyond what it can take, until it refuses.
        percent: u32,
        /// Whether without force.
        unforced: bool,
    },
    /// Pages that are there are written again, batch after batch.
    Overwrite {
        /// What is written.
        seed: u64,
        /// Batches.
        batches: u32,
        /// Whether a few pages get most of the writes.
        hot: bool,
        /// Whether without force.
        unforced: bool,
    },
    /// Everything is compared, open views included, and the drive checks itself.
    Check,
    /// The drive is closed in order, and opened again.
    Close {
        /// How it is opened again.
        cut: Cut,
    },
    /// Power goes now, and comes back.
    Crash(Cut),
    /// Power goes in the middle of what comes next.
    CutAfter {
        /// Operations of the medium until then.
        operations: u64,
        /// What becomes of it.
        cut: Cut,
    },
    /// One program finds the file system full before it begins.
    NoSpaceAfter {
        /// Programs until then.
        programs: u64,
    },
    /// A fault will strike in the middle of what comes next.
    Arm {
        /// What kind of fault.
        kind: FaultKind,
        /// Operations that it could strike until then.
        after: u64,
        /// What exactly it does.
        seed: u64,
    },
    /// A bit changes at rest.
    Flip {
        /// Of what.
        kind: FaultKind,
        /// Which.
        seed: u64,
    },
    /// The drive reads all that counts, and mends what it can.
    Scrub,
    /// A session is opened.
    OpenSession,
    /// A session is closed.
    CloseSession {
        /// Which, of those that are open.
        which: u64,
    },
    /// A session is asked how far it is.
    ResumeSession {
        /// Which, of those that are open.
        which: u64,
    },
    /// Nothing that was armed strikes any more; the file system has room again.
    Disarm,
    /// The drive is closed in order, a bit changes at rest, and it is opened again.
    CloseDamaged {
        /// Of what.
        kind: FaultKind,
        /// Which bit.
        seed: u64,
        /// How it is opened again.
        cut: Cut,
    },
}

/// How power comes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Which of the writes that were not synced are found, and which are torn.
    pub seed: u64,
    /// Power goes again, this many operations into each recovery, one after the other.
    pub again: Vec<u64>,
    /// A fault that strikes the first of the recoveries: its kind, operations until then, its seed.
    pub fault: Option<(FaultKind, u64, u64)>,
}

/// What one batch does, before it is known to which pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Which pages, which bytes.
    pub seed: u64,
    /// Pages written.
    pub writes: u32,
    /// Shortest and longest page, in bytes.
    pub bytes: (u32, u32),
    /// Pages trimmed.
    pub trims: u32,
    /// Extents released.
    pub releases: u32,
    /// Where its pages are picked.
    pub spread: Spread,
    /// How its pages lie on the medium.
    pub align: AlignPlan,
    /// A change of the index rule of the table pages.
    pub rule: Option<RulePlan>,
    /// Whether a view is pinned at it.
    pub pin: bool,
    /// The session that it belongs to, if one is open.
    pub session: Option<SessionPlan>,
    /// Whether it may be answered before it is durable.
    pub unforced: bool,
}

/// The place of a batch in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPlan {
    /// Which, of those that are open.
    pub which: u64,
    /// How far its number is ahead of the next: 0 is right, less comes twice, more leaves some out.
    pub ahead: i64,
}

/// Where pages are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All pages alike.
    Uniform,
    /// Four out of five among an eighth of them.
    Hot,
    /// The first that are not mapped.
    New,
}

/// How pages lie on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlignPlan {
    /// All of them packed.
    Cells,
    /// All of them on read units.
    Units,
    /// Some of each.
    Mixed,
}

/// A change of an index rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePlan {
    /// These columns are indexed from now on.
    Register(&'static [u16]),
    /// None are.
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
    /// Which of [`STEP_KINDS`] this is.
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

/// What happens in the recoveries.
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
