//! The evaluator equals the definition on random programs over random columns, and reads no more than it should.

mod common;

use common::random::{self, Rng, TYPES};
use common::{Memory, naive, schema};
use lode_base::PageBuf;
use lode_page::{Column, DataType, Value, Values};
use lode_program::index::Bounds;
use lode_program::{
    CompareOp, EvalError, Expr, IndexEntry, IndexRule, Meter, Program, Selection, compact, key_of, may_match,
    select,
};
use proptest::prelude::*;

fn page(rng: &mut Rng) -> Memory {
    // Computed values are evaluated in blocks of 2,048 rows. Most pages have one block, since the definition is slow.
    let many = [2048, 2049, 4100];
    let rows = if rng.one_in(50) { rng.pick(&many) } else { rng.pick(&[0, 1, 7, 63, 64, 65, 130, 200]) };
    Memory::new(rows, TYPES.iter().map(|&t| random::column(rng, t, rows)).collect())
}

fn program(e: Expr) -> Program {
    Program::check(schema(&TYPES), Some(e), vec![], false).expect("a good program")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn rows_pass_by_the_definition(seed: u64) {
        let rng = &mut Rng::new(seed);
        let mut memory = page(rng);
        let depth = rng.below(4);
        let p = program(random::predicate(rng, depth));
        let selected = select(&p, &mut memory, &mut Meter::default()).unwrap();
        let filter = p.filter().unwrap();
        let passes = |row| naive::passes(p.schema(), filter, &|c| memory.columns[usize::from(c)].value(row));
        let expected: Vec<u32> = (0..memory.rows).filter(|&r| passes(r)).map(|r| r as u32).collect();
        prop_assert_eq!(selected.slots(memory.rows), expected.clone(), "{:?}", filter);
        prop_assert_eq!(selected.count(memory.rows), expected.len());
        prop_assert!(memory.asked.iter().all(|&n| n <= 1), "a column was read twice: {:?}", memory.asked);

        for c in &memory.columns {
            let rows = compact(c, &selected);
            prop_assert_eq!(rows.rows(), expected.len());
            for (i, &slot) in expected.iter().enumerate() {
                let (got, want) = (rows.value(i), c.value(slot as usize));
                prop_assert!(got.compare(&want).map_or(got == want, |o| o.is_eq()), "{got:?} {want:?}");
            }
        }

        let indexed: Vec<u16> = (0..TYPES.len() as u16).filter(|_| !rng.one_in(4)).collect();
        let rule = IndexRule::new(schema(&TYPES), indexed).unwrap();
        let entry = rule.entry(&mut memory).unwrap();
        prop_assert_eq!(IndexEntry::decode(&rule, &entry.encode()).unwrap(), entry.clone());
        prop_assert!(may_match(&p, &rule, &entry) || expected.is_empty(), "skipped rows of {:?}", filter);
    }

    #[test]
    fn forged_entries_are_refused_or_harmless(seed: u64, bytes: Vec<u8>) {
        let rng = &mut Rng::new(seed);
        if let Ok(rule) = IndexRule::from_bytes(&bytes) {
            prop_assert_eq!(IndexRule::from_bytes(&rule.to_bytes()), Ok(rule));
        }
        let rule = IndexRule::new(schema(&TYPES), (0..TYPES.len() as u16).collect()).unwrap();
        let mut forged: Vec<u8> = (0..rule.entry_bytes()).map(|_| rng.next() as u8).collect();
        forged[7] = 0;
        for range in forged[8..].chunks_exact_mut(16) {
            let keys = [0, 1, 1 << 63, u64::MAX, rng.next(), rng.next() >> 1, rng.next() | 1 << 63];
            let (a, b) = (rng.pick(&keys), rng.pick(&keys));
            range[..8].copy_from_slice(&a.min(b).to_le_bytes());
            range[8..].copy_from_slice(&a.max(b).to_le_bytes());
        }
        if let Ok(entry) = IndexEntry::decode(&rule, &forged) {
            may_match(&program(random::predicate(rng, 3)), &rule, &entry);
            prop_assert_eq!(entry.encode(), forged);
        }
        prop_assert!(IndexEntry::decode(&rule, &bytes).is_err());
    }

    #[test]
    fn entries_bound_their_rows_tightly(seed: u64) {
        let mut memory = page(&mut Rng::new(seed));
        let rule = IndexRule::new(schema(&TYPES), (0..TYPES.len() as u16).collect()).unwrap();
        let entry = rule.entry(&mut memory).unwrap();
        prop_assert_eq!(entry.rows() as usize, memory.rows);
        for (i, c) in memory.columns.iter().enumerate() {
            let keys: Vec<u64> = (0..c.rows()).filter_map(|r| key_of(c.data_type(), &c.value(r))).collect();
            let expected = keys.iter().min().map(|&min| (min, *keys.iter().max().unwrap()));
            let has_nulls = keys.len() < c.rows();
            prop_assert_eq!(rule.bounds(&entry, i as u16), Some(Bounds { keys: expected, has_nulls }));
        }
    }
}

