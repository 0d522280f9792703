//! ALTER TABLE: definitions change, and rows are not written again.

mod support;

use std::sync::Arc;

use lode_command::{Answer, Device};
use lode_engine::{
    Changes, ColumnDef, Constraint, Database, Deferral, EngineError, IndexDef, IndexKind, Layout,
    ReferenceAction, RowAddress, Rule, Snapshot, TableDef, WriteTxn,
};
use lode_firmware::Drive;
use lode_page::{DataType, Value};
use lode_program::{Aggregation, Call, CompareOp, Expr, Program};
use proptest::prelude::*;
use support::drive::TestDrive;
use support::*;

/// Every kind of table.
const KINDS: [(Layout, Changes); 3] =
    [(Layout::Auto, Changes::Delta), (Layout::Auto, Changes::Pages), (Layout::Row, Changes::Pages)];

fn of_kind((layout, changes): (Layout, Changes)) -> TableDef {
    let mut def = table(layout);
    def.options.changes = changes;
    def
}

fn added(name: &str, data_type: DataType, absent: Value) -> ColumnDef {
    ColumnDef { absent: Some(absent.into()), ..ColumnDef::new(name, data_type) }
}

/// The definition of `t` as a transaction has it, after a change.
fn altered(txn: &WriteTxn, change: impl FnOnce(&mut TableDef)) -> TableDef {
    let mut def = txn.table("t").unwrap().def().clone();
    change(&mut def);
    def
}

fn alter(txn: &mut WriteTxn, change: impl FnOnce(&mut TableDef)) -> Result<(), EngineError> {
    let def = altered(txn, change);
    txn.alter_table("t", def)
}

fn alter_alone(db: &Database, change: impl FnOnce(&mut TableDef)) -> Result<(), EngineError> {
    let mut def = db.snapshot()?.table("t").unwrap().def().clone();
    change(&mut def);
    db.alter_table("t", def)
}

fn text(s: &str) -> Value {
    Value::text(s)
}

fn is(column: u16, v: Value, t: DataType) -> Expr {
    Expr::compare(CompareOp::Eq, Expr::Column(column), Expr::Const(v, t))
}

/// Rows that pass a filter: by the drive, or with `pages` by the host.
fn filtered(s: &Snapshot, filter: Expr, answer: Answer) -> (u64, u64) {
    let t = s.table("t").unwrap();
    let program = Arc::new(Program::check(t.schema().clone(), Some(filter), Vec::new(), false).unwrap());
    let mut scan = s.scan(&t, s.page_ranges(&t), program, answer, None).unwrap();
    let mut rows = 0;
    while let Some(unit) = scan.next().unwrap() {
        rows += unit.pages.iter().map(|p| u64::from(p.rows)).sum::<u64>();
    }
    (rows, scan.counts().pages_skipped)
}

/// How many rows have each value of a column, by the drive's aggregation.
fn counted(s: &Snapshot, column: u16) -> Vec<String> {
    let t = s.table("t").unwrap();
    let by = Aggregation { group_by: vec![column], calls: vec![Call::CountRows], groups_max: 1000 };
    let program = Program::check(t.schema().clone(), None, Vec::new(), false).unwrap();
    let program = Arc::new(program.with_aggregation(by).unwrap());
    let mut scan = s.scan(&t, s.page_ranges(&t), program, Answer::Aggregate, None).unwrap();
    let mut groups = std::collections::BTreeMap::<String, i64>::new();
    while let Some(unit) = scan.next().unwrap() {
        for g in &unit.groups {
            for row in 0..g.rows as usize {
                let Value::Int(n) = g.columns[1].value(row) else { panic!("a count is an integer") };
                *groups.entry(format!("{:?}", g.columns[0].value(row))).or_default() += n;
            }
        }
    }
    groups.into_iter().map(|(v, n)| format!("{v}: {n}")).collect()
}

fn address(s: &Snapshot, k: i64) -> Option<RowAddress> {
    s.row_by_key(&s.table("t").unwrap(), &[0], &[Value::Int(k)]).unwrap()
}

/// Checks every way to read a table.
#[track_caller]
fn expect(s: &Snapshot, rows: &[Row]) {
    let expected = sorted(rows.to_vec());
    let t = s.table("t").unwrap();
    assert_eq!(s.rows(&t).unwrap(), rows.len() as u64);
    assert_eq!(sorted(scan(s, "t").into_iter().map(|(_, r)| r).collect()), expected, "by a scan");
    assert_eq!(sorted(read(s, "t")), expected, "by pages");
    let columns = t.schema().columns.len() as u16;
    let all: Vec<u16> = (0..columns).collect();
    for row in rows.iter().step_by(1 + rows.len() / 20) {
        let Value::Int(k) = row[0] else { panic!("keys are integers") };
        let at = address(s, k).unwrap_or_else(|| panic!("key {k} is missing"));
        assert_eq!(format!("{:?}", s.row_values(&t, at, &all).unwrap()), format!("{row:?}"), "by key");
        for c in 1..columns {
            let (v, data_type) = (&row[usize::from(c)], t.schema().columns[usize::from(c)].data_type);
            let filter = match v {
                Value::Null => Expr::IsNull(Box::new(Expr::Column(c))),
                v => is(c, v.clone(), data_type),
            };
            let expected = rows.iter().filter(|r| r[usize::from(c)] == *v).count() as u64;
            assert_eq!(filtered(s, filter.clone(), Answer::Rows).0, expected, "column {c} of row {k}");
        }
    }
    if !s.has_own_changes(&t) {
        for c in 1..columns {
            let mut groups = std::collections::BTreeMap::<String, i64>::new();
            rows.iter().for_each(|r| *groups.entry(format!("{:?}", r[usize::from(c)])).or_default() += 1);
            let groups: Vec<String> = groups.into_iter().map(|(v, n)| format!("{v}: {n}")).collect();
            assert_eq!(counted(s, c), groups, "column {c} by an aggregation");
        }
    }
}

