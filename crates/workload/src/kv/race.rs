//! Runs the rounds of a race. A store's turn is a slice, its background work, and a reading of the disk's counter.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::contest::{Contestant, Done};
use super::pages::noise;
use super::{Case, Sizes};
use crate::disk::Disk;
use crate::harness::RunError;
use crate::measure::{Causes, Percentiles};
use crate::store::StoreError;

/// The space on which stores write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    /// The file system's space was written before, and stores have overwritten their data several times.
    Recycled,
    /// Stores are new, and the file system may never have written their space before.
    Fresh,
    /// As recycled, on a drive behind a remote server. The writes to its disk are not known here.
    Served,
}

impl Space {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recycled => "recycled",
            Self::Fresh => "fresh",
            Self::Served => "served",
        }
    }
}

/// A store that takes part.
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its settings, mainly for durability.
    pub settings: String,
    /// Makes it in an empty directory.
    #[expect(clippy::type_complexity, reason = "it is named once")]
    pub make: Box<dyn Fn(&Path) -> Result<Box<dyn Contestant>, StoreError>>,
}

/// The result of a store in a case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub case: String,
    /// The space.
    pub space: Space,
    /// The store.
    pub store: String,
    /// Its settings.
    pub settings: String,
    /// The unit of the rates.
    pub unit: &'static str,
    /// The rate per second, including the time in which the store settles: the median of the rounds.
    pub rate: f64,
    /// The rate without that time.
    pub burst: f64,
    /// Megabytes of keys and values per second, as in `rate`.
    pub mb_a_second: f64,
    /// Latencies of all rounds together.
    pub latencies: Percentiles,
    /// Bytes written to the disk, until the store was at rest, per byte of keys and values written. `None` if the
    /// disk's counter is not known. Writes of other processes are included.
    pub write_amplification: Option<f64>,
    /// Bytes that the store reports as programmed per byte of keys and values. Writes of other processes are not
    /// included.
    pub programmed: Option<f64>,
    /// Bytes that the store reports as programmed, by cause.
    pub causes: Option<Causes>,
}

/// How to run a race.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The directory of the stores.
    pub dir: &'a Path,
    /// The space.
    pub space: Space,
    /// The amounts of data.
    pub sizes: Sizes,
    /// The length of a slice.
    pub slice: Duration,
    /// The number of measured rounds.
    pub rounds: u32,
    /// On recycled space, how often a store's data is overwritten before its writes are measured.
    pub age: u32,
}

/// A store during a race.
struct Side<'e> {
    entry: &'e Entry,
    contestant: Box<dyn Contestant>,
    of: Sums,
}

/// The sums over the measured rounds.
#[derive(Default)]
struct Sums {
    rates: Vec<[f64; 3]>,
    all: Done,
    disk_bytes: Option<u64>,
    causes: Option<Causes>,
}

/// Writes files of `bytes` in total to `dir` and removes them, so that later files most likely get the same blocks.
/// File systems are slower with new blocks than with blocks written before, especially on thinly provisioned disks.
///
/// # Errors
/// If the file system is full or fails.
pub fn recycle(dir: &Path, bytes: u64, stop: &dyn Fn() -> bool) -> std::io::Result<()> {
    const FILE_BYTES: u64 = 256 << 20;
    let data = noise(1 << 20, 9);
    let names: Vec<_> = (0..bytes.div_ceil(FILE_BYTES)).map(|i| dir.join(format!("recycled-{i}"))).collect();
    let fill = || {
        for (i, name) in (0..).zip(&names) {
            let mut file = File::create(name)?;
            for _ in 0..(bytes - i * FILE_BYTES).min(FILE_BYTES).div_ceil(1 << 20) {
                file.write_all(&data)?;
            }
            file.sync_all()?;
            if stop() {
                break;
            }
        }
        Ok(())
    };
    let filled = fill();
    let remove = |name| match fs::remove_file(name) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    };
    let removed = names.iter().try_for_each(remove);
    File::open(dir)?.sync_all()?;
    filled.and(removed)
}

