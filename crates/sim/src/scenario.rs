//! The scenario of a seed: a drive, its options, and its work and faults.
//!
//! ```text
//!   seed ─► Scenario { geometry, options, mix, ... } ─► steps(n): the first n steps, the same for every n
//! ```

use std::fmt;

use lode_base::Geometry;
use lode_firmware::{DriveOptions, POLICIES, RecoveryReport, ScanPlacement};
use lode_flash::FaultKind;

use crate::FaultSet;
use crate::coverage::Names;
use crate::failure::Wrong;
use crate::random::Random;
use crate::simulated::{self, Simulated};
use crate::step::{
    AlignPlan, BatchPlan, Cut, INDEXED_COLUMNS, RulePlan, STEP_KINDS, SessionPlan, Spread, Step,
};
use crate::world::{self, Lens, World};

/// The capacity of the largest medium, in bytes. It is small because a run should take milliseconds.
const CAPACITY_BYTES_MAX: u64 = 16 << 20;

/// Decides which seeds have unforced batches.
const UNFORCED_SALT: u64 = 0xf0080;
const REST_SALT: u64 = 0x2E57;
/// One seed in so many has index rules with long entries.
const LONG_ENTRIES_ONCE_IN: u64 = 16;
const LONG_SALT: u64 = 0x10A6;

/// In runs with unforced batches, about one step in this many is followed by a flush.
const FLUSH_EVERY: u64 = 8;
/// In runs with unforced batches, about one step in this many is followed by more such work and a power cut.
const CUT_EVERY: u64 = 12;

/// The events that runs can meet. A recovery in which the host fails mostly ends with a read-only drive. Only about one
/// in ten thousand such recoveries fails as a whole.
const NAMES: Names = Names {
    steps: &STEP_KINDS,
    events: &[
        "batches acknowledged",
        "refused, full",
        "reopened",
        "recoveries cut",
        "recoveries that the host failed",
        "cut with batches under way, none there",
        "cut with batches under way, some there",
        "cut with batches under way, all there",
        "background work done",
        "EBLOCKs emptied by GC",
        "checkpoints",
        "became read-only",
        "batch of a session out of its order, refused",
        "page that a fault hit, uncorrectable",
        "image that faults hit, refused",
        "last batches that a fault hit, gone",
        "unforced batches acknowledged",
        "cut with unforced batches, none lost",
        "cut with unforced batches, some lost",
        "cut with unforced batches, all lost",
        "keys collected",
        "pages read among collected keys",
        "long index entries answered",
    ],
    last_records: RecoveryReport::RECORD_KINDS,
    faults: &FaultKind::ALL,
    rare: ("recoveries that the host failed", "reopened", 100_000),
};

/// The kind of work that dominates a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All kinds of work.
    All,
    /// Small batches, one after the other.
    Commits,
    /// Batches of hundreds of pages, and large pages.
    Bulk,
    /// Table pages: index entries, scans.
    Tables,
    /// A drive that is nearly full, or full.
    Full,
    /// Many views that stay open.
    Views,
    /// Frequent power cuts.
    Cuts,
}

const MIXES: [Mix; 7] = [Mix::All, Mix::Commits, Mix::Bulk, Mix::Tables, Mix::Full, Mix::Views, Mix::Cuts];

/// A drive and the circumstances of its run, chosen by a seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The medium's shape.
    pub geometry: Geometry,
    /// The size of the medium's power-protected buffer in bytes, or 0.
    pub protected_bytes: u32,
    /// The options of the drive.
    pub options: DriveOptions,
    /// The kind of work that dominates a run.
    pub mix: Mix,
    /// The default number of steps.
    pub steps: usize,
    /// The most extents in use at a time.
    pub extents_max: u32,
    /// The number of used pages in an extent.
    pub slots: u16,
    /// The longest page of an ordinary batch, in bytes.
    pub page_bytes: u32,
    /// Faults that may strike.
    pub faults: FaultSet,
    /// About one step in this many comes with a fault.
    pub fault_every: u64,
    /// About one batch in this many is forced. `None` if all batches are forced.
    pub forced_every: Option<u64>,
}

