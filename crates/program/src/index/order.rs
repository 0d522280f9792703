//! Where a scan of pages in ascending order may stop: behind the first page after which no row can pass.
//!
//! ```text
//!   filter a < 20     page (a from 3 to 9)     (10 to 18)     (17 to 25)     (31 to 40)  ◄── no row with a >= 31 passes: stop
//! ```
//!
//! Source: FLIXR §4.6, tables with a sorted layout.

use lode_page::Schema;

use super::range::WIDE_RANGE;
use super::{IndexEntry, IndexRule, kept, may_match};
use crate::{Program, ProgramError};

/// Pages whose values of one column never fall from page to page, NULLs last or nowhere.
#[derive(Clone, Debug)]
pub struct Ascending {
    column: u16,
    /// A range of that column alone.
    rule: IndexRule,
}

impl Ascending {
    /// Pages of this schema that ascend by `column`.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn by(column: u16, schema: &Schema) -> Result<Self, ProgramError> {
        Ok(Self { column, rule: IndexRule::of_kinds(schema.clone(), vec![(&WIDE_RANGE, kept(&[column]))])? })
    }

    /// Whether no row of the page that `entry` describes and of those after it passes the filter of `p`. False if that is not certain.
    pub fn ends(&self, p: &Program, rule: &IndexRule, entry: &IndexEntry) -> bool {
        let Some((min, _)) = rule.bounds(entry, self.column).and_then(|b| b.keys) else { return false };
        // The entry of a page with a NULL and all values from the least on.
        let nulls = 1u32.to_le_bytes();
        let bytes =
            [&entry.rows().max(1).to_le_bytes()[..], &nulls, &min.to_le_bytes(), &u64::MAX.to_le_bytes()];
        let rest = IndexEntry::from_bytes(&bytes.concat()).expect("an entry of one column");
        rule.schema().agrees_with(p.schema()) && !may_match(p, &self.rule, &rest)
    }
}

#[cfg(test)]
mod tests {
    use lode_page::{Column, ColumnBuilder, ColumnType, DataType, Value};

    use super::*;
    use crate::{ColumnSource, CompareOp, Expr, Meter, Passed};

    struct Page(Column);

    impl ColumnSource for Page {
        type Error = std::convert::Infallible;

        fn rows(&self) -> usize {
            self.0.rows()
        }

        fn column(&mut self, _: u16) -> Result<Column, Self::Error> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn a_scan_ends_where_the_least_key_passes_no_more() {
        let columns = vec![ColumnType { data_type: DataType::Integer, nullable: true }];
        let schema = Schema { version: 1, columns, absent: Vec::new() };
        let rule = IndexRule::new(schema.clone(), vec![0]).unwrap();
        let entry = |values: &[Value]| {
            let mut b = ColumnBuilder::new(DataType::Integer);
            values.iter().for_each(|v| b.push(v).unwrap());
            rule.entry(&mut Page(b.finish())).unwrap()
        };
        let at = |n| Expr::Const(Value::Int(n), DataType::Integer);
        let program = |f: Expr| Program::check(schema.clone(), Some(f), vec![0], false).unwrap();
        let less = program(Expr::compare(CompareOp::Lt, Expr::Column(0), at(20)));
        let more = program(Expr::compare(CompareOp::Gt, Expr::Column(0), at(20)));
        let null = program(Expr::IsNull(Box::new(Expr::Column(0))));
        let ascending = Ascending::by(0, &schema).unwrap();
        let ends = |p, values: &[i64]| {
            let values: Vec<Value> = values.iter().map(|&v| Value::Int(v)).collect();
            ascending.ends(p, &rule, &entry(&values))
        };
        assert!(!ends(&less, &[17, 25]) && !ends(&less, &[3, 9]) && !ends(&less, &[19]));
        assert!(ends(&less, &[20, 25]) && ends(&less, &[i64::from(i32::MAX)]));
        assert!(!ends(&more, &[3, 9]) && !ends(&more, &[30]));
        assert!(!ends(&null, &[30]));
        assert!(!ascending.ends(&less, &rule, &entry(&[Value::Null])));
        assert!(Ascending::by(1, &schema).is_err());
    }

    /// Pages of ascending values of each type, NULLs last: no page from the one at which a scan ends on has a row that passes.
    #[test]
    fn nothing_passes_behind_the_end_of_a_scan_of_any_type() {
        let decimal = |precision| DataType::Decimal { precision, scale: 2 };
        let types = [
            DataType::Boolean,
            DataType::SmallInt,
            DataType::BigInt,
            DataType::Date,
            DataType::Double,
            DataType::Text,
            decimal(12),
            decimal(18),
            decimal(36),
        ];
        let value = |t: DataType, n: i64| match t {
            DataType::Boolean => Value::Boolean(n > 20),
            DataType::Double => Value::Double((n - 20) as f64 / 3.0),
            // Keys have the first 8 bytes alone.
            DataType::Text => Value::text(&format!("prefix {:05}", 10_000 + n * 7)),
            DataType::Decimal { precision: 36, .. } => Value::Decimal((i128::from(n) - 20) << 80),
            DataType::Decimal { precision: 18, .. } => Value::Decimal(i128::from(n - 20) * 10i128.pow(16)),
            DataType::Decimal { .. } => Value::Decimal((n - 20).into()),
            _ => Value::Int(n - 20),
        };
        let (mut ended, mut cases) = (0, 0);
        for t in types {
            let schema = Schema {
                version: 1,
                columns: vec![ColumnType { data_type: t, nullable: true }],
                absent: Vec::new(),
            };
            let rule = IndexRule::new(schema.clone(), vec![0]).unwrap();
            let ascending = Ascending::by(0, &schema).unwrap();
            // Values repeat, and the last page of values has NULLs, too.
            let pages: Vec<Vec<Value>> = (0..10)
                .map(|p| {
                    let mut rows: Vec<Value> = (0..5).map(|i| value(t, p * 4 + i)).collect();
                    rows.extend((p == 9).then_some(Value::Null));
                    rows
                })
                .chain([vec![Value::Null; 3]])
                .collect();
            let column = |rows: &[Value]| {
                let mut b = ColumnBuilder::new(t);
                rows.iter().for_each(|v| b.push(v).unwrap());
                b.finish()
            };
            let ops = [CompareOp::Lt, CompareOp::LtEq, CompareOp::Eq, CompareOp::Gt, CompareOp::NotEq];
            for (op, n) in ops.into_iter().flat_map(|op| (0..45).map(move |n| (op, n))) {
                let compare = Expr::compare(op, Expr::Column(0), Expr::Const(value(t, n), t));
                for f in [compare.clone(), Expr::Or(vec![compare, Expr::IsNull(Box::new(Expr::Column(0)))])] {
                    let p = Program::check(schema.clone(), Some(f), vec![0], false).unwrap();
                    let passing = |rows: &[Value]| {
                        let passed = Passed::of(&p, &mut Page(column(rows)), &mut Meter::default()).unwrap();
                        passed.count() > 0
                    };
                    let at = pages.iter().position(|rows| {
                        ascending.ends(&p, &rule, &rule.entry(&mut Page(column(rows))).unwrap())
                    });
                    cases += 1;
                    if let Some(at) = at {
                        ended += 1;
                        assert!(
                            !pages[at..].iter().any(|rows| passing(rows)),
                            "{t}: {op:?} {n} ends at page {at}"
                        );
                    }
                }
            }
        }
        assert!(ended > cases / 6, "{ended} of {cases}");
    }
}
