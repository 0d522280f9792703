//! Runs two contestants in turn, round by round, so that both see the same state of the machine.

use std::path::Path;
use std::time::{Duration, Instant};

use super::case::{Case, Contestant, Done, Measure, ROUNDS, Row};
use crate::disk::Disk;
use crate::drive_host::DriveError;

/// A contestant and its operations so far.
struct Side<'a> {
    contestant: Box<dyn Contestant>,
    disk: Option<&'a Disk>,
    rates: Vec<f64>,
    all: Done,
    disk_bytes: u64,
}

impl<'a> Side<'a> {
    fn new(contestant: Box<dyn Contestant>, disk: Option<&'a Disk>) -> Self {
        Self { contestant, disk, rates: Vec::new(), all: Done::default(), disk_bytes: 0 }
    }

    fn slice(&mut self, length: Duration, unit: &str) -> Result<(), DriveError> {
        let written = |disk: Option<&Disk>| disk.and_then(Disk::bytes_written).unwrap_or(0);
        let (before, start) = (written(self.disk), Instant::now());
        let mut done = Done::default();
        self.contestant.slice(start + length, &mut done)?;
        let seconds = start.elapsed().as_secs_f64();
        self.disk_bytes += written(self.disk).saturating_sub(before);
        let amount = if unit == "MB" { done.bytes as f64 / 1e6 } else { done.ops as f64 };
        self.rates.push(amount / seconds);
        self.all.add(done);
        Ok(())
    }

    /// Resets the counts after the warm-up.
    fn forget(&mut self) {
        self.rates.clear();
        self.all = Done::default();
        self.disk_bytes = 0;
    }

    fn measure(mut self) -> Measure {
        let latencies = &mut self.all.latencies;
        latencies.sort_unstable();
        let at = |part: f64| {
            let i = (latencies.len() as f64 * part) as usize;
            latencies.get(i.min(latencies.len().saturating_sub(1))).map_or(0.0, |d| d.as_secs_f64() * 1e3)
        };
        let writes = self.disk.is_some() && self.disk_bytes > 0;
        Measure {
            rate: median(self.rates.clone()),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            write_amplification: writes.then(|| self.disk_bytes as f64 / self.all.bytes.max(1) as f64),
        }
    }
}

/// Runs a case: an unmeasured round of each side, then [`ROUNDS`] measured ones. If the drive refuses a batch, the
/// case ends for Lode, and the row tells why.
pub(super) fn race(
    case: &Case,
    dir: &Path,
    slice: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Row, DriveError> {
    let disk = Disk::under(dir);
    let disk = disk.as_ref().filter(|_| !case.name.starts_with("reads"));
    let mut plain = Side::new((case.plain)(dir, case.threads, case.depth)?, disk);
    let mut refused = None;
    let mut lode = match (case.lode)(dir, case.threads, case.depth) {
        Ok(c) => Some(Side::new(c, disk)),
        Err(DriveError::Command(e)) => {
            refused = Some(e.to_string());
            None
        }
        Err(e) => return Err(e),
    };
    for round in 0..=ROUNDS {
        if stop() {
            return Err(DriveError::Stopped);
        }
        if round == 1 {
            plain.forget();
            lode.iter_mut().for_each(Side::forget);
        }
        plain.slice(slice, case.unit)?;
        match lode.as_mut().map(|side| side.slice(slice, case.unit)) {
            Some(Err(DriveError::Command(e))) => {
                refused = Some(e.to_string());
                lode = None;
            }
            Some(other) => other?,
            None => {}
        }
    }
    let ratios = |l: &Side<'_>| l.rates.iter().zip(&plain.rates).map(|(l, p)| l / p).collect();
    let ratio = lode.as_ref().map(|l| median(ratios(l)));
    Ok(Row {
        case: case.name,
        threads: case.threads,
        depth: case.depth,
        unit: case.unit,
        plain: plain.measure(),
        lode: lode.map(Side::measure).ok_or(refused.unwrap_or_default()),
        ratio,
    })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use lode_command::CommandError;

    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }

    /// Does a fixed number of operations per slice, until its drive is full.
    struct Fake {
        ops: u64,
        slices_left: u32,
    }

    impl Contestant for Fake {
        fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError> {
            self.slices_left = self.slices_left.checked_sub(1).ok_or_else(full)?;
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            done.ops += self.ops;
            done.bytes += self.ops * 100;
            done.latencies.extend((1..=self.ops).map(Duration::from_millis));
            Ok(())
        }
    }

    fn full() -> DriveError {
        CommandError::OutOfSpace { free_bytes: 1, needed_bytes: 2 }.into()
    }

    fn fake(ops: u64, slices_left: u32) -> Result<Box<dyn Contestant>, DriveError> {
        Ok(Box::new(Fake { ops, slices_left }))
    }

    fn run(lode: super::super::case::Make, stop: &dyn Fn() -> bool) -> Result<Row, DriveError> {
        let case =
            Case { name: "fakes", threads: 1, depth: 1, unit: "ops", plain: |_, _, _| fake(100, 99), lode };
        race(&case, Path::new("/proc"), Duration::from_millis(4), stop)
    }

    #[test]
    fn rates_and_their_ratio_are_those_of_the_rounds_that_count() {
        let row = run(|_, _, _| fake(50, 99), &|| false).unwrap();
        let (ratio, lode) = (row.ratio.unwrap(), row.lode.unwrap());
        // It does half as many operations in the same time. On a busy machine a slice may take longer than the 4 ms.
        assert!((0.2..0.9).contains(&ratio), "{ratio}");
        assert!((1.0..12_501.0).contains(&lode.rate), "{lode:?}");
        assert_eq!((row.plain.p50_ms, row.plain.p99_ms, lode.p99_ms), (51.0, 100.0, 50.0));
        assert_eq!(lode.write_amplification, None, "there is no disk under /proc");
    }

    #[test]
    fn a_refusal_ends_the_case_for_lode_and_a_signal_for_both() {
        for lode in [(|_: &Path, _, _| fake(50, 3)) as super::super::case::Make, |_, _, _| Err(full())] {
            let row = run(lode, &|| false).unwrap();
            assert_eq!(row.lode, Err("the drive is full: 2 bytes are needed, 1 are free".into()));
            assert!(row.ratio.is_none() && row.plain.rate > 0.0);
        }
        assert!(matches!(run(|_, _, _| fake(50, 99), &|| true), Err(DriveError::Stopped)));
    }
}