/// The memory for tags: enough for all tags, or for those of two groups. It is drawn from a separate sequence, so that
/// seeds give the same runs as before this choice existed.
pub(crate) fn tag_cache_bytes(seed: u64) -> usize {
    if Random::of_seed(seed ^ 0x7A65).once_in(8) { 8 << 10 } else { 16 << 20 }
}

/// The idle steps after which the drive is at rest: so few that a run gets there, or never. They are
/// drawn from a separate sequence for the same reason.
pub(crate) fn rest_steps(seed: u64) -> Option<u32> {
    let mut r = Random::of_seed(seed ^ REST_SALT);
    (!r.once_in(4)).then(|| r.below(3) as u32)
}

impl Simulated for Scenario {
    type Step = Step;
    type Lens = Lens;

    const COMMAND: &'static str = "lode sim";
    const SIMULATION: &'static str = "drive";
    const NAMES: &'static Names = &NAMES;
    const CLEAR: Lens = world::clear;

    fn seed(&self) -> u64 {
        self.seed
    }

    fn step_count(&self) -> usize {
        self.steps
    }

    fn world(&self, lens: Lens) -> Result<impl simulated::World<Step = Step>, Wrong> {
        World::new(self, lens)
    }

    fn from_seed(seed: u64, allowed: &FaultSet) -> Self {
        let mut r = Random::of_seed(seed);
        let mix = *r.pick(&MIXES).expect("there are some");
        let channels = *r.pick(&[1, 1, 2, 3, 4]).expect("there are some");
        let rblock = if r.once_in(8) { 8192 } else { 4096 };
        let wblock = rblock * *r.pick(&[1, 1, 2, 4]).expect("there are some");
        let eblock =
            (*r.pick(&[64, 64, 128, 256, 256, 512, 1024]).expect("there are some") << 10).max(16 * wblock);
        let spares = r.skewed(1, 12);
        let least = 16 * u64::from(channels) + spares;
        let most = (CAPACITY_BYTES_MAX / u64::from(eblock)).clamp(16, 64).max(least);
        let eblocks = match mix {
            Mix::Full => r.between(least, most.min(least + 8)),
            _ => r.between(least, most),
        };
        let geometry = Geometry::new(channels, 1, 1, rblock, wblock, eblock, eblocks as u32)
            .expect("the shape is one that is possible");
        let mut small = Random::of_seed(seed ^ 0x51A11);
        let options = DriveOptions {
            map_cache_bytes: (r.skewed(8, 512) as usize) << 10,
            index_cache_bytes: (r.skewed(4, 128) as usize) << 10,
            tag_cache_bytes: tag_cache_bytes(seed),
            checkpoint_log_bytes: (r.skewed(32, 4096) << 10).max(u64::from(wblock) * 32),
            batch_bytes_max: r.skewed(16, 2048) << 10,
            batch_pages_max: 600,
            page_bytes_max: r.between(45, 1000) as u32 * 1024,
            views_max: r.between(2, 8) as u32,
            view_commits_max: u64::MAX,
            queue_depth_max: 64,
            erased_kept: r.below(6) as u32,
            rest_steps: rest_steps(seed),
            in_flight_max: r.skewed(1, 16) as u32,
            sessions_max: r.between(1, 5) as u32,
            log_copies: r.between(1, 2) as u32,
            rules_bytes_max: 1 << 20,
            registered_bytes_max: 1 << 20,
            inline_bytes_max: *small.pick(&[0, 300, 2048, 16_383]).expect("there are some"),
            inline_buffer_bytes: (small.skewed(1, 256) << 10) as usize,
            gc_policy: r.pick(POLICIES).expect("there are some").into(),
            over_provision_percent: r.between(5, 30) as u32,
            gc_free_eblocks_max: r.between(1, 8) as u32,
            space_percent_max: r.between(110, 250) as u32,
            spare_eblocks: Some(spares as u32),
            scan_placement: ScanPlacement::default(),
        };
        let (extents_max, slots) = match mix {
            Mix::Commits => (r.between(2, 6), r.between(2, 40)),
            Mix::Tables => (r.between(4, 12), r.between(8, 60)),
            _ if r.once_in(4) => (r.between(20, 60), r.between(1, 10)),
            _ => (r.between(3, 12), r.between(4, 60)),
        };
        let page_bytes = match mix {
            Mix::Commits => r.between(64, 3000),
            Mix::Bulk | Mix::Full => r.skewed(4000, 100_000),
            _ => r.skewed(200, 20_000),
        } as u32;
        let mut unforced = Random::of_seed(seed ^ UNFORCED_SALT);
        let forced_every = unforced.once_in(3).then(|| unforced.skewed(2, 64));
        // A run without any faults finds errors that faults would hide.
        let faults = if r.once_in(10) { FaultSet::none() } else { FaultSet::some(allowed, &mut r) };
        Self {
            seed,
            geometry,
            protected_bytes: if small.once_in(3) { small.skewed(200, 40_000) as u32 } else { 0 },
            options,
            mix,
            steps: r.between(30, 120) as usize,
            extents_max: extents_max as u32,
            slots: slots as u16,
            page_bytes,
            faults,
            fault_every: if mix == Mix::Cuts { 4 } else { r.between(6, 24) },
            forced_every,
        }
    }

