//! Figs 4, 10 and 11, TPC-C: NewOrder and Payment by each configuration.
//!
//! ```text
//!   tables with a key of one number, in its order ─► no tree: no index, FLIXR-S, FLIXR-HS, levels
//!                                                 ├─► a tree of rows on each key: in the host, with all its nodes, in the drive
//!                                                 └─► a tree by page on each key
//! ```
//!
//! Claim, setup and expected shape: [`FIGURE`].

use std::cell::Cell;

use lode_base::Profile;
use lode_base::random::Random;
use lode_engine::TreePlace;
use lode_firmware::DriveOptions;

use super::rig::{NODES, PAGE_BYTES, Rig, Took};
use super::systems::{
    CLUSTERED, FLIXR_HS, FLIXR_S, IDEAL_TREE, LEVELS, NO_INDEX, Strongest, System, TREE_IN_DRIVE,
    TREE_OF_PAGES, TREE_OF_ROWS,
};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales::{self, AtScale};

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "tpcc",
    about: "Figs 4, 10 and 11, TPC-C: NewOrder and Payment by each configuration",
    claim: "Against the tree in the host FLIXR-S makes 59 % and FLIXR-HS 55 % more transactions in the same time. The tree takes 63 % of the time.",
    setup: "32 warehouses for each unit of scale, so 8 and 2: stock of 100,000 rows each, 30,000 customers, orders and ten lines of each. Keys are one \
            number, and pages of 16 KB in their order. Half of the transactions are NewOrders of ten items, half Payments, each durable. \
            20 run first, 60 are measured, one after the other. Each row is found by its key in a statement of its own.",
    expected: "FLIXR-S looks at the entry of each page of a table for each row: of stock, some 2,000 pages a warehouse, at 30 cycles an entry. \
               With 100 warehouses that is 5.7 ms, where a page is read in 0.2: it cannot be the fastest there.",
    differs: "Payment finds customers by number, not by name, and there is no other terminal. All configurations have the page index, \
              which takes the drive 30 cycles a page that is written. They run one after the other on the same tables, which grow.",
    sizes: &[scales::PERCENT, NODES],
    rows: |run| scales::beside_a_quarter::<Warehouses>(run, rows),
    plot: None,
};

/// Warehouses at scale 1.
const WAREHOUSES: f64 = 32.0;
/// Those of the paper.
const PAPER_WAREHOUSES: f64 = 100.0;
const MEASURED: usize = 60;
const QUICK_MEASURED: usize = MEASURED / 6;
const SEED: u64 = 1992;
const ITEMS: u64 = 100_000;
const CUSTOMERS: u64 = 30_000;
const DISTRICTS: u64 = 10;
const LINES: u64 = 10;

/// A table: its name, its key, its other columns, its rows a warehouse, and what they are made of. `i` is the number of a row.
const TABLES: [(&str, &str, &str, u64, &str); 6] = [
    ("warehouse", "w_key", "w_ytd BIGINT, w_name TEXT", 1, "0, 'warehouse'"),
    ("district", "d_key", "d_next BIGINT, d_ytd BIGINT", DISTRICTS, "3001, 0"),
    (
        "customer",
        "c_key",
        "c_balance BIGINT, c_payments BIGINT, c_data TEXT",
        CUSTOMERS,
        "-1000, 1, repeat('customer ' || i, 45)",
    ),
    (
        "stock",
        "s_key",
        "s_quantity BIGINT, s_ytd BIGINT, s_data TEXT",
        ITEMS,
        "50, 0, repeat('stock ' || i, 25)",
    ),
    ("orders", "o_key", "o_customer BIGINT, o_lines BIGINT", CUSTOMERS, "i, 10"),
    (
        "order_line",
        "ol_key",
        "ol_item BIGINT, ol_quantity BIGINT, ol_amount BIGINT, ol_info TEXT",
        CUSTOMERS * LINES,
        "i % 100000, 5, 0, 'information on a line'",
    ),
];

/// Tables of so many warehouses.
struct Warehouses {
    rig: Rig,
    /// One at least. Tables of less than one have a part of its rows.
    count: u64,
    /// Items and customers of a warehouse.
    items: u64,
    customers: u64,
    /// Orders that were made.
    orders: Cell<u64>,
}

impl AtScale for Warehouses {
    const QUICK_SCALE: f64 = 0.1 / WAREHOUSES;

