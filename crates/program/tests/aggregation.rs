//! Aggregation equals its definition, over random columns, filters, keys and arguments, with small and large tables.

mod common;

use std::collections::BTreeMap;

use common::random::{self, Rng, TYPES};
use common::{Memory, naive, schema};
use lode_base::PageBuf;
use lode_page::{Column, DataType, Value, Values};
use lode_program::index::take_entry;
use lode_program::{
    Aggregation, ArithOp, Call, EvalError, Expr, GroupTable, IndexRule, Meter, Program, Selection, select,
};
use proptest::prelude::*;

/// The merged state of a group.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Number(i128),
    Double(f64),
    Value(Value),
}

fn aggregation(rng: &mut Rng) -> Aggregation {
    let no_float = |c: &u16| !matches!(TYPES[usize::from(*c)], DataType::Real | DataType::Double);
    let keys: Vec<u16> = (0..TYPES.len() as u16).filter(no_float).collect();
    let group_by = (0..rng.below(4)).map(|_| rng.pick(&keys)).collect();
    let call = |rng: &mut Rng| loop {
        if rng.one_in(9) {
            return Call::Count(Expr::Column(0));
        }
        let t = rng.pick(&TYPES[1..14]);
        let e = random::scalar(rng, t, 2);
        let numeric = !matches!(t, DataType::Date | DataType::Timestamp) && !t.is_variable();
        let float = matches!(t, DataType::Real | DataType::Double);
        match rng.below(5) {
            0 => return Call::CountRows,
            1 => return Call::Count(e),
            2 if numeric => return Call::Sum(e),
            3 if !float => return Call::Min(e),
            4 if !float => return Call::Max(e),
            _ => {}
        }
    };
    let calls = (0..1 + rng.below(4)).map(|_| call(rng)).collect();
    Aggregation { group_by, calls, groups_max: rng.pick(&[1, 2, 3, 7, 100, 1000]) }
}

/// The merged states of all groups, by key.
type Groups = BTreeMap<String, Vec<Option<Known>>>;

/// A key as text, so that it can be ordered.
fn key(values: impl Iterator<Item = Value>) -> String {
    format!("{:?}", values.collect::<Vec<_>>())
}

/// Merges a value into a state.
fn merge(call: &Call, known: Option<Known>, v: &Value) -> Option<Known> {
    let number = |v: &Value| match v {
        Value::Int(i) => Known::Number((*i).into()),
        Value::Decimal(d) => Known::Number(*d),
        Value::Real(f) => Known::Double((*f).into()),
        Value::Double(f) => Known::Double(*f),
        v => panic!("{v:?}"),
    };
    if v.is_null() {
        return known;
    }
    Some(match (call, known) {
        (Call::Min(_) | Call::Max(_), None) => Known::Value(v.clone()),
        (Call::Min(_) | Call::Max(_), Some(Known::Value(old))) => {
            let less = v.compare(&old).unwrap().is_lt();
            Known::Value(if less == matches!(call, Call::Min(_)) { v.clone() } else { old })
        }
        (_, None) => number(v),
        (_, Some(Known::Number(a))) => match number(v) {
            Known::Number(b) => Known::Number(a.wrapping_add(b)),
            _ => unreachable!(),
        },
        (_, Some(Known::Double(a))) => match number(v) {
            Known::Double(b) => Known::Double(a + b),
            _ => unreachable!(),
        },
        (_, Some(Known::Value(_))) => unreachable!(),
    })
}

