//! The nine tables and the two secondary indexes. Source: TPC-C 5.11, clause 1.3.

use crate::sql::{Dialect, SqlConnection, execute_all};
use crate::store::StoreResult;

/// What the definition of the tables leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Schema {
    /// Whether the tables have their foreign keys.
    pub foreign_keys: bool,
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The definitions of its columns and of its primary key.
    columns: &'static str,
    /// The definitions of its foreign keys, each after a comma.
    foreign_keys: &'static str,
}

/// The columns of an address, with the prefix of a table.
macro_rules! address {
    ($p:literal) => {
        concat!(
            $p,
            "_street_1 VARCHAR(20) NOT NULL, ",
            $p,
            "_street_2 VARCHAR(20) NOT NULL, ",
            $p,
            "_city VARCHAR(20) NOT NULL, ",
            $p,
            "_state CHAR(2) NOT NULL, ",
            $p,
            "_zip CHAR(9) NOT NULL, "
        )
    };
}

/// The tables. One that others refer to comes before them.
pub const TABLES: [Table; 9] = [
    Table {
        name: "item",
        columns: "i_id INTEGER NOT NULL PRIMARY KEY, i_im_id INTEGER NOT NULL, i_name VARCHAR(24) NOT NULL, \
            i_price BIGINT NOT NULL, i_data VARCHAR(50) NOT NULL",
        foreign_keys: "",
    },
    Table {
        name: "warehouse",
        columns: concat!(
            "w_id INTEGER NOT NULL PRIMARY KEY, w_name VARCHAR(10) NOT NULL, ",
            address!("w"),
            "w_tax INTEGER NOT NULL, w_ytd BIGINT NOT NULL"
        ),
        foreign_keys: "",
    },
    Table {
        name: "district",
        columns: concat!(
            "d_w_id INTEGER NOT NULL, d_id INTEGER NOT NULL, d_name VARCHAR(10) NOT NULL, ",
            address!("d"),
            "d_tax INTEGER NOT NULL, d_ytd BIGINT NOT NULL, d_next_o_id INTEGER NOT NULL, \
             PRIMARY KEY (d_w_id, d_id)"
        ),
        foreign_keys: ", FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)",
    },
    Table {
        name: "customer",
        columns: concat!(
            "c_w_id INTEGER NOT NULL, c_d_id INTEGER NOT NULL, c_id INTEGER NOT NULL, \
             c_first VARCHAR(16) NOT NULL, c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, ",
            address!("c"),
            "c_phone CHAR(16) NOT NULL, c_since {timestamp} NOT NULL, c_credit CHAR(2) NOT NULL, \
             c_credit_lim BIGINT NOT NULL, c_discount INTEGER NOT NULL, c_balance BIGINT NOT NULL, \
             c_ytd_payment BIGINT NOT NULL, c_payment_cnt INTEGER NOT NULL, c_delivery_cnt INTEGER NOT NULL, \
             c_data VARCHAR(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id)"
        ),
        foreign_keys: ", FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)",
    },
    Table {
        name: "history",
        columns: "h_c_id INTEGER NOT NULL, h_c_d_id INTEGER NOT NULL, h_c_w_id INTEGER NOT NULL, \
            h_d_id INTEGER NOT NULL, h_w_id INTEGER NOT NULL, h_date {timestamp} NOT NULL, \
            h_amount BIGINT NOT NULL, h_data VARCHAR(24) NOT NULL",
        foreign_keys: ", FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id), \
            FOREIGN KEY (h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)",
    },
    Table {
        name: "orders",
        columns: "o_w_id INTEGER NOT NULL, o_d_id INTEGER NOT NULL, o_id INTEGER NOT NULL, o_c_id INTEGER NOT NULL, \
            o_entry_d {timestamp} NOT NULL, o_carrier_id INTEGER, o_ol_cnt INTEGER NOT NULL, \
            o_all_local INTEGER NOT NULL, PRIMARY KEY (o_w_id, o_d_id, o_id)",
        foreign_keys: ", FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
    },
    Table {
        name: "new_order",
        columns: "no_w_id INTEGER NOT NULL, no_d_id INTEGER NOT NULL, no_o_id INTEGER NOT NULL, \
            PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
        foreign_keys: ", FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
    },
    Table {
        name: "stock",
        columns: "s_w_id INTEGER NOT NULL, s_i_id INTEGER NOT NULL, s_quantity INTEGER NOT NULL, \
            s_dist_01 CHAR(24) NOT NULL, s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL, \
            s_dist_04 CHAR(24) NOT NULL, s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL, \
            s_dist_07 CHAR(24) NOT NULL, s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL, \
            s_dist_10 CHAR(24) NOT NULL, s_ytd INTEGER NOT NULL, s_order_cnt INTEGER NOT NULL, \
            s_remote_cnt INTEGER NOT NULL, s_data VARCHAR(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id)",
        foreign_keys: ", FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id), \
            FOREIGN KEY (s_i_id) REFERENCES item (i_id)",
    },
    Table {
        name: "order_line",
        columns: "ol_w_id INTEGER NOT NULL, ol_d_id INTEGER NOT NULL, ol_o_id INTEGER NOT NULL, \
            ol_number INTEGER NOT NULL, ol_i_id INTEGER NOT NULL, ol_supply_w_id INTEGER NOT NULL, \
            ol_delivery_d {timestamp}, ol_quantity INTEGER NOT NULL, ol_amount BIGINT NOT NULL, \
            ol_dist_info CHAR(24) NOT NULL, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
        foreign_keys: ", FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id), \
            FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id)",
    },
];

/// Customers by last name, and orders by customer.
const INDEXES: &str = "
CREATE INDEX customer_name ON customer {btree}(c_w_id, c_d_id, c_last, c_first);
CREATE INDEX orders_customer ON orders {btree}(o_w_id, o_d_id, o_c_id, o_id)";

/// Creates the tables.
///
/// # Errors
/// When the database fails, or if there are such tables.
pub fn create(connection: &mut dyn SqlConnection, dialect: &Dialect, schema: Schema) -> StoreResult {
    TABLES.iter().try_for_each(|table| {
        let foreign_keys = if schema.foreign_keys { table.foreign_keys } else { "" };
        // A key of several columns stands at the end of the columns.
        let clustered = if table.columns.contains("PRIMARY KEY (") { "{clustered}" } else { "" };
        let text = format!("CREATE TABLE {} ({}{foreign_keys}){clustered}", table.name, table.columns);
        connection.execute_text(&dialect.render(&text)).map(drop)
    })
}

/// Makes the secondary indexes.
///
/// # Errors
/// When the database fails.
pub fn create_indexes(connection: &mut dyn SqlConnection, dialect: &Dialect) -> StoreResult {
    execute_all(connection, &dialect.render(INDEXES))
}

/// Drops the tables.
///
/// # Errors
/// When the database fails, or if a table is missing.
pub fn drop_all(connection: &mut dyn SqlConnection) -> StoreResult {
    TABLES.iter().rev().try_for_each(|t| connection.execute_text(&format!("DROP TABLE {}", t.name)).map(drop))
}
