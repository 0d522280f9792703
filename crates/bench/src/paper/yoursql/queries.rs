//! Table 5, Fig. 8, Fig. 9 and Table 7: the queries that the paper filters early, on each system.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::movers;
use super::rig::{Rig, Took};
use super::systems::{ENABLED, Enabled, System};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "queries",
    about: "Table 5, Fig. 8, Fig. 9, Table 7: the queries that are filtered early",
    claim: "Q14 takes 1/167 of its time, Q2 1/44. The five queries that gain most gain 15 times on average, all 22 1.9 times. Of that the software filter \
            gives up to 1.21 and the prefetch up to 3. Q2 takes 1/24 of its energy.",
    setup: "Each query from an empty buffer pool of 7.5 % of the data, in modelled time, with the table filtered early that the paper filters. MySQL joins \
            in the order of a real MariaDB. The other 14 queries take the same time on both systems, as the paper says.",
    expected: "Most of the gain over MySQL comes from its nested loops, not from the filter: a strong host gains as much without it.",
    differs: "The rows say how much the order alone gains, and what a host with hash joins over column pages takes.",
    sizes: &[scales::PERCENT],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// The queries of the paper's figure of 22.
const QUERIES: f64 = 22.0;
/// Those that gain most.
const BEST: usize = 5;

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    let mut gains = Vec::new();
    for query in &ENABLED {
        let mut all = Vec::new();
        for system in System::ALL {
            run.go_on()?;
            all.push((system, system.run(Rig::of(run)?, query)?));
        }
        rows.extend(of_query(query, &all));
        gains.push(speed_up(&all, System::MySql, System::YourSql));
    }
    gains.sort_by(f64::total_cmp);
    let product = |of: &[f64]| of.iter().map(|g| g.ln()).sum::<f64>();
    let best = (product(&gains[gains.len() - BEST..]) / BEST as f64).exp();
    let all = (product(&gains) / QUERIES).exp();
    let mean = |x: &str, published, aim, ours, note: &str| Row {
        published: Some(published),
        aim,
        ..Row::new(Method::Executed, "YourSQL", X::Name(x.into()), "mean speed-up", "x", ours, note)
    };
    rows.push(mean("best five", 15.0, Aim::AtLeast, best, "geometric"));
    rows.push(mean("all 22", 1.9, Aim::Equal, all, "geometric; the other 14 count as 1, as in the paper"));
    Ok(rows)
}

fn speed_up(all: &[(System, Took)], of: System, to: System) -> f64 {
    let time = |system| {
        let found = all.iter().find(|(s, _)| *s == system);
        found.expect("each system ran").1.time.as_secs_f64()
    };
    time(of) / time(to)
}

fn of_query(query: &Enabled, all: &[(System, Took)]) -> Vec<Row> {
    let name = format!("Q{}", query.number);
    let row = |system: System, metric: &str, unit, ours, note: &str| {
        Row::new(Method::Executed, system.name(), X::Name(name.clone()), metric, unit, ours, note)
    };
    let mut rows = Vec::new();
    for (system, took) in all {
        let pages: u64 = took.reads.iter().map(|(_, pages)| pages).sum();
        rows.push(row(*system, "time", "s", took.time.as_secs_f64(), system.about()));
        rows.push(row(
            *system,
            "pages read",
            "",
            pages as f64,
            "pages of rows that the drive sent to the host's pool",
        ));
        rows.push(row(*system, "node reads", "", took.node_reads as f64, "nodes of indexes"));
        rows.push(row(
            *system,
            "energy",
            "J",
            took.energy.total(),
            "of the drive and the host, idle power among it",
        ));
        if *system != System::MySql {
            let published = query.published.filter(|_| *system == System::YourSql);
            let ratio = speed_up(all, System::MySql, *system);
            let rests_on = movers::noted(&name);
            let note = match published {
                Some(_) if !rests_on.is_empty() => format!("{}; {rests_on}", system.about()),
                _ => system.about().into(),
            };
            rows.push(Row { published, ..row(*system, "speed-up over MySQL", "x", ratio, &note) });
        }
    }
    let gain =
        |metric: &str, of, to, note: &str| row(System::YourSql, metric, "x", speed_up(all, of, to), note);
    rows.push(gain(
        "gain of the order",
        System::MySql,
        System::NewOrder,
        "MySQL's time to that with the filtered table first",
    ));
    rows.push(gain(
        "gain of the matcher",
        System::NewOrder,
        System::OptP,
        "with pages of 4 KB instead of 16 KB",
    ));
    rows.push(gain("gain of the software filter", System::OptP, System::OptPs, "up to 1.21 in the paper"));
    rows.push(gain("gain of the prefetch", System::OptPs, System::YourSql, "up to 3 in the paper"));
    rows.push(gain(
        "gain over the strong host",
        System::Strong,
        System::YourSql,
        "the headline: below 1 the strong host is faster",
    ));
    rows.push(row(
        System::Lode,
        "gain over the strong host",
        "x",
        speed_up(all, System::Strong, System::Lode),
        "ours",
    ));
    if query.number == 2 {
        let energy = |system| {
            let found = all.iter().find(|(s, _)| *s == system);
            found.expect("each system ran").1.energy.total()
        };
        rows.push(Row {
            published: Some(131.0 / 5.3),
            aim: Aim::NotCompared,
            ..row(
                System::YourSql,
                "energy of MySQL to YourSQL's",
                "x",
                energy(System::MySql) / energy(System::YourSql),
                &format!(
                    "the paper's meter measured a whole server, which drew 119 and 212 W on average; {}",
                    movers::noted(movers::Q2_ENERGY)
                ),
            )
        });
    }
    rows
}