/// Rows 0 to 300, of which some were loaded, some inserted, some updated and some deleted.
fn filled(drive: &(impl Device + Clone + 'static), kind: (Layout, Changes)) -> (Database, Vec<Row>) {
    let db = open(drive);
    db.create_table(of_kind(kind), false).unwrap();
    let mut rows: Vec<Row> = (0..300).map(row).collect();
    load(&db, &rows[..250], 100).unwrap();
    insert(&db, &rows[250..]).unwrap();
    let mut txn = db.begin_write().unwrap();
    let s = txn.snapshot().clone();
    let at = |k: i64| address(&s, k).unwrap();
    txn.update("t", &[at(7), at(260)], &[2], columns(&[DataType::Text], &[vec![text("x")], vec![text("y")]]))
        .unwrap();
    txn.delete("t", &[at(3), at(299)]).unwrap();
    drop(s);
    txn.commit().unwrap();
    (rows[7][2], rows[260][2]) = (text("x"), text("y"));
    rows.remove(299);
    rows.remove(3);
    (db, rows)
}

fn extended(rows: &[Row], with: &[Value]) -> Vec<Row> {
    rows.iter().map(|r| r.iter().chain(with).cloned().collect()).collect()
}

#[test]
fn a_column_that_is_added_reads_as_its_constant_and_no_row_is_written() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let (db, rows) = filled(&drive, kind);
        let old = db.snapshot().unwrap();
        let written = || drive.info().user_bytes_written;
        let before = written();
        alter_alone(&db, |d| {
            d.columns.push(ColumnDef {
                ty: lode_page::ColumnType { data_type: DataType::Integer, nullable: false },
                ..added("n", DataType::Integer, Value::Int(42))
            });
            d.columns.push(ColumnDef::new("z", DataType::Text));
        })
        .unwrap();
        assert!(written() - before < 64 << 10, "{} bytes were written", written() - before);
        let new = db.snapshot().unwrap();
        let mut now = extended(&rows, &[Value::Int(42), Value::Null]);
        expect(&new, &now);
        expect(&old, &rows);
        assert_eq!(filtered(&new, is(3, Value::Int(41), DataType::Integer), Answer::Rows).0, 0);

        // New rows and changed ones beside old ones.
        let mut txn = db.begin_write().unwrap();
        now.push(vec![Value::Int(900), Value::Null, text("new"), Value::Int(7), text("zz")]);
        let columns_of_new = columns_of(txn.snapshot(), "t", &now[now.len() - 1..]);
        txn.insert("t", columns_of_new).unwrap();
        let at: Vec<RowAddress> = [10, 255].map(|k| address(txn.snapshot(), k).unwrap()).into();
        let values = columns(&[DataType::Integer], &[vec![Value::Int(1)], vec![Value::Int(42)]]);
        txn.update("t", &at, &[3], values).unwrap();
        expect(&txn.current().unwrap(), &{
            let mut now = now.clone();
            now.iter_mut().find(|r| r[0] == Value::Int(10)).unwrap()[3] = Value::Int(1);
            now
        });
        txn.commit().unwrap();
        now.iter_mut().find(|r| r[0] == Value::Int(10)).unwrap()[3] = Value::Int(1);
        expect(&db.snapshot().unwrap(), &now);
        expect(&new, &extended(&rows, &[Value::Int(42), Value::Null]));
        expect(&old, &rows);
        sound(&db);
        drop((old, new, db));

        let db = open(&drive);
        expect(&db.snapshot().unwrap(), &now);
        db.merge("t").unwrap();
        expect(&db.snapshot().unwrap(), &now);
        load(&db, &[vec![Value::Int(950), Value::Null, text("l"), Value::Int(0), Value::Null]], 1).unwrap();
        now.push(vec![Value::Int(950), Value::Null, text("l"), Value::Int(0), Value::Null]);
        expect(&db.snapshot().unwrap(), &now);
        sound(&db);
        let mut rewrite = db.begin_write().unwrap().rewrite("t").unwrap();
        rewrite.push_all().unwrap();
        rewrite.finish().unwrap();
        expect(&db.snapshot().unwrap(), &now);
        assert!(
            db.snapshot().unwrap().table("t").unwrap().schema().absent.is_empty(),
            "all pages have all columns"
        );
        sound(&db);
    }
}

