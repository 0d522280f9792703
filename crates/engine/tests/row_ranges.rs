//! The rows of a range of a key or an index, in its order, are those that a scan finds: in loaded pages, in the delta, merged, and
//! changed by the reading transaction.

mod support;

use std::cmp::Ordering;

use lode_engine::{
    Changes, Constraint, Database, Deferral, EntryOf, Few, IndexDef, IndexKind, KeyIndex, Layout, RangeEnd,
    RowOrder, RowRange, Rule, Snapshot, TableDef,
};
use lode_page::{DataType, Value};
use proptest::prelude::*;
use support::drive::TestDrive;
use support::*;

/// `t (a INTEGER, b TEXT, c BIGINT, d INTEGER NULL, n BIGINT UNIQUE, PRIMARY KEY (a, b, c), UNIQUE (c, d))`.
fn keyed() -> TableDef {
    let columns = [
        ("a", DataType::Integer),
        ("b", DataType::Text),
        ("c", DataType::BigInt),
        ("d", DataType::Integer),
        ("n", DataType::BigInt),
    ];
    let mut def = def("t", &columns, &[0, 1, 2], Layout::Auto);
    for c in [0, 1, 2, 4] {
        def.columns[c].ty.nullable = false;
    }
    def.options.changes = Changes::Delta;
    def.constraints = vec![
        Constraint {
            name: "n_is_unique".into(),
            rule: Rule::Unique { columns: vec![4] },
            deferral: Deferral::default(),
        },
        Constraint {
            name: "cd".into(),
            rule: Rule::Unique { columns: vec![2, 3] },
            deferral: Deferral::default(),
        },
    ];
    def
}

/// Row `k`, of which several share each value but the last.
fn row_of(k: i64, d: Option<i64>) -> Row {
    let text = ["", "b", "b\0x", "long, as some names are", "z"][(k / 3 % 5) as usize];
    vec![
        Value::Int(k % 3 - 1),
        Value::text(text),
        Value::Int(k),
        d.map_or(Value::Null, Value::Int),
        Value::Int(k),
    ]
}

fn created() -> Database {
    let db = open(&TestDrive::new());
    db.create_table(keyed(), false).unwrap();
    for (name, columns, unique) in
        [("by_ad", vec![0, 3], false), ("by_d", vec![3, 2], false), ("u", vec![4, 3], true)]
    {
        let kind = IndexKind::Btree { unique };
        db.create_index(
            IndexDef {
                name: name.into(),
                table: "t".into(),
                columns,
                kind,
                orders: Vec::new(),
                summaries: Vec::new(),
                entries: EntryOf::Pages,
            },
            false,
        )
        .unwrap();
    }
    db
}

/// NULL comes last, as in the order of an index.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (false, false) => a.compare(b).unwrap(),
        (a, b) => a.cmp(&b),
    }
}