/// Races stores in the cases of a group and passes each row to `each`.
///
/// # Errors
/// If a store or `each` fails; [`RunError::Stopped`].
pub fn race(
    cases: &[Case],
    entries: &[Entry],
    plan: &Plan<'_>,
    stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&Row) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let disk = if plan.space == Space::Served { None } else { Disk::under(plan.dir) };
    let go_on = || if stop() { Err(RunError::Stopped) } else { Ok(()) };
    let mut sides = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let dir = plan.dir.join(format!("store-{i}"));
        fs::create_dir(&dir).map_err(StoreError::failed)?;
        sides.push(Side { entry, contestant: (entry.make)(&dir)?, of: Sums::default() });
    }
    for case in cases {
        let takes = |s: &&mut Side<'_>| s.contestant.takes(*case);
        for side in sides.iter_mut().filter(takes) {
            go_on()?;
            side.of = Sums::default();
            if plan.space != Space::Fresh || !case.writes() {
                side.contestant.load(*case)?;
                side.age(*case, plan, stop)?;
            }
        }
        for _ in 0..plan.rounds {
            for side in sides.iter_mut().filter(takes) {
                go_on()?;
                side.round(*case, plan, disk.as_ref())?;
            }
        }
        for side in sides.iter_mut().filter(takes) {
            each(&side.row(*case, plan))?;
        }
    }
    drop(sides);
    for i in 0..entries.len() {
        fs::remove_dir_all(plan.dir.join(format!("store-{i}"))).map_err(StoreError::failed)?;
    }
    Ok(())
}

impl Side<'_> {
    /// Prepares a measurement: it overwrites the data several times, or reads for a slice to fill the cache.
    fn age(&mut self, case: Case, plan: &Plan<'_>, stop: &dyn Fn() -> bool) -> Result<(), RunError> {
        let data_bytes = match case.letter() {
            'A' => plan.sizes.pages * super::pages::PAGE_BYTES_MEAN,
            'B' => plan.sizes.records * u64::from(plan.sizes.record_bytes),
            _ => 0,
        };
        let mut done = Done::default();
        loop {
            self.contestant.slice(case, Instant::now() + plan.slice, &mut done)?;
            self.contestant.settle()?;
            if stop() {
                return Err(RunError::Stopped);
            }
            if done.bytes >= data_bytes * u64::from(plan.age) || !case.writes() {
                return Ok(());
            }
        }
    }

    fn round(&mut self, case: Case, plan: &Plan<'_>, disk: Option<&Disk>) -> Result<(), RunError> {
        let written = || disk.filter(|_| case.writes()).and_then(Disk::bytes_written);
        plan.sync()?;
        let (before, causes, mut done) = (written(), self.contestant.causes(), Done::default());
        let start = Instant::now();
        self.contestant.slice(case, start + plan.slice, &mut done)?;
        let burst = start.elapsed();
        self.contestant.settle()?;
        let seconds = start.elapsed().as_secs_f64();
        plan.sync()?;
        let of = &mut self.of;
        if let Some((now, before)) = written().zip(before) {
            of.disk_bytes = Some(of.disk_bytes.unwrap_or(0) + now - before);
        }
        if let Some((now, before)) = self.contestant.causes().zip(causes) {
            of.causes = Some(of.causes.unwrap_or_default().plus(now.since(before)));
        }
        // A scan counts bytes; its unit is MB of a million bytes.
        let amount = if case == Case::Scan { done.amount as f64 / 1e6 } else { done.amount as f64 };
        of.rates.push([amount / seconds, amount / burst.as_secs_f64(), done.bytes as f64 / 1e6 / seconds]);
        of.all.add(&done);
        Ok(())
    }

    fn row(&self, case: Case, plan: &Plan<'_>) -> Row {
        let rate = |which: usize| {
            let mut all: Vec<f64> = self.of.rates.iter().map(|r| r[which]).collect();
            all.sort_unstable_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        Row {
            case: case.name(),
            space: plan.space,
            store: self.entry.name.clone(),
            settings: self.entry.settings.clone(),
            unit: case.unit(),
            rate: rate(0),
            burst: rate(1),
            mb_a_second: rate(2),
            latencies: self.of.all.latencies.percentiles(),
            write_amplification: self.of.disk_bytes.map(|b| b as f64 / self.of.all.bytes.max(1) as f64),
            programmed: self
                .of
                .causes
                .filter(|_| case.writes())
                .map(|c| c.all as f64 / self.of.all.bytes.max(1) as f64),
            causes: self.of.causes,
        }
    }
}

impl Plan<'_> {
    /// Asks the measured file system to write out its cached data.
    fn sync(&self) -> Result<(), StoreError> {
        if self.space == Space::Served {
            return Ok(());
        }
        let status = std::process::Command::new("sync").arg("-f").arg(self.dir).status();
        match status {
            Ok(s) if s.success() => Ok(()),
            Ok(s) => Err(StoreError::failed(std::io::Error::other(format!("sync -f: {s}")))),
            Err(e) => Err(StoreError::failed(e)),
        }
    }
}