fn ints(values: &[i32]) -> Column {
    let values_ = Values::Fixed { width: 4, data: PageBuf::from_values(values) };
    Column::new(DataType::Integer, values.len(), None, values_).unwrap()
}

fn col(c: u16) -> Box<Expr> {
    Box::new(Expr::Column(c))
}

fn int_compare(c: u16, op: CompareOp, v: i64) -> Expr {
    Expr::compare(op, Expr::Column(c), Expr::Const(Value::Int(v), DataType::Integer))
}

#[test]
fn columns_are_not_read_once_no_row_is_left() {
    let columns = vec![ints(&[1; 100]), ints(&[2; 100])];
    let s = schema(&[DataType::Integer; 2]);
    let none = Expr::And(vec![int_compare(1, CompareOp::Eq, 2), int_compare(0, CompareOp::Gt, 5)]);
    let check = |e: Expr, asked: &[usize]| {
        let p = Program::check(s.clone(), Some(e), vec![], false).unwrap();
        let mut memory = Memory::new(100, columns.clone());
        select(&p, &mut memory, &mut Meter::default()).unwrap();
        assert_eq!(memory.asked, asked);
    };
    check(none, &[1, 1]);
    check(Expr::And(vec![int_compare(0, CompareOp::Gt, 5), int_compare(1, CompareOp::Eq, 2)]), &[1, 0]);
    check(Expr::Or(vec![int_compare(0, CompareOp::Lt, 5), int_compare(1, CompareOp::Eq, 2)]), &[1, 0]);
    check(Expr::Const(Value::Boolean(false), DataType::Boolean), &[0, 0]);
}

#[test]
fn cheap_conjuncts_come_first() {
    let s = schema(&[DataType::Text, DataType::Integer]);
    let like = Expr::Like { value: col(0), pattern: "%a%".into(), case_insensitive: false };
    let p = Program::check(s, Some(Expr::And(vec![like, int_compare(1, CompareOp::Gt, 5)])), vec![], false)
        .unwrap();
    let text = Values::Var { offsets: PageBuf::from_values(&[0u32; 4]), data: PageBuf::empty() };
    let text = Column::new(DataType::Text, 3, None, text).unwrap();
    let mut memory = Memory::new(3, vec![text, ints(&[1, 2, 3])]);
    let mut meter = Meter::default();
    assert_eq!(select(&p, &mut memory, &mut meter), Ok(Selection::None));
    assert_eq!(memory.asked, [0, 1]);
    assert_eq!(meter, Meter { rows: 3, values_compared: 3 });
}

#[test]
fn a_column_that_is_not_the_schemas_is_an_error() {
    let p =
        Program::check(schema(&[DataType::Integer]), Some(int_compare(0, CompareOp::Eq, 1)), vec![], false)
            .unwrap();
    let rule = IndexRule::new(schema(&[DataType::Integer]), vec![0]).unwrap();
    let date = Column::new(DataType::Date, 2, None, ints(&[1, 2]).values().clone()).unwrap();
    for (rows, column) in [(3, ints(&[1, 2])), (1, ints(&[1, 2])), (2, date)] {
        let mut memory = Memory::new(rows, vec![column]);
        let got = select(&p, &mut memory, &mut Meter::default());
        assert!(matches!(got, Err(EvalError::Mismatch { column: 0, .. })), "{got:?}");
        assert!(matches!(rule.entry(&mut memory), Err(EvalError::Mismatch { column: 0, .. })));
    }
}