    fn at(profile: &Profile, scale: f64) -> Result<Self, BenchError> {
        let warehouses = WAREHOUSES * scale;
        // Memory of the device as a part of what 100 warehouses have.
        let mut profile = profile.clone();
        let buffer_kb = f64::from(profile.dram.buffer_kb) * warehouses / PAPER_WAREHOUSES;
        profile.dram.buffer_kb = (buffer_kb as u32).max((PAGE_BYTES / 1024) as u32);
        let rig = Rig::unscaled(&profile, scale, DriveOptions::default())?;
        let count = warehouses.round().max(1.0);
        let part = (warehouses / count).min(1.0);
        // Warehouses and districts are whole.
        let of_part = |rows: u64| if rows > DISTRICTS { (rows as f64 * part) as u64 } else { rows };
        for (name, key, columns, rows, values) in TABLES {
            let options = format!(
                "WITH (layout = 'row', page_bytes = {PAGE_BYTES}, encoding = 'plain', page_index = '{key}', cluster_by = '{key}')"
            );
            rig.execute(&format!("CREATE TABLE {name} ({key} BIGINT NOT NULL, {columns}) {options}"))?;
            let all = of_part(rows) * count as u64;
            rig.execute(&format!(
                "INSERT INTO {name} SELECT i, {values} FROM generate_series(0, {}) AS g(i)",
                all - 1
            ))?;
        }
        rig.execute("CREATE TABLE history (h_customer BIGINT, h_amount BIGINT) WITH (layout = 'row', page_bytes = 16384)")?;
        Ok(Self {
            rig,
            count: count as u64,
            items: of_part(ITEMS),
            customers: of_part(CUSTOMERS),
            orders: Cell::new(0),
        })
    }
}

/// The configurations, by the trees that they need: none, of rows, of pages.
const BY_TREES: [(Option<&str>, &[&System]); 3] = [
    (Some("rows"), &[&TREE_OF_ROWS, &IDEAL_TREE, &TREE_IN_DRIVE]),
    (Some("pages"), &[&TREE_OF_PAGES]),
    (None, &[&NO_INDEX, &FLIXR_S, &FLIXR_HS, &CLUSTERED, &LEVELS]),
];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let percent = run.size(&NODES);
    let measured = if run.quick() { QUICK_MEASURED } else { MEASURED };
    let mut took: Vec<(&System, Took)> = Vec::new();
    let mut tree_bytes = 0;
    for (entries, systems) in BY_TREES {
        let all = scales::rig::<Warehouses>(run)?;
        // The memory is a share of the trees of rows, which come first.
        let bytes = all.with_trees(entries)?;
        tree_bytes = tree_bytes.max(bytes);
        for system in systems {
            run.go_on()?;
            let all = scales::rig::<Warehouses>(run)?;
            let percent = system.nodes_percent.unwrap_or(percent);
            took.push((system, all.transactions(system, tree_bytes * percent / 100, measured)?));
        }
    }
    let tree = took[0].1;
    let bare = took.iter().find(|(system, _)| system.name == CLUSTERED.name).expect("it ran").1;
    let strongest = Strongest::of(took.iter().map(|(system, took)| (*system, took.ms())));
    let mut rows = Vec::new();
    for (system, took) in &took {
        let row = |metric: &str, unit, ours, note: &str| {
            Row::new(Method::Executed, system.name, X::Name("TPC-C".into()), metric, unit, ours, note)
        };
        let published = match system.name {
            "FLIXR-S" => Some(1.59),
            "FLIXR-HS" => Some(1.55),
            _ => None,
        };
        let each = |of: f64| of / measured as f64;
        let nodes = format!("and {:.1} nodes", each(took.nodes_read as f64));
        rows.push(row("time of a transaction", "ms", each(took.ms()), &took.spent()));
        rows.push(row("bytes to the host of each", "kB", each(took.link_bytes as f64) / 1e3, &nodes));
        let beside = row("rate beside the tree of rows", "x", tree.ms() / took.ms(), system.note);
        let aim = if published.is_some() { Aim::Equal } else { Aim::NotCompared };
        rows.push(Row { published, aim, ..beside });
        rows.extend(strongest.beside(system, "TPC-C", took.ms()));
    }
    let share = (tree.ms() - bare.ms()) / tree.ms() * 100.0;
    let note = "what is over the time of the same pages named by the inner nodes of a clustered tree";
    let row = Row::new(
        Method::Executed,
        TREE_OF_ROWS.name,
        X::Name("TPC-C".into()),
        "time in the tree",
        "%",
        share,
        note,
    );
    rows.push(Row { published: Some(63.0), aim: Aim::Equal, ..row });
    let lookup = 188_700.0 * 30.0 / 1e9 * 1e3;
    let note = "188,700 entries of stock with 100 warehouses at 30 cycles of 1 GHz";
    let x = X::Name("TPC-C".into());
    rows.push(Row::new(Method::Arithmetic, "FLIXR-S", x, "entries for a row of stock", "ms", lookup, note));
    Ok(rows)
}