/// By the definition: row by row.
fn by_hand(p: &Program, memory: &Memory, rows: &[u32]) -> Groups {
    let a = p.aggregation().unwrap();
    let mut groups = Groups::new();
    for &row in rows {
        let column = |c: u16| memory.columns[usize::from(c)].value(row as usize);
        let states = groups.entry(key(a.group_by.iter().map(|&c| column(c)))).or_insert_with(|| {
            let zero = |c: &Call| matches!(c, Call::CountRows | Call::Count(_)).then_some(Known::Number(0));
            a.calls.iter().map(zero).collect()
        });
        for (state, call) in states.iter_mut().zip(&a.calls) {
            let value = match call {
                Call::CountRows => Value::Int(1),
                Call::Count(e) if naive::value(p.schema(), e, &column).0.is_null() => Value::Null,
                Call::Count(_) => Value::Int(1),
                Call::Sum(e) | Call::Min(e) | Call::Max(e) => naive::value(p.schema(), e, &column).0,
            };
            *state = merge(call, state.take(), &value);
        }
    }
    groups
}

/// The partial groups of a table, merged; and how often the table was full.
fn by_table(
    p: &Program,
    memory: &mut Memory,
    selections: &[Selection],
) -> Result<(Groups, usize), EvalError<String>> {
    let a = p.aggregation().unwrap().clone();
    let mut table = GroupTable::new(p).unwrap();
    let mut parts: Vec<(usize, Vec<Column>)> = Vec::new();
    for s in selections {
        table.take(p, memory, s, &mut |groups, columns| parts.push((groups, columns)))?;
        assert!(table.groups() <= a.groups_max as usize);
    }
    parts.push(table.drain(p));
    assert_eq!((table.groups(), table.drain(p).0), (0, 0));
    let mut groups = Groups::new();
    let keys = a.group_by.len();
    for (rows, columns) in &parts {
        assert!(*rows <= a.groups_max as usize || keys == 0);
        assert!(columns.iter().zip(p.group_types()).all(|(c, t)| c.rows() == *rows && c.data_type() == *t));
        assert_eq!(columns.len(), p.group_types().len());
        let mut seen = std::collections::BTreeSet::new();
        for row in 0..*rows {
            let k = key(columns[..keys].iter().map(|c| c.value(row)));
            assert!(seen.insert(k.clone()), "a group comes out once of a table: {k}");
            let states = groups.entry(k).or_insert_with(|| vec![None; a.calls.len()]);
            for ((state, call), c) in states.iter_mut().zip(&a.calls).zip(&columns[keys..]) {
                *state = merge(call, state.take(), &c.value(row));
            }
        }
    }
    Ok((groups, parts.len()))
}

