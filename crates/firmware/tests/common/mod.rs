//! What the tests share: a host that speaks to a drive, and table pages to write.
#![allow(dead_code, unreachable_pub, missing_docs, unused_imports)]

use std::sync::Arc;

pub use lode_base::random::Random;
use lode_base::{CommitNo, ExtentId, Lpid, TableId, ViewId};
pub use lode_command::testing::{allocate, close_view, get, open_view, page, put, read, run, write};
use lode_command::{Align, Command, PageRange, PageWrite, Reply};
use lode_firmware::Drive;
use lode_page::{ColumnBuilder, ColumnType, DataType, PageKind, PageMeta, Schema, Value, encode};
use lode_program::{CompareOp, Expr, IndexEntry, IndexRule, Program};

pub fn index_entries(d: &Drive, view: ViewId, extent: ExtentId) -> Vec<(Lpid, Option<IndexEntry>)> {
    let pages = vec![PageRange { extent, first: 0, count: 1024 }];
    match run(d, Command::ReadIndex { view, pages }) {
        Ok(Reply::IndexEntries(e)) => e.into_iter().map(|e| (e.lpid, e.entry)).collect(),
        r => panic!("{r:?}"),
    }
}

/// No problem anywhere.
pub fn sound(d: &Drive) {
    let report = d.check();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

pub fn schema() -> Schema {
    Schema {
        version: 1,
        columns: vec![ColumnType { data_type: DataType::BigInt, nullable: false }; 2],
        absent: Vec::new(),
    }
}

pub fn rule() -> IndexRule {
    IndexRule::new(schema(), vec![0]).unwrap()
}

/// A table page whose first column has these values.
pub fn table_page(lpid: Lpid, owner: u32, values: &[i64]) -> PageWrite {
    let mut columns = [ColumnBuilder::new(DataType::BigInt), ColumnBuilder::new(DataType::BigInt)];
    for v in values {
        columns[0].push(&Value::Int(*v)).unwrap();
        columns[1].push(&Value::Int(-v)).unwrap();
    }
    let meta = PageMeta {
        lpid,
        table: TableId::new(owner),
        schema_version: 1,
        kind: PageKind::Row,
        commit: CommitNo::new(0),
    };
    let data = encode(&meta, &columns.map(ColumnBuilder::finish), 1 << 16).unwrap();
    PageWrite { lpid, data, align: Align::Cell }
}

/// A program for the first column of the rows whose value in it is from `from` on and below `to`.
pub fn program(from: i64, to: i64) -> Arc<Program> {
    let constant = |v| Expr::Const(Value::Int(v), DataType::BigInt);
    let filter = Expr::And(vec![
        Expr::compare(CompareOp::GtEq, Expr::Column(0), constant(from)),
        Expr::compare(CompareOp::Lt, Expr::Column(0), constant(to)),
    ]);
    Arc::new(Program::check(schema(), Some(filter), vec![0], false).unwrap())
}
