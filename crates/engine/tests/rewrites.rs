//! Tables that are written anew, in another order (VACUUM FULL).

mod support;

use std::sync::Arc;

use lode_command::{Answer, Device};
use lode_engine::{
    Changes, Constraint, Database, DatabaseOptions, Deferral, Encodings, EngineError, EntryOf, IndexDef,
    IndexKind, Layout, ReferenceAction, Rule, Snapshot, TableDef,
};
use lode_page::{DataType, EncodingChoice, Value};
use lode_program::{CompareOp, Expr, Program};
use support::drive::TestDrive;
use support::*;

fn changed_to(changes: Changes) -> TableDef {
    let mut def = table(Layout::Auto);
    def.options.encoding = Encodings { all: EncodingChoice::Plain, ..Encodings::default() };
    def.options.changes = changes;
    def
}

/// A row of which a few thousand fill a page.
fn wide(k: i64) -> Row {
    vec![Value::Int(k), Value::Int(k % 1000), Value::text(&format!("row {k} {:0>800}", k * k))]
}

fn by_d(columns: Vec<u16>) -> IndexDef {
    IndexDef {
        name: "by_d".into(),
        table: "t".into(),
        columns,
        kind: IndexKind::Btree { unique: false },
        orders: Vec::new(),
        summaries: Vec::new(),
        entries: EntryOf::Pages,
    }
}

fn rewrite(db: &Database, order: Option<usize>) -> Result<(), EngineError> {
    let mut rewrite = db.begin_write()?.rewrite("t")?;
    match order {
        None => rewrite.push_all()?,
        Some(c) => {
            let mut rows: Vec<Row> = scan(rewrite.snapshot(), "t").into_iter().map(|(_, r)| r).collect();
            rows.sort_by(|a, b| a[c].compare(&b[c]).unwrap());
            for rows in rows.chunks(1000) {
                let columns = columns_of(rewrite.snapshot(), "t", rows);
                rewrite.push(columns)?;
            }
        }
    }
    rewrite.finish().map(drop)
}

/// Keys in no order, which are in pages and in the delta.
fn scattered(drive: &TestDrive, changes: Changes, rows: i64) -> Database {
    let db = open(drive);
    db.create_table(changed_to(changes), false).unwrap();
    db.create_index(by_d(vec![1]), false).unwrap();
    let rows: Vec<Row> = (0..rows).map(|i| wide(i * 7919 % rows)).collect();
    let (loaded, inserted) = rows.split_at(rows.len() - 50);
    load(&db, loaded, 2000).unwrap();
    insert(&db, inserted).unwrap();
    let mut txn = db.begin_write().unwrap();
    let t = txn.table("t").unwrap();
    let at: Vec<_> =
        (100..150).map(|k| txn.snapshot().row_by_key(&t, &[0], &[Value::Int(k)]).unwrap().unwrap()).collect();
    txn.delete("t", &at).unwrap();
    txn.commit().unwrap();
    db
}

fn rows_of(s: &Snapshot) -> Vec<String> {
    sorted(scan(s, "t").into_iter().map(|(_, r)| r).collect())
}

/// Pages that the page index leaves for `k` from `low` to `high`.
fn pages_between(s: &Snapshot, low: i64, high: i64) -> u64 {
    let t = s.table("t").unwrap();
    let k = |op, v| Expr::compare(op, Expr::Column(0), Expr::Const(Value::Int(v), DataType::BigInt));
    let filter = Expr::And(vec![k(CompareOp::GtEq, low), k(CompareOp::LtEq, high)]);
    let program = Program::check(t.schema().clone(), Some(filter), vec![0], false).unwrap();
    let mut scan = s.scan(&t, s.page_ranges(&t), Arc::new(program), Answer::Rows, None).unwrap();
    let mut pages = 0;
    while let Some(unit) = scan.next().unwrap() {
        pages += unit.pages.len() as u64;
    }
    pages
}

fn found(s: &Snapshot, k: i64) -> bool {
    s.row_by_key(&s.table("t").unwrap(), &[0], &[Value::Int(k)]).unwrap().is_some()
}

