//! What runs met: a search that never met something proves nothing about it.

use std::collections::BTreeMap;

use lode_command::Progress;

use lode_firmware::RecoveryReport;
use lode_flash::FaultKind;

use crate::fault::FAULTS;
use crate::step::{STEP_KINDS, Step};

/// Recoveries that fail for the host mostly end with a drive that is read-only; that one fails altogether is as rare as
/// one in ten thousand.
const HOST_FAILED: &str = "recoveries that the host failed";
/// Reopenings after which it should have been met.
const HOST_FAILED_FROM: u64 = 100_000;

/// Counts over one run or many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Runs.
    pub runs: u64,
    /// Steps of each of [`STEP_KINDS`].
    pub steps: [u64; STEP_KINDS.len()],
    /// Batches that were acknowledged.
    pub commits: u64,
    /// Commands that were refused since the drive was full.
    pub refused_full: u64,
    /// Reopens after a power cut.
    pub crashes: u64,
    /// Recoveries in the middle of which power went again.
    pub recoveries_cut: u64,
    /// Recoveries that failed, since the host failed them.
    pub recoveries_failed: u64,
    /// Power cuts at which batches were under way, of which none, some, or all took effect.
    pub under_way: [u64; 3],
    /// Steps of background work that did something.
    pub work_done: u64,
    /// How often each kind of fault struck.
    pub struck: BTreeMap<FaultKind, u64>,
    /// Pages that could not be read, since a fault hit them.
    pub uncorrectable: u64,
    /// Images that were refused, since faults hit what they need.
    pub refused_images: u64,
    /// What the last durable group of a log held that recovery read, and how often.
    pub last_records: BTreeMap<&'static str, u64>,
    /// EBLOCKs that GC emptied.
    pub gc_victims: u64,
    /// Checkpoints that became durable.
    pub checkpoints: u64,
    /// Drives that became read-only, since a fault hit them.
    pub read_only: u64,
    /// Batches of a session that came twice, too early or too late.
    pub out_of_order: u64,
    /// Reopens without the last batches, since a fault hit them.
    pub lost_tails: u64,
}

impl Coverage {
    pub(crate) fn step(&mut self, step: &Step) {
        self.steps[step.kind()] += 1;
    }

    pub(crate) fn work(&mut self, progress: Progress) {
        self.work_done += u64::from(progress != Progress::Idle);
    }

    pub(crate) fn settled(&mut self, applied: usize, pending: usize) {
        match applied {
            _ if pending == 0 => {}
            0 => self.under_way[0] += 1,
            n if n < pending => self.under_way[1] += 1,
            _ => self.under_way[2] += 1,
        }
    }

    /// Adds the counts of other runs.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        for (to, from) in self.steps.iter_mut().zip(other.steps) {
            *to += from;
        }
        self.commits += other.commits;
        self.refused_full += other.refused_full;
        self.crashes += other.crashes;
        self.recoveries_cut += other.recoveries_cut;
        self.recoveries_failed += other.recoveries_failed;
        for (to, from) in self.under_way.iter_mut().zip(other.under_way) {
            *to += from;
        }
        self.work_done += other.work_done;
        self.uncorrectable += other.uncorrectable;
        self.refused_images += other.refused_images;
        self.lost_tails += other.lost_tails;
        self.gc_victims += other.gc_victims;
        self.checkpoints += other.checkpoints;
        self.read_only += other.read_only;
        self.out_of_order += other.out_of_order;
        for (name, n) in &other.last_records {
            *self.last_records.entry(name).or_default() += n;
        }
        for (kind, n) in &other.struck {
            *self.struck.entry(*kind).or_default() += n;
        }
    }

    /// What was met, and how often: (name, count).
    pub fn table(&self) -> Vec<(String, u64)> {
        let step = |(name, count): (&&str, u64)| (format!("step: {name}"), count);
        let mut rows: Vec<(String, u64)> = STEP_KINDS.iter().zip(self.steps).map(step).collect();
        let [none, some, all] = self.under_way;
        let more = [
            ("batches acknowledged", self.commits),
            ("refused, full", self.refused_full),
            ("reopened", self.crashes),
            ("recoveries cut", self.recoveries_cut),
            (HOST_FAILED, self.recoveries_failed),
            ("cut with batches under way, none there", none),
            ("cut with batches under way, some there", some),
            ("cut with batches under way, all there", all),
            ("background work done", self.work_done),
            ("EBLOCKs emptied by GC", self.gc_victims),
            ("checkpoints", self.checkpoints),
            ("became read-only", self.read_only),
            ("batch of a session out of its order, refused", self.out_of_order),
            ("page that a fault hit, uncorrectable", self.uncorrectable),
            ("image that faults hit, refused", self.refused_images),
            ("last batches that a fault hit, gone", self.lost_tails),
        ];
        rows.extend(more.map(|(name, count)| (name.to_string(), count)));
        let last = |name: &&str| self.last_records.get(*name).copied().unwrap_or(0);
        let kinds = RecoveryReport::RECORD_KINDS;
        rows.extend(kinds.iter().map(|name| (format!("last durable records: {name}"), last(name))));
        let struck = |kind| self.struck.get(&kind).copied().unwrap_or(0);
        rows.extend(FAULTS.iter().map(|(kind, _)| (format!("fault: {}", kind.name()), struck(*kind))));
        rows
    }

    /// What was never met, and should have been.
    pub fn missing(&self) -> Vec<String> {
        let expected = |name: &str| name != HOST_FAILED || self.crashes >= HOST_FAILED_FROM;
        let never = self.table().into_iter().filter(|(name, count)| *count == 0 && expected(name));
        never.map(|(name, _)| name).collect()
    }
}
