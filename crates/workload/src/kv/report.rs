//! All races of a report, and their table.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::race::{Entry, Plan, Row, Space, race, recycle};
use super::{Case, Sizes};
use crate::harness::RunError;
use crate::store::StoreError;

/// What is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose file system is measured: stores lie in a directory in it, which goes away.
    pub dir: PathBuf,
    /// How much there is.
    pub sizes: Sizes,
    /// How long a slice is.
    pub slice: Duration,
    /// Rounds that count.
    pub rounds: u32,
    /// How often a store's data set is written over before its writes are measured, on recycled space.
    pub age: u32,
    /// On what space.
    pub spaces: Vec<Space>,
    /// Letters of the cases; none are all.
    pub cases: String,
}

/// Space that is written and given back before stores are made, for each store: as often its data.
const RECYCLED: u64 = 2;

/// Runs all races; tells each row as it comes. Fresh space is a matter of page batches alone: other cases work on what was
/// loaded.
///
/// # Errors
/// When a store fails, when `each` does, or [`RunError::Stopped`].
pub fn run(
    options: &Options,
    entries: &[Entry],
    stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&Row) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let asked = |c: &&Case| options.cases.is_empty() || options.cases.contains(c.letter());
    if options.spaces == [Space::Fresh] && !asked(&&Case::PagesInTurn) {
        return Err(StoreError::Failed("on fresh space page batches (A) alone are measured".into()).into());
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

/// Rows as a table for people, case by case, the best rate first.
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
        // Writing to a String can not fail.
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