#[test]
fn a_table_is_altered_between_changes_of_one_transaction() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let (db, mut rows) = filled(&drive, kind);
        let mut txn = db.begin_write().unwrap();
        let inserted: Vec<Row> = (400..410).map(row).collect();
        let of = columns_of(&txn.current().unwrap(), "t", &inserted);
        txn.insert("t", of).unwrap();
        rows.extend(inserted);
        let at = address(&txn.current().unwrap(), 20).unwrap();
        txn.update("t", &[at], &[2], columns(&[DataType::Text], &[vec![text("before")]])).unwrap();
        rows.iter_mut().find(|r| r[0] == Value::Int(20)).unwrap()[2] = text("before");
        let before = txn.savepoint().unwrap();
        alter(&mut txn, |d| d.columns.push(added("n", DataType::BigInt, Value::Int(5)))).unwrap();
        expect(&txn.current().unwrap(), &extended(&rows, &[Value::Int(5)]));
        txn.rollback_to(&before);
        expect(&txn.current().unwrap(), &rows);
        // Another constant in the same place.
        alter(&mut txn, |d| d.columns.push(added("m", DataType::BigInt, Value::Int(6)))).unwrap();
        let mut now = extended(&rows, &[Value::Int(6)]);
        expect(&txn.current().unwrap(), &now);
        let at: Vec<RowAddress> = [21, 405, 20].map(|k| address(&txn.current().unwrap(), k).unwrap()).into();
        let values =
            columns(&[DataType::BigInt], &[vec![Value::Int(1)], vec![Value::Int(2)], vec![Value::Null]]);
        txn.update("t", &at, &[3], values).unwrap();
        for (k, v) in [(21, Value::Int(1)), (405, Value::Int(2)), (20, Value::Null)] {
            now.iter_mut().find(|r| r[0] == Value::Int(k)).unwrap()[3] = v;
        }
        let mut more: Vec<Row> = (500..520).map(row).collect();
        more.iter_mut().for_each(|r| r.push(Value::Int(9)));
        let of = columns_of(&txn.current().unwrap(), "t", &more);
        txn.insert("t", of).unwrap();
        now.extend(more);
        let gone = address(&txn.current().unwrap(), 22).unwrap();
        txn.delete("t", &[gone]).unwrap();
        now.retain(|r| r[0] != Value::Int(22));
        txn.end_statement().unwrap();
        expect(&txn.current().unwrap(), &now);
        alter(&mut txn, |d| d.columns.push(added("b", DataType::Boolean, Value::Boolean(true)))).unwrap();
        let now = extended(&now, &[Value::Boolean(true)]);
        expect(&txn.current().unwrap(), &now);
        let old = db.snapshot().unwrap();
        txn.commit().unwrap();
        expect(&db.snapshot().unwrap(), &now);
        assert_eq!(old.table("t").unwrap().schema().columns.len(), 3);
        sound(&db);
        drop((old, db));
        let db = open(&drive);
        expect(&db.snapshot().unwrap(), &now);
        sound(&db);
    }
}

#[test]
fn a_load_that_began_before_a_column_was_added_ends_after_it() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let db = open(&drive);
        db.create_table(of_kind(kind), false).unwrap();
        let wide = |k: i64| vec![Value::Int(k), Value::Null, text(&format!("{k} {:0>700}", k * k))];
        let first: Vec<Row> = (0..4000).map(wide).collect();
        let second: Vec<Row> = extended(&(4000..6000).map(wide).collect::<Vec<_>>(), &[text("second")]);
        let mut txn = db.begin_write().unwrap();
        for part in first.chunks(500) {
            let of = columns_of(&db.snapshot().unwrap(), "t", part);
            txn.load("t", of).unwrap();
        }
        alter(&mut txn, |d| d.columns.push(added("c", DataType::Text, text("first")))).unwrap();
        for part in second.chunks(500) {
            let of = columns_of(&txn.current().unwrap(), "t", part);
            txn.load("t", of).unwrap();
        }
        let mut rows = extended(&first, &[text("first")]);
        rows.extend(second);
        expect(&txn.current().unwrap(), &rows);
        let at = address(&txn.current().unwrap(), 17).unwrap();
        txn.update("t", &[at], &[3], columns(&[DataType::Text], &[vec![text("u")]])).unwrap();
        rows[17][3] = text("u");
        expect(&txn.current().unwrap(), &rows);
        txn.commit().unwrap();
        expect(&db.snapshot().unwrap(), &rows);
        sound(&db);
    }
}

#[test]
fn a_column_that_is_dropped_keeps_its_place_and_frees_its_name() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let (db, rows) = filled(&drive, kind);
        let old = db.snapshot().unwrap();
        alter_alone(&db, |d| {
            d.columns[2].is_dropped = true;
            d.columns.push(added("s", DataType::Integer, Value::Int(1)));
        })
        .unwrap();
        let s = db.snapshot().unwrap();
        let t = s.table("t").unwrap();
        assert_eq!((t.column("s"), t.column("d")), (Some(3), Some(1)));
        expect(&s, &extended(&rows, &[Value::Int(1)]));
        expect(&old, &rows);
        let mut now = extended(&rows, &[Value::Int(1)]);
        now.push(vec![Value::Int(800), Value::Null, Value::Null, Value::Int(3)]);
        insert(&db, &now[now.len() - 1..]).unwrap();
        expect(&db.snapshot().unwrap(), &now);
        drop((s, old, db));
        let db = open(&drive);
        expect(&db.snapshot().unwrap(), &now);
        sound(&db);
        let refused = |change: &dyn Fn(&mut TableDef), what: &str| {
            let e = alter_alone(&db, change).unwrap_err().to_string();
            assert!(e.contains(what), "{e}");
        };
        refused(&|d| d.columns[2].is_dropped = false, "was dropped");
        refused(&|d| d.columns[0].is_dropped = true, "a key has it");
        let by_d = IndexDef::new("i", "t", vec![1], IndexKind::Page);
        db.create_index(by_d, false).unwrap();
        refused(&|d| d.columns[1].is_dropped = true, "the index \"i\" has it");
        db.drop_index("i", false).unwrap();
        alter_alone(&db, |d| d.columns[1].is_dropped = true).unwrap();
        expect(&db.snapshot().unwrap(), &now);
    }
}

