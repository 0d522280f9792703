//! Runs all races and formats their table.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::race::{Entry, Plan, Row, Space, race, recycle};
use super::{Case, Sizes};
use crate::harness::RunError;
use crate::store::StoreError;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory whose file system is measured. Stores are made in a temporary directory in it.
    pub dir: PathBuf,
    /// The amounts of data.
    pub sizes: Sizes,
    /// The length of a slice.
    pub slice: Duration,
    /// The number of measured rounds.
    pub rounds: u32,
    /// On recycled space, how often a store's data is overwritten before its writes are measured.
    pub age: u32,
    /// The spaces.
    pub spaces: Vec<Space>,
    /// The letters of the cases. No letters stand for all cases.
    pub cases: String,
}

/// Before the stores are made, this many times their data is written and removed, for each store.
const RECYCLED: u64 = 2;

/// Runs all races and passes each row to `each`. Only page batches run on fresh space, because other cases work on
/// loaded data.
///
/// # Errors
/// If a store or `each` fails; [`RunError::Stopped`].
pub fn run(
    options: &Options,
    entries: &[Entry],
    stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&Row) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let asked = |c: &&Case| options.cases.is_empty() || options.cases.contains(c.letter());
    if options.spaces == [Space::Fresh] && !asked(&&Case::PagesInTurn) {
        return Err(StoreError::Failed("only page batches (A) are measured on fresh space".into()).into());
    }
    for space in &options.spaces {
        if *space == Space::Recycled {
            let data = options.sizes.records * u64::from(options.sizes.record_bytes);
            let bytes = data * RECYCLED * entries.len() as u64;
            recycle(&options.dir, bytes, stop).map_err(StoreError::failed)?;
        }
        for group in Case::GROUPS {
            let cases: Vec<Case> = group.iter().filter(asked).copied().collect();
            let fits = *space != Space::Fresh || cases.first().is_some_and(|c| c.letter() == 'A');
            if cases.is_empty() || !fits {
                continue;
            }
            let plan = Plan {
                dir: &options.dir,
                space: *space,
                sizes: options.sizes,
                slice: options.slice,
                rounds: options.rounds,
                age: options.age,
            };
            race(&cases, entries, &plan, stop, each)?;
        }
    }
    Ok(())
}

/// Formats rows as a table, case by case, the best rate first.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut groups: Vec<(&str, Space)> = Vec::new();
    for r in rows {
        if !groups.contains(&(&r.case, r.space)) {
            groups.push((&r.case, r.space));
        }
    }
    for (case, space) in groups {
        let mut of: Vec<&Row> = rows.iter().filter(|r| r.case == case && r.space == space).collect();
        of.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        let unit = of.first().map_or("", |r| r.unit);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:<32}{:>12} {:>12} {:>9} {:>9} {:>9} {:>7} {:>7}  of it GC, log and the rest",
            format!("{case}, {} space", space.name()),
            format!("{unit}/s"),
            "in a burst",
            "MB/s",
            "p50 us",
            "p99 us",
            "ampl.",
            "told"
        );
        for r in of {
            let optional = |v: Option<f64>| v.map_or_else(|| "-".into(), |v| format!("{v:.2}"));
            let causes =
                r.causes.filter(|c| r.programmed.is_some() && c.all > 0).map_or_else(String::new, |c| {
                    let share = |n: u64| n as f64 * 100.0 / c.all as f64;
                    format!("{:.1} %, {:.1} %", share(c.collection), share(c.rest()))
                });
            let _ = writeln!(
                out,
                "  {:<30}{:>12.0} {:>12.0} {:>9.1} {:>9.1} {:>9.1} {:>7} {:>7}  {causes}",
                r.store,
                r.rate,
                r.burst,
                r.mb_a_second,
                r.latencies.p50_us,
                r.latencies.p99_us,
                optional(r.write_amplification),
                optional(r.programmed)
            );
        }
    }
    out
}
