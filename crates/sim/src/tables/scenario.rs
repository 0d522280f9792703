//! The scenario of a seed: a drive, a database with tables on it, and its work and faults.

use std::fmt;

use lode_base::Geometry;
use lode_engine::DatabaseOptions;
use lode_firmware::DriveOptions;
use lode_flash::FaultKind;

use super::rows::{CHILD, PARENT, PLAIN, TABLES};
use super::step::{TABLES_STEP_KINDS, TablesStep as Step, TablesWork as Work, What};
use super::world::World;
use crate::coverage::Names;
use crate::failure::Wrong;
use crate::kv::{KV_FAULTS, KvScenario};
use crate::random::Random;
use crate::simulated::{self, Options, Simulated};
use crate::step::Cut;
use crate::{FaultSet, ranges};

/// The most transactions open at a time.
pub(super) const SLOTS: usize = 3;
/// The most snapshots that are kept.
pub(super) const HELD: usize = 4;
/// About one step in this many is preceded by a transaction that rolls back to savepoints.
const SAVEPOINTS_EVERY: u64 = 30;
/// About one statement in this many alters its table, in seeds that do so.
const ALTERS_EVERY: u64 = 6;
/// The most rows of a statement that changes many.
const MANY: u64 = 80;

/// The kind of work that dominates a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablesMix {
    /// All kinds of work.
    All,
    /// Merges between short transactions.
    Merges,
    /// Snapshots that are kept across many merges.
    Old,
    /// Commits that return before they are durable.
    Relaxed,
    /// Tables and indexes that come and go.
    Definitions,
    /// Frequent power cuts.
    Cuts,
}

const MIXES: [TablesMix; 6] = [
    TablesMix::All,
    TablesMix::Merges,
    TablesMix::Old,
    TablesMix::Relaxed,
    TablesMix::Definitions,
    TablesMix::Cuts,
];

/// The faults of this simulation: those that lose no synced data.
pub const TABLES_FAULTS: [FaultKind; 10] = KV_FAULTS;

const NAMES: Names = Names {
    steps: &TABLES_STEP_KINDS,
    events: &[
        "commits",
        "conflicts",
        "broken constraints",
        "savepoints gone back to",
        "merges",
        "looks at old snapshots",
        "snapshots across 100 merges",
        "snapshots too old",
        "tables created",
        "tables dropped",
        "indexes created",
        "indexes dropped",
        "tables altered",
        "alterations refused for a NULL",
        "reopens after a power cut",
        "reopens in order",
        "recoveries cut",
        "power cuts with a commit under way that took effect",
        "power cuts with a commit under way that did not",
        "power cuts within a merge",
        "power cuts within a definition",
        "power cuts within a load",
        "power cuts within a sync",
        "power cuts within a flush",
        "power cuts within background work",
        "relaxed commits that were lost",
        "relaxed commits that were kept",
        "commits that a fault failed",
        "commits refused on a full drive",
        "databases halted",
    ],
    last_records: &[],
    faults: &TABLES_FAULTS,
    rare: ("commits refused on a full drive", "commits", u64::MAX),
};

/// A drive, a database with tables on it, and its work, all chosen by a seed.
#[derive(Clone, Debug)]
pub struct TablesScenario {
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
    /// See [`DatabaseOptions::rows_by_id_max`].
    pub rows_by_id_max: usize,
    /// The kind of work that dominates a run.
    pub mix: TablesMix,
    /// The default number of steps.
    pub steps: usize,
    /// Keys are numbers below this one.
    pub keys: u32,
    /// The longest text of a row, in bytes.
    pub text_bytes: u32,
    /// The number of the first durability mode.
    pub durability: u64,
    /// Faults that may strike.
    pub faults: FaultSet,
    /// About one step in this many comes with a fault.
    pub fault_every: u64,
}

impl Simulated for TablesScenario {
    type Step = Step;
    type Lens = ();

