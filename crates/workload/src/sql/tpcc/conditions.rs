//! The twelve consistency conditions as queries, whose rows are violations. Source: TPC-C 5.11, clause 3.3.2.
//!
//! [`crate::tpcc::check`] says in words what must hold. Each query reads one snapshot, and all of a check read the same.

use crate::sql::{Row, SqlConnection, Value};
use crate::store::{Intent, StoreError, StoreResult};
use crate::tpcc::{Sizes, Violations};

/// A condition.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Its number in the standard.
    pub number: u8,
    /// The rows that violate it, with columns that say where and what.
    pub sql: &'static str,
}

/// The conditions. Condition 5 takes two queries. In condition 11, `{delivered}` is the number of a district's orders
/// that are delivered at the beginning; the condition counts later deliveries, so it holds at any time.
pub const CONDITIONS: [Condition; 13] = [
    Condition {
        number: 1,
        sql: "SELECT w_id, w_ytd, ytd FROM warehouse \
            LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) d ON d_w_id = w_id \
            WHERE w_ytd <> coalesce(ytd, 0)",
    },
    Condition {
        number: 2,
        sql: "SELECT d_w_id, d_id, d_next_o_id, o, n FROM district \
            LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o FROM orders GROUP BY o_w_id, o_d_id) a \
            ON o_w_id = d_w_id AND o_d_id = d_id \
            LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS n FROM new_order GROUP BY no_w_id, no_d_id) b \
            ON no_w_id = d_w_id AND no_d_id = d_id \
            WHERE d_next_o_id - 1 <> coalesce(o, 0) OR d_next_o_id - 1 <> coalesce(n, d_next_o_id - 1)",
    },
    Condition {
        number: 3,
        sql: "SELECT no_w_id, no_d_id, min(no_o_id), max(no_o_id), count(*) FROM new_order \
            GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    },
    Condition {
        number: 4,
        sql: "SELECT d_w_id, d_id, said, lines FROM district \
            LEFT JOIN (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS said FROM orders GROUP BY o_w_id, o_d_id) a \
            ON o_w_id = d_w_id AND o_d_id = d_id \
            LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM order_line GROUP BY ol_w_id, ol_d_id) b \
            ON ol_w_id = d_w_id AND ol_d_id = d_id \
            WHERE coalesce(said, 0) <> coalesce(lines, 0)",
    },
    Condition {
        number: 5,
        sql: "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders \
            LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
            WHERE (o_carrier_id IS NULL AND no_o_id IS NULL) OR (o_carrier_id IS NOT NULL AND no_o_id IS NOT NULL)",
    },
    Condition {
        number: 5,
        sql: "SELECT no_w_id, no_d_id, no_o_id FROM new_order \
            LEFT JOIN orders ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id WHERE o_id IS NULL",
    },
    Condition {
        number: 6,
        sql: "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, lines FROM orders \
            LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines FROM order_line \
            GROUP BY ol_w_id, ol_d_id, ol_o_id) l \
            ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_ol_cnt <> coalesce(lines, 0)",
    },
    Condition {
        number: 7,
        sql: "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id FROM order_line \
            JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
            WHERE (ol_delivery_d IS NULL AND o_carrier_id IS NOT NULL) \
            OR (ol_delivery_d IS NOT NULL AND o_carrier_id IS NULL)",
    },
    Condition {
        number: 8,
        sql: "SELECT w_id, w_ytd, paid FROM warehouse \
            LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) h ON h_w_id = w_id \
            WHERE w_ytd <> coalesce(paid, 0)",
    },
    Condition {
        number: 9,
        sql: "SELECT d_w_id, d_id, d_ytd, paid FROM district \
            LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) h \
            ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd <> coalesce(paid, 0)",
    },
    Condition {
        number: 10,
        sql: "SELECT c_w_id, c_d_id, c_id, c_balance, delivered, paid FROM customer \
            LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders \
            JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
            WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) l \
            ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
            LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history \
            GROUP BY h_c_w_id, h_c_d_id, h_c_id) h \
            ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
            WHERE c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)",
    },
    Condition {
        number: 11,
        sql: "SELECT d_w_id, d_id, orders, fresh, deliveries FROM district \
            LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS orders FROM orders GROUP BY o_w_id, o_d_id) a \
            ON o_w_id = d_w_id AND o_d_id = d_id \
            LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS fresh FROM new_order GROUP BY no_w_id, no_d_id) b \
            ON no_w_id = d_w_id AND no_d_id = d_id \
            LEFT JOIN (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS deliveries FROM customer \
            GROUP BY c_w_id, c_d_id) c ON c_w_id = d_w_id AND c_d_id = d_id \
            WHERE coalesce(orders, 0) - coalesce(fresh, 0) <> {delivered} + coalesce(deliveries, 0)",
    },
    Condition {
        number: 12,
        sql: "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered FROM customer \
            LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders \
            JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
            WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) l \
            ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
            WHERE c_balance + c_ytd_payment <> coalesce(delivered, 0)",
    },
];

impl Condition {
    /// The text of its query.
    pub fn query(&self, sizes: &Sizes) -> String {
        self.sql.replace("{delivered}", &sizes.delivered().to_string())
    }
}

/// The most violations that are described. All violations are counted.
const TOLD_MAX: usize = 20;

/// Checks a condition within the connection's transaction, and adds its violations to `found`.
///
/// # Errors
/// When the database fails.
pub fn violations(
    connection: &mut dyn SqlConnection,
    condition: &Condition,
    sizes: &Sizes,
    found: &mut Violations,
) -> StoreResult {
    for row in connection.execute_text(&condition.query(sizes))?.rows()? {
        found.count += 1;
        if found.told.len() < TOLD_MAX {
            found.told.push(format!("condition {}: {}", condition.number, told(&row)));
        }
    }
    Ok(())
}

/// The values of a row, for people.
fn told(row: &Row) -> String {
    let one = |value: &Value| match value {
        Value::Null => "NULL".into(),
        Value::Int(n) | Value::Time(n) => n.to_string(),
        Value::Real(n) => n.to_string(),
        Value::Text(text) => text.clone(),
    };
    row.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Checks all conditions, and the numbers of warehouses and districts, in one transaction.
///
/// # Errors
/// When the database fails.
pub fn check(connection: &mut dyn SqlConnection, sizes: &Sizes) -> StoreResult<Violations> {
    connection.begin(Intent::Read)?;
    let checked = check_within(connection, sizes);
    let ended = connection.rollback();
    checked.and_then(|found| ended.map(|()| found))
}

fn check_within(connection: &mut dyn SqlConnection, sizes: &Sizes) -> StoreResult<Violations> {
    let mut found = Violations::default();
    let warehouses = i64::from(sizes.warehouses);
    for (table, expected) in
        [("warehouse", warehouses), ("district", warehouses * i64::from(sizes.districts))]
    {
        let row = connection.execute_text(&format!("SELECT count(*) FROM {table}"))?.row()?;
        let count =
            row.and_then(|row| row.into_iter().next()).ok_or(StoreError::Damaged("a count has no row"))?;
        if count != Value::Int(expected) {
            found.count += 1;
            found.told.push(format!("{table} has {count:?} rows, not {expected}"));
        }
    }
    CONDITIONS.iter().try_for_each(|condition| violations(connection, condition, sizes, &mut found))?;
    Ok(found)
}
