//! The refresh functions of TPC-H: RF1 inserts new orders with their line items, RF2 deletes old ones.
//!
//! ```text
//!   set     1 ... 1000     1001      1002  ...      each has a thousandth of the orders
//!           loaded         RF1 of    RF1 of         round n: RF1 inserts set 1000 + n, RF2 deletes set n
//!                          round 1   round 2
//!   gap     0              1, and 2 from set 2001, 3 from set 3001
//! ```
//!
//! An order key is the number of an order with two more bits above its lowest three: the *gap*. So of 32 keys 8 are loaded,
//! and 24 are left for RF1. The keys of set 1000 + n lie between those of set n. Example: orders 1 to 9 are loaded with the
//! keys 1 to 7, 32 and 33. Numbers 1 to 9 in gap 1 are the keys 9 to 15, 40 and 41.
//!
//! The rows of a set come from the generator of the loaded rows, whose sequences continue behind the last loaded order. So
//! they depend on the scale and the set only. The TPC's `dbgen` makes its refresh sets in this way too.
//!
//! Source: TPC-H revision 3.0.1, clauses 2.5 to 2.7 (refresh functions) and 4.2.3 (order keys). An order and its line items
//! are one transaction; clause 2.5 allows any number of orders in one.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch, RecordBatchIterator};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use lode_sql::{Prepared, ScalarValue, Session, SqlError, Statement, StatementResult};
use tpchgen::generators::{LineItemGenerator, OrderGenerator};
use tpchgen_arrow::{LineItemArrow, OrderArrow};

use super::Scale;
use super::data::{Batches, rows_expected};
use super::schema::TABLES;
use crate::BenchError;

/// The sets of loaded orders. A round changes a thousandth of them, as the specification says.
pub const SETS: u32 = 1000;
/// The most rounds: there are three gaps for new keys.
pub const ROUNDS_MAX: u32 = 3 * SETS;

/// The bits of an order's number below the gap.
const LOW_BITS: u32 = 3;
/// The bits of the gap.
const GAP_BITS: u32 = 2;

/// The number of orders that each function of a round inserts or deletes. It is 0 if the scale has fewer than 1,000 orders.
pub fn orders_a_round(scale: Scale) -> u64 {
    loaded_orders(scale) / u64::from(SETS)
}

fn loaded_orders(scale: Scale) -> u64 {
    let orders = TABLES.iter().find(|t| t.name == "orders").expect("TPC-H has orders");
    rows_expected(orders, scale)
}

/// The key of an order in a gap.
fn key(number: i64, gap: i64) -> i64 {
    let low = number & ((1 << LOW_BITS) - 1);
    (number >> LOW_BITS << GAP_BITS | gap) << LOW_BITS | low
}

/// The number of an order in gap 0.
fn number(key: i64) -> i64 {
    key >> (LOW_BITS + GAP_BITS) << LOW_BITS | key & ((1 << LOW_BITS) - 1)
}

/// The rows of a set of `orders` or `lineitem`, in the order of their keys. Sets count from 1.
///
/// # Panics
/// If the table has no refresh sets.
pub fn set(table: &str, scale: Scale, set: u32) -> Batches {
    let (s, part, parts) = (scale.factor(), set as i32, SETS as i32);
    let generated: Batches = match table {
        "orders" => Box::new(OrderArrow::new(OrderGenerator::new(s, part, parts))),
        "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(s, part, parts))),
        other => panic!("no refresh function changes {other}"),
    };
    let gap = i64::from((set - 1) / SETS);
    // The generator numbers the orders of all sets without end, and knows no gaps.
    let before = gap * i64::from(SETS) * orders_a_round(scale) as i64;
    let schema = generated.schema();
    let moved = move |batch: Result<RecordBatch, ArrowError>| {
        let batch = batch?;
        let mut columns = batch.columns().to_vec();
        let keys: Int64Array = columns[0].as_primitive::<Int64Type>().unary(|k| key(number(k) - before, gap));
        columns[0] = Arc::new(keys);
        RecordBatch::try_new(batch.schema(), columns)
    };
    Box::new(RecordBatchIterator::new(generated.map(moved), schema))
}

/// The rows of `orders` or `lineitem` after so many rounds, in the order of sets.
pub fn rows_after(table: &'static str, scale: Scale, rounds: u32) -> Batches {
    let schema = set(table, scale, 1).schema();
    let batches = (rounds + 1..=rounds + SETS).flat_map(move |n| set(table, scale, n));
    Box::new(RecordBatchIterator::new(batches, schema))
}

