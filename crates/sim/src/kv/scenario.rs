//! The scenario of a seed: a drive, a database of trees on it, and its work and faults.

use std::fmt;

use lode_base::Geometry;
use lode_engine::DatabaseOptions;
use lode_firmware::{DriveOptions, POLICIES, ScanPlacement};
use lode_flash::FaultKind;

use super::step::{KV_STEP_KINDS, KeysAt, Step, Work};
use super::world::World;
use crate::FaultSet;
use crate::coverage::Names;
use crate::failure::Wrong;
use crate::random::Random;
use crate::scenario::{rest_steps, tag_cache_bytes};
use crate::simulated::{self, Simulated};
use crate::step::Cut;

/// The most transactions open at a time.
pub(super) const SLOTS: usize = 6;
/// The most trees at a time.
pub(super) const TREES: u32 = 4;
/// The most transactions that are committed together.
const TOGETHER_MAX: u64 = 4;
/// The most consecutive keys that are written and later deleted.
const STRETCH_MAX: u64 = 150;
/// In runs with loads, about one step in this many is followed by a load.
const LOAD_EVERY: u64 = 12;
/// In runs with many savepoints, about one step in this many is followed by a transaction that rolls back to
/// savepoints.
const SAVEPOINTS_EVERY: u64 = 15;
/// The capacity of the medium, unless it should become full.
const CAPACITY_BYTES: u64 = 32 << 20;

/// The kind of work that dominates a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvMix {
    /// All kinds of work.
    All,
    /// Trees that grow and shrink.
    Growth,
    /// A few keys that all transactions write.
    Contention,
    /// Values that are stored in separate pages.
    Values,
    /// Transactions that stay open while pages are written and evicted.
    Pinned,
    /// Commits that return before they are durable.
    Relaxed,
    /// Trees that are created and dropped often.
    Trees,
    /// A drive that becomes full.
    Full,
    /// Frequent power cuts.
    Cuts,
}

const MIXES: [KvMix; 9] = [
    KvMix::All,
    KvMix::Growth,
    KvMix::Contention,
    KvMix::Values,
    KvMix::Pinned,
    KvMix::Relaxed,
    KvMix::Trees,
    KvMix::Full,
    KvMix::Cuts,
];

/// The faults of this simulation: those that lose no synced data. The drive's simulation covers bytes that change on
/// the medium.
pub const KV_FAULTS: [FaultKind; 10] = [
    FaultKind::PowerCut,
    FaultKind::TornProgram,
    FaultKind::ProgramFails,
    FaultKind::EraseFails,
    FaultKind::ReadFailsOnce,
    FaultKind::StaleRead,
    FaultKind::MisdirectedRead,
    FaultKind::NoSpace,
    FaultKind::WriteError,
    FaultKind::SyncError,
];

/// The events that runs can meet. Write skew is too rare here to be required.
const NAMES: Names = Names {
    steps: &KV_STEP_KINDS,
    events: &[
        "commits",
        "conflicts",
        "transactions over several trees",
        "savepoints gone back to",
        "snapshots across flushes",
        "snapshots too old",
        "reads of trees that were dropped since",
        "reads of values that are pages",
        "pages read from the drive",
        "nodes split",
        "nodes merged",
        "reopens after a power cut",
        "reopens with redo to replay",
        "reopens without redo",
        "reopens in order",
        "recoveries cut",
        "power cuts with a commit under way that took effect",
        "power cuts with a commit under way that did not",
        "power cuts within a flush",
        "power cuts within a sync",
        "power cuts within the creation of a tree",
        "power cuts within the drop of a tree",
        "power cuts within background work",
        "relaxed commits that were lost",
        "relaxed commits that were kept",
        "commits refused on a full drive",
        "commits that a fault failed",
        "commits that were too large",
        "transactions committed together",
        "transactions committed together that failed",
        "trees loaded",
        "loads given up",
        "power cuts within a load",
        "databases halted",
        "write skew",
    ],
    last_records: &[],
    faults: &KV_FAULTS,
    rare: ("write skew", "commits", u64::MAX),
};