/// Only hostile pages have decimals with more digits than their type. They must not cause a panic.
#[test]
fn hostile_digits_wrap() {
    let t = DataType::Decimal { precision: 18, scale: 2 };
    let data = PageBuf::from_values(&[i128::MAX, i128::MIN, 0]);
    let c = Column::new(t, 3, None, Values::Fixed { width: 16, data }).unwrap();
    for op in [lode_program::ArithOp::Add, lode_program::ArithOp::Sub, lode_program::ArithOp::Mul] {
        let e = Expr::IsNull(Box::new(Expr::Arith(op, col(0), col(0))));
        let f =
            Expr::compare(CompareOp::Lt, Expr::Arith(op, col(0), col(0)), Expr::Arith(op, col(0), col(0)));
        let p = Program::check(schema(&[t]), Some(Expr::And(vec![Expr::Not(Box::new(e)), f])), vec![], false)
            .unwrap();
        let mut memory = Memory::new(3, vec![c.clone()]);
        assert_eq!(select(&p, &mut memory, &mut Meter::default()), Ok(Selection::None));
    }
}

#[test]
fn pages_that_cannot_match_are_skipped() {
    let types =
        [DataType::Integer, DataType::Text, DataType::Integer, DataType::Decimal { precision: 15, scale: 2 }];
    let rule = IndexRule::new(schema(&types), vec![0, 1, 3]).unwrap();
    let words = ["mango", "melon", "mulberry-long"];
    let mut offsets = vec![0u32];
    words.iter().for_each(|w| offsets.push(offsets[offsets.len() - 1] + w.len() as u32));
    let text = Values::Var {
        offsets: PageBuf::from_values(&offsets),
        data: PageBuf::copy_from(words.concat().as_bytes()),
    };
    let decimals = Values::Fixed { width: 4, data: PageBuf::from_values(&[100i32, 200, 300]) };
    let columns = vec![
        ints(&[10, 20, 30]),
        Column::new(types[1], 3, None, text).unwrap(),
        ints(&[1, 2, 3]),
        Column::new(types[3], 3, None, decimals).unwrap(),
    ];
    let entry = rule.entry(&mut Memory::new(3, columns)).unwrap();
    let check = |e: Expr, expected: bool| {
        let p = Program::check(schema(&types), Some(e.clone()), vec![], false).unwrap();
        assert_eq!(may_match(&p, &rule, &entry), expected, "{e:?}");
    };
    let eq = |v| int_compare(0, CompareOp::Eq, v);
    check(eq(9), false);
    check(eq(15), true);
    check(int_compare(0, CompareOp::Gt, 30), false);
    check(int_compare(0, CompareOp::GtEq, 30), true);
    check(Expr::Not(Box::new(int_compare(0, CompareOp::LtEq, 30))), false);
    check(int_compare(2, CompareOp::Eq, 99), true);
    check(Expr::And(vec![int_compare(2, CompareOp::Eq, 99), eq(99)]), false);
    check(Expr::Or(vec![int_compare(2, CompareOp::Eq, 99), eq(99)]), true);
    check(Expr::Or(vec![eq(9), eq(99)]), false);
    check(Expr::IsNull(col(0)), false);
    check(Expr::Not(Box::new(Expr::IsNull(col(0)))), true);
    let list = |l: &[i64]| Expr::In { value: col(0), list: l.iter().map(|&v| Value::Int(v)).collect() };
    check(list(&[1, 5, 40]), false);
    check(list(&[1, 15, 40]), true);
    let like = |pattern: &str| Expr::Like { value: col(1), pattern: pattern.into(), case_insensitive: false };
    check(like("a%"), false);
    check(like("mel%"), true);
    check(like("mulberry-%"), true);
    check(like("n%"), false);
    check(like("%x%"), true);
    let text = |op, s: &str| Expr::compare(op, Expr::Column(1), Expr::Const(Value::text(s), DataType::Text));
    check(text(CompareOp::Eq, "lemon"), false);
    check(text(CompareOp::Lt, "mango"), true);
    check(text(CompareOp::Lt, "man"), false);
    check(text(CompareOp::Gt, "mulberrz"), false);
    let d = |v| Expr::Const(Value::Decimal(v), types[3]);
    check(Expr::between(Expr::Column(3), d(301), d(400)), false);
    check(Expr::between(Expr::Column(3), d(250), d(400)), true);
    // Computed values are bounded too.
    let tenfold =
        Expr::Arith(lode_program::ArithOp::Mul, col(0), Box::new(Expr::Const(Value::Int(10), types[0])));
    let over =
        |v| Expr::compare(CompareOp::Gt, tenfold.clone(), Expr::Const(Value::Int(v), DataType::BigInt));
    check(over(300), false);
    check(over(299), true);
    check(Expr::compare(CompareOp::Lt, Expr::Column(0), Expr::Const(Value::Null, types[0])), false);
}