/// Rows in any order: their number, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// The number of rows.
    pub rows: u64,
    sum: u64,
}

impl Digest {
    /// The digest of all rows of these batches.
    ///
    /// # Errors
    /// If a batch is an error, or has values without a text.
    pub fn of(
        batches: impl IntoIterator<Item = Result<RecordBatch, ArrowError>>,
    ) -> Result<Self, ArrowError> {
        let mut digest = Self::default();
        let options = FormatOptions::default();
        for batch in batches {
            let batch = batch?;
            let columns = batch.columns().iter();
            let texts = columns
                .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
                .collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                let mut hasher = DefaultHasher::new();
                for (column, text) in batch.columns().iter().zip(&texts) {
                    hasher.write_u8(u8::from(column.is_null(row)));
                    hasher.write(text.value(row).to_string().as_bytes());
                    hasher.write_u8(0xFF);
                }
                digest.rows += 1;
                digest.sum = digest.sum.wrapping_add(hasher.finish());
            }
        }
        Ok(digest)
    }
}

/// The refresh functions on a database that holds the loaded rows.
pub struct Refresh<'a> {
    session: &'a Session,
    scale: Scale,
    begin: Statement,
    commit: Statement,
    insert_order: Prepared,
    insert_line: Prepared,
    delete_order: Prepared,
    delete_lines: Prepared,
}

/// The rows that a refresh function inserted or deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Rows of `orders`.
    pub orders: u64,
    /// Rows of `lineitem`.
    pub lines: u64,
}

impl<'a> Refresh<'a> {
    /// Prepares the statements.
    ///
    /// # Errors
    /// If a table is missing.
    pub async fn new(session: &'a Session, scale: Scale) -> Result<Self, BenchError> {
        let parsed = |sql: &str| -> Result<Statement, BenchError> {
            let one = Statement::parse(sql).map_err(|e| failed(sql, e))?.pop();
            Ok(one.expect("it is one statement"))
        };
        let prepared = async |sql: &str| session.prepare(sql).await.map_err(|e| failed(sql, e));
        Ok(Self {
            session,
            scale,
            begin: parsed("BEGIN")?,
            commit: parsed("COMMIT")?,
            insert_order: prepared("INSERT INTO orders VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)").await?,
            insert_line: prepared(
                "INSERT INTO lineitem \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
            )
            .await?,
            delete_order: prepared("DELETE FROM orders WHERE o_orderkey = $1").await?,
            delete_lines: prepared("DELETE FROM lineitem WHERE l_orderkey = $1").await?,
        })
    }

    /// RF1 of a round: inserts its new orders, each with its line items in a transaction. Rounds count from 1.
    ///
    /// # Errors
    /// If a statement fails.
    pub async fn insert(&self, round: u32) -> Result<Changed, BenchError> {
        let (orders, lines) = (self.rows("orders", SETS + round)?, self.rows("lineitem", SETS + round)?);
        let (order_keys, line_keys) = (keys(&orders), keys(&lines));
        let mut changed = Changed::default();
        let mut line = 0;
        for (order, key) in order_keys.iter().enumerate() {
            self.control(&self.begin).await?;
            changed.orders += self.change(&self.insert_order, &values(&orders, order)?).await?;
            while line_keys.get(line) == Some(key) {
                changed.lines += self.change(&self.insert_line, &values(&lines, line)?).await?;
                line += 1;
            }
            self.control(&self.commit).await?;
        }
        let expected = Changed { orders: orders.num_rows() as u64, lines: lines.num_rows() as u64 };
        as_expected("RF1", round, changed, expected)
    }

    /// RF2 of a round: deletes its old orders, each with its line items in a transaction. Rounds count from 1.
    ///
    /// # Errors
    /// If a statement fails, or finds other rows than there must be.
    pub async fn delete(&self, round: u32) -> Result<Changed, BenchError> {
        let (orders, lines) = (self.rows("orders", round)?, self.rows("lineitem", round)?);
        let mut changed = Changed::default();
        for &key in keys(&orders) {
            let key = [ScalarValue::Int64(Some(key))];
            self.control(&self.begin).await?;
            changed.orders += self.change(&self.delete_order, &key).await?;
            changed.lines += self.change(&self.delete_lines, &key).await?;
            self.control(&self.commit).await?;
        }
        let expected = Changed { orders: orders.num_rows() as u64, lines: lines.num_rows() as u64 };
        as_expected("RF2", round, changed, expected)
    }

