//! Measures how many rows per second typical filters evaluate on one core: `cargo run --release -p lode-program
//! --example rows_per_second`.

use std::sync::Arc;
use std::time::Instant;

use lode_base::PageBuf;
use lode_page::{Column, ColumnType, DataType, Schema, Value, Values};
use lode_program::{
    ColumnSource, CompareOp, Expr, IndexRule, KeySet, Meter, Program, Selection, compact, select,
};

const ROWS: usize = 65_536;
const REPEATS: usize = 200;
const DECIMAL: DataType = DataType::Decimal { precision: 15, scale: 2 };

struct Memory(Vec<Column>);

impl ColumnSource for Memory {
    type Error = std::convert::Infallible;

    fn rows(&self) -> usize {
        ROWS
    }

    fn column(&mut self, column: u16) -> Result<Column, Self::Error> {
        Ok(self.0[usize::from(column)].clone())
    }
}

fn fixed(t: DataType, width: u8, data: PageBuf) -> Column {
    Column::new(t, ROWS, None, Values::Fixed { width, data }).expect("a good column")
}

fn var(words: &[&str]) -> Column {
    let (mut offsets, mut data) = (vec![0u32], Vec::new());
    for w in words {
        data.extend_from_slice(w.as_bytes());
        offsets.push(data.len() as u32);
    }
    let values = Values::Var { offsets: PageBuf::from_values(&offsets), data: PageBuf::copy_from(&data) };
    Column::new(DataType::Text, words.len(), None, values).expect("a good column")
}

