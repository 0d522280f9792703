//! Programs: any tree of expressions, well typed or not, is checked. A valid program runs over the columns of a page,
//! its rows are extracted, and the page's index entry is evaluated. The entry must allow every row that passes.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use lode_page::{Column, ColumnBuilder, ColumnType, DataType, Schema, Value};
use lode_program::eval::ColumnSource;
use lode_program::index::verdict;
use lode_program::{
    ArithOp, CompareOp, Expr, IndexRule, Meter, Program, Selection, Verdict, compact, select,
};

/// Takes choices from the bytes. After their end, every choice is 0.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&b, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        b
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    fn number(&mut self) -> i128 {
        let len = self.below(17);
        let number = (0..len).fold(0u128, |n, _| n << 8 | u128::from(self.byte())) as i128;
        if self.below(4) == 0 { !number } else { number }
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(12)).map(|_| self.byte()).collect()
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    fn data_type(&mut self) -> DataType {
        let tag = self.byte() % 12;
        let (precision, scale) = if tag == 7 { (self.byte() % 40, self.byte() % 40) } else { (0, 0) };
        DataType::from_tag(tag, precision, scale).unwrap_or(DataType::Integer)
    }

    fn value(&mut self) -> Value {
        match self.below(8) {
            0 => Value::Null,
            1 => Value::Boolean(self.below(2) == 1),
            2 => Value::Real(f32::from_bits(self.number() as u32)),
            3 => Value::Double(f64::from_bits(self.number() as u64)),
            4 => Value::Decimal(self.number()),
            5 => Value::text(&self.text()),
            6 => Value::Bytes(self.bytes().into()),
            _ => Value::Int(self.number() as i64),
        }
    }

    /// A value, mostly of the type.
    fn value_of(&mut self, t: DataType) -> Value {
        if self.below(9) == 0 {
            return self.value();
        }
        match t {
            DataType::Boolean => Value::Boolean(self.below(2) == 1),
            DataType::SmallInt => Value::Int((self.number() as i16).into()),
            DataType::Integer | DataType::Date => Value::Int((self.number() as i32).into()),
            DataType::BigInt | DataType::Timestamp => Value::Int(self.number() as i64),
            DataType::Real => Value::Real(f32::from_bits(self.number() as u32)),
            DataType::Double => Value::Double(f64::from_bits(self.number() as u64)),
            DataType::Decimal { precision, .. } => {
                Value::Decimal(self.number() % 10i128.pow(precision.into()))
            }
            DataType::Text => Value::text(&self.text()),
            DataType::Bytea => Value::Bytes(self.bytes().into()),
        }
    }

    fn expr(&mut self, types: &[DataType], depth: usize) -> Expr {
        let column = |c: &mut Self| Expr::Column(c.below(types.len() + 1) as u16);
        if depth == 0 || self.0.is_empty() {
            return column(self);
        }
        let of = |c: &mut Self| Box::new(c.expr(types, depth - 1));
        let terms = |c: &mut Self| (0..c.below(4)).map(|_| c.expr(types, depth - 1)).collect();
        use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        match self.below(13) {
            0 => column(self),
            1 => {
                let t = self.data_type();
                Expr::Const(self.value_of(t), t)
            }
            2 | 3 => {
                // A column and a constant of its type.
                let c = self.below(types.len());
                let op = [Eq, NotEq, Lt, LtEq, Gt, GtEq][self.below(6)];
                let constant = Expr::Const(self.value_of(types[c]), types[c]);
                Expr::compare(op, Expr::Column(c as u16), constant)
            }
            4 => Expr::Compare([Eq, NotEq, Lt, LtEq, Gt, GtEq][self.below(6)], of(self), of(self)),
            5 => Expr::And(terms(self)),
            6 => Expr::Or(terms(self)),
            7 => Expr::Not(of(self)),
            8 => Expr::IsNull(of(self)),
            9 => {
                let c = self.below(types.len());
                let list = (0..self.below(12)).map(|_| self.value_of(types[c])).collect();
                Expr::In { value: Box::new(Expr::Column(c as u16)), list }
            }
            10 => {
                let text = types.iter().position(|t| *t == DataType::Text).unwrap_or(0);
                let (value, pattern) = (Box::new(Expr::Column(text as u16)), self.text());
                Expr::Like { value, pattern, case_insensitive: self.below(16) == 1 }
            }
            11 => {
                let op = [ArithOp::Add, ArithOp::Sub, ArithOp::Mul][self.below(3)];
                Expr::Arith(op, of(self), of(self))
            }
            _ => {
                let t = self.data_type();
                Expr::Cast(of(self), t)
            }
        }
    }

    fn column(&mut self, t: DataType, rows: usize) -> Column {
        let mut b = ColumnBuilder::new(t);
        for _ in 0..rows {
            let v = self.value_of(t);
            b.push(if v.fits(t) { &v } else { &Value::Null }).expect("a value that fits");
        }
        b.finish()
    }
}

struct Page {
    rows: usize,
    columns: Vec<Column>,
}

impl ColumnSource for Page {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        Ok(self.columns[usize::from(column)].clone())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let c = &mut Choices(bytes);
    let types: Vec<DataType> = (0..1 + c.below(4)).map(|_| c.data_type()).collect();
    let filter = c.expr(&types, 6);
    let columns = types.iter().map(|&data_type| ColumnType { data_type, nullable: true }).collect();
    let schema = Schema { version: 1, columns, absent: Vec::new() };
    let Ok(p) = Program::check(schema.clone(), Some(filter), vec![0], true) else { return };
    let rows = c.below(80);
    let mut page = Page { rows, columns: types.iter().map(|&t| c.column(t, rows)).collect() };
    let Ok(selected) = select(&p, &mut page, &mut Meter::default()) else { panic!("good columns") };
    let count = match &selected {
        Selection::All => rows,
        Selection::None => 0,
        Selection::Some(mask) => mask.count(),
    };
    for column in &page.columns {
        assert_eq!(compact(column, &selected).rows(), count);
    }
    let rule = IndexRule::new(schema, (0..types.len() as u16).collect()).expect("a rule");
    let Ok(entry) = rule.entry(&mut page) else { panic!("good columns") };
    match verdict(&p, &rule, &entry) {
        Verdict::No => assert_eq!(count, 0, "the index entry hides rows that pass"),
        Verdict::Maybe => {}
        Verdict::Yes => assert_eq!(count, rows, "the index entry shows rows that do not pass"),
    }
});