    const COMMAND: &'static str = "cargo test -p lode-sim --test tables_seeds no_seed_fails";
    const SIMULATION: &'static str = "tables";
    const NAMES: &'static Names = &NAMES;
    const CLEAR: () = ();

    fn seed(&self) -> u64 {
        self.seed
    }

    fn step_count(&self) -> usize {
        self.steps
    }

    fn again(&self, only: &[usize], _: &Options<Self>) -> String {
        format!("LODE_SEED={} LODE_ONLY={} {}", self.seed, ranges(only), Self::COMMAND)
    }

    fn world(&self, (): ()) -> Result<impl simulated::World<Step = Step>, Wrong> {
        World::new(self)
    }

    fn from_seed(seed: u64, allowed: &FaultSet) -> Self {
        // The drive is one of those that trees run on.
        let trees = KvScenario::from_seed(seed, allowed);
        let mut r = Random::of_seed(seed ^ 0x7AB1E5);
        let mix = *r.pick(&MIXES).expect("there are some");
        let geometry = match trees.geometry.eblock_count() < 64 {
            true => {
                let g = &trees.geometry;
                Geometry::new(1, 1, 1, 4096, g.wblock_bytes(), g.eblock_bytes(), 96).expect("it is possible")
            }
            false => trees.geometry,
        };
        // Redo pages have 64 KB and an image at most.
        let page_bytes_max = *r.pick(&[96, 128, 256]).expect("there are some") << 10;
        let many_commits = r.once_in(2);
        Self {
            seed,
            geometry,
            protected_bytes: trees.protected_bytes,
            drive: DriveOptions { page_bytes_max, ..trees.drive },
            database: DatabaseOptions {
                key_check_bytes: 1 << 12,
                // Few commits, or all, are remembered for validation.
                recent_bytes: if many_commits { 1 } else { 1 << 20 },
                ..trees.database
            },
            rows_by_id_max: r.between(5, 60) as usize,
            mix,
            steps: r.between(20, 60) as usize,
            keys: r.between(20, 400) as u32,
            text_bytes: if r.once_in(4) { r.between(500, 2500) } else { r.skewed(16, 400) } as u32,
            durability: if mix == TablesMix::Relaxed { r.between(1, 2) } else { r.below(5) / 2 },
            faults: trees.faults,
            fault_every: match mix {
                TablesMix::Cuts => 3,
                TablesMix::Old => 40,
                _ => r.between(4, 12),
            },
        }
    }

    fn steps(&self, count: usize) -> Vec<Step> {
        // Alterations are drawn apart, so that the other seeds have the steps that they had before there were any.
        let alters = (self.seed % 4 == 2).then(|| Random::of_seed(self.seed ^ 0xA17E5));
        let mut g = Generator { s: self, r: Random::of_seed(self.seed ^ 0x7AB5), alters };
        let mut steps = vec![Step::SetDurability { mode: self.durability }];
        for table in [PARENT, CHILD, PLAIN, TABLES - 1] {
            if table < PLAIN || g.r.once_in(2) {
                steps.push(g.create(table));
            }
        }
        if g.r.once_in(2) {
            steps.push(Step::Index { table: CHILD, column: 1 });
            steps.push(Step::Index { table: PARENT, column: 2 });
        }
        while steps.len() < count {
            g.next(&mut steps);
        }
        steps.truncate(count);
        steps
    }
}

impl fmt::Display for TablesScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (g, o, d) = (&self.geometry, &self.database, &self.drive);
        write!(
            f,
            "{:?}: {} EBLOCKs of {} KB, WBLOCK {} KB, {} bytes protected, {} views, pages up to {} KB, batches of {} pages; frames {} \
             KB, nodes {} bytes, redo {} KB; {} keys, texts up to {} bytes; faults: {}",
            self.mix,
            g.eblock_count(),
            g.eblock_bytes() >> 10,
            g.wblock_bytes() >> 10,
            self.protected_bytes,
            d.views_max,
            d.page_bytes_max >> 10,
            d.batch_pages_max,
            o.frame_bytes >> 10,
            o.node_bytes,
            o.redo_bytes_max >> 10,
            self.keys,
            self.text_bytes,
            self.faults
        )
    }
}

