//! The order of rows: a scan of lineitem in order of its key, in that of the generator, and after updates of a fifth of its rows.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::random::Random;

use super::expected;
use super::queries::statement;
use super::rig::{NODES, Order, Rig, Took, scan};
use super::systems::{FLIXR_HS, FLIXR_S, LEVELS, NO_INDEX, Strongest, System, TREE_OF_PAGES, TREE_OF_ROWS};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "orders",
    about: "Beyond the paper: scans of lineitem in other orders",
    claim: "The paper's lineitem has l_shipdate as its primary key. It does not say what happens in another order.",
    setup: "Eight scans of a month of l_shipdate. The rows lie in order of l_shipdate, as the generator makes them, or in order of l_shipdate \
            before a fifth of them got another date, up to 1,000 days later. Q4 of TPC-H over the second.",
    expected: "As generated, a page has the rows of some 28 orders of seven years: its range covers nearly all days, and half of the pages have \
               a row of a given month. Q4 joins a quarter's orders: of 28 orders a page, a page in three has none of them. After updates ranges reach up to 1,000 days further. A tree knows the rows, a range only its ends.",
    differs: "",
    sizes: &[scales::PERCENT, NODES],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

const SYSTEMS: [&System; 6] = [&TREE_OF_ROWS, &NO_INDEX, &FLIXR_S, &FLIXR_HS, &TREE_OF_PAGES, &LEVELS];
const TABLE: &str = "ordered";
const SCANS: usize = 8;
const SEED: u64 = 20;
/// Days of Q4's quarter, and days on which something is ordered. Source: TPC-H, clauses 2.4.4 and 4.2.3.
const QUARTER_DAYS: u32 = 92;
const ORDER_DAYS: u32 = 2406;

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let (percent, profile) = (run.size(&NODES), run.profile());
    let shared = Rig::of(run)?;
    shared.table(super::rig::TABLE)?;
    let (scale, (first, last)) = (shared.scale().factor(), shared.days());
    let node_bytes = shared.tree_bytes() * percent / 100;
    let r = &mut Random::of_seed(SEED);
    let mut month = |_| {
        let day = first + r.below((last - first - 31) as u64) as i32;
        scan(TABLE, day, 31)
    };
    let scans: Vec<String> = (0..SCANS).map(&mut month).collect();
    let mut rows = Vec::new();
    for (name, order, updates) in [
        ("by key", Order::ByKey, false),
        ("as generated", Order::Generated, false),
        ("by key, a fifth updated", Order::ByKey, true),
    ] {
        run.go_on()?;
        let mut rig = Rig::with(profile, scale, lode_firmware::DriveOptions::default())?;
        rig.bare_table(TABLE, order, true)?;
        if updates {
            // An order has a key of which one in five is a multiple of 5.
            let set = format!("UPDATE {TABLE} SET l_shipdate = l_shipdate + CAST(l_partkey % 1000 AS INT)");
            rig.execute(&format!("{set} WHERE l_orderkey % 5 = 0"))?;
        }
        for entries in ["rows", "pages"] {
            let index =
                format!("CREATE INDEX {entries} ON {TABLE} (l_shipdate) WITH (entries = '{entries}')");
            rig.execute(&index)?;
        }
        let mut took: Vec<Took> = Vec::new();
        for system in SYSTEMS {
            run.go_on()?;
            rig.with_nodes_of(TABLE, node_bytes, system)?;
            if system.learns() {
                rig.run(&scans[0], system)?;
            }
            took.push(rig.run_all(&scans, system)?);
        }
        let strongest = Strongest::of(SYSTEMS.into_iter().zip(took.iter().map(Took::ms)));
        for (system, of_system) in SYSTEMS.iter().zip(&took) {
            let row = |metric: &str, unit, ours, note: &str| {
                Row::new(Method::Executed, system.name, X::Name(name.into()), metric, unit, ours, note)
            };
            let ratio = took[0].ms() / of_system.ms();
            rows.push(row("time", "ms", of_system.ms(), &of_system.spent()));
            rows.push(row(
                "pages",
                "",
                of_system.pages_read as f64,
                &format!("and {} nodes", of_system.nodes_read),
            ));
            rows.push(row("rate beside the tree of rows", "x", ratio, system.note));
            rows.extend(strongest.beside(system, name, of_system.ms()));
        }
        if order == Order::Generated {
            rows.extend(semi_join(&mut rig)?);
        }
    }
    Ok(rows)
}

/// Q4 over lineitem in order of l_orderkey: the pages without an order of its quarter, which an exact set of keys leaves out.
fn semi_join(rig: &mut Rig) -> Result<Vec<Row>, BenchError> {
    rig.table("orders")?;
    let q4 = statement(rig, &4).replace("lineitem", TABLE);
    let (text, _) = q4.split_once("EXISTS").expect("Q4 has a subquery");
    let quarter = text.trim_end().strip_suffix("AND").expect("a condition before it");
    let quarter = format!("{quarter} GROUP BY o_orderpriority ORDER BY o_orderpriority");
    let orders = rig.run(&quarter, &LEVELS)?.pages_read;
    let (of_table, lines) = rig.pages_and_rows(TABLE);
    let (_, all_orders) = rig.pages_and_rows("orders");
    let passing = f64::from(QUARTER_DAYS) / f64::from(ORDER_DAYS);
    // Orders that begin on a page, and the one that lies across its beginning, if the page does not begin with an order.
    let orders_a_page = all_orders as f64 / of_table as f64 + 1.0 - all_orders as f64 / lines as f64;
    let lacking = expected::page_lacks(passing, orders_a_page) * 100.0;
    let x = || X::Name("Q4, as generated".into());
    let metric = "pages of lineitem left out";
    let note = format!(
        "{:.1} orders a page of {:.0} rows, {:.2} % of which are of the quarter",
        orders_a_page,
        lines as f64 / of_table as f64,
        passing * 100.0
    );
    let mut rows = vec![Row::new(Method::Arithmetic, "a set of keys", x(), metric, "%", lacking, &note)];
    for system in [&NO_INDEX, &LEVELS] {
        let others = if system.path == LEVELS.path { orders } else { rig.pages_and_rows("orders").0 };
        let read = rig.run(&q4, system)?.pages_read.saturating_sub(others);
        let left_out = (1.0 - read as f64 / of_table as f64) * 100.0;
        rows.push(Row::new(
            Method::Executed,
            system.name,
            x(),
            metric,
            "%",
            left_out,
            &format!("{read} of {of_table} pages were read"),
        ));
    }
    Ok(rows)
}