#[test]
fn not_null_comes_only_where_no_row_has_a_null() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let (db, _) = filled(&drive, kind);
        alter_alone(&db, |d| d.columns[1].ty.nullable = false).unwrap();
        let null = vec![Value::Int(700), Value::Null, text("")];
        assert!(matches!(insert(&db, std::slice::from_ref(&null)), Err(EngineError::NotNull { .. })));
        alter_alone(&db, |d| d.columns[1].ty.nullable = true).unwrap();
        insert(&db, &[null]).unwrap();
        let refused = |e: Result<(), EngineError>| {
            let column = "d".to_string();
            assert_eq!(e.unwrap_err(), EngineError::ContainsNulls { table: "t".into(), column });
        };
        refused(alter_alone(&db, |d| d.columns[1].ty.nullable = false));
        db.merge("t").unwrap();
        refused(alter_alone(&db, |d| d.columns[1].ty.nullable = false));
        // Within the transaction that removes the NULL, and the other way round.
        let mut txn = db.begin_write().unwrap();
        let at = address(txn.snapshot(), 700).unwrap();
        txn.delete("t", &[at]).unwrap();
        alter(&mut txn, |d| d.columns[1].ty.nullable = false).unwrap();
        txn.commit().unwrap();
        alter_alone(&db, |d| d.columns[1].ty.nullable = true).unwrap();
        let mut txn = db.begin_write().unwrap();
        let of = columns_of(txn.snapshot(), "t", &[vec![Value::Int(701), Value::Null, text("")]]);
        txn.insert("t", of).unwrap();
        refused(alter(&mut txn, |d| d.columns[1].ty.nullable = false));
        let statistics = |s: &Snapshot| s.statistics(&s.table("t").unwrap()).unwrap();
        assert_ne!(statistics(&txn.current().unwrap()).has_nulls[1], Some(false));
        drop(txn);
        // A column without a value for the rows that are there.
        let not_null = |absent| {
            let mut c = added("n", DataType::BigInt, absent);
            c.ty.nullable = false;
            c
        };
        let e = alter_alone(&db, |d| d.columns.push(not_null(Value::Null))).unwrap_err();
        assert_eq!(e, EngineError::ContainsNulls { table: "t".into(), column: "n".into() });
        alter_alone(&db, |d| d.columns.push(not_null(Value::Int(0)))).unwrap();
        let mut empty = of_kind(kind);
        empty.name = "e".into();
        db.create_table(empty.clone(), false).unwrap();
        let mut def = db.snapshot().unwrap().table("e").unwrap().def().clone();
        def.columns.push(not_null(Value::Null));
        db.alter_table("e", def).unwrap();
        sound(&db);
    }
}

#[test]
fn a_table_and_its_columns_are_renamed_and_foreign_keys_follow() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let (db, rows) = filled(&drive, kind);
        let mut child = of_kind(kind);
        child.name = "child".into();
        let rule = Rule::ForeignKey {
            columns: vec![0],
            parent: "t".into(),
            parent_columns: vec![0],
            on_delete: ReferenceAction::NoAction,
            on_update: ReferenceAction::NoAction,
        };
        child.constraints.push(Constraint { name: "fk".into(), rule, deferral: Deferral::None });
        db.create_table(child, false).unwrap();
        let by_s = IndexDef::new("by_s", "t", vec![2], IndexKind::Btree { unique: false });
        db.create_index(by_s, false).unwrap();
        let mut txn = db.begin_write().unwrap();
        let of = columns_of(txn.snapshot(), "t", &[row(600)]);
        txn.insert("t", of).unwrap();
        let saved = txn.savepoint().unwrap();
        let rename = |txn: &mut WriteTxn| {
            let def = altered(txn, |d| {
                d.name = "u".into();
                d.columns[1].name = "day".into();
            });
            txn.alter_table("t", def)
        };
        rename(&mut txn).unwrap();
        txn.rollback_to(&saved);
        assert!(txn.table("u").is_none() && txn.table("t").is_some());
        rename(&mut txn).unwrap();
        assert!(txn.table("t").is_none());
        let of = columns_of(&txn.current().unwrap(), "u", &[row(601)]);
        txn.insert("u", of).unwrap();
        txn.commit().unwrap();
        let mut now = rows;
        now.extend([row(600), row(601)]);
        let check = |db: &Database| {
            let s = db.snapshot().unwrap();
            assert!(s.table("t").is_none());
            let u = s.table("u").unwrap();
            assert_eq!((u.column("day"), u.column("d"), &u.indexes()[0].table[..]), (Some(1), None, "u"));
            assert_eq!(sorted(scan(&s, "u").into_iter().map(|(_, r)| r).collect()), sorted(now.clone()));
            sound(db);
        };
        check(&db);
        drop(db);
        let db = open(&drive);
        check(&db);
        let child = |k: i64| {
            let mut txn = db.begin_write().unwrap();
            let of = columns_of(txn.snapshot(), "child", &[row(k)]);
            txn.insert("child", of).unwrap();
            txn.commit()
        };
        child(601).unwrap();
        assert!(matches!(child(5000), Err(EngineError::ForeignKey { parent, .. }) if parent == "u"));
        let mut def = db.snapshot().unwrap().table("u").unwrap().def().clone();
        def.primary_key.clear();
        assert!(db.alter_table("u", def.clone()).is_err(), "a foreign key needs the key");
        def.name = "child".into();
        assert_eq!(db.alter_table("u", def), Err(EngineError::TableExists("child".into())));
        // The old name is free, and that of a table that is dropped at the same time.
        db.create_table(of_kind(kind), false).unwrap();
        let mut txn = db.begin_write().unwrap();
        let at =
            txn.snapshot().row_by_key(&txn.table("u").unwrap(), &[0], &[Value::Int(600)]).unwrap().unwrap();
        txn.delete("u", &[at]).unwrap();
        txn.drop_table("child", false).unwrap();
        let mut def = txn.table("u").unwrap().def().clone();
        def.name = "child".into();
        def.columns.push(added("n", DataType::BigInt, Value::Int(3)));
        txn.alter_table("u", def).unwrap();
        txn.commit().unwrap();
        now.retain(|r| r[0] != Value::Int(600));
        let s = db.snapshot().unwrap();
        assert_eq!(sorted(read(&s, "child")), sorted(extended(&now, &[Value::Int(3)])));
        sound(&db);
    }
}