    fn steps(&self, count: usize) -> Vec<Step> {
        let mut g = Generator {
            s: self,
            r: Random::of_seed(self.seed ^ 0x5EED),
            aside: Some(Random::of_seed(self.seed ^ 0xA51DE)).filter(|_| self.seed.is_multiple_of(4)),
            force: Random::of_seed(self.seed ^ 0xF04CE),
            cuts: Random::of_seed(self.seed ^ 0xC0757),
            between: Some(Random::of_seed(self.seed ^ 0xBE73E)).filter(|_| self.seed % 4 == 1),
        };
        let mut steps = vec![
            Step::Allocate { rows: false, count: g.r.between(1, 3) as u32 },
            Step::Allocate { rows: true, count: 1 },
        ];
        if self.mix == Mix::Full {
            let percent = g.r.between(50, 130) as u32;
            steps.push(Step::Fill { seed: g.r.next(), percent, unforced: g.unforced() });
        }
        while steps.len() < count {
            g.next(&mut steps);
        }
        steps.truncate(count);
        if self.seed % LONG_ENTRIES_ONCE_IN == 5 {
            lengthen_rules(&mut steps, Random::of_seed(self.seed ^ LONG_SALT));
        }
        steps
    }
}

/// Most index rules get long entries. What comes of a seed's other random numbers does not change.
fn lengthen_rules(steps: &mut [Step], mut r: Random) {
    for step in steps {
        let Step::Write { batches, .. } = step else { continue };
        for rule in batches.iter_mut().filter_map(|b| b.rule.as_mut()) {
            if let RulePlan::Register(columns) = *rule
                && !r.once_in(3)
            {
                *rule = RulePlan::RegisterLong(columns);
            }
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (g, o) = (&self.geometry, &self.options);
        write!(
            f,
            "{:?}: {} EBLOCKs of {} KB, WBLOCK {} KB, RBLOCK {} KB, {} channels, {} bytes protected; map {} KB, index {} KB, \
             checkpoint every {} KB of log, {} copies of it, up to {} bytes inlined in {} KB, {} views, {} spares, \
             {} % kept free, GC {}; {}; faults: {}",
            self.mix,
            g.eblock_count(),
            g.eblock_bytes() >> 10,
            g.wblock_bytes() >> 10,
            g.rblock_bytes() >> 10,
            g.channels(),
            self.protected_bytes,
            o.map_cache_bytes >> 10,
            o.index_cache_bytes >> 10,
            o.checkpoint_log_bytes >> 10,
            o.log_copies,
            o.inline_bytes_max,
            o.inline_buffer_bytes >> 10,
            o.views_max,
            o.spare_eblocks.unwrap_or_default(),
            o.over_provision_percent,
            o.gc_policy.name(),
            match self.forced_every {
                None => "all batches forced".into(),
                Some(n) => format!("one batch in {n} forced"),
            },
            self.faults
        )
    }
}

struct Generator<'a> {
    s: &'a Scenario,
    r: Random,
    /// The random numbers for work that meets a fault, in runs that have such work.
    aside: Option<Random>,
    /// The random numbers that decide which batches are forced and when a flush follows.
    force: Random,
    /// The random numbers for unforced work that a power cut ends.
    cuts: Random,
    /// The random numbers for faults between the stages of batches and closes, in runs that have such faults.
    between: Option<Random>,
}