/// A database and the circumstances of its run, chosen by a seed.
#[derive(Clone, Debug)]
pub struct KvScenario {
    /// The seed.
    pub seed: u64,
    /// The medium's shape.
    pub geometry: Geometry,
    /// The size of the medium's power-protected buffer in bytes, or 0.
    pub protected_bytes: u32,
    /// The options of the drive.
    pub drive: DriveOptions,
    /// The options of the database.
    pub database: DatabaseOptions,
    /// The kind of work that dominates a run.
    pub mix: KvMix,
    /// The default number of steps.
    pub steps: usize,
    /// The number of keys used in each tree.
    pub keys: u32,
    /// The most keys that a transaction writes.
    pub keys_written_max: u32,
    /// The longest ordinary value, in bytes.
    pub value_bytes: u32,
    /// The number of the first durability mode.
    pub durability: u64,
    /// Faults that may strike.
    pub faults: FaultSet,
    /// About one step in this many comes with a fault.
    pub fault_every: u64,
}

impl Simulated for KvScenario {
    type Step = Step;
    type Lens = ();

    const COMMAND: &'static str = "lode sim --trees";
    const SIMULATION: &'static str = "trees";
    const NAMES: &'static Names = &NAMES;
    const CLEAR: () = ();

    fn seed(&self) -> u64 {
        self.seed
    }

    fn step_count(&self) -> usize {
        self.steps
    }

    fn world(&self, (): ()) -> Result<impl simulated::World<Step = Step>, Wrong> {
        World::new(self)
    }

    fn from_seed(seed: u64, allowed: &FaultSet) -> Self {
        let mut r = Random::of_seed(seed ^ 0x7EEE);
        let mix = *r.pick(&MIXES).expect("there are some");
        let channels = *r.pick(&[1, 1, 1, 2, 4]).expect("there are some");
        let wblock = 4096 * *r.pick(&[1, 1, 2]).expect("there are some");
        let eblock = (*r.pick(&[128, 256, 512]).expect("there are some") << 10).max(16 * wblock);
        let spares = r.skewed(1, 4);
        let least = 16 * u64::from(channels) + spares + 8;
        let eblocks = match mix {
            KvMix::Full => least + r.below(8),
            _ => (CAPACITY_BYTES / u64::from(eblock)).max(least),
        };
        let geometry = Geometry::new(channels, 1, 1, 4096, wblock, eblock, eblocks as u32)
            .expect("the shape is one that is possible");
        let drive = DriveOptions {
            map_cache_bytes: (r.skewed(32, 512) as usize) << 10,
            index_cache_bytes: 64 << 10,
            tag_cache_bytes: tag_cache_bytes(seed),
            checkpoint_log_bytes: (r.skewed(64, 4096) << 10).max(u64::from(wblock) * 32),
            batch_bytes_max: if r.once_in(4) { 256 << 10 } else { 2 << 20 },
            batch_pages_max: r.between(100, 2000) as u32,
            page_bytes_max: 256 << 10,
            views_max: if r.once_in(4) { r.between(2, 6) as u32 } else { 64 },
            view_commits_max: u64::MAX,
            queue_depth_max: 64,
            erased_kept: r.below(6) as u32,
            rest_steps: rest_steps(seed),
            in_flight_max: r.skewed(1, 8) as u32,
            sessions_max: 4,
            inline_bytes_max: *r.pick(&[0, 2048, 16_383]).expect("there are some"),
            inline_buffer_bytes: (r.skewed(4, 64) << 10) as usize,
            log_copies: r.between(1, 2) as u32,
            rules_bytes_max: 1 << 20,
            registered_bytes_max: 1 << 20,
            gc_policy: r.pick(POLICIES).expect("there are some").into(),
            over_provision_percent: r.between(7, 30) as u32,
            gc_free_eblocks_max: r.between(1, 8) as u32,
            space_percent_max: r.between(110, 250) as u32,
            spare_eblocks: Some(spares as u32),
            scan_placement: ScanPlacement::default(),
        };
        let node_bytes = *r.pick(&[256, 512, 512, 1024, 4096]).expect("there are some");
        let tiny = mix == KvMix::Pinned || r.once_in(2);
        let database = DatabaseOptions {
            pool_bytes: 1 << 20,
            frame_bytes: if tiny { (r.skewed(1, 64) as usize) << 10 } else { 8 << 20 },
            node_bytes,
            value_page_bytes_min: *r.pick(&[64, 200, 1024]).expect("there are some"),
            write_back_bytes: (r.skewed(1, 256) as usize) << 10,
            redo_bytes_max: r.skewed(1, 512) << 10,
            redo_pages_max: r.skewed(2, 64) as usize,
            ..DatabaseOptions::default()
        };
        let keys = match mix {
            KvMix::Contention => r.between(2, 24),
            KvMix::Growth => r.between(200, 2000),
            _ => r.skewed(10, 600),
        } as u32;
        let value_bytes = match mix {
            KvMix::Values => r.skewed(500, 30_000),
            KvMix::Full => r.skewed(1000, 20_000),
            _ => r.skewed(8, 600),
        } as u32;
        let faults = if r.once_in(6) { FaultSet::none() } else { FaultSet::some(allowed, &mut r) };
        let keys_written_max = match mix {
            KvMix::Growth => r.between(20, 200),
            KvMix::Contention => r.between(1, 6),
            _ => r.skewed(1, 60),
        } as u32;
        Self {
            seed,
            geometry,
            protected_bytes: if r.once_in(4) { r.skewed(200, 20_000) as u32 } else { 0 },
            drive,
            database,
            mix,
            steps: r.between(40, 140) as usize,
            keys,
            keys_written_max,
            value_bytes,
            durability: if mix == KvMix::Relaxed { r.between(1, 2) } else { r.below(5) / 2 },
            faults,
            fault_every: if mix == KvMix::Cuts { 5 } else { r.between(8, 30) },
        }
    }