fn measured(what: &str, mut f: impl FnMut() -> usize) {
    let start = Instant::now();
    let mut passed = 0;
    for _ in 0..REPEATS {
        passed = f();
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = (ROWS * REPEATS) as f64 / seconds / 1e6;
    println!("{what:40} {rate:9.0} M rows/s   {passed:6} of {ROWS} pass");
}

fn main() {
    let random = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let of = |n: u64| (0..ROWS).map(move |i| random(i) % n);
    let comments = [
        "final deposits sleep furiously",
        "special packages requests",
        "ironic pinto beans",
        "carefully bold",
    ];
    let comments: Vec<&str> = of(4).map(|c| comments[c as usize]).collect();
    let codes: Vec<u8> = of(7).map(|c| c as u8).collect();
    let modes = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];
    let dictionary =
        Values::Dict { code_width: 1, codes: PageBuf::copy_from(&codes), dictionary: Arc::new(var(&modes)) };
    let columns = vec![
        fixed(DataType::Date, 4, PageBuf::from_values(&of(2500).map(|v| v as i32).collect::<Vec<_>>())),
        fixed(DECIMAL, 4, PageBuf::from_values(&of(1100).map(|v| v as i32).collect::<Vec<_>>())),
        fixed(DECIMAL, 8, PageBuf::from_values(&of(1100).map(|v| v as i64).collect::<Vec<_>>())),
        fixed(DECIMAL, 16, PageBuf::from_values(&of(1100).map(i128::from).collect::<Vec<_>>())),
        Column::new(DataType::Text, ROWS, None, dictionary).expect("a good column"),
        var(&comments),
        fixed(DataType::Date, 4, PageBuf::from_values(&of(2400).map(|v| v as i32).collect::<Vec<_>>())),
        fixed(DataType::BigInt, 8, PageBuf::from_values(&of(1 << 20).map(|v| v as i64).collect::<Vec<_>>())),
        fixed(DataType::Double, 8, PageBuf::from_values(&of(1000).map(|v| v as f64).collect::<Vec<_>>())),
    ];
    let types = columns.iter().map(|c| ColumnType { data_type: c.data_type(), nullable: false }).collect();
    let schema = Schema { version: 1, columns: types, absent: Vec::new() };
    let mut memory = Memory(columns);

    let col = Expr::Column;
    let date = |v| Expr::Const(Value::Int(v), DataType::Date);
    let decimal = |v| Expr::Const(Value::Decimal(v), DECIMAL);
    let text = |s| Expr::Const(Value::text(s), DataType::Text);
    let like =
        |c, p: &str| Expr::Like { value: Box::new(col(c)), pattern: p.into(), case_insensitive: false };
    let q6 = Expr::And(vec![
        Expr::compare(CompareOp::GtEq, col(0), date(730)),
        Expr::compare(CompareOp::Lt, col(0), date(1095)),
        Expr::between(col(1), decimal(500), decimal(700)),
        Expr::compare(CompareOp::Lt, col(2), decimal(600)),
    ]);
    let in_modes = Expr::In { value: Box::new(col(4)), list: vec![Value::text("AIR"), Value::text("MAIL")] };
    let sparse = (0..10_000).map(|i| Value::Int(i * 104_729 % (1 << 20))).collect();
    let list = (0..1500).map(|i| Value::Int(i * 2711)).collect();
    let far_apart = Expr::In { value: Box::new(col(7)), list };
    let in_keys =
        |keys: Vec<i64>| Expr::InKeys { value: Box::new(col(7)), keys: Arc::new(KeySet::of_numbers(keys)) };
    let product = Expr::Arith(lode_program::ArithOp::Mul, Box::new(col(1)), Box::new(col(2)));
    let product_type = DataType::Decimal { precision: 31, scale: 4 };
    let filters = [
        ("DATE range", Expr::between(col(0), date(730), date(1094))),
        ("DECIMAL BETWEEN, 4 bytes", Expr::between(col(1), decimal(500), decimal(700))),
        ("DECIMAL BETWEEN, 8 bytes", Expr::between(col(2), decimal(500), decimal(700))),
        ("DECIMAL BETWEEN, 16 bytes", Expr::between(col(3), decimal(500), decimal(700))),
        ("dictionary =", Expr::compare(CompareOp::Eq, col(4), text("MAIL"))),
        ("dictionary IN", in_modes),
        ("dictionary LIKE", like(4, "%AIR%")),
        ("TEXT =", Expr::compare(CompareOp::Eq, col(5), text("carefully bold"))),
        ("TEXT LIKE '%x%'", like(5, "%requests%")),
        ("TEXT LIKE 'x%'", like(5, "special%")),
        ("TEXT LIKE '%x%y%'", like(5, "%special%requests%")),
        ("DATE < DATE", Expr::compare(CompareOp::Lt, col(0), col(6))),
        ("BIGINT IN, 1,500 values far apart", far_apart),
        ("BIGINT IN, 10,000 values", Expr::In { value: Box::new(col(7)), list: sparse }),
        ("BIGINT in a bitmap of keys", in_keys((0..10_000).map(|i| i * 100).collect())),
        ("BIGINT in a Bloom filter", in_keys((0..10_000).map(|i| i * 10_000_000_000).collect())),
        ("DOUBLE range", {
            let c = |v| Expr::Const(Value::Double(v), DataType::Double);
            Expr::between(col(8), c(100.0), c(200.0))
        }),
        ("DECIMAL * DECIMAL > constant", {
            Expr::compare(CompareOp::Gt, product, Expr::Const(Value::Decimal(500_000), product_type))
        }),
        ("TPC-H query 6", q6.clone()),
    ];
    for (what, filter) in filters {
        let p = Program::check(schema.clone(), Some(filter), vec![], false).expect("a good program");
        measured(what, || {
            let s = select(&p, &mut memory, &mut Meter::default()).expect("good columns");
            s.count(ROWS)
        });
    }
    let p =
        Program::check(schema.clone(), Some(like(5, "%requests%")), vec![], false).expect("a good program");
    let quarter = select(&p, &mut memory, &mut Meter::default()).expect("good columns");
    for (what, column) in [("compact DATE", 0), ("compact dictionary", 4), ("compact TEXT", 5)] {
        measured(what, || compact(&memory.0[column], &quarter).rows());
    }
    assert!(matches!(quarter, Selection::Some(_)));
    let rule = IndexRule::new(schema, (0..9).collect()).expect("a good rule");
    measured("index entry of 9 columns", || rule.entry(&mut memory).expect("good columns").rows() as usize);
}