/// Kinds of steps that are drawn by weight.
#[derive(Clone, Copy)]
enum Draw {
    Allocate,
    Write,
    Flight,
    Refused,
    Read,
    OpenView,
    CloseView,
    Scan,
    BuildIndex,
    ReadIndex,
    Checkpoint,
    Work,
    Fill,
    Overwrite,
    Check,
    Close,
    Crash,
    Disarm,
    Scrub,
    OpenSession,
    CloseSession,
    ResumeSession,
}

const DRAWS: [(Draw, u64); 22] = [
    (Draw::Allocate, 5),
    (Draw::Write, 40),
    (Draw::Flight, 14),
    (Draw::Refused, 2),
    (Draw::Read, 10),
    (Draw::OpenView, 4),
    (Draw::CloseView, 4),
    (Draw::Scan, 5),
    (Draw::BuildIndex, 2),
    (Draw::ReadIndex, 3),
    (Draw::Checkpoint, 3),
    (Draw::Work, 6),
    (Draw::Fill, 1),
    (Draw::Overwrite, 3),
    (Draw::Check, 1),
    (Draw::Close, 2),
    (Draw::Crash, 3),
    (Draw::Disarm, 4),
    (Draw::Scrub, 1),
    (Draw::OpenSession, 2),
    (Draw::CloseSession, 1),
    (Draw::ResumeSession, 2),
];

/// How much more often than usual a mix draws a kind of step.
fn favours(mix: Mix, draw: Draw) -> u64 {
    match (mix, draw) {
        (Mix::Commits, Draw::Write | Draw::Flight) => 3,
        (Mix::Bulk, Draw::Fill | Draw::Overwrite) => 2,
        (Mix::Tables, Draw::Scan | Draw::BuildIndex | Draw::ReadIndex) => 4,
        (Mix::Full, Draw::Fill | Draw::Overwrite | Draw::Work) => 4,
        (Mix::Views, Draw::OpenView | Draw::Read) => 4,
        (Mix::Cuts, Draw::Crash) => 2,
        _ => 1,
    }
}

