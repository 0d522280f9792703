//! Tables from a seed, whose values are skewed and depend on each other.
//!
//! ```text
//!   t0 ─ f1 ─► t1 ─ f3 ─► t3        a tree of references: a large table refers to smaller ones, and these to others
//!    └── f2 ─► t2                   id: the key    a: skewed    b: nearly decided by a    c: uniform    s: text of a
//! ```
//!
//! What an estimate from each column alone cannot know: a reference goes to the low ids far more often, and in half of the tables
//! `a` is low where the id is, so that a condition on `a` decides how many rows refer to a row that passes.

use lode_base::random::Random;

/// The fewest and most rows of a table at scale 1.
const ROWS: (u64, u64) = (1000, 1_000_000);
/// Values of `c`.
pub(super) const C_VALUES: u64 = 10_000;
/// A prime: hashes are below it.
const HASHES: u64 = 1_000_003;

/// A table.
#[derive(Clone, Debug)]
pub(super) struct TableSpec {
    pub(super) rows: u64,
    /// Values of `a`, of which the low ones are frequent.
    pub(super) a_values: u64,
    /// How skewed `a` is: 1 is uniform.
    a_skew: u64,
    /// Whether `a` is low where the id is.
    a_by_id: bool,
    /// `b` is `a / b_width` in nine of ten rows.
    pub(super) b_width: u64,
    /// The tables that this one refers to.
    pub(super) refers: Vec<Reference>,
}

/// A column that has ids of another table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) to: usize,
    /// How skewed the ids are: 1 is uniform.
    skew: u64,
}

/// So many tables. Each but the first is referred to by one of those before it.
pub(super) fn tables(r: &mut Random, count: usize, scale: f64) -> Vec<TableSpec> {
    let mut all: Vec<TableSpec> = Vec::with_capacity(count);
    for at in 0..count {
        // The first is the largest, so that there is something to choose.
        let rows = if at == 0 { ROWS.1 } else { log_uniform(r, ROWS.0, ROWS.1) };
        let rows = ((rows as f64 * scale) as u64).max(10);
        let a_values = log_uniform(r, 2, (rows / 2).clamp(3, 2000));
        all.push(TableSpec {
            rows,
            a_values,
            a_skew: r.between(1, 4),
            a_by_id: r.once_in(2),
            b_width: r.between(1, 5),
            refers: Vec::new(),
        });
        if at > 0 {
            let from = r.below(at as u64) as usize;
            let skew = r.between(1, 4);
            all[from].refers.push(Reference { to: at, skew });
        }
    }
    all
}

/// A number, with the same probability for each power of ten.
pub(super) fn log_uniform(r: &mut Random, low: u64, high: u64) -> u64 {
    let part = r.below(1 << 32) as f64 / (1u64 << 32) as f64;
    ((low as f64) * (high as f64 / low as f64).powf(part)) as u64
}

impl TableSpec {
    /// The statements that make the table of this number and its rows. `seed` decides the values.
    pub(super) fn statements(&self, number: usize, all: &[Self], seed: u64) -> Vec<String> {
        let mut columns = vec!["id BIGINT PRIMARY KEY".to_owned()];
        let mut values = vec!["v".to_owned()];
        for reference in &self.refers {
            columns.push(format!("f{} BIGINT", reference.to));
            let to = all[reference.to].rows;
            let share = share(seed, number * 10 + reference.to);
            values.push(format!(
                "CASE WHEN v % 53 = 7 THEN NULL ELSE CAST(floor(power({share}, {}) * {to}) AS BIGINT) END",
                reference.skew
            ));
        }
        let a_share = if self.a_by_id {
            format!("(CAST(v AS DOUBLE PRECISION) / {})", self.rows)
        } else {
            share(seed, 1000 + number)
        };
        let a = format!("CAST(floor(power({a_share}, {}) * {}) AS INT)", self.a_skew, self.a_values);
        let noise = share(seed, 2000 + number);
        let b = format!(
            "CASE WHEN {noise} < 0.1 THEN CAST(floor({noise} * 10 * {}) AS INT) ELSE {a} / {} END",
            self.b_values(),
            self.b_width
        );
        let c = format!("CAST(floor({} * {C_VALUES}) AS INT)", share(seed, 3000 + number));
        columns.extend(["a INT", "b INT", "c INT", "s VARCHAR"].map(str::to_owned));
        values.extend([a.clone(), b, c, format!("'value ' || {a}")]);
        vec![
            format!("CREATE TABLE t{number} ({})", columns.join(", ")),
            format!(
                "INSERT INTO t{number} SELECT {} FROM (SELECT CAST(n AS BIGINT) AS v FROM generate_series(0, {}) AS g(n)) AS g",
                values.join(", "),
                self.rows - 1
            ),
        ]
    }

    pub(super) fn b_values(&self) -> u64 {
        self.a_values.div_ceil(self.b_width)
    }
}

/// A share from 0 to 1 that a row's number decides, in SQL.
fn share(seed: u64, column: usize) -> String {
    let mut r = Random::of_seed(seed ^ (column as u64) << 32);
    let (factor, offset) = (r.between(100_000, 999_999), r.below(HASHES));
    // Twice, since a linear hash of consecutive numbers is too even.
    format!(
        "(CAST((((v * {factor} + {offset}) % {HASHES}) * {} + v / 7) % {HASHES} AS DOUBLE PRECISION) / {HASHES})",
        r.between(1000, 99_999)
    )
}