/// Found by `sql/tests/schema_random.rs`, seed 39: the new table got the page of the description of the table that got another name.
#[test]
fn a_table_made_where_another_gets_a_later_name_does_not_take_its_page() {
    for kind in KINDS {
        let drive = TestDrive::new();
        let (db, rows) = filled(&drive, kind);
        let mut txn = db.begin_write().unwrap();
        txn.create_table(TableDef { name: "u".into(), ..of_kind(kind) }, false).unwrap();
        alter(&mut txn, |def| def.name = "v".into()).unwrap();
        txn.commit().unwrap();
        drop(db);
        let db = Database::open(Arc::new(drive), Default::default()).unwrap();
        let s = db.snapshot().unwrap();
        let rows_of = |name: &str| s.rows(&s.table(name).unwrap()).unwrap();
        assert_eq!((rows_of("u"), rows_of("v")), (0, rows.len() as u64), "{kind:?}");
        assert!(s.table("t").is_none());
    }
}

#[test]
fn a_foreign_key_comes_to_rows_that_satisfy_it_and_to_a_column_that_is_added() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let (db, rows) = filled(&drive, kind);
        let mut child = of_kind(kind);
        child.name = "child".into();
        db.create_table(child, false).unwrap();
        let put = |ks: &[i64]| {
            let mut txn = db.begin_write().unwrap();
            let columns = txn.table("child").unwrap().schema().columns.len();
            let row =
                |&k: &i64| row(k).into_iter().chain([Value::Int(k), Value::Int(k)]).take(columns).collect();
            let rows: Vec<Row> = ks.iter().map(row).collect();
            let of = columns_of(txn.snapshot(), "child", &rows);
            txn.insert("child", of).unwrap();
            txn.commit()
        };
        let remove = |k: i64| {
            let mut txn = db.begin_write().unwrap();
            let at = address(txn.snapshot(), k).unwrap();
            txn.delete("t", &[at]).unwrap();
            txn.commit()
        };
        let def = || db.snapshot().unwrap().table("child").unwrap().def().clone();
        let with_key = |name: &str, column: u16| {
            let mut def = def();
            let rule = Rule::ForeignKey {
                columns: vec![column],
                parent: "t".into(),
                parent_columns: vec![0],
                on_delete: ReferenceAction::NoAction,
                on_update: ReferenceAction::NoAction,
            };
            def.constraints.push(Constraint { name: name.into(), rule, deferral: Deferral::None });
            def
        };
        put(&[10, 20, 900]).unwrap();
        let broken = |e: Result<(), EngineError>| matches!(e, Err(EngineError::ForeignKey { .. }));
        assert!(broken(db.alter_table("child", with_key("fk", 0))), "row 900 has no parent");
        let mut parent = db.begin_write().unwrap();
        let of = columns_of(parent.snapshot(), "t", &[row(900)]);
        parent.insert("t", of).unwrap();
        parent.commit().unwrap();
        let mut shared = db.begin_write().unwrap();
        let e = shared.alter_table("child", with_key("fk", 0)).unwrap_err().to_string();
        assert!(e.contains("the right to write"), "{e}");
        drop(shared);
        db.alter_table("child", with_key("fk", 0)).unwrap();
        assert!(put(&[11]).is_ok() && broken(put(&[901]).map(drop)) && broken(remove(900).map(drop)));
        // A column that is added with its key, which no row has a value in.
        let mut def = with_key("fk2", 3);
        def.columns.push(ColumnDef::new("p", DataType::BigInt));
        let mut changed = db.begin_exclusive().unwrap();
        changed.alter_table("child", def).unwrap();
        let of = columns_of(
            &changed.current().unwrap(),
            "child",
            &[row(12).into_iter().chain([Value::Int(30)]).collect()],
        );
        changed.insert("child", of).unwrap();
        changed.commit().unwrap();
        assert!(broken(remove(30).map(drop)) && remove(31).is_ok());
        assert_eq!(read(&db.snapshot().unwrap(), "t").len(), rows.len());
        // With a constant that has no parent.
        let mut def = with_key("fk3", 4);
        def.columns.push(added("q", DataType::BigInt, Value::Int(5000)));
        assert!(broken(db.alter_table("child", def)));
        sound(&db);
    }
}