#[test]
fn rows_are_in_order_and_are_the_same() {
    for changes in [Changes::Delta, Changes::Pages] {
        let drive = TestDrive::new();
        let db = scattered(&drive, changes, 6000);
        let old = db.snapshot().unwrap();
        let before = rows_of(&old);
        let extents = drive.extents();
        let all = db.snapshot().unwrap().table("t").unwrap().pages();
        assert!(all >= 4, "{all} pages");
        let scattered = pages_between(&old, 3000, 3100);
        assert!(scattered >= 4, "rows are in no order, but in {scattered} of {all} pages");
        rewrite(&db, Some(0)).unwrap();
        let s = db.snapshot().unwrap();
        assert_eq!(rows_of(&s), before);
        assert_eq!(rows_of(&old), before, "an old snapshot shows the same");
        assert!(found(&old, 3000) && found(&s, 3000) && !found(&s, 120));
        assert!(pages_between(&s, 3000, 3100) <= 2, "pages hold ranges of keys");
        let statistics = s.statistics(&s.table("t").unwrap()).unwrap();
        assert_eq!(statistics.rows, 5950);
        assert_eq!(statistics.columns[0], Some((Value::Int(0), Value::Int(5999))));
        drop((old, s));
        sound(&db);
        // Later changes find the rows.
        insert(&db, &[row(120)]).unwrap();
        assert!(matches!(insert(&db, &[wide(3000)]), Err(EngineError::DuplicateKey { .. })));
        db.merge("t").unwrap();
        sound(&db);
        assert!(drive.extents() <= extents, "{} of {extents} extents", drive.extents());
        drop(db);
        let db = open(&drive);
        sound(&db);
        assert_eq!(keys(&db.snapshot().unwrap(), "t").len(), 5951);
        // Once more, in another order: the primary keys have entries of their own.
        rewrite(&db, Some(1)).unwrap();
        let s = db.snapshot().unwrap();
        assert!((0..6000).step_by(97).all(|k| found(&s, k)));
        sound(&db);
        rewrite(&db, None).unwrap();
        sound(&db);
        db.drop_table("t", false).unwrap();
        sound(&db);
    }
}

#[test]
fn an_empty_table_is_rewritten() {
    for changes in [Changes::Delta, Changes::Pages] {
        let db = open(&TestDrive::new());
        db.create_table(changed_to(changes), false).unwrap();
        db.create_index(by_d(vec![1, 0]), false).unwrap();
        rewrite(&db, Some(0)).unwrap();
        sound(&db);
        insert(&db, &[row(1)]).unwrap();
        rewrite(&db, None).unwrap();
        assert!(found(&db.snapshot().unwrap(), 1));
        sound(&db);
        assert!(matches!(db.begin_write().unwrap().rewrite("u"), Err(EngineError::NoSuchTable(_))));
        let mut txn = db.begin_write().unwrap();
        let columns = columns_of(txn.snapshot(), "t", &[row(5)]);
        txn.insert("t", columns).unwrap();
        assert!(matches!(txn.rewrite("t"), Err(EngineError::Invalid { .. })));
        // Rows that are left out are noticed.
        let rewrite = db.begin_write().unwrap().rewrite("t").unwrap();
        assert!(matches!(rewrite.finish(), Err(EngineError::Invalid { .. })));
        sound(&db);
    }
}

#[test]
fn a_rewrite_and_a_commit_of_others_conflict() {
    for changes in [Changes::Delta, Changes::Pages] {
        let db = scattered(&TestDrive::new(), changes, 3000);
        let mut begun = db.begin_write().unwrap();
        let mut rewrite = db.begin_write().unwrap().rewrite("t").unwrap();
        rewrite.push_all().unwrap();
        insert(&db, &[row(9000)]).unwrap();
        assert!(matches!(rewrite.finish(), Err(EngineError::Conflict { .. })));
        assert!(found(&db.snapshot().unwrap(), 9000));
        sound(&db);
        // The other way round.
        let columns = columns_of(begun.snapshot(), "t", &[row(9001)]);
        begun.insert("t", columns).unwrap();
        self::rewrite(&db, Some(0)).unwrap();
        assert!(matches!(begun.commit(), Err(EngineError::Conflict { .. })));
        // With the right to write nobody comes between.
        let mut rewrite = db.begin_exclusive().unwrap().rewrite("t").unwrap();
        rewrite.push_all().unwrap();
        rewrite.finish().unwrap();
        assert!(found(&db.snapshot().unwrap(), 9000));
        sound(&db);
    }
}