    fn steps(&self, count: usize) -> Vec<Step> {
        let mut g = Generator {
            s: self,
            r: Random::of_seed(self.seed ^ 0x5EED5),
            grown: None,
            aside: Random::of_seed(self.seed ^ 0x10AD5),
        };
        let mut steps = vec![Step::SetDurability { mode: self.durability }, Step::CreateTree { tree: 0 }];
        while steps.len() < count {
            g.next(&mut steps);
        }
        steps.truncate(count);
        steps
    }
}

impl fmt::Display for KvScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (g, o, d) = (&self.geometry, &self.database, &self.drive);
        write!(
            f,
            "{:?}: {} EBLOCKs of {} KB, WBLOCK {} KB, {} channels, {} bytes protected, {} views; frames {} KB, nodes {} bytes, \
             values from {} bytes are pages, written back by {} KB, redo {} KB in {} pages; {} keys, values up to {} bytes; \
             faults: {}",
            self.mix,
            g.eblock_count(),
            g.eblock_bytes() >> 10,
            g.wblock_bytes() >> 10,
            g.channels(),
            self.protected_bytes,
            d.views_max,
            o.frame_bytes >> 10,
            o.node_bytes,
            o.value_page_bytes_min,
            o.write_back_bytes >> 10,
            o.redo_bytes_max >> 10,
            o.redo_pages_max,
            self.keys,
            self.value_bytes,
            self.faults
        )
    }
}

struct Generator<'a> {
    s: &'a KvScenario,
    r: Random,
    /// A range of keys that was written and will be deleted.
    grown: Option<Work>,
    /// The random numbers for loads and for work around savepoints, in runs that have such work.
    aside: Random,
}

/// Kinds of steps that are drawn by weight.
#[derive(Clone, Copy)]
enum Draw {
    Begin,
    Read,
    Write,
    Scan,
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
    Whole,
    Together,
    Stretch,
    Refused,
    Sync,
    Flush,
    Work,
    SetDurability,
    CreateTree,
    DropTree,
    Check,
    Close,
    Crash,
    Disarm,
}

