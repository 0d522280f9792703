//! The scale of the tables, and a quarter of it: which ratios depend on it.
//!
//! ```text
//!   rows of a figure at the scale ─┬─► a row for each number that is compared, and its value at a quarter of the scale beside it
//!   rows at a quarter of it ───────┘    they differ by more than 5 %: it is not compared with the published one
//! ```

use std::any::Any;

use lode_base::Profile;

use crate::BenchError;
use crate::paper::row::{Aim, Row};
use crate::paper::run::{Run, SizeOption};

/// The scale of TPC-H, in percent.
pub(super) const PERCENT: SizeOption = SizeOption {
    name: "scale-percent",
    about: "Scale of TPC-H's tables in percent; at 100 the run takes an hour and 16 GB",
    default: 25,
    allowed: 4..=100,
};

/// The second scale, as a part of the first.
const PART: f64 = 0.25;
/// Ratios at two scales that differ by more, relative to the first, depend on the scale.
const DIFFER: f64 = 0.05;

/// What the figures of a paper run on: a database with tables of TPC-H.
pub(super) trait AtScale: Any + Sized {
    /// The scale of its tables in a quick run.
    const QUICK_SCALE: f64;

    /// An empty one for tables of this scale, or one with its tables.
    fn at(profile: &Profile, scale: f64) -> Result<Self, BenchError>;
}

/// The rigs that the figures of a paper share.
struct Rigs<R> {
    at_scale: Option<R>,
    at_part: Option<R>,
    /// Whether figures run at a part of the scale now.
    is_part: bool,
}

impl<R> Default for Rigs<R> {
    fn default() -> Self {
        Self { at_scale: None, at_part: None, is_part: false }
    }
}

fn rigs<'a, R: AtScale>(run: &'a mut Run<'_>) -> Result<&'a mut Rigs<R>, BenchError> {
    run.shared(|_| Ok(Rigs::default()))
}

fn scale<R: AtScale>(run: &Run<'_>) -> f64 {
    if run.quick() { R::QUICK_SCALE } else { run.size(&PERCENT) as f64 / 100.0 }
}

/// The rig of the scale at which figures run now.
pub(super) fn rig<'a, R: AtScale>(run: &'a mut Run<'_>) -> Result<&'a mut R, BenchError> {
    let (profile, scale) = (run.profile(), scale::<R>(run));
    let rigs = rigs::<R>(run)?;
    let (rig, scale) = match rigs.is_part {
        true => (&mut rigs.at_part, scale * PART),
        false => (&mut rigs.at_scale, scale),
    };
    if rig.is_none() {
        *rig = Some(R::at(profile, scale)?);
    }
    Ok(rig.as_mut().expect("it is there"))
}

/// Rows at the scale, and beside those that are ratios or are compared what they are at a quarter of it. A quick run has one scale.
pub(super) fn beside_a_quarter<R: AtScale>(
    run: &mut Run<'_>,
    rows: impl Fn(&mut Run<'_>) -> Result<Vec<Row>, BenchError>,
) -> Result<Vec<Row>, BenchError> {
    let mut at_scale = rows(run)?;
    if run.quick() {
        return Ok(at_scale);
    }
    rigs::<R>(run)?.is_part = true;
    let at_part = rows(run);
    rigs::<R>(run)?.is_part = false;
    let at_part = at_part?;
    let part = scale::<R>(run) * PART;
    for row in &mut at_scale {
        if let Some(found) =
            at_part.iter().find(|r| (&r.series, &r.x, &r.metric) == (&row.series, &row.x, &row.metric))
        {
            set_beside(row, found.ours, part);
        }
    }
    Ok(at_scale)
}

/// Notes beside a row what it is at another scale. A row that is compared and differs by more than 5 % is compared no more.
fn set_beside(row: &mut Row, ours: f64, scale: f64) {
    let is_compared = row.published.is_some() && row.aim != Aim::NotCompared;
    if !is_compared && row.unit != "x" {
        return;
    }
    row.note = format!("{ours:.4} at scale {scale}; {}", row.note);
    let differs = ours != row.ours && (ours / row.ours - 1.0).abs() > DIFFER;
    if is_compared && differs {
        row.aim = Aim::NotCompared;
        row.note = format!("not counted, since it depends on the scale: {}", row.note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::row::{Method, X};

    #[test]
    fn a_ratio_that_depends_on_the_scale_is_not_counted() {
        let after = |unit, published, ours| {
            let mut row = Row { published, ..Row::new(Method::Executed, "", X::None, "", unit, 10.0, "why") };
            set_beside(&mut row, ours, 0.5);
            (row.is_met(), row.note)
        };
        assert_eq!(after("x", Some(10.0), 9.6), (Some(true), "9.6000 at scale 0.5; why".into()));
        let (met, note) = after("x", Some(10.0), 9.4);
        assert_eq!(met, None);
        assert!(note.starts_with("not counted, since it depends on the scale: 9.4"), "{note}");
        assert_eq!(after("x", None, 2.0), (None, "2.0000 at scale 0.5; why".into()));
        assert_eq!(after("s", None, 2.0), (None, "why".into()));
    }
}