#[test]
fn what_cannot_follow_a_definition_is_refused() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let (db, rows) = filled(&drive, kind);
        let refused = |change: &dyn Fn(&mut TableDef), what: &str| {
            let e = alter_alone(&db, change).unwrap_err().to_string();
            assert!(e.contains(what), "{e}");
        };
        refused(&|d| drop(d.columns.pop()), "3 columns cannot become 2");
        refused(&|d| d.columns[1].ty.data_type = DataType::BigInt, "is DATE and cannot become BIGINT");
        refused(&|d| d.columns[1].absent = Some(Value::Null.into()), "keeps the value");
        refused(&|d| d.columns[1].name = "s".into(), "named twice");
        refused(&|d| d.options.cluster_by = vec![1], "options");
        refused(&|d| d.primary_key = vec![1], "a key cannot be added");
        let unique = Constraint {
            name: "u".into(),
            rule: Rule::Unique { columns: vec![2] },
            deferral: Deferral::None,
        };
        refused(&|d| d.constraints.push(unique.clone()), "a key cannot be added");
        let long = text(&"x".repeat(513));
        refused(&|d| d.columns.push(added("l", DataType::Text, long.clone())), "too long");
        refused(&|d| d.columns.push(added("l", DataType::SmallInt, Value::Int(1 << 20))), "does not fit");
        assert!(matches!(db.alter_table("x", of_kind(kind)), Err(EngineError::NoSuchTable(_))));
        expect(&db.snapshot().unwrap(), &rows);
        // A key that goes, and all that a table of this transaction may become.
        alter_alone(&db, |d| d.primary_key.clear()).unwrap();
        insert(&db, &[row(7)]).unwrap();
        let mut txn = db.begin_write().unwrap();
        let mut def = of_kind(kind);
        def.name = "own".into();
        txn.create_table(def.clone(), false).unwrap();
        let of = columns_of(&txn.current().unwrap(), "own", &[row(1)]);
        txn.insert("own", of).unwrap();
        let mut def = txn.table("own").unwrap().def().clone();
        def.columns.push(added("n", DataType::BigInt, Value::Int(4)));
        def.name = "mine".into();
        txn.alter_table("own", def).unwrap();
        let expected = extended(&[row(1)], &[Value::Int(4)]);
        assert_eq!(sorted(read(&txn.current().unwrap(), "mine")), sorted(expected.clone()));
        txn.commit().unwrap();
        assert_eq!(sorted(read(&db.snapshot().unwrap(), "mine")), sorted(expected));
        sound(&db);
    }
}

#[test]
fn who_changes_a_table_that_another_alters_conflicts() {
    for kind in KINDS {
        let drive = Drive::in_memory(256 << 20);
        let (db, rows) = filled(&drive, kind);
        let add = |d: &mut TableDef| d.columns.push(added("n", DataType::BigInt, Value::Int(5)));
        // A writer that began before.
        let mut writer = db.begin_write().unwrap();
        let of = columns_of(writer.snapshot(), "t", &[row(600)]);
        writer.insert("t", of).unwrap();
        let mut updater = db.begin_write().unwrap();
        let at = address(updater.snapshot(), 5).unwrap();
        updater.update("t", &[at], &[2], columns(&[DataType::Text], &[vec![text("u")]])).unwrap();
        alter_alone(&db, add).unwrap();
        for txn in [writer, updater] {
            assert!(matches!(txn.commit(), Err(EngineError::Conflict { .. })));
        }
        // An alteration that others overtake.
        let mut late = db.begin_write().unwrap();
        alter(&mut late, |d| d.columns[1].ty.nullable = false).unwrap();
        let null = vec![Value::Int(700), Value::Null, text(""), Value::Int(1)];
        insert(&db, std::slice::from_ref(&null)).unwrap();
        assert!(matches!(late.commit(), Err(EngineError::Conflict { .. })));
        // Two alterations.
        let mut one = db.begin_write().unwrap();
        let mut two = db.begin_write().unwrap();
        alter(&mut one, |d| d.columns[1].name = "one".into()).unwrap();
        alter(&mut two, |d| d.columns[1].name = "two".into()).unwrap();
        one.commit().unwrap();
        assert!(matches!(two.commit(), Err(EngineError::Conflict { .. })));
        let mut now = extended(&rows, &[Value::Int(5)]);
        now.push(null);
        expect(&db.snapshot().unwrap(), &now);
        sound(&db);
    }
}

#[test]
fn old_entries_of_the_page_index_still_exclude_pages() {
    for changes in [Changes::Delta, Changes::Pages] {
        let drive = Drive::in_memory(256 << 20);
        let db = open(&drive);
        let mut def = of_kind((Layout::Auto, changes));
        def.options.encoding.all = lode_page::EncodingChoice::Plain;
        db.create_table(def, false).unwrap();
        let wide = |k: i64| vec![Value::Int(k), Value::Null, text(&format!("{k} {:0>700}", k * k))];
        let rows: Vec<Row> = (0..10_000).map(wide).collect();
        load(&db, &rows, 2000).unwrap();
        let skipped = |filter: Expr| filtered(&db.snapshot().unwrap(), filter, Answer::Rows);
        let key = || is(0, Value::Int(17), DataType::BigInt);
        let (found, skipped_before) = skipped(key());
        assert!(found == 1 && skipped_before >= 5, "{skipped_before} pages");
        alter_alone(&db, |d| d.columns.push(added("n", DataType::BigInt, Value::Int(5)))).unwrap();
        assert_eq!(skipped(key()), (1, skipped_before));
        let both = Expr::And(vec![key(), is(3, Value::Int(5), DataType::BigInt)]);
        assert_eq!(skipped(both), (1, skipped_before));
        // An index of the new column, of pages with it and without it.
        let more: Vec<Row> = extended(&(10_000..20_000).map(wide).collect::<Vec<_>>(), &[Value::Int(8)]);
        load(&db, &more, 2000).unwrap();
        assert_eq!(skipped(key()).0, 1);
        let by_n = IndexDef::new("n", "t", vec![3], IndexKind::Page);
        db.create_index(by_n, false).unwrap();
        let all = extended(&rows, &[Value::Int(5)]);
        for (v, rows) in [(5, 10_000), (8, 10_000), (6, 0)] {
            let (found, skipped) = skipped(is(3, Value::Int(v), DataType::BigInt));
            assert!(found == rows && skipped >= 5, "{v}: {found} rows, {skipped} pages");
        }
        let now: Vec<Row> = all.into_iter().chain(more).collect();
        sound(&db);
        drop(db);
        let db = open(&drive);
        expect(&db.snapshot().unwrap(), &now);
        sound(&db);
    }
}

