//! What the engine's tests share: drives, tables, rows in and out.

#![allow(dead_code, unreachable_pub)]

pub mod drive;
pub mod hooked;

use std::sync::Arc;

use lode_command::{Answer, Device};
use lode_engine::{
    Changes, ColumnDef, Database, DatabaseOptions, Deferral, EngineError, Layout, RowAddress, Snapshot,
    TableDef, TableOptions,
};
use lode_page::{Column, ColumnBuilder, DataType, Value};
use lode_program::Program;

pub type Row = Vec<Value>;

pub fn open(drive: &(impl Device + Clone + 'static)) -> Database {
    let options = DatabaseOptions {
        pool_bytes: 32 << 20,
        key_check_bytes: 1 << 16,
        rows_by_id_max: 100,
        change_bytes: 8 << 10,
        host: None,
        ..DatabaseOptions::default()
    };
    Database::open(crate::support::carry(Arc::new(drive.clone())), options).unwrap()
}

/// Pages, batches and limits that are small: a few hundred keys go through all of a tree's life.
pub fn small() -> DatabaseOptions {
    DatabaseOptions {
        frame_bytes: 16 << 10,
        node_bytes: 256,
        value_page_bytes_min: 100,
        write_back_bytes: 2 << 10,
        redo_bytes_max: 8 << 10,
        redo_pages_max: 30,
        ..DatabaseOptions::default()
    }
}

/// What is between the engine and a drive: nothing here. The tests of the transport have their own.
pub fn carry(device: Arc<dyn Device>) -> Arc<dyn Device> {
    device
}

/// Where changes go: to pages. The tests of deltas have their own.
pub fn changes(_: Layout) -> Changes {
    Changes::Pages
}

pub fn def(name: &str, columns: &[(&str, DataType)], primary_key: &[u16], layout: Layout) -> TableDef {
    let column = |&(name, data_type): &(&str, DataType)| ColumnDef::new(name, data_type);
    TableDef {
        name: name.into(),
        columns: columns.iter().map(column).collect(),
        primary_key: primary_key.into(),
        primary_key_deferral: Deferral::None,
        primary_key_name: None,
        options: TableOptions { layout, changes: crate::support::changes(layout), ..TableOptions::default() },
        constraints: Vec::new(),
    }
}

/// `t (k BIGINT PRIMARY KEY, d DATE, s TEXT)`.
pub fn table(layout: Layout) -> TableDef {
    def("t", &[("k", DataType::BigInt), ("d", DataType::Date), ("s", DataType::Text)], &[0], layout)
}

pub fn row(k: i64) -> Row {
    vec![Value::Int(k), Value::Int(k % 1000), Value::text(&format!("row {k}"))]
}

pub fn columns(types: &[DataType], rows: &[Row]) -> Vec<Column> {
    let column = |(c, &t): (usize, &DataType)| {
        let mut b = ColumnBuilder::new(t);
        rows.iter().for_each(|r| b.push(&r[c]).unwrap());
        b.finish()
    };
    types.iter().enumerate().map(column).collect()
}

pub fn columns_of(s: &Snapshot, table: &str, rows: &[Row]) -> Vec<Column> {
    let t = s.table(table).unwrap();
    let types: Vec<DataType> = t.schema().columns.iter().map(|c| c.data_type).collect();
    columns(&types, rows)
}

/// Rows with their addresses, through the drive's scan.
pub fn scan(s: &Snapshot, table: &str) -> Vec<(RowAddress, Row)> {
    let t = s.table(table).unwrap();
    let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
    let program = Arc::new(Program::check(t.schema().clone(), None, all, true).unwrap());
    let mut scan = s.scan(&t, s.page_ranges(&t), program, Answer::Rows, None).unwrap();
    let mut rows = Vec::new();
    while let Some(unit) = scan.next().unwrap() {
        for p in unit.pages {
            for r in 0..p.rows as usize {
                let slot = p.slots.as_ref().map_or(r as u32, |s| s[r]);
                rows.push((t.row_address(p.lpid, slot), p.columns.iter().map(|c| c.value(r)).collect()));
            }
        }
    }
    rows
}

/// The same, through the buffer pool.
pub fn read(s: &Snapshot, table: &str) -> Vec<Row> {
    let t = s.table(table).unwrap();
    let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
    let program = Arc::new(Program::check(t.schema().clone(), None, Vec::new(), false).unwrap());
    let mut scan = s.scan(&t, s.page_ranges(&t), program, Answer::Mapped, None).unwrap();
    let mut rows = Vec::new();
    while let Some(unit) = scan.next().unwrap() {
        for p in unit.pages {
            let page = s.read_columns(p.lpid, &all).unwrap();
            rows.extend((0..page.rows).map(|r| page.columns.iter().map(|c| c.value(r)).collect::<Row>()));
        }
    }
    rows
}

pub fn sorted(mut rows: Vec<Row>) -> Vec<String> {
    rows.sort_by_key(|r| format!("{r:?}"));
    rows.iter().map(|r| format!("{r:?}")).collect()
}

pub fn keys(s: &Snapshot, table: &str) -> Vec<i64> {
    let key = |(_, r): (RowAddress, Row)| match r[0] {
        Value::Int(k) => k,
        _ => panic!("{r:?}"),
    };
    let mut keys: Vec<i64> = scan(s, table).into_iter().map(key).collect();
    keys.sort_unstable();
    keys
}

pub fn insert(db: &Database, rows: &[Row]) -> Result<(), EngineError> {
    let mut txn = db.begin_write()?;
    let columns = columns_of(txn.snapshot(), "t", rows);
    assert_eq!(txn.insert("t", columns)?, rows.len() as u64);
    txn.commit().map(drop)
}

pub fn load(db: &Database, rows: &[Row], part: usize) -> Result<(), EngineError> {
    let mut txn = db.begin_write()?;
    for rows in rows.chunks(part) {
        let columns = columns_of(txn.snapshot(), "t", rows);
        txn.load("t", columns)?;
    }
    txn.commit().map(drop)
}

pub fn sound(db: &Database) {
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}
