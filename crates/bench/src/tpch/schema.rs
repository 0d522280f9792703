//! The eight tables, with their keys and the columns of their page indexes.
//!
//! All numbers and dates are indexed: their ranges skip pages, and the planner uses them as statistics. Strings are
//! indexed if queries compare them with constants.
//!
//! Source: TPC-H revision 3.0.1, clause 1.4. Identifiers are BIGINT, decimals DECIMAL(15,2).

use lode_page::EncodingChoice;

/// A table of TPC-H.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Columns and keys, as in CREATE TABLE.
    columns: &'static str,
    /// Columns of the page index.
    pub(crate) page_index: &'static str,
}

/// How a table's pages are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Small pages, changed in place.
    Row,
    /// A row group per page, for scans.
    #[default]
    Column,
}

/// How a table's pages are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Their layout.
    pub layout: Layout,
    /// The encoding of all columns of column pages.
    pub encoding: EncodingChoice,
}

impl From<Layout> for Pages {
    fn from(layout: Layout) -> Self {
        Self { layout, encoding: EncodingChoice::Auto }
    }
}

impl Table {
    /// The statement that creates the table with another name and these options.
    pub fn create_as(&self, name: &str, options: &str) -> String {
        format!("CREATE TABLE {name} ({}) {options}", self.columns)
    }

    /// The statement that creates the table without its key.
    pub fn create_without_key(&self, name: &str, options: &str) -> String {
        let columns = self.columns.split_once(", PRIMARY KEY").map_or(self.columns, |(columns, _)| columns);
        format!("CREATE TABLE {name} ({columns}) {options}")
    }

    /// The first column, which is the first of the key.
    pub fn first_column(&self) -> &'static str {
        self.columns.split(' ').next().expect("a table has columns")
    }

    /// The statement that creates the table.
    pub fn create(&self, pages: Pages) -> String {
        let layout = match pages.layout {
            Layout::Row => "row",
            Layout::Column => "column",
        };
        let encoding = pages.encoding.name();
        let Self { name, columns, page_index } = self;
        format!(
            "CREATE TABLE {name} ({columns}) \
             WITH (layout = '{layout}', page_index = '{page_index}', encoding = '{encoding}')"
        )
    }
}

/// All eight tables, in an order that satisfies the foreign keys.
pub const TABLES: [Table; 8] = [
    Table {
        name: "region",
        columns: "r_regionkey BIGINT NOT NULL, r_name VARCHAR(25) NOT NULL, r_comment VARCHAR(152) NOT NULL, \
                  PRIMARY KEY (r_regionkey)",
        page_index: "r_regionkey, r_name",
    },
    Table {
        name: "nation",
        columns: "n_nationkey BIGINT NOT NULL, n_name VARCHAR(25) NOT NULL, n_regionkey BIGINT NOT NULL, \
                  n_comment VARCHAR(152) NOT NULL, PRIMARY KEY (n_nationkey)",
        page_index: "n_nationkey, n_name, n_regionkey",
    },
    Table {
        name: "part",
        columns: "p_partkey BIGINT NOT NULL, p_name VARCHAR(55) NOT NULL, p_mfgr VARCHAR(25) NOT NULL, \
                  p_brand VARCHAR(10) NOT NULL, p_type VARCHAR(25) NOT NULL, p_size INTEGER NOT NULL, \
                  p_container VARCHAR(10) NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL, \
                  p_comment VARCHAR(23) NOT NULL, PRIMARY KEY (p_partkey)",
        page_index: "p_partkey, p_brand, p_type, p_size, p_container, p_retailprice",
    },
    Table {
        name: "supplier",
        columns: "s_suppkey BIGINT NOT NULL, s_name VARCHAR(25) NOT NULL, s_address VARCHAR(40) NOT NULL, \
                  s_nationkey BIGINT NOT NULL, s_phone VARCHAR(15) NOT NULL, s_acctbal DECIMAL(15,2) NOT NULL, \
                  s_comment VARCHAR(101) NOT NULL, PRIMARY KEY (s_suppkey)",
        page_index: "s_suppkey, s_nationkey, s_acctbal",
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey BIGINT NOT NULL, ps_suppkey BIGINT NOT NULL, ps_availqty INTEGER NOT NULL, \
                  ps_supplycost DECIMAL(15,2) NOT NULL, ps_comment VARCHAR(199) NOT NULL, \
                  PRIMARY KEY (ps_partkey, ps_suppkey)",
        page_index: "ps_partkey, ps_suppkey, ps_availqty, ps_supplycost",
    },
    Table {
        name: "customer",
        columns: "c_custkey BIGINT NOT NULL, c_name VARCHAR(25) NOT NULL, c_address VARCHAR(40) NOT NULL, \
                  c_nationkey BIGINT NOT NULL, c_phone VARCHAR(15) NOT NULL, c_acctbal DECIMAL(15,2) NOT NULL, \
                  c_mktsegment VARCHAR(10) NOT NULL, c_comment VARCHAR(117) NOT NULL, PRIMARY KEY (c_custkey)",
        page_index: "c_custkey, c_nationkey, c_acctbal, c_mktsegment",
    },
    Table {
        name: "orders",
        columns: "o_orderkey BIGINT NOT NULL, o_custkey BIGINT NOT NULL, o_orderstatus VARCHAR(1) NOT NULL, \
                  o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL, \
                  o_orderpriority VARCHAR(15) NOT NULL, o_clerk VARCHAR(15) NOT NULL, \
                  o_shippriority INTEGER NOT NULL, o_comment VARCHAR(79) NOT NULL, PRIMARY KEY (o_orderkey)",
        page_index: "o_orderkey, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_shippriority",
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey BIGINT NOT NULL, l_partkey BIGINT NOT NULL, l_suppkey BIGINT NOT NULL, \
                  l_linenumber INTEGER NOT NULL, l_quantity DECIMAL(15,2) NOT NULL, \
                  l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL, \
                  l_tax DECIMAL(15,2) NOT NULL, l_returnflag VARCHAR(1) NOT NULL, \
                  l_linestatus VARCHAR(1) NOT NULL, l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, \
                  l_receiptdate DATE NOT NULL, l_shipinstruct VARCHAR(25) NOT NULL, \
                  l_shipmode VARCHAR(10) NOT NULL, l_comment VARCHAR(44) NOT NULL, \
                  PRIMARY KEY (l_orderkey, l_linenumber)",
        page_index: "l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax, \
                     l_shipdate, l_commitdate, l_receiptdate",
    },
];

/// Tables, and columns of theirs that refer to keys of others. MySQL indexes them. Those with which a primary key begins are not listed.
pub const FOREIGN_KEYS: [(&str, &str); 7] = [
    ("nation", "n_regionkey"),
    ("supplier", "s_nationkey"),
    ("customer", "c_nationkey"),
    ("partsupp", "ps_suppkey"),
    ("orders", "o_custkey"),
    ("lineitem", "l_partkey, l_suppkey"),
    ("lineitem", "l_suppkey"),
];