struct Generator<'a> {
    s: &'a TablesScenario,
    r: Random,
    /// What draws alterations of tables, if the run has some.
    alters: Option<Random>,
}

/// Kinds of steps that are drawn by weight.
#[derive(Clone, Copy)]
enum Draw {
    Statement,
    Read,
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
    Whole,
    Churn,
    Merge,
    Hold,
    Look,
    LetGo,
    Sync,
    Flush,
    Work,
    ClearPool,
    SetDurability,
    CreateTable,
    DropTable,
    Index,
    Check,
    Close,
    Crash,
    Disarm,
}

const DRAWS: [(Draw, u64); 24] = [
    (Draw::Statement, 18),
    (Draw::Read, 3),
    (Draw::Savepoint, 4),
    (Draw::RollbackTo, 4),
    (Draw::Commit, 10),
    (Draw::Rollback, 1),
    (Draw::Whole, 24),
    (Draw::Churn, 2),
    (Draw::Merge, 10),
    (Draw::Hold, 3),
    (Draw::Look, 4),
    (Draw::LetGo, 1),
    (Draw::Sync, 3),
    (Draw::Flush, 2),
    (Draw::Work, 8),
    (Draw::ClearPool, 2),
    (Draw::SetDurability, 1),
    (Draw::CreateTable, 2),
    (Draw::DropTable, 1),
    (Draw::Index, 2),
    (Draw::Check, 1),
    (Draw::Close, 1),
    (Draw::Crash, 4),
    (Draw::Disarm, 2),
];

/// How much more often than usual a mix draws a kind of step.
fn favours(mix: TablesMix, draw: Draw) -> u64 {
    match (mix, draw) {
        (TablesMix::Merges, Draw::Merge | Draw::Work) => 3,
        (TablesMix::Old, Draw::Hold | Draw::Look | Draw::Merge) => 3,
        (TablesMix::Old, Draw::Churn) => 4,
        (TablesMix::Old, Draw::Crash | Draw::Close) => 0,
        (TablesMix::Relaxed, Draw::Sync | Draw::Whole | Draw::SetDurability | Draw::Crash) => 2,
        (TablesMix::Definitions, Draw::CreateTable | Draw::DropTable | Draw::Index) => 6,
        (TablesMix::Cuts, Draw::Crash) => 3,
        _ => 1,
    }
}