#[test]
fn a_rewrite_that_ends_early_leaves_the_table_and_no_room_behind() {
    for changes in [Changes::Delta, Changes::Pages] {
        let drive = TestDrive::new();
        let db = scattered(&drive, changes, 2000);
        db.flush().unwrap();
        let before = rows_of(&db.snapshot().unwrap());
        let extents = drive.extents();
        // The drive fails at any batch.
        for batches in 0.. {
            drive.fail_after(Some(batches));
            let done = rewrite(&db, Some(0));
            drive.fail_after(None);
            if done.is_ok() {
                break;
            }
            assert!(matches!(done, Err(EngineError::OutOfSpace { .. })), "{done:?}");
            assert_eq!(rows_of(&db.snapshot().unwrap()), before, "after {batches} batches");
            sound(&db);
        }
        // A process that ends in the middle releases nothing. The next open does.
        let mut cut = db.begin_write().unwrap().rewrite("t").unwrap();
        cut.push_all().unwrap();
        std::mem::forget(cut);
        std::mem::forget(db);
        drive.close_views();
        let db = open(&drive);
        sound(&db);
        assert_eq!(rows_of(&db.snapshot().unwrap()), before);
        drop(db);
        assert!(drive.extents() <= extents, "{} of {extents} extents", drive.extents());
    }
}

#[test]
fn trees_that_go_beside_a_load_are_gone() {
    let db = scattered(&TestDrive::new(), Changes::Delta, 3000);
    let mut txn = db.begin_write().unwrap();
    txn.drop_table("t", false).unwrap();
    let mut def = changed_to(Changes::Delta);
    def.name = "u".into();
    txn.create_table(def, false).unwrap();
    for part in (0..6000).map(row).collect::<Vec<_>>().chunks(5000) {
        let types = [DataType::BigInt, DataType::Date, DataType::Text];
        txn.load("u", columns(&types, part)).unwrap();
    }
    txn.commit().unwrap();
    sound(&db);
    assert_eq!(db.snapshot().unwrap().trees().count(), 1);
}

#[test]
fn tables_that_reference_it_find_their_parents() {
    let db = open(&TestDrive::new());
    db.create_table(changed_to(Changes::Delta), false).unwrap();
    let mut child = def("child", &[("c", DataType::BigInt), ("k", DataType::BigInt)], &[0], Layout::Auto);
    child.options.changes = Changes::Delta;
    let rule = Rule::ForeignKey {
        columns: vec![1],
        parent: "t".into(),
        parent_columns: vec![0],
        on_delete: ReferenceAction::NoAction,
        on_update: ReferenceAction::NoAction,
    };
    child.constraints.push(Constraint { name: "of_t".into(), rule, deferral: Deferral::None });
    db.create_table(child, false).unwrap();
    insert(&db, &(0..100).map(row).collect::<Vec<_>>()).unwrap();
    let add = |c: i64, k: i64| -> Result<(), EngineError> {
        let mut txn = db.begin_write()?;
        let types = [DataType::BigInt, DataType::BigInt];
        txn.insert("child", columns(&types, &[vec![Value::Int(c), Value::Int(k)]]))?;
        txn.commit().map(drop)
    };
    add(1, 5).unwrap();
    let mut late = db.begin_write().unwrap();
    let types = [DataType::BigInt, DataType::BigInt];
    late.insert("child", columns(&types, &[vec![Value::Int(9), Value::Int(9)]])).unwrap();
    rewrite(&db, Some(0)).unwrap();
    late.commit().unwrap();
    add(2, 6).unwrap();
    assert!(matches!(add(3, 500), Err(EngineError::ForeignKey { .. })));
    let mut txn = db.begin_write().unwrap();
    let t = txn.table("t").unwrap();
    let at = txn.snapshot().row_by_key(&t, &[0], &[Value::Int(5)]).unwrap().unwrap();
    txn.delete("t", &[at]).unwrap();
    assert!(matches!(txn.commit(), Err(EngineError::ForeignKey { .. })));
    sound(&db);
}

#[test]
fn entries_are_sorted_in_runs() {
    let drive = TestDrive::new();
    let options = DatabaseOptions { key_check_bytes: 4 << 10, ..small() };
    let device: Arc<dyn Device> = Arc::new(drive.clone());
    let db = Database::open(device, options).unwrap();
    let mut def = changed_to(Changes::Delta);
    def.constraints = vec![Constraint {
        name: "s".into(),
        rule: Rule::Unique { columns: vec![2] },
        deferral: Deferral::None,
    }];
    db.create_table(def, false).unwrap();
    db.create_index(by_d(vec![1]), false).unwrap();
    load(&db, &(0..4000).map(|i| row(i * 7919 % 4000)).collect::<Vec<_>>(), 1000).unwrap();
    rewrite(&db, Some(1)).unwrap();
    sound(&db);
    let s = db.snapshot().unwrap();
    assert!((0..4000).all(|k| found(&s, k)));
    let again = vec![Value::Int(5000), Value::Int(0), Value::text("row 17")];
    assert!(matches!(insert(&db, &[again]), Err(EngineError::Unique { .. })));
}
