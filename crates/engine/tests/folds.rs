//! Merges of updates: a page of which no row comes or goes stays one page, and columns that no row changes keep their segments.

mod support;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use lode_command::Progress;
use lode_engine::{Changes, Database, Encodings, Layout};
use lode_page::{DataType, EncodingChoice, Value};
use support::drive::TestDrive;
use support::{Row, load, open, scan, sound};

const ROWS: i64 = 60_000;
const COLUMNS: [(&str, DataType); 8] = [
    ("k", DataType::BigInt),
    ("random", DataType::Text),
    ("few", DataType::Text),
    ("words", DataType::Text),
    ("d", DataType::Double),
    ("n", DataType::Decimal { precision: 12, scale: 2 }),
    ("ok", DataType::Boolean),
    ("b", DataType::Bytea),
];

/// A number that looks random, the same for the same seed.
fn mixed(seed: i64) -> u64 {
    let mut x = seed.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

/// A value of a column, with NULLs and the values at the edges of its type among others.
fn value(column: usize, seed: i64) -> Value {
    let x = mixed(seed * 8 + column as i64);
    if column > 0 && x.is_multiple_of(13) {
        return Value::Null;
    }
    match column {
        0 => Value::Int(seed),
        1 => Value::text(&format!("{:016x}{:016x}", mixed(x.cast_signed()), mixed(!x.cast_signed()))),
        2 => Value::text(["", "red", "green", "äöü"][x as usize % 4]),
        3 => Value::text(&format!("the {} of the {}", x % 7, ["house", "garden", "tree"][x as usize % 3])),
        4 => Value::Double([0.0, -0.0, f64::NAN, f64::INFINITY, x as f64][x as usize % 5]),
        5 => Value::Decimal(i128::from(x % 1_000_000) - 500_000),
        6 => Value::Boolean(x.is_multiple_of(2)),
        _ => Value::Bytes(x.to_be_bytes()[..x as usize % 9].into()),
    }
}

fn row(k: i64) -> Row {
    (0..COLUMNS.len()).map(|c| value(c, k)).collect()
}

fn filled(choice: EncodingChoice) -> (Database, BTreeMap<i64, Row>) {
    let db = open(&TestDrive::new());
    let mut def = support::def("t", &COLUMNS, &[0], Layout::Column);
    def.options.changes = Changes::Delta;
    def.options.encoding = Encodings { all: choice, ..Encodings::default() };
    db.create_table(def, false).unwrap();
    let rows: BTreeMap<i64, Row> = (0..ROWS).map(|k| (k, row(k))).collect();
    load(&db, &rows.values().cloned().collect::<Vec<_>>(), 1000).unwrap();
    (db, rows)
}

/// Updates one column of some rows, and merges all.
fn update(db: &Database, rows: &mut BTreeMap<i64, Row>, column: usize, keys: &[i64], seed: i64) {
    let mut txn = db.begin_write().unwrap();
    let mut new = Vec::new();
    let mut addresses = Vec::new();
    for (address, row) in scan(txn.snapshot(), "t") {
        let Value::Int(k) = row[0] else { panic!("{row:?}") };
        if keys.contains(&k) {
            let v = value(column, seed + k);
            rows.get_mut(&k).unwrap()[column] = v.clone();
            addresses.push(address);
            new.push(vec![v]);
        }
    }
    assert_eq!(addresses.len(), keys.len());
    let columns = support::columns(&[COLUMNS[column].1], &new);
    txn.update("t", &addresses, &[column as u16], columns).unwrap();
    txn.commit().unwrap();
    let mut idle = 0;
    while idle < 30 {
        idle = if db.work(1 << 20) == Progress::More { 0 } else { idle + 1 };
    }
    let s = db.snapshot().unwrap();
    assert_eq!(s.delta_rows(&s.table("t").unwrap()).unwrap(), (0, 0), "all is merged");
}

/// Compares all rows.
fn same(found: Vec<Row>, expected: &BTreeMap<i64, Row>, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for row in found {
        let Value::Int(k) = row[0] else { panic!("{row:?}") };
        let is_same =
            |(a, b): (&Value, &Value)| a.is_null() && b.is_null() || a.compare(b) == Some(Ordering::Equal);
        assert!(row.iter().zip(&expected[&k]).all(is_same), "{what}: {row:?}, expected {:?}", expected[&k]);
    }
}

/// The first key and the rows of each page.
fn pages(db: &Database) -> Vec<(i64, usize)> {
    let s = db.snapshot().unwrap();
    let mut pages: BTreeMap<u64, (i64, usize)> = BTreeMap::new();
    for (address, row) in scan(&s, "t") {
        let Value::Int(k) = row[0] else { panic!("{row:?}") };
        let page = pages.entry(address.raw() >> 32).or_insert((k, 0));
        *page = (page.0.min(k), page.1 + 1);
    }
    let mut pages: Vec<_> = pages.into_values().collect();
    pages.sort_unstable();
    pages
}

#[test]
fn updates_of_each_column_leave_all_other_values_and_the_pages_as_they_were() {
    for choice in [EncodingChoice::Auto, EncodingChoice::Plain] {
        let (db, mut rows) = filled(choice);
        let before = pages(&db);
        assert!(before.len() > 2, "{before:?}");
        let old = db.snapshot().unwrap();
        let at_first = rows.clone();
        for (column, (name, _)) in COLUMNS.iter().enumerate().skip(1) {
            let few: Vec<i64> =
                (0..40).map(|i| (mixed(i + 100 * column as i64) % ROWS as u64) as i64).collect();
            let mut few: Vec<i64> = few.into_iter().chain([0, ROWS - 1]).collect();
            few.sort_unstable();
            few.dedup();
            update(&db, &mut rows, column, &few, 1_000_000 * column as i64);
            same(support::read(&db.snapshot().unwrap(), "t"), &rows, name);
        }
        let full = |pages: &[(i64, usize)]| pages[..pages.len() - 1].to_vec();
        assert_eq!(full(&pages(&db)), full(&before), "{choice:?}");
        same(support::read(&old, "t"), &at_first, "an old snapshot");
        sound(&db);
    }
}

#[test]
fn a_page_that_grows_beyond_its_limit_becomes_two() {
    let (db, mut rows) = filled(EncodingChoice::Auto);
    let before = pages(&db);
    let long = |k: i64| Value::text(&format!("{:016x}", mixed(k)).repeat(400));
    let mut txn = db.begin_write().unwrap();
    let (mut new, mut addresses) = (Vec::new(), Vec::new());
    for (address, row) in scan(txn.snapshot(), "t") {
        let Value::Int(k) = row[0] else { panic!("{row:?}") };
        if k < 200 {
            rows.get_mut(&k).unwrap()[3] = long(k);
            addresses.push(address);
            new.push(vec![long(k)]);
        }
    }
    txn.update("t", &addresses, &[3], support::columns(&[DataType::Text], &new)).unwrap();
    txn.commit().unwrap();
    while db.work(1 << 20) == Progress::More {}
    db.merge("t").unwrap();
    same(support::read(&db.snapshot().unwrap(), "t"), &rows, "long values");
    assert!(pages(&db).len() > before.len());
    sound(&db);
}