impl Generator<'_> {
    fn next(&mut self, steps: &mut Vec<Step>) {
        if !self.s.faults.is_empty() && self.r.once_in(self.s.fault_every) {
            // Sometimes a second fault is armed before the first has struck.
            for _ in 0..if self.r.once_in(4) { 2 } else { 1 } {
                let fault = self.s.faults.pick(&mut self.r);
                let step = self.fault(fault);
                steps.push(step);
            }
            self.struck_work(steps);
            self.struck_between(steps);
        }
        let draw = self.r.weighted(&DRAWS, |d| favours(self.s.mix, d));
        let step = self.step(draw);
        steps.push(step);
        if self.s.forced_every.is_some() {
            if self.force.once_in(FLUSH_EVERY) {
                steps.push(Step::Flush);
            }
            if self.force.once_in(CUT_EVERY) {
                self.cut_off(steps);
            }
            self.freed_unforced(steps);
        }
    }

    /// Adds steps in which unforced batches free space, others use it again, and the power is cut.
    fn freed_unforced(&mut self, steps: &mut Vec<Step>) {
        let Some(between) = self.between.take() else { return };
        let usual = std::mem::replace(&mut self.r, between);
        if self.r.once_in(CUT_EVERY) {
            for _ in 0..self.r.between(1, 3) {
                let gone = BatchPlan { writes: 0, trims: 400, releases: 1, unforced: true, ..self.batch() };
                let (seed, batches, hot) = (self.r.next(), self.r.between(2, 24) as u32, self.r.once_in(2));
                steps.push(Step::Write { batches: vec![gone], reads: 0 });
                steps.push(Step::Overwrite { seed, batches, hot, unforced: true });
            }
            steps.push(Step::Crash(self.cut()));
        }
        self.between = Some(std::mem::replace(&mut self.r, usual));
    }

    /// Adds steps in which the power is cut soon after unforced work, which may have been flushed.
    fn cut_off(&mut self, steps: &mut Vec<Step>) {
        std::mem::swap(&mut self.r, &mut self.cuts);
        let before = if self.r.once_in(2) { Draw::Overwrite } else { Draw::Flight };
        steps.push(self.step(before));
        if self.r.once_in(2) {
            steps.push(Step::Flush);
        }
        if self.r.once_in(2) {
            steps.push(self.step(Draw::Write));
        }
        steps.push(Step::Crash(self.cut()));
        std::mem::swap(&mut self.r, &mut self.cuts);
    }

    /// Whether the next batches are unforced.
    fn unforced(&mut self) -> bool {
        self.s.forced_every.is_some_and(|n| !self.force.once_in(n))
    }

    /// Adds steps in which a fault strikes a checkpoint or many batches in flight, and work continues until the power
    /// is cut.
    fn struck_work(&mut self, steps: &mut Vec<Step>) {
        let Some(aside) = self.aside.take() else { return };
        let usual = std::mem::replace(&mut self.r, aside);
        let before = if self.r.once_in(2) { Draw::Allocate } else { Draw::Write };
        let struck = if self.r.once_in(3) { Draw::Flight } else { Draw::Checkpoint };
        let after = if self.r.once_in(2) { Draw::Write } else { Draw::Checkpoint };
        let kind = self.s.faults.pick(&mut self.r);
        let fault = match kind {
            FaultKind::NoSpace if self.r.once_in(2) => Step::NoSpaceAfter { programs: self.r.below(8) },
            FaultKind::PowerCut => Step::CutAfter { operations: self.r.below(16), cut: self.cut() },
            _ => Step::Arm { kind, after: self.r.below(12), seed: self.r.next() },
        };
        steps.extend([self.step(Draw::Write), self.step(before), fault, self.step(struck), Step::Disarm]);
        steps.extend([self.step(after), Step::Crash(self.cut())]);
        self.aside = Some(std::mem::replace(&mut self.r, usual));
    }

    /// Adds steps in which a group that changes index rules fails and work continues under the rules in force, or in
    /// which a bit changes while the drive is closed.
    fn struck_between(&mut self, steps: &mut Vec<Step>) {
        let Some(between) = self.between.take() else { return };
        let usual = std::mem::replace(&mut self.r, between);
        let flips = [FaultKind::FlipCheckpoint, FaultKind::FlipSuperblock, FaultKind::FlipLog];
        let flips: Vec<FaultKind> = flips.into_iter().filter(|f| self.s.faults.has(*f)).collect();
        let host = [FaultKind::NoSpace, FaultKind::WriteError, FaultKind::SyncError];
        let host: Vec<FaultKind> = host.into_iter().filter(|f| self.s.faults.has(*f)).collect();
        match (self.r.once_in(2), self.r.pick(&flips).copied(), self.r.pick(&host).copied()) {
            (true, Some(kind), _) => {
                steps.push(self.step(Draw::Write));
                steps.push(Step::CloseDamaged { kind, seed: self.r.next(), cut: self.cut() });
            }
            (_, _, Some(kind)) => {
                let after = self.r.below(6);
                let fault = match kind {
                    FaultKind::NoSpace => Step::NoSpaceAfter { programs: after },
                    _ => Step::Arm { kind, after, seed: self.r.next() },
                };
                let mut batches: Vec<BatchPlan> = (0..self.r.between(1, 4)).map(|_| self.batch()).collect();
                batches[0].rule = Some(self.rule());
                steps.extend([fault, Step::Write { batches, reads: 0 }, Step::Disarm]);
                steps.extend([Step::Write { batches: vec![self.batch()], reads: 0 }]);
                steps.extend([Step::ReadIndex { seed: self.r.next() }]);
            }
            _ => {}
        }
        self.between = Some(std::mem::replace(&mut self.r, usual));
    }

    fn rule(&mut self) -> RulePlan {
        match self.r.below(4) {
            0 => RulePlan::Drop,
            n => RulePlan::Register(INDEXED_COLUMNS[n as usize - 1]),
        }
    }

    fn step(&mut self, draw: Draw) -> Step {
        let r = &mut self.r;
        match draw {
            Draw::Allocate => {
                let rows = r.once_in(if self.s.mix == Mix::Tables { 2 } else { 4 });
                Step::Allocate { rows, count: r.skewed(1, 4) as u32 }
            }
            Draw::Write => Step::Write { batches: vec![self.batch()], reads: 0 },
            Draw::Flight => {
                let count = r.skewed(2, 12);
                let reads = if r.once_in(3) { r.between(1, 6) as u32 } else { 0 };
                Step::Write { batches: (0..count).map(|_| self.batch()).collect(), reads }
            }
            Draw::Refused => Step::Refused { seed: r.next() },
            Draw::Read => Step::Read { seed: r.next(), pages: r.skewed(1, 30) as u32 },
            Draw::OpenView => Step::OpenView,
            Draw::CloseView => Step::CloseView { which: r.next() },
            Draw::Scan => Step::Scan { seed: r.next() },
            Draw::BuildIndex => Step::BuildIndex,
            Draw::ReadIndex => Step::ReadIndex { seed: r.next() },
            Draw::Checkpoint => Step::Checkpoint,
            Draw::Work => Step::Work { times: r.skewed(1, 12) as u32, bytes: r.skewed(1, 1 << 20) },
            Draw::Fill => {
                let (seed, percent) = (r.next(), r.between(20, 120) as u32);
                Step::Fill { seed, percent, unforced: self.unforced() }
            }
            Draw::Overwrite => {
                let (seed, batches, hot) = (r.next(), r.skewed(2, 24) as u32, r.once_in(2));
                Step::Overwrite { seed, batches, hot, unforced: self.unforced() }
            }
            Draw::Check => Step::Check,
            Draw::Close => Step::Close { cut: self.cut() },
            Draw::Crash => Step::Crash(self.cut()),
            Draw::Disarm => Step::Disarm,
            Draw::Scrub => Step::Scrub,
            Draw::OpenSession => Step::OpenSession,
            Draw::CloseSession => Step::CloseSession { which: r.next() },
            Draw::ResumeSession => Step::ResumeSession { which: r.next() },
        }
    }

    fn cut(&mut self) -> Cut {
        let r = &mut self.r;
        let again = Cut::again(&self.s.faults, r);
        let fault = (!self.s.faults.is_empty() && r.once_in(6)).then(|| self.s.faults.pick(r));
        let fault = fault.filter(|f| *f != FaultKind::PowerCut).map(|kind| (kind, r.skewed(0, 40), r.next()));
        Cut { seed: r.next(), again, fault }
    }

    fn fault(&mut self, kind: FaultKind) -> Step {
        let r = &mut self.r;
        match kind {
            FaultKind::PowerCut => Step::CutAfter { operations: r.skewed(0, 80), cut: self.cut() },
            FaultKind::NoSpace if r.once_in(2) => Step::NoSpaceAfter { programs: r.skewed(0, 12) },
            FaultKind::FlipData
            | FaultKind::FlipTag
            | FaultKind::FlipLog
            | FaultKind::FlipCheckpoint
            | FaultKind::FlipSuperblock
                if r.once_in(2) =>
            {
                Step::Flip { kind, seed: r.next() }
            }
            _ => Step::Arm { kind, after: r.skewed(0, 40), seed: r.next() },
        }
    }

    fn batch(&mut self) -> BatchPlan {
        let unforced = self.unforced();
        let (s, r) = (self.s, &mut self.r);
        let large = r.once_in(if s.mix == Mix::Bulk { 4 } else { 20 });
        let many = r.once_in(if s.mix == Mix::Bulk { 4 } else { 30 });
        let (writes, longest) = match (large, many) {
            // A few pages of any size up to the longest.
            (true, _) => (r.skewed(1, 4) as u32, s.options.page_bytes_max),
            // Hundreds of small pages.
            (_, true) => (r.between(50, 500) as u32, s.page_bytes.min(2000)),
            _ if r.once_in(12) => (0, s.page_bytes),
            _ => (r.skewed(1, 16) as u32, s.page_bytes),
        };
        let shortest = if large && r.once_in(2) { longest } else { 64 };
        let spread = match r.below(5) {
            0 => Spread::New,
            1 | 2 => Spread::Hot,
            _ => Spread::Uniform,
        };
        let align = match r.below(3) {
            0 => AlignPlan::Cells,
            1 => AlignPlan::Units,
            _ => AlignPlan::Mixed,
        };
        let rule_odds = if s.mix == Mix::Tables { 10 } else { 25 };
        let rule = r.once_in(rule_odds).then(|| match r.below(4) {
            0 => RulePlan::Drop,
            n => RulePlan::Register(INDEXED_COLUMNS[n as usize - 1]),
        });
        BatchPlan {
            seed: r.next(),
            writes,
            bytes: (shortest, longest.max(64)),
            trims: if r.once_in(3) || writes == 0 { r.skewed(1, 10) as u32 } else { 0 },
            releases: u32::from(r.once_in(25)),
            spread,
            align,
            rule,
            pin: r.once_in(if s.mix == Mix::Views { 4 } else { 15 }),
            session: r.once_in(4).then(|| SessionPlan {
                which: r.next(),
                ahead: *r.pick(&[0, 0, 0, 0, 0, -1, 1, 5]).expect("there are some"),
            }),
            unforced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_all_and_a_shorter_run_is_the_start_of_a_longer_one() {
        let all = FaultSet::all();
        let mut kinds = [0; STEP_KINDS.len()];
        for seed in 0..60 {
            let s = Scenario::from_seed(seed, &all);
            let steps = s.steps(80);
            assert_eq!(steps, Scenario::from_seed(seed, &all).steps(200)[..80]);
            steps.iter().for_each(|s| kinds[s.kind()] += 1);
        }
        for (kind, count) in STEP_KINDS.iter().zip(kinds) {
            assert!(count > 0, "no step is a {kind}");
        }
    }

    #[test]
    fn faults_that_are_not_asked_for_never_strike() {
        for seed in 0..40 {
            let s = Scenario::from_seed(seed, &FaultSet::none());
            let strikes =
                |s: &Step| matches!(s, Step::CutAfter { .. } | Step::Arm { .. } | Step::Flip { .. });
            assert!(!s.steps(100).iter().any(strikes));
        }
    }

    #[test]
    fn about_one_scenario_in_three_has_batches_that_are_not_forced() {
        let all = FaultSet::all();
        let unforced = |b: &BatchPlan| b.unforced;
        let any = |s: &Step| match s {
            Step::Write { batches, .. } => batches.iter().any(unforced),
            Step::Fill { unforced, .. } | Step::Overwrite { unforced, .. } => *unforced,
            step => *step == Step::Flush,
        };
        let scenarios = (0..600).map(|seed| Scenario::from_seed(seed, &all));
        let (with, without): (Vec<_>, Vec<_>) = scenarios.partition(|s| s.forced_every.is_some());
        assert!((150..250).contains(&with.len()), "{}", with.len());
        assert!(with.iter().all(|s| s.steps(100).iter().any(any)));
        assert!(!without.iter().any(|s| s.steps(100).iter().any(any)));
    }
}