#[test]
fn adding_a_column_takes_as_many_commands_for_many_rows_as_for_few() {
    let commands = |rows: i64, changes: Changes| {
        let drive = TestDrive::new();
        let db = open(&drive);
        db.create_table(of_kind((Layout::Auto, changes)), false).unwrap();
        let rows: Vec<Row> = (0..rows).map(row).collect();
        load(&db, &rows, 50_000).unwrap();
        let before = db.link();
        alter_alone(&db, |d| d.columns.push(added("n", DataType::BigInt, Value::Int(5)))).unwrap();
        let after = db.link();
        let taken = (after.commands - before.commands, after.bytes_down - before.bytes_down);
        assert_eq!(scan(&db.snapshot().unwrap(), "t").len(), rows.len());
        taken
    };
    for changes in [Changes::Delta, Changes::Pages] {
        let (few, many) = (commands(100, changes), commands(1_000_000, changes));
        assert_eq!(few.0, many.0, "commands");
        assert!(many.1 < few.1 + 1000 && many.1 < 20_000, "{} and {} bytes", few.1, many.1);
    }
}

/// A run of the model: what happens to a table, each with a number that chooses the details.
#[derive(Clone, Copy, Debug)]
enum Act {
    Insert(u64),
    Update(u64),
    Delete(u64),
    Add(u64),
    Drop(u64),
    Rename(u64),
    NotNull(u64),
    Savepoint,
    RollbackTo,
    Commit,
    Abort,
    Merge,
    Reopen,
    Hold,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => any::<u64>().prop_map(Act::Insert),
        4 => any::<u64>().prop_map(Act::Update),
        2 => any::<u64>().prop_map(Act::Delete),
        4 => any::<u64>().prop_map(Act::Add),
        1 => any::<u64>().prop_map(Act::Drop),
        1 => any::<u64>().prop_map(Act::Rename),
        2 => any::<u64>().prop_map(Act::NotNull),
        1 => Just(Act::Savepoint),
        1 => Just(Act::RollbackTo),
        4 => Just(Act::Commit),
        1 => Just(Act::Abort),
        2 => Just(Act::Merge),
        1 => Just(Act::Reopen),
        1 => Just(Act::Hold),
    ]
}

/// Rows by their keys, and the definition.
#[derive(Clone)]
struct Model {
    rows: std::collections::BTreeMap<i64, Row>,
    def: TableDef,
}

impl Model {
    fn value(&self, c: usize, seed: u64) -> Value {
        let column = &self.def.columns[c];
        match column.ty.data_type {
            _ if column.is_dropped || column.ty.nullable && seed.is_multiple_of(5) => Value::Null,
            DataType::Text => text(&format!("v{}", seed % 7)),
            DataType::Boolean => Value::Boolean(seed.is_multiple_of(2)),
            _ => Value::Int((seed % 11) as i64),
        }
    }

    fn expect(&self, s: &Snapshot) {
        let rows: Vec<Row> = self.rows.values().cloned().collect();
        assert_eq!(s.table("t").unwrap().def(), &self.def);
        assert_eq!(sorted(scan(s, "t").into_iter().map(|(_, r)| r).collect()), sorted(rows.clone()));
        assert_eq!(sorted(read(s, "t")), sorted(rows));
    }
}

