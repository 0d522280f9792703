//! Q6's predicate, with a requested selectivity.
//!
//! ```text
//!   l_shipdate >= 1994-01-01 and l_shipdate < END and l_discount between 0.05 and 0.07 and l_quantity < 24
//!   above 1/8 of the records: any quantity; above 3/11: any discount; END is as late as the selectivity requires
//! ```
//!
//! TPC-H's own END is 1995-01-01, with a selectivity of 0.019. If even the last day as END is not enough, the period
//! begins earlier.

use lode_page::{DataType, Value};
use lode_program::{CompareOp, Expr};

/// `l_quantity`, `l_extendedprice`, `l_discount` in hundredths, `l_shipdate` in days: the numbers of a record.
pub type Numbers = [i64; 4];

const QUANTITY: u16 = 0;
const DISCOUNT: u16 = 2;
const SHIPDATE: u16 = 3;
/// 1994-01-01.
const FROM: i64 = 8766;

/// The predicate. Bounds are inclusive, except those called `before` and `below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicate {
    from: i64,
    before: i64,
    discount: (i64, i64),
    quantity_below: i64,
}

impl Predicate {
    /// The predicate whose selectivity is nearest to `share`. It cannot be exact, because the period is a number of
    /// days.
    pub fn with_selectivity(records: &[Numbers], share: f64) -> Self {
        let wanted = (share * records.len() as f64).round() as usize;
        let last = records.iter().map(|r| r[3]).max().unwrap_or(FROM);
        let stages = [(24, (5, 7)), (51, (5, 7)), (51, (0, 10))];
        for (quantity_below, discount) in stages {
            let all = Self { from: i64::MIN, before: i64::MAX, discount, quantity_below };
            // Days are taken in this order: from the first day on, then the days before it.
            let after = last.max(FROM) - FROM;
            let order = |day: i64| if day >= FROM { day - FROM } else { after + FROM - day };
            let mut days: Vec<i64> = records.iter().filter(|r| all.passes(r)).map(|r| order(r[3])).collect();
            if days.len() < wanted && discount != (0, 10) {
                continue;
            }
            days.sort_unstable();
            // The period ends on the day of the wanted record or on the day before, whichever gives the nearer number.
            let upto = |day: i64| days.partition_point(|&d| d <= day);
            let day = match wanted.min(days.len()).checked_sub(1) {
                None => -1,
                Some(at) if wanted - upto(days[at] - 1) < upto(days[at]) - wanted => days[at] - 1,
                Some(at) => days[at],
            };
            let from = if day > after { FROM + after - day } else { FROM };
            return Self { from, before: FROM + day.min(after) + 1, discount, quantity_below };
        }
        unreachable!("the last stage takes all")
    }

    /// Whether a record passes.
    pub fn passes(&self, r: &Numbers) -> bool {
        (self.from..self.before).contains(&r[3])
            && (self.discount.0..=self.discount.1).contains(&r[2])
            && r[0] < self.quantity_below
    }

    /// The expression that the drive evaluates.
    pub fn expr(&self) -> Expr {
        let int = |v: i64| Expr::Const(Value::Int(v), DataType::BigInt);
        let compare = |op, column, v| Expr::compare(op, Expr::Column(column), int(v));
        Expr::And(vec![
            compare(CompareOp::GtEq, SHIPDATE, self.from),
            compare(CompareOp::Lt, SHIPDATE, self.before),
            Expr::between(Expr::Column(DISCOUNT), int(self.discount.0), int(self.discount.1)),
            compare(CompareOp::Lt, QUANTITY, self.quantity_below),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn records() -> Vec<Numbers> {
        let mut r = Random(5);
        // Ship dates of TPC-H: 1992-01-02 to 1998-12-01.
        let mut one = || [1 + r.below(50) as i64, 1000, r.below(11) as i64, 8036 + r.below(2526) as i64];
        (0..200_000).map(|_| one()).collect()
    }

    #[test]
    fn any_selectivity_can_be_had_to_a_day() {
        let records = records();
        for share in [0.0, 0.001, 0.013, 0.019, 0.1, 0.125, 0.2, 0.3, 0.5, 0.8, 0.999, 1.0] {
            let p = Predicate::with_selectivity(&records, share);
            let got = records.iter().filter(|r| p.passes(r)).count() as f64 / records.len() as f64;
            let all_days = match p.quantity_below {
                24 => 23.0 / 50.0 * 3.0 / 11.0,
                _ if p.discount == (5, 7) => 3.0 / 11.0,
                _ => 1.0,
            };
            assert!((got - share).abs() <= all_days / 2526.0, "{share}: {got}, {p:?}");
        }
        let all = Predicate::with_selectivity(&records, 1.0);
        assert!(records.iter().all(|r| all.passes(r)));
        let of_q6 = Predicate::with_selectivity(&records, 0.0182);
        assert_eq!((of_q6.from, of_q6.discount, of_q6.quantity_below), (FROM, (5, 7), 24));
        assert!((of_q6.before - 9131).abs() < 10, "about a year: {of_q6:?}");
    }
}