/// The time of a few transactions by each of these configurations, in milliseconds, with a tenth of a warehouse.
pub(super) fn times(profile: &Profile, systems: &[&System], percent: u64) -> Result<Vec<f64>, BenchError> {
    let mut all = Warehouses::at(profile, Warehouses::QUICK_SCALE)?;
    let mut times = vec![0.0; systems.len()];
    let mut tree_bytes = 0;
    let place = |system: &System| systems.iter().position(|s| s.name == system.name);
    for (entries, of_trees) in BY_TREES {
        let wanted: Vec<_> = of_trees.iter().filter_map(|s| Some((*s, place(s)?))).collect();
        if wanted.is_empty() {
            continue;
        }
        tree_bytes = tree_bytes.max(all.with_trees(entries)?);
        for (system, n) in wanted {
            times[n] = all.transactions(system, tree_bytes * percent / 100, QUICK_MEASURED)?.ms();
        }
    }
    Ok(times)
}

impl Warehouses {
    /// Makes the trees on the keys whose entries name rows or pages, in place of those that are there. Answers their bytes.
    fn with_trees(&mut self, entries: Option<&str>) -> Result<u64, BenchError> {
        for (name, key, ..) in TABLES {
            self.rig.execute(&format!("DROP INDEX IF EXISTS {name}_tree"))?;
            if let Some(entries) = entries {
                let with = format!("WITH (entries = '{entries}')");
                self.rig.execute(&format!("CREATE INDEX {name}_tree ON {name} ({key}) {with}"))?;
            }
        }
        self.rig.with_all_nodes()?;
        self.look_at_trees()?;
        Ok(self.rig.held_bytes())
    }

    fn look_at_trees(&self) -> Result<(), BenchError> {
        let system = System { path: "btree", ..TREE_OF_ROWS };
        for (name, key, ..) in TABLES {
            self.rig.run(&format!("SELECT count(*) FROM {name} WHERE {key} >= 0"), &system)?;
        }
        Ok(())
    }

    /// Runs transactions, with memory for so many bytes of nodes; answers what those took that are measured.
    fn transactions(
        &mut self,
        system: &System,
        node_bytes: u64,
        measured: usize,
    ) -> Result<Took, BenchError> {
        self.rig.with_node_bytes(node_bytes)?;
        if system.searches_trees() {
            self.look_at_trees()?;
        }
        for (name, key, ..) in TABLES {
            self.rig.run(&format!("SELECT count(*) FROM {name} WHERE {key} = 0"), system)?;
        }
        if system.path == TREE_IN_DRIVE.path {
            self.rig.host().search_trees_in(TreePlace::Device);
        }
        let r = &mut Random::of_seed(SEED);
        let mut statements = |times: usize| -> Vec<String> {
            (0..times).flat_map(|n| if n % 2 == 0 { self.new_order(r) } else { self.payment(r) }).collect()
        };
        let (warm_up, measured) = (statements(measured / 3), statements(measured));
        self.rig.change_all(&warm_up, system)?;
        let took = self.rig.change_all(&measured, system)?;
        self.rig.host().search_trees_in(TreePlace::Host);
        Ok(took)
    }

    fn new_order(&self, r: &mut Random) -> Vec<String> {
        let warehouse = r.below(self.count);
        let district = warehouse * DISTRICTS + r.below(DISTRICTS);
        let customer = r.below(self.customers * self.count);
        // Numbers of orders go on behind those of the load.
        let order = self.customers * self.count + self.orders.get();
        self.orders.set(self.orders.get() + 1);
        let mut statements = vec![
            "BEGIN".into(),
            format!("SELECT w_name FROM warehouse WHERE w_key = {warehouse}"),
            format!("UPDATE district SET d_next = d_next + 1 WHERE d_key = {district}"),
            format!("SELECT c_balance FROM customer WHERE c_key = {customer}"),
            format!("INSERT INTO orders VALUES ({order}, {customer}, {LINES})"),
        ];
        let mut lines = Vec::new();
        for line in 0..LINES {
            let item = r.below(self.items);
            let stock = warehouse * self.items + item;
            statements.push(format!(
                "UPDATE stock SET s_quantity = (s_quantity + 86) % 91 + 10, s_ytd = s_ytd + 5 WHERE s_key = {stock}"
            ));
            lines.push(format!("({}, {item}, 5, 4200, 'information on a line')", order * LINES + line));
        }
        statements.push(format!("INSERT INTO order_line VALUES {}", lines.join(", ")));
        statements.push("COMMIT".into());
        statements
    }

    fn payment(&self, r: &mut Random) -> Vec<String> {
        let warehouse = r.below(self.count);
        let district = warehouse * DISTRICTS + r.below(DISTRICTS);
        let customer = r.below(self.customers * self.count);
        let amount = 100 + r.below(500_000);
        vec![
            "BEGIN".into(),
            format!("UPDATE warehouse SET w_ytd = w_ytd + {amount} WHERE w_key = {warehouse}"),
            format!("UPDATE district SET d_ytd = d_ytd + {amount} WHERE d_key = {district}"),
            format!(
                "UPDATE customer SET c_balance = c_balance - {amount}, c_payments = c_payments + 1 WHERE c_key = {customer}"
            ),
            format!("INSERT INTO history VALUES ({customer}, {amount})"),
            "COMMIT".into(),
        ]
    }
}