impl Generator<'_> {
    fn next(&mut self, steps: &mut Vec<Step>) {
        let fault = !self.s.faults.is_empty() && self.r.once_in(self.s.fault_every);
        if fault {
            let cuts = self.s.faults.has(FaultKind::PowerCut) && self.r.once_in(2);
            let kind = if cuts { FaultKind::PowerCut } else { self.s.faults.pick(&mut self.r) };
            let step = self.fault(kind);
            steps.push(step);
        } else if self.r.once_in(SAVEPOINTS_EVERY) {
            self.around_savepoints(steps);
        }
        let mut draw = self.r.weighted(&DRAWS, |d| favours(self.s.mix, d));
        // A fault that strikes nothing is wasted.
        while fault && matches!(draw, Draw::Read | Draw::Savepoint | Draw::Hold | Draw::Crash | Draw::Disarm)
        {
            draw = self.r.weighted(&DRAWS, |d| favours(self.s.mix, d));
        }
        let step = self.step(draw);
        steps.push(step);
    }

    /// Adds statements before a savepoint, after it, and after the rollback to it.
    fn around_savepoints(&mut self, steps: &mut Vec<Step>) {
        let slot = self.r.below(SLOTS as u64) as usize;
        for _ in 0..self.r.between(1, 2) {
            steps.push(Step::Statement { slot, work: self.work() });
            steps.push(Step::Savepoint { slot });
            steps.push(Step::Statement { slot, work: self.work() });
        }
        steps.push(Step::RollbackTo { slot, which: self.r.next() });
        if self.r.once_in(2) {
            steps.push(Step::Statement { slot, work: self.work() });
        }
        steps.push(Step::Commit { slot });
    }

    fn step(&mut self, draw: Draw) -> Step {
        let r = &mut self.r;
        let slot = r.skewed(0, SLOTS as u64 - 1) as usize;
        let table = r.skewed(0, TABLES as u64 - 1) as usize;
        match draw {
            Draw::Statement => Step::Statement { slot, work: self.work() },
            Draw::Read => Step::Read { slot, seed: r.next() },
            Draw::Savepoint => Step::Savepoint { slot },
            Draw::RollbackTo => Step::RollbackTo { slot, which: r.next() },
            Draw::Commit => Step::Commit { slot },
            Draw::Rollback => Step::Rollback { slot },
            Draw::Whole => {
                let works = r.skewed(1, 3);
                Step::Whole { works: (0..works).map(|_| self.work()).collect() }
            }
            Draw::Churn => {
                let most = if self.s.mix == TablesMix::Old { 60 } else { 8 };
                Step::Churn { seed: r.next(), times: r.between(2, most) as u32 }
            }
            Draw::Merge => Step::Merge { table },
            Draw::Hold => Step::Hold,
            Draw::Look => Step::Look { which: r.next(), seed: r.next() },
            Draw::LetGo => Step::LetGo { which: r.next() },
            Draw::Sync => Step::Sync,
            Draw::Flush => Step::Flush,
            Draw::Work => Step::Work {
                times: r.between(1, 24) as u32,
                bytes: r.skewed(1, 1 << 18),
                drive: r.once_in(5),
            },
            Draw::ClearPool => Step::ClearPool,
            Draw::SetDurability => Step::SetDurability { mode: r.below(3) },
            Draw::CreateTable => self.create(table),
            Draw::DropTable => Step::DropTable { table },
            Draw::Index => Step::Index { table, column: r.between(1, 2) as u16 },
            Draw::Check => Step::Check,
            Draw::Close => Step::Close { cut: self.cut() },
            Draw::Crash => Step::Crash(self.cut()),
            Draw::Disarm => Step::Disarm,
        }
    }

    fn create(&mut self, table: usize) -> Step {
        let rows = if self.r.once_in(3) { 0 } else { self.r.skewed(1, 300) as u32 };
        Step::CreateTable { table, seed: self.r.next(), rows }
    }

    fn work(&mut self) -> Work {
        if let Some(r) = &mut self.alters
            && r.once_in(ALTERS_EVERY)
        {
            return Work { seed: r.next(), what: What::Alter, rows: 1 };
        }
        let r = &mut self.r;
        let what = match r.below(20) {
            0..6 => What::Insert,
            6 | 7 => What::Load,
            8..14 => What::Update,
            14 | 15 => What::Rekey,
            _ => What::Delete,
        };
        let many = r.once_in(8);
        let rows = match what {
            What::Load => r.skewed(1, 200),
            _ if many => r.between(10, MANY),
            _ => r.skewed(1, 6),
        } as u32;
        Work { seed: r.next(), what, rows }
    }

    fn cut(&mut self) -> Cut {
        Cut::drawn(&self.s.faults, &mut self.r)
    }

    fn fault(&mut self, kind: FaultKind) -> Step {
        let r = &mut self.r;
        match kind {
            FaultKind::PowerCut => Step::CutAfter { operations: r.skewed(0, 25), cut: self.cut() },
            _ => Step::Arm { kind, after: r.skewed(0, 40), seed: r.next() },
        }
    }
}