const DRAWS: [(Draw, u64); 22] = [
    (Draw::Begin, 14),
    (Draw::Read, 12),
    (Draw::Write, 22),
    (Draw::Scan, 6),
    (Draw::Savepoint, 5),
    (Draw::RollbackTo, 4),
    (Draw::Commit, 14),
    (Draw::Rollback, 2),
    (Draw::Whole, 20),
    (Draw::Together, 5),
    (Draw::Stretch, 8),
    (Draw::Refused, 1),
    (Draw::Sync, 4),
    (Draw::Flush, 4),
    (Draw::Work, 6),
    (Draw::SetDurability, 1),
    (Draw::CreateTree, 2),
    (Draw::DropTree, 1),
    (Draw::Check, 1),
    (Draw::Close, 1),
    (Draw::Crash, 4),
    (Draw::Disarm, 3),
];

/// How much more often than usual a mix draws a kind of step.
fn favours(mix: KvMix, draw: Draw) -> u64 {
    match (mix, draw) {
        (KvMix::Growth, Draw::Whole) => 2,
        (KvMix::Growth, Draw::Stretch) => 3,
        (KvMix::Contention, Draw::Begin | Draw::Commit) => 3,
        (KvMix::Pinned, Draw::Flush | Draw::Read | Draw::Work | Draw::Whole) => 2,
        (KvMix::Relaxed, Draw::Sync | Draw::Whole | Draw::SetDurability) => 3,
        (KvMix::Trees, Draw::CreateTree | Draw::DropTree) => 6,
        (KvMix::Full, Draw::Whole) => 4,
        (KvMix::Cuts, Draw::Crash) => 3,
        _ => 1,
    }
}