/// What a range has by its definition: the rows of a scan, filtered and sorted.
fn expected(
    s: &Snapshot,
    order: &RowOrder,
    equal: &[Value],
    low: &Option<RangeEnd>,
    high: &Option<RangeEnd>,
) -> Vec<Row> {
    let key = |r: &Row| -> Vec<Value> { order.columns.iter().map(|&c| r[usize::from(c)].clone()).collect() };
    let within = |r: &Row| {
        let key = key(r);
        let compared = |end: &Option<RangeEnd>, wanted| match end {
            None => true,
            Some((v, has)) => match key[equal.len()].compare(v) {
                Some(Ordering::Equal) => *has,
                o => o == Some(wanted),
            },
        };
        key.iter().zip(equal).all(|(a, b)| a == b)
            && compared(low, Ordering::Greater)
            && compared(high, Ordering::Less)
    };
    let mut rows: Vec<_> = scan(s, "t").into_iter().map(|(_, r)| r).filter(within).collect();
    rows.sort_by(|a, b| {
        let each = key(a).into_iter().zip(key(b));
        each.map(|(a, b)| compare(&a, &b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    });
    rows
}

fn agrees(s: &Snapshot, order: &RowOrder, equal: &[Value], low: Option<RangeEnd>, high: Option<RangeEnd>) {
    let t = s.table("t").unwrap();
    let all: Vec<u16> = (0..5).collect();
    let what = format!("{order:?} {equal:?} {low:?} {high:?}");
    let rows = expected(s, order, equal, &low, &high);
    let range = RowRange::new(&t, order, equal, low, high).unwrap();
    let found = s.rows_in_range(&t, order, &range, &all, Few::All(500)).unwrap();
    let found = found.expect("a few hundred rows are not too many");
    // Rows with equal keys come in the order of their ids, which a scan does not have.
    let keys = |rows: &[Row]| -> Vec<Vec<Value>> {
        rows.iter().map(|r| order.columns.iter().map(|&c| r[usize::from(c)].clone()).collect()).collect()
    };
    assert_eq!(keys(&found.values), keys(&rows), "{what}");
    for (&address, row) in found.rows.iter().zip(&found.values) {
        assert_eq!(s.row_values(&t, address, &all).unwrap(), *row);
    }
    assert_eq!(sorted(found.values), sorted(rows.clone()), "{what}");
    // The first rows, and too many.
    for most in [1, 3] {
        let found = |few| s.rows_in_range(&t, order, &range, &all, few).unwrap();
        let (first, last) = (found(Few::First(most)).unwrap(), found(Few::Last(most)).unwrap());
        assert_eq!(keys(&first.values), keys(&rows[..most.min(rows.len())]), "{what}");
        let backward: Vec<Row> = rows.iter().rev().take(most).cloned().collect();
        assert_eq!(keys(&last.values), keys(&backward), "{what}");
        let few = found(Few::All(most));
        assert_eq!(few.map(|f| f.rows.len()), (rows.len() <= most).then_some(rows.len()), "{what}");
    }
}

/// Ranges of all orders around the values of row `k`.
fn all_agree(s: &Snapshot, k: i64) {
    let t = s.table("t").unwrap();
    let orders = t.row_orders();
    let columns: Vec<&[u16]> = orders.iter().map(|o| &o.columns[..]).collect();
    assert_eq!(columns, [&[0, 1, 2][..], &[4], &[2, 3], &[0, 3], &[3, 2], &[4, 3]]);
    for order in &orders {
        let row = row_of(k, Some(k % 7));
        let key: Vec<Value> = order.columns.iter().map(|&c| row[usize::from(c)].clone()).collect();
        for equal in 0..=key.len() {
            let (equal, next) = (&key[..equal], key.get(equal));
            // A row with a NULL in a key has no entry.
            let has_all = |restricted| order.columns != [2, 3] || restricted == 2;
            assert_eq!(order.has_all(&t, equal.len()), has_all(equal.len()));
            if !equal.is_empty() && has_all(equal.len()) {
                agrees(s, order, equal, None, None);
            }
            let Some(next) = next.filter(|_| has_all(equal.len() + 1)) else { continue };
            let far = match next {
                Value::Int(n) => Value::Int(n + 2),
                _ => Value::text("c"),
            };
            let (a, b) = ((next.clone(), k % 2 == 0), (far, k % 4 < 2));
            agrees(s, order, equal, Some(a.clone()), None);
            agrees(s, order, equal, None, Some(b.clone()));
            agrees(s, order, equal, Some(a.clone()), Some(b.clone()));
            agrees(s, order, equal, Some(b), Some(a));
        }
    }
}

#[test]
fn ranges_of_loaded_rows_of_the_delta_and_of_both_are_those_of_a_scan() {
    for ascending in [true, false] {
        let db = created();
        let mut rows: Vec<Row> = (0..200).map(|k| row_of(k, (k % 4 > 0).then_some(k % 7))).collect();
        if ascending {
            rows.sort_by(|a, b| (0..3).map(|c| a[c].compare(&b[c]).unwrap()).find(|o| o.is_ne()).unwrap());
        }
        load(&db, &rows, 40).unwrap();
        all_agree(&db.snapshot().unwrap(), 17);
        let old = db.snapshot().unwrap();
        insert(&db, &(200..260).map(|k| row_of(k, Some(k % 7))).collect::<Vec<_>>()).unwrap();
        for k in [0, 17, 203] {
            all_agree(&db.snapshot().unwrap(), k);
        }
        db.merge("t").unwrap();
        for k in [17, 203] {
            all_agree(&db.snapshot().unwrap(), k);
            all_agree(&old, k);
        }
        sound(&db);
    }
}

/// Rows of pages have no entries of keys then.
#[test]
fn keys_that_the_page_index_finds_have_no_order() {
    let db = open(&TestDrive::new());
    let mut def = keyed();
    def.options.key_index = KeyIndex::PageIndex;
    db.create_table(def, false).unwrap();
    assert_eq!(db.snapshot().unwrap().table("t").unwrap().row_orders(), []);
}

#[test]
fn values_that_no_range_can_have_are_refused() {
    let db = created();
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    let order = &t.row_orders()[0];
    let refused =
        |equal: &[Value], low: Option<RangeEnd>| RowRange::new(&t, order, equal, low, None).is_none();
    assert!(refused(&[Value::Null], None));
    assert!(refused(&[Value::text("a")], None));
    assert!(refused(&[Value::Int(1 << 40)], None));
    assert!(refused(&[], Some((Value::Null, true))));
    assert!(refused(&[Value::Int(1), Value::text(&"x".repeat(2000))], None));
    let whole = [Value::Int(1), Value::text("b"), Value::Int(1)];
    assert!(!refused(&whole, None));
    assert!(refused(&whole, Some((Value::Int(1), true))), "no column is left");
}

/// A row whose key is longer than entries can have, and one that differs only behind that.
#[test]
fn keys_that_entries_cut_off_are_left_to_a_scan() {
    let db = created();
    let long = |end: &str| {
        let mut row = row_of(1, Some(1));
        row[1] = Value::text(&("x".repeat(1500) + end));
        let n = if end == "a" { 1 } else { 2 };
        (row[3], row[4]) = (Value::Int(n), Value::Int(n));
        row
    };
    insert(&db, &[long("a"), long("b")]).unwrap();
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    let order = &t.row_orders()[0];
    let range = RowRange::new(&t, order, &[Value::Int(0)], None, None).unwrap();
    assert!(s.rows_in_range(&t, order, &range, &[0], Few::All(10)).unwrap().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn ranges_agree_with_scans_whatever_changed(
        ascending: bool,
        commits in prop::collection::vec(
            (prop::collection::vec((0..7u8, 0..150i64), 1..10), 0..4u8), 1..6),
    ) {
        let db = created();
        let mut rows: Vec<Row> = (0..60).map(|i| row_of(i * 7 % 60 * 2, (i % 5 > 0).then_some(i % 7))).collect();
        if ascending {
            rows.sort_by(|a, b| (0..3).map(|c| a[c].compare(&b[c]).unwrap()).find(|o| o.is_ne()).unwrap());
        }
        load(&db, &rows, 25).unwrap();
        let old = db.snapshot().unwrap();
        for (changes, end) in commits {
            let mut txn = db.begin_write().unwrap();
            for &(what, k) in &changes {
                let now = txn.current().unwrap();
                let t = now.table("t").unwrap();
                let found = now.row_by_key(&t, &[4], &[Value::Int(k)]).unwrap();
                match (what, found) {
                    (0..4, None) => {
                        let columns = columns_of(txn.snapshot(), "t", &[row_of(k, (what > 0).then_some(k % 7))]);
                        txn.insert("t", columns).unwrap();
                    }
                    (3, Some(address)) => drop(txn.delete("t", &[address]).unwrap()),
                    (4, Some(address)) => {
                        let new = columns(&[DataType::Integer], &[vec![Value::Int((k + 1) % 7)]]);
                        txn.update("t", &[address], &[3], new).unwrap();
                    }
                    // The leading column of the key.
                    (_, Some(address)) => {
                        let new = columns(&[DataType::Integer], &[vec![Value::Int((k + 1) % 3 - 1)]]);
                        txn.update("t", &[address], &[0], new).unwrap();
                    }
                    _ => {}
                }
            }
            let k = changes[0].1;
            all_agree(&txn.current().unwrap(), k);
            match end {
                0 => drop(txn),
                1 => {
                    txn.commit().unwrap();
                    db.merge("t").unwrap();
                }
                _ => drop(txn.commit().unwrap()),
            }
            all_agree(&db.snapshot().unwrap(), k);
        }
        all_agree(&old, 17);
    }
}
