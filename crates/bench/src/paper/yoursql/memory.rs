//! Fig. 7: the gain of Q2 with more and less memory.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::rig::Rig;
use super::systems::{ENABLED, System};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "memory",
    about: "Fig. 7: the gain of Q2 by the size of the buffer pool",
    claim: "With half of the memory Q2 gains 64 times, with all of it 44, with four times as much 7.",
    setup: "The buffer pool is 0.5, 1, 2 and 4 times 7.5 % of the data. Each run begins with an empty pool.",
    expected: "MySQL looks the same pages up again and again, so it gains by memory; YourSQL looks few up.",
    differs: "With four times the memory the pool holds 30 % of the data.",
    sizes: &[scales::PERCENT],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// Multiples of the paper's memory, and the published gain.
const SIZES: [(f64, Option<f64>); 4] = [(0.5, Some(64.0)), (1.0, Some(44.0)), (2.0, None), (4.0, Some(7.0))];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let q2 = ENABLED.iter().find(|q| q.number == 2).expect("Q2 is filtered early");
    let mut rows = Vec::new();
    for (times, published) in SIZES {
        run.go_on()?;
        let rig = Rig::of(run)?;
        rig.with_pool(times)?;
        let mut seconds = Vec::new();
        for system in [System::MySql, System::YourSql] {
            let took = system.run(rig, q2)?;
            let row = |metric: &str, unit, ours, note: &str| {
                Row::new(Method::Executed, system.name(), X::Number(times), metric, unit, ours, note)
            };
            seconds.push(took.time.as_secs_f64());
            rows.push(row("time", "s", took.time.as_secs_f64(), system.about()));
            let pages: u64 = took.reads.iter().map(|(_, pages)| pages).sum();
            rows.push(row(
                "pages read",
                "",
                pages as f64,
                "pages of rows that the drive sent to the host's pool",
            ));
        }
        rows.push(Row {
            published,
            aim: Aim::Equal,
            ..Row::new(
                Method::Executed,
                System::YourSql.name(),
                X::Number(times),
                "speed-up over MySQL",
                "x",
                seconds[0] / seconds[1],
                "four fifths of the pool are for pages of tables, one for those of indexes",
            )
        });
    }
    Rig::of(run)?.with_pool(1.0)?;
    Ok(rows)
}
