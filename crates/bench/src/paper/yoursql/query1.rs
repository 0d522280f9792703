//! Table 4: the time of Query 1, and what each stage of the data path adds.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::Part;
use lode_sql::Offload;

use super::filters::QUERY_1;
use super::movers;
use super::rig::{Pages, Rig, Took};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The table.
pub const FIGURE: Figure = Figure {
    name: "query1",
    about: "Table 4: the time of Query 1",
    claim: "A selection of 1 in 250 rows of part takes 15.9 s with MySQL and 2.2 s with YourSQL: a speed-up of 7.",
    setup: "SELECT p_partkey, p_mfgr FROM part WHERE p_size = 15 AND p_type LIKE '%BRASS', from an empty buffer pool. MySQL: row pages of 16 KB, \
            all of them to the host, read ahead. YourSQL: row pages of 4 KB, hints of the matcher and the filter, bulk reads.",
    expected: "YourSQL is bound by the rate of the matchers, MySQL by the host's work for each row. A strong host would scan column pages.",
    differs: "Times are of a smaller scale. MySQL's time for a row is an estimate ([h] in the profile).",
    sizes: &[scales::PERCENT],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// One way to run the query.
pub(super) struct System {
    name: &'static str,
    pages: Pages,
    level: Offload,
    prefetch: bool,
    note: &'static str,
}

/// The baseline.
pub(super) const MYSQL: System = System {
    name: "MySQL",
    pages: Pages::MYSQL,
    level: Offload::Off,
    prefetch: true,
    note: "row pages of 16 KB, bulk reads of 16 pages, four under way: as many as InnoDB reads ahead",
};

/// All three stages.
pub(super) const YOURSQL: System = System {
    name: "YourSQL",
    pages: Pages::YOURSQL,
    level: Offload::Hints,
    prefetch: true,
    note: "matcher, filter on the device's cores, and bulk reads of the flagged pages while the drive looks at the next",
};

const OTHERS: [System; 6] = [
    System {
        name: "MySQL, a read at a time",
        pages: Pages::MYSQL,
        level: Offload::Off,
        prefetch: false,
        note: "row pages of 16 KB; the host waits for each page, and works on it before it asks for the next",
    },
    System {
        name: "matcher",
        pages: Pages::YOURSQL,
        level: Offload::Matches,
        prefetch: false,
        note: "hints of the matcher alone (Opt-P); the host reads the flagged pages one by one",
    },
    System {
        name: "matcher and filter",
        pages: Pages::YOURSQL,
        level: Offload::Hints,
        prefetch: false,
        note: "hints of matcher and filter (Opt-PS); the host reads the flagged pages one by one",
    },
    System {
        name: "rows from the drive",
        pages: Pages::YOURSQL,
        level: Offload::Rows,
        prefetch: true,
        note: "ours: page index, matcher and filter in the drive, which sends the rows that pass; the host reads no page",
    },
    System {
        name: "column pages, host",
        pages: Pages::Columns,
        level: Offload::Off,
        prefetch: true,
        note: "the strong host: it reads four columns, compressed, at the full rate of the link",
    },
    System {
        name: "column pages, auto",
        pages: Pages::Columns,
        level: Offload::Auto,
        prefetch: true,
        note: "ours: the drive filters column pages on its cores where that saves the link",
    },
];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mysql = of(run, &MYSQL)?;
    let yoursql = of(run, &YOURSQL)?;
    let mut rows = vec![time(&MYSQL, &mysql, Some(15.9)), time(&YOURSQL, &yoursql, Some(2.2))];
    let speed_up = mysql.time.as_secs_f64() / yoursql.time.as_secs_f64();
    rows.push(Row {
        published: Some(7.0),
        ..Row::new(
            Method::Executed,
            "YourSQL",
            X::None,
            "speed-up",
            "x",
            speed_up,
            &format!("MySQL's time to YourSQL's; {}", movers::noted(movers::QUERY_1)),
        )
    });
    for (system, took) in [(&MYSQL, &mysql), (&YOURSQL, &yoursql)] {
        rows.extend(parts(system, took));
    }
    rows.extend(stages(&YOURSQL, &yoursql));
    for system in &OTHERS {
        let took = of(run, system)?;
        rows.push(time(system, &took, None));
        let ratio = mysql.time.as_secs_f64() / took.time.as_secs_f64();
        rows.push(Row::new(Method::Executed, system.name, X::None, "speed-up", "x", ratio, system.note));
    }
    Ok(rows)
}

fn of(run: &mut Run<'_>, system: &System) -> Result<Took, BenchError> {
    run.go_on()?;
    of_rig(Rig::of(run)?, system)
}

/// Runs Query 1.
pub(super) fn of_rig(rig: &mut Rig, system: &System) -> Result<Took, BenchError> {
    let (name, _) = rig.table(QUERY_1.table, system.pages)?;
    let sql = format!("SELECT p_partkey, p_mfgr FROM {name} WHERE {}", QUERY_1.condition);
    rig.run(&sql, system.level, system.prefetch)
}

fn time(system: &System, took: &Took, published: Option<f64>) -> Row {
    let seconds = took.time.as_secs_f64();
    Row {
        published,
        aim: Aim::NotCompared,
        ..Row::new(Method::Executed, system.name, X::None, "time", "s", seconds, system.note)
    }
}

/// What the time was spent on.
fn parts(system: &System, took: &Took) -> Vec<Row> {
    let row = |part: Part| {
        let (metric, of_it) =
            (format!("{}'s part of the time", part.name()), took.split.of(part).as_secs_f64());
        let note = "the host waits for this part, or computes; parts that overlap are counted once";
        Row::new(Method::Executed, system.name, X::None, &metric, "s", of_it, note)
    };
    Part::ALL.into_iter().map(row).collect()
}

/// Pages by stage.
fn stages(system: &System, took: &Took) -> Vec<Row> {
    let c = took.counts;
    let matched = c.pages - c.pages_skipped - c.pages_unmatched;
    [
        ("pages", c.pages, "pages of the table"),
        ("pages with the keys", matched, "what the matcher lets through"),
        ("pages to the host", took.flagged(), "what the filter lets through"),
        (
            "rows on the device's cores",
            c.rows_in,
            "rows that the filter visited, up to the first that passes in each page",
        ),
    ]
    .map(|(metric, n, note)| Row::new(Method::Executed, system.name, X::None, metric, "", n as f64, note))
    .into()
}
