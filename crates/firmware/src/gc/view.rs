//! What a policy may see, and what it answers.
//!
//! ```text
//!   GcView: candidates (available bytes, ages, erase count, channel), free EBLOCKs, thresholds, who asks
//!     └─ Policy::choose ─► Choice: decline, or a victim, the stream of its pages, and the longest step
//! ```
//!
//! Invariants: something is available of every candidate, it is closed, and no action under way was provisioned there.
//! Candidates are in the order of their numbers.
//!
//! Source: ELEOS §VI-A (available space, age), §VI-B (streams by age). We differ: equal scores go to the EBLOCK that was
//! erased less often, which levels wear at no cost.

use lode_base::EblockId;

use crate::stream::GC_CLASSES;

/// Who asks for a victim, and what waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Little is free, or much is garbage. Background work of the drive asks: nothing waits for it.
    Background,
    /// The same; a batch asks after it became durable, and pays for the step with bytes that it wrote.
    Paid,
    /// A batch waits for room. The victim is emptied whole; if the policy declines, the EBLOCK that gains most goes.
    Full,
}

/// An EBLOCK that could go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub eblock: EblockId,
    /// The channel that it lies on.
    pub channel: u32,
    /// Bytes in it that no page needs: 1 to `eblock_bytes`.
    pub available_bytes: u32,
    /// Bytes of an EBLOCK, above 0.
    pub eblock_bytes: u32,
    /// How often it was erased.
    pub erase_count: u32,
    /// Update sequence numbers since it was closed, and 1: 1 or more.
    pub age: u64,
    /// Update sequence numbers since its pages were written by batches, in mean, and 1: 1 or more. What GC moves keeps it.
    pub pages_age: u64,
}

/// What a policy may see when it is asked. All of it is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct GcView<'a> {
    /// Who asks.
    pub urgency: Urgency,
    /// EBLOCKs that may go, by number; an EBLOCK of which nothing is available is none.
    pub candidates: &'a [Candidate],
    /// EBLOCKs of the drive.
    pub eblock_count: u32,
    /// Bytes of each.
    pub eblock_bytes: u32,
    /// EBLOCKs that can be opened now.
    pub free_eblocks: u32,
    /// GC is due below so many free ones.
    pub free_eblocks_min: u32,
    /// Of those, so many are for the log, checkpoints, recovery and GC itself: batches take none of them.
    pub reserve_eblocks: u32,
    /// A victim of which no more is available is refused: moving the rest would gain nothing.
    pub gain_bytes_min: u32,
    /// Bytes that the next step moves, about, unless the choice says less.
    pub step_bytes: u64,
    /// The update sequence number: cells that batches wrote so far.
    pub now: u64,
    /// For each class of stream the update sequence number that its open EBLOCK stands for, if one is open.
    pub classes: [Option<u64>; StreamClass::COUNT],
}

/// A class of the streams that GC writes: each has open EBLOCKs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamClass(u8);

/// The stream that the pages of a victim go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GcStream {
    /// The open one whose pages are nearest in age, or a further one for pages of quite another age.
    #[default]
    NearestInAge,
    /// This one. Where it is not open, and too little is free to open it, the nearest in age.
    Class(StreamClass),
}

/// What is emptied, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Which.
    pub eblock: EblockId,
    /// Where its pages go.
    pub stream: GcStream,
    /// Bytes that one step moves at most, but for the end of a page; `None`: as many as the drive moves in a step. Less than
    /// that wastes what a batch paid. A victim for which a batch waits is emptied whole.
    pub step_bytes_max: Option<u64>,
}

/// What a policy answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Nothing is emptied now.
    Decline,
    /// This is.
    Empty(Victim),
}

impl Candidate {
    /// The available fraction E: above 0, 1 at most.
    pub fn available_fraction(&self) -> f64 {
        let (available, all) = (self.available_bytes, self.eblock_bytes);
        assert!(available <= all && all > 0, "{available} of {all} bytes are available");
        f64::from(available) / f64::from(all)
    }

    /// Its age as a number for formulas.
    pub fn age(&self) -> f64 {
        assert!(self.age > 0, "an EBLOCK is at least one update old");
        self.age as f64
    }
}

impl GcView<'_> {
    /// The candidate of this number, if it is one.
    pub fn candidate(&self, eblock: EblockId) -> Option<&Candidate> {
        self.candidates.binary_search_by_key(&eblock, |c| c.eblock).ok().map(|at| &self.candidates[at])
    }

    /// The candidate with the smallest score; of equal ones the one that was erased less often, then the first. One with an
    /// infinite score is never chosen.
    ///
    /// # Panics
    /// When a score is NaN.
    pub fn smallest(&self, score: impl Fn(&Candidate) -> f64) -> Choice {
        let scored = self.candidates.iter().filter_map(|c| {
            let score = score(c);
            assert!(!score.is_nan(), "the score of {c:?} is NaN");
            (score < f64::INFINITY).then_some((score, c))
        });
        let before = |a: &(f64, &Candidate), b: &(f64, &Candidate)| {
            let ties = |c: &Candidate| (c.erase_count, c.eblock);
            a.0.total_cmp(&b.0).then_with(|| ties(a.1).cmp(&ties(b.1)))
        };
        scored.min_by(before).map_or(Choice::Decline, |(_, c)| Choice::empty(c.eblock))
    }

    /// The candidate of which most is available.
    pub fn most_available(&self) -> Choice {
        self.smallest(|c| -c.available_fraction())
    }

    /// The candidate that a choice names; `None` when it declines, or names an EBLOCK that is none.
    pub fn chosen(&self, choice: Choice) -> Option<&Candidate> {
        match choice {
            Choice::Empty(victim) => self.candidate(victim.eblock),
            Choice::Decline => None,
        }
    }
}

impl StreamClass {
    /// How many there are.
    pub const COUNT: usize = GC_CLASSES as usize;

    /// Class `index`, below [`StreamClass::COUNT`].
    pub fn new(index: usize) -> Option<Self> {
        (index < Self::COUNT).then_some(Self(index as u8))
    }

    pub(crate) fn raw(self) -> u8 {
        self.0
    }
}

impl Victim {
    /// An EBLOCK whose pages go to the stream that is nearest in age, in steps as the drive does them.
    pub fn new(eblock: EblockId) -> Self {
        Self { eblock, stream: GcStream::NearestInAge, step_bytes_max: None }
    }
}

impl Choice {
    /// An EBLOCK whose pages go to the stream that is nearest in age, in steps as the drive does them.
    pub fn empty(eblock: EblockId) -> Self {
        Self::Empty(Victim::new(eblock))
    }
}