    fn rows(&self, table: &'static str, number: u32) -> Result<RecordBatch, BenchError> {
        let batches = set(table, self.scale, number);
        let schema = batches.schema();
        let all = batches.collect::<Result<Vec<_>, _>>().and_then(|all| concat_batches(&schema, &all));
        all.map_err(|e| failed(&format!("set {number} of {table}"), e.into()))
    }

    async fn control(&self, statement: &Statement) -> Result<(), BenchError> {
        self.session.run(statement).await.map(drop).map_err(|e| failed("a transaction of a refresh", e))
    }

    async fn change(&self, statement: &Prepared, values: &[ScalarValue]) -> Result<u64, BenchError> {
        match self.session.execute_prepared(statement, values).await {
            Ok(StatementResult::Count { rows, .. }) => Ok(rows),
            Ok(_) => panic!("a change counts its rows"),
            Err(e) => Err(failed("a refresh", e)),
        }
    }
}

fn keys(rows: &RecordBatch) -> &[i64] {
    rows.column(0).as_primitive::<Int64Type>().values()
}

fn values(rows: &RecordBatch, row: usize) -> Result<Vec<ScalarValue>, BenchError> {
    let value = |column: &Arc<dyn Array>| ScalarValue::try_from_array(column, row);
    let all = rows.columns().iter().map(value).collect::<Result<_, _>>();
    all.map_err(|e| failed("a generated row", e.into()))
}

fn as_expected(
    function: &'static str,
    round: u32,
    got: Changed,
    expected: Changed,
) -> Result<Changed, BenchError> {
    if got == expected {
        return Ok(got);
    }
    let text = |c: Changed| format!("{} orders and {} line items", c.orders, c.lines);
    Err(BenchError::Refresh(format!(
        "{function} of round {round} changed {}, not {}",
        text(got),
        text(expected)
    )))
}

fn failed(doing: &str, source: SqlError) -> BenchError {
    BenchError::sql(doing, source)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::data::generate;
    use super::*;

    fn all_keys(batches: Batches) -> Vec<i64> {
        batches.flat_map(|b| keys(&b.unwrap()).to_vec()).collect()
    }

    #[test]
    fn keys_fill_the_gaps() {
        assert_eq!([1, 7, 8, 9].map(|n| key(n, 0)), [1, 7, 32, 33]);
        assert_eq!([1, 7, 8, 9].map(|n| key(n, 1)), [9, 15, 40, 41]);
        assert_eq!(key(15, 3), 63);
        assert!((1..1000).all(|n| number(key(n, 0)) == n && key(n, 0) == OrderGenerator::make_order_key(n)));
    }

    #[test]
    fn the_first_sets_are_what_is_loaded() {
        let scale = Scale::new(0.01).unwrap();
        for table in ["orders", "lineitem"] {
            let loaded = Digest::of(generate(table, scale)).unwrap();
            assert_eq!(Digest::of(rows_after(table, scale, 0)).unwrap(), loaded, "{table}");
            let later = Digest::of(rows_after(table, scale, 1)).unwrap();
            assert_ne!(later, loaded);
        }
    }

    #[test]
    fn sets_have_keys_of_their_own_and_agree_between_tables() {
        let scale = Scale::new(0.001).unwrap();
        let mut seen = BTreeSet::new();
        for n in [1, 2, 1000, 1001, 1002, 2000, 2001, 3001, 4000] {
            let orders = all_keys(set("orders", scale, n));
            assert!(n == SETS || orders.len() as u64 == orders_a_round(scale), "set {n}");
            let lines: BTreeSet<i64> = all_keys(set("lineitem", scale, n)).into_iter().collect();
            assert_eq!(orders.iter().copied().collect::<BTreeSet<_>>(), lines, "set {n}");
            assert!(orders.iter().all(|k| seen.insert(*k)), "set {n} repeats a key");
        }
    }

    #[test]
    fn a_digest_is_of_rows_in_any_order() {
        let scale = Scale::new(0.001).unwrap();
        let sets = |order: [u32; 2]| order.into_iter().flat_map(move |n| set("orders", scale, n));
        assert_eq!(Digest::of(sets([1, 2])).unwrap(), Digest::of(sets([2, 1])).unwrap());
        assert_ne!(Digest::of(sets([1, 2])).unwrap(), Digest::of(sets([1, 3])).unwrap());
    }
}
