//! The 22 queries with the specification's validation parameters, one file each in `queries/`.
//!
//! Source: TPC-H revision 3.0.1, clause 2.4. Q15 is variant A of appendix A: the view as a common table expression.

use super::Scale;

/// One of the 22 queries.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Its number, 1 to 22.
    pub number: usize,
    /// Columns of the answer that ORDER BY sorts by.
    pub order: Order,
    text: &'static str,
}

/// How far a query's ORDER BY fixes the order of its rows.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// It fixes the place of each row.
    Total,
    /// Rows that are equal in these columns may come in any order.
    Partial(&'static [usize]),
}

impl Query {
    /// The statement for a scale. Q11 has a fraction of 0.0001 divided by the scale.
    pub fn sql(&self, scale: Scale) -> String {
        // Ten decimal places are exact for every scale down to a millionth.
        let fraction = format!("{:.10}", 0.0001 / scale.factor());
        self.text.replace("{fraction}", fraction.trim_end_matches('0'))
    }

    /// The query with this number.
    pub fn numbered(number: usize) -> Option<&'static Query> {
        QUERIES.get(number.checked_sub(1)?)
    }
}

macro_rules! queries {
    ($($number:literal $order:expr;)*) => {
        /// All 22, in order.
        pub const QUERIES: [Query; 22] = [$(Query {
            number: $number,
            order: $order,
            text: include_str!(concat!("queries/q", $number, ".sql")),
        }),*];
    };
}

queries! {
    1 Order::Total;
    2 Order::Total;
    3 Order::Partial(&[1, 2]);
    4 Order::Total;
    5 Order::Partial(&[1]);
    6 Order::Total;
    7 Order::Total;
    8 Order::Total;
    9 Order::Total;
    10 Order::Partial(&[2]);
    11 Order::Partial(&[1]);
    12 Order::Total;
    13 Order::Total;
    14 Order::Total;
    15 Order::Total;
    16 Order::Total;
    17 Order::Total;
    18 Order::Partial(&[4, 3]);
    19 Order::Total;
    20 Order::Total;
    21 Order::Total;
    22 Order::Total;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        for (i, q) in QUERIES.iter().enumerate() {
            assert_eq!(q.number, i + 1);
            assert!(q.text.starts_with(&format!("-- Q{}:", q.number)));
        }
        assert!(Query::numbered(0).is_none() && Query::numbered(23).is_none());
    }

    #[test]
    fn the_fraction_follows_the_scale() {
        let at = |s| QUERIES[10].sql(Scale::new(s).unwrap());
        assert!(at(1.0).contains("* 0.0001\n"));
        assert!(at(0.01).contains("* 0.01\n"));
        assert!(at(300.0).contains("* 0.0000003333\n"));
    }
}