impl Generator<'_> {
    fn next(&mut self, steps: &mut Vec<Step>) {
        if !self.s.faults.is_empty() && self.r.once_in(self.s.fault_every) {
            let kind = self.s.faults.pick(&mut self.r);
            let step = self.fault(kind);
            steps.push(step);
        }
        let draw = self.r.weighted(&DRAWS, |d| favours(self.s.mix, d));
        let step = self.step(draw);
        steps.push(step);
        let r = &mut self.aside;
        if self.s.seed % 5 == 3 && r.once_in(SAVEPOINTS_EVERY) {
            std::mem::swap(&mut self.r, &mut self.aside);
            self.around_savepoints(steps);
            std::mem::swap(&mut self.r, &mut self.aside);
            return;
        }
        if self.s.seed % 5 == 2 && r.once_in(LOAD_EVERY) {
            let (tree, seed) = (r.below(TREES.into()) as u32, r.next());
            let keys = r.skewed(1, self.s.keys.into()) as u32;
            steps.push(Step::Load { tree, seed, keys, value_bytes_max: self.s.value_bytes.min(4000) });
        }
    }

    /// Adds a transaction that writes the same few keys before a savepoint, after it, and after the rollback to it.
    fn around_savepoints(&mut self, steps: &mut Vec<Step>) {
        let slot = self.r.below(SLOTS as u64) as usize;
        let work = |g: &mut Self| Work { keys_at: KeysAt::Hot, ..g.work(g.s.keys_written_max.min(12)) };
        steps.push(Step::Begin { slot });
        for _ in 0..self.r.between(1, 2) {
            steps.push(Step::Write { slot, work: work(self) });
            steps.push(Step::Savepoint { slot });
            steps.push(Step::Write { slot, work: work(self) });
        }
        steps.push(Step::RollbackTo { slot, which: self.r.next() });
        steps.push(Step::Read { slot, seed: self.r.next(), keys: 12 });
        if self.r.once_in(2) {
            steps.push(Step::Write { slot, work: work(self) });
        }
        steps.push(Step::Commit { slot });
    }

    fn step(&mut self, draw: Draw) -> Step {
        let r = &mut self.r;
        // Steps mostly choose the first slots, so that transactions there are also committed. Those in the last
        // slots stay open for long.
        let slot = r.skewed(0, SLOTS as u64 - 1) as usize;
        match draw {
            Draw::Begin => Step::Begin { slot },
            Draw::Read => Step::Read { slot, seed: r.next(), keys: r.skewed(1, 12) as u32 },
            Draw::Write => {
                let keys_max = self.s.keys_written_max.min(12);
                Step::Write { slot, work: self.work(keys_max) }
            }
            Draw::Scan => Step::Scan { slot, seed: r.next() },
            Draw::Savepoint => Step::Savepoint { slot },
            Draw::RollbackTo => Step::RollbackTo { slot, which: r.next() },
            Draw::Commit => Step::Commit { slot },
            Draw::Rollback => Step::Rollback { slot },
            Draw::Whole => Step::Whole { work: self.work(self.s.keys_written_max) },
            Draw::Together => {
                let works = r.between(2, TOGETHER_MAX);
                Step::Together { works: (0..works).map(|_| self.small_work()).collect() }
            }
            Draw::Stretch => {
                // First a whole range of keys is written, and later most of it is deleted, so that adjacent nodes
                // become small.
                let work = match self.grown.take() {
                    Some(grown) => Work { deletes_percent: 97, ..grown },
                    None => {
                        let taken = u64::from(self.s.drive.batch_pages_max / 8);
                        let keys_max = u64::from(self.s.keys / 2).min(taken).min(STRETCH_MAX);
                        let keys = r.between(1, keys_max.max(1)) as u32;
                        let work = self.work(keys);
                        let grown = Work { keys, deletes_percent: 0, keys_at: KeysAt::InARow, ..work };
                        self.grown = Some(grown);
                        grown
                    }
                };
                Step::Whole { work }
            }
            Draw::Refused => Step::Refused { seed: r.next() },
            Draw::Sync => Step::Sync,
            Draw::Flush => Step::Flush,
            Draw::Work => {
                Step::Work { times: r.skewed(1, 8) as u32, bytes: r.skewed(1, 1 << 18), drive: r.once_in(3) }
            }
            Draw::SetDurability => Step::SetDurability { mode: r.below(3) },
            Draw::CreateTree => Step::CreateTree { tree: r.below(TREES.into()) as u32 },
            Draw::DropTree => Step::DropTree { which: r.next() },
            Draw::Check => Step::Check,
            Draw::Close => Step::Close { cut: self.cut() },
            Draw::Crash => Step::Crash(self.cut()),
            Draw::Disarm => Step::Disarm,
        }
    }

    fn work(&mut self, keys_max: u32) -> Work {
        let (s, r) = (self.s, &mut self.r);
        let large = r.once_in(if s.mix == KvMix::Values { 4 } else { 30 });
        Work {
            seed: r.next(),
            keys: r.skewed(1, keys_max.max(1).into()) as u32,
            deletes_percent: *r.pick(&[0, 10, 10, 30, 90]).expect("there are some"),
            reads_percent: *r.pick(&[0, 50, 100]).expect("there are some"),
            value_bytes_max: if large { r.skewed(1000, 60_000) as u32 } else { s.value_bytes },
            keys_at: *r.pick(&[KeysAt::Anywhere, KeysAt::Hot, KeysAt::InARow]).expect("there are some"),
        }
    }

    /// Work that is so small that the most transactions that are committed together fit in one batch of any drive.
    fn small_work(&mut self) -> Work {
        let work = self.work(self.s.keys_written_max.min(6));
        Work { value_bytes_max: work.value_bytes_max.min(1500), ..work }
    }

    fn cut(&mut self) -> Cut {
        Cut::drawn(&self.s.faults, &mut self.r)
    }

    fn fault(&mut self, kind: FaultKind) -> Step {
        let r = &mut self.r;
        match kind {
            FaultKind::PowerCut => Step::CutAfter { operations: r.skewed(0, 60), cut: self.cut() },
            _ => Step::Arm { kind, after: r.skewed(0, 40), seed: r.next() },
        }
    }
}