fn run(kind: (Layout, Changes), acts: &[Act]) {
    let drive = TestDrive::new();
    let mut db = Some(open(&drive));
    let alive = |db: &Option<Database>| db.clone().expect("it is open");
    alive(&db).create_table(of_kind(kind), false).unwrap();
    let def = alive(&db).snapshot().unwrap().table("t").unwrap().def().clone();
    let mut committed = Model { rows: Default::default(), def };
    let mut model = committed.clone();
    let mut txn: Option<WriteTxn> = None;
    let mut saved = None;
    let mut held: Vec<(Snapshot, Model)> = Vec::new();
    let mut names = 0;
    for &act in acts {
        let is_outside = matches!(act, Act::Commit | Act::Abort | Act::Merge | Act::Reopen | Act::Hold);
        if !is_outside && txn.is_none() {
            (txn, saved) = (Some(alive(&db).begin_write().unwrap()), None);
        }
        match act {
            Act::Insert(seed) => {
                let keys = (0..1 + seed % 40).map(|i| ((seed >> 8).wrapping_add(i * 7) % 500) as i64);
                let keys: std::collections::BTreeSet<i64> =
                    keys.filter(|k| !model.rows.contains_key(k)).collect();
                let columns = model.def.columns.len();
                let row = |&k: &i64| -> Row {
                    let of = |c| model.value(c, seed.wrapping_add(k as u64 * 31 + c as u64));
                    std::iter::once(Value::Int(k)).chain((1..columns).map(of)).collect()
                };
                let rows: Vec<Row> = keys.iter().map(row).collect();
                let txn = txn.as_mut().unwrap();
                let of = columns_of(&txn.current().unwrap(), "t", &rows);
                match seed.is_multiple_of(4) {
                    true => txn.load("t", of).unwrap(),
                    false => txn.insert("t", of).unwrap(),
                };
                model.rows.extend(keys.into_iter().zip(rows));
            }
            Act::Update(seed) | Act::Delete(seed) => {
                let txn = txn.as_mut().unwrap();
                let now = txn.current().unwrap();
                let chosen = model.rows.keys().copied().filter(|k| (*k as u64 ^ seed).is_multiple_of(4));
                let chosen: Vec<i64> = chosen.take(1 + (seed % 150) as usize).collect();
                let at = scan(&now, "t");
                let address = |k: &i64| at.iter().find(|(_, r)| r[0] == Value::Int(*k)).unwrap().0;
                let at: Vec<RowAddress> = chosen.iter().map(address).collect();
                if matches!(act, Act::Delete(_)) {
                    txn.delete("t", &at).unwrap();
                    chosen.iter().for_each(|k| drop(model.rows.remove(k)));
                    continue;
                }
                let c = 1 + seed as usize % (model.def.columns.len() - 1);
                let value = |k: &i64| vec![model.value(c, seed.wrapping_add(*k as u64))];
                let values: Vec<Row> = chosen.iter().map(value).collect();
                let data_type = model.def.columns[c].ty.data_type;
                txn.update("t", &at, &[c as u16], columns(&[data_type], &values)).unwrap();
                for (k, v) in chosen.iter().zip(values) {
                    model.rows.get_mut(k).unwrap()[c] = v[0].clone();
                }
            }
            Act::Add(seed) => {
                names += 1;
                let types = [DataType::BigInt, DataType::Text, DataType::Boolean, DataType::Date];
                let data_type = types[seed as usize % 4];
                let mut column = added(&format!("a{names}"), data_type, Value::Null);
                model.def.columns.push(column.clone());
                let constant = model.value(model.def.columns.len() - 1, seed >> 3);
                model.def.columns.pop();
                column.ty.nullable = constant.is_null() || seed.is_multiple_of(2);
                column.absent = Some(constant.clone().into());
                alter(txn.as_mut().unwrap(), |d| d.columns.push(column.clone())).unwrap();
                model.def.columns.push(column);
                model.rows.values_mut().for_each(|r| r.push(constant.clone()));
            }
            Act::Drop(seed) => {
                let c = 1 + seed as usize % (model.def.columns.len() - 1);
                alter(txn.as_mut().unwrap(), |d| d.columns[c].is_dropped = true).unwrap();
                model.def.columns[c].is_dropped = true;
                model.def.columns[c].ty.nullable = true;
            }
            Act::Rename(seed) => {
                names += 1;
                let c = seed as usize % model.def.columns.len();
                alter(txn.as_mut().unwrap(), |d| d.columns[c].name = format!("r{names}")).unwrap();
                model.def.columns[c].name = format!("r{names}");
            }
            Act::NotNull(seed) => {
                let c = 1 + seed as usize % (model.def.columns.len() - 1);
                let nullable = !model.def.columns[c].ty.nullable || model.def.columns[c].is_dropped;
                let refused = !nullable && model.rows.values().any(|r| r[c].is_null());
                let done = alter(txn.as_mut().unwrap(), |d| d.columns[c].ty.nullable = nullable);
                assert_eq!(matches!(done, Err(EngineError::ContainsNulls { .. })), refused, "{done:?}");
                if !refused {
                    done.unwrap();
                    model.def.columns[c].ty.nullable = nullable;
                }
            }
            Act::Savepoint => saved = Some((txn.as_mut().unwrap().savepoint().unwrap(), model.clone())),
            Act::RollbackTo => {
                if let Some((at, was)) = &saved {
                    txn.as_mut().unwrap().rollback_to(at);
                    model = was.clone();
                }
            }
            Act::Commit => {
                saved = None;
                if let Some(txn) = txn.take() {
                    txn.commit().unwrap();
                    committed = model.clone();
                }
                committed.expect(&alive(&db).snapshot().unwrap());
            }
            Act::Abort => (txn, saved, model) = (None, None, committed.clone()),
            // A merge is a change that an alteration would conflict with.
            Act::Merge if txn.is_none() => alive(&db).merge("t").unwrap(),
            Act::Reopen => {
                (txn, saved, model) = (None, None, committed.clone());
                held.clear();
                drop(db.take());
                db = Some(open(&drive));
                committed.expect(&alive(&db).snapshot().unwrap());
            }
            Act::Hold => held.push((alive(&db).snapshot().unwrap(), committed.clone())),
            Act::Merge => {}
        }
        if let Some(txn) = &mut txn {
            model.expect(&txn.current().unwrap());
        }
        held.iter().for_each(|(s, m)| m.expect(s));
    }
    drop((txn, saved));
    sound(&alive(&db));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn alterations_among_changes_are_as_in_a_model(acts in prop::collection::vec(act(), 1..40)) {
        KINDS.into_iter().for_each(|kind| run(kind, &acts));
    }
}

fn cases() -> u32 {
    std::env::var("LODE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}
