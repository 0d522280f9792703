//! The filters of the paper's queries on the table that each filters early.

/// A filter on one table of TPC-H.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    /// The query, as the paper calls it.
    pub(super) query: &'static str,
    /// The table.
    pub(super) table: &'static str,
    /// The condition.
    pub(super) condition: &'static str,
}

/// Query 1 of the paper. Its filter is that of Q2, too.
pub(super) const QUERY_1: Filter =
    Filter { query: "Query 1", table: "part", condition: "p_size = 15 AND p_type LIKE '%BRASS'" };

/// Query 1, and the queries that the paper filters early, in the order of their gain. Q2 has the filter of Query 1. The values are those
/// with which TPC-H validates.
pub(super) const FILTERS: [Filter; 8] = [
    QUERY_1,
    Filter {
        query: "Q14",
        table: "lineitem",
        condition: "l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'",
    },
    Filter {
        query: "Q10",
        table: "orders",
        condition: "o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01'",
    },
    Filter { query: "Q8", table: "part", condition: "p_type = 'ECONOMY ANODIZED STEEL'" },
    Filter { query: "Q9", table: "part", condition: "p_name LIKE '%green%'" },
    Filter { query: "Q17", table: "part", condition: "p_brand = 'Brand#23' AND p_container = 'MED BOX'" },
    Filter {
        query: "Q12",
        table: "lineitem",
        condition: "l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate \
                    AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'",
    },
    Filter {
        query: "Q5",
        table: "orders",
        condition: "o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'",
    },
];