/// Equality, except for the last digits of sums of floats, since parts are added in another order.
fn same(a: &Option<Known>, b: &Option<Known>) -> bool {
    match (a, b) {
        (Some(Known::Double(a)), Some(Known::Double(b))) => {
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        (a, b) => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn groups_are_by_the_definition(seed: u64) {
        let rng = &mut Rng::new(seed);
        let rows = if rng.one_in(30) { rng.pick(&[2048, 2049, 4100]) } else { rng.pick(&[0, 1, 7, 63, 64, 65, 200]) };
        let columns = TYPES.iter().map(|&t| random::column(rng, t, rows)).collect();
        let mut memory = Memory::new(rows, columns);
        let depth = rng.below(2);
        let filter = (!rng.one_in(3)).then(|| random::predicate(rng, depth));
        let p = Program::check(schema(&TYPES), filter, vec![], false).unwrap();
        let p = p.with_aggregation(aggregation(rng)).unwrap();
        let selected = select(&p, &mut memory, &mut Meter::default()).unwrap();
        let rows = selected.slots(rows);
        let expected = by_hand(&p, &memory, &rows);
        let (got, parts) = by_table(&p, &mut memory, &[selected]).unwrap();
        let a = p.aggregation().unwrap();
        prop_assert!(expected.keys().eq(got.keys()), "{:?}", a);
        for (k, states) in &expected {
            let equal = states.iter().zip(&got[k]).all(|(a, b)| same(a, b));
            prop_assert!(equal, "{k} {a:?}: {states:?}, not {:?}", got[k]);
        }
        prop_assert!(parts > 1 || expected.len() <= a.groups_max as usize);
    }

    #[test]
    fn an_index_entry_gives_what_the_rows_of_its_page_give(seed: u64) {
        let rng = &mut Rng::new(seed);
        let exact = |&c: &u16| {
            let t = TYPES[usize::from(c)];
            let is_narrow = !matches!(t, DataType::Decimal { precision: 19.., .. });
            !t.is_float() && !t.is_variable() && t != DataType::Boolean && is_narrow
        };
        let columns: Vec<u16> = (0..TYPES.len() as u16).filter(exact).collect();
        let calls: Vec<Call> = (0..1 + rng.below(4)).map(|_| {
            let e = Expr::Column(rng.pick(&columns));
            match rng.below(4) {
                0 => Call::CountRows,
                1 => Call::Count(e),
                2 => Call::Min(e),
                _ => Call::Max(e),
            }
        }).collect();
        let counts_values = calls.iter().any(|c| matches!(c, Call::Count(_)));
        let asked = Aggregation { group_by: vec![], calls, groups_max: 1 };
        let p = Program::check(schema(&TYPES), None, vec![], false).unwrap().with_aggregation(asked).unwrap();
        let rule = IndexRule::new(schema(&TYPES), columns).unwrap();
        let (mut by_rows, mut by_entry) = (GroupTable::new(&p).unwrap(), GroupTable::new(&p).unwrap());
        for _ in 0..3 {
            let rows = rng.pick(&[0, 1, 7, 64, 200]);
            let mut page = Memory::new(rows, TYPES.iter().map(|&t| random::column(rng, t, rows)).collect());
            let entry = rule.entry(&mut page).unwrap();
            if take_entry(&mut by_entry, &p, &rule, &entry) {
                by_rows.take(&p, &mut page, &Selection::All, &mut |_, _| {}).unwrap();
            } else {
                prop_assert!(counts_values, "only how many are NULL is not in an entry");
            }
        }
        let drained = |table: &mut GroupTable| {
            let (groups, columns) = table.drain(&p);
            let values = |c: &Column| (0..groups).map(|row| c.value(row)).collect::<Vec<_>>();
            columns.iter().map(values).collect::<Vec<_>>()
        };
        prop_assert_eq!(drained(&mut by_entry), drained(&mut by_rows), "{:?}", p.aggregation());
    }
}

fn decimals(values: &[i128], validity: Option<&[u8]>) -> Column {
    let data = Values::Fixed { width: 16, data: PageBuf::from_values(values) };
    let t = DataType::Decimal { precision: 38, scale: 2 };
    Column::new(t, values.len(), validity.map(PageBuf::copy_from), data).unwrap()
}

#[test]
fn a_product_that_does_not_fit_is_an_error_unless_it_is_null_or_did_not_pass() {
    let t = DataType::Decimal { precision: 38, scale: 2 };
    let big = 10i128.pow(37);
    let square = Expr::Arith(ArithOp::Mul, Box::new(Expr::Column(0)), Box::new(Expr::Column(0)));
    let sum = Aggregation { group_by: vec![], calls: vec![Call::Sum(square)], groups_max: 1 };
    let p = Program::check(schema(&[t]), None, vec![], false).unwrap().with_aggregation(sum).unwrap();
    let check = |validity: Option<&[u8]>, selection: Selection| {
        let mut memory = Memory::new(3, vec![decimals(&[3, big, 5], validity)]);
        by_table(&p, &mut memory, &[selection]).map(|(groups, _)| groups["[]"][0].clone())
    };
    assert_eq!(check(None, Selection::All), Err(EvalError::Overflow));
    let passed = |bits| Selection::from_mask(lode_program::RowMask::new(vec![bits], 3));
    assert_eq!(check(None, passed(0b101)), Ok(Some(Known::Number(34))));
    assert_eq!(check(Some(&[0b101]), Selection::All), Ok(Some(Known::Number(34))));
    assert_eq!(check(Some(&[0b110]), Selection::All), Err(EvalError::Overflow));
}

#[test]
fn sums_of_bigint_do_not_wrap_at_64_bits_nor_sums_of_decimals_at_128() {
    let data = Values::Fixed { width: 8, data: PageBuf::from_values(&[i64::MAX, i64::MAX, -1]) };
    let column = Column::new(DataType::BigInt, 3, None, data).unwrap();
    let sum = || Aggregation { group_by: vec![], calls: vec![Call::Sum(Expr::Column(0))], groups_max: 1 };
    let p = Program::check(schema(&[DataType::BigInt]), None, vec![], false).unwrap();
    let p = p.with_aggregation(sum()).unwrap();
    let (groups, _) = by_table(&p, &mut Memory::new(3, vec![column]), &[Selection::All]).unwrap();
    assert_eq!(groups["[]"][0], Some(Known::Number(2 * i128::from(i64::MAX) - 1)));

    let t = DataType::Decimal { precision: 38, scale: 2 };
    let p = Program::check(schema(&[t]), None, vec![], false).unwrap().with_aggregation(sum()).unwrap();
    let most = 10i128.pow(38) - 1;
    let mut memory = Memory::new(2, vec![decimals(&[most, most], None)]);
    assert_eq!(by_table(&p, &mut memory, &[Selection::All]).map(|_| ()), Err(EvalError::Overflow));
}

#[test]
fn pages_add_up_and_a_full_table_comes_out_whole() {
    let t = DataType::BigInt;
    let column = |values: &[i64]| {
        let data = Values::Fixed { width: 8, data: PageBuf::from_values(values) };
        Column::new(t, values.len(), None, data).unwrap()
    };
    let a = |groups_max| Aggregation { group_by: vec![0], calls: vec![Call::CountRows], groups_max };
    let p = Program::check(schema(&[t]), None, vec![], false).unwrap();
    let run = |groups_max| {
        let p = p.clone().with_aggregation(a(groups_max)).unwrap();
        let mut table = GroupTable::new(&p).unwrap();
        let mut parts = Vec::new();
        for page in [&[1, 2, 1][..], &[2, 3, 3, 1, 4]] {
            let mut memory = Memory::new(page.len(), vec![column(page)]);
            table.take(&p, &mut memory, &Selection::All, &mut |n, _| parts.push(n)).unwrap();
        }
        parts.push(table.drain(&p).0);
        parts
    };
    assert_eq!(run(100), [4]);
    assert_eq!(run(4), [4]);
    assert_eq!(run(3), [3, 1]);
    assert_eq!(run(2), [2, 2, 1]);
    assert_eq!(run(1), [1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn what_can_not_be_aggregated_is_refused() {
    let types = [DataType::Double, DataType::Boolean, DataType::Text, DataType::Integer];
    let p = Program::check(schema(&types), None, vec![], false).unwrap();
    let c = Expr::Column;
    let check = |group_by: &[u16], call: Call, groups_max, expected: &str| {
        let a = Aggregation { group_by: group_by.into(), calls: vec![call], groups_max };
        let e = p.clone().with_aggregation(a).unwrap_err().to_string();
        assert!(e.contains(expected), "{e}");
    };
    check(&[0], Call::CountRows, 1, "the drive does not evaluate groups by floats");
    check(&[4], Call::CountRows, 1, "column 4 does not exist");
    check(&[], Call::CountRows, 0, "0 groups");
    check(&[], Call::CountRows, 70_000, "70000 groups, at most 65536");
    check(&[], Call::Max(c(0)), 1, "the least or greatest of DOUBLE");
    check(&[], Call::Count(Expr::IsNull(Box::new(c(1)))), 1, "an aggregate of BOOLEAN");
    check(&[], Call::Max(c(1)), 1, "an aggregate of BOOLEAN");
    check(&[], Call::Sum(c(2)), 1, "the sum of TEXT");
    check(&[], Call::Sum(c(9)), 1, "column 9 does not exist");
    let many = Aggregation { group_by: vec![3; 300], calls: vec![], groups_max: 1 };
    assert!(p.with_aggregation(many).unwrap_err().to_string().contains("300 keys, at most 256"));
}
