//! A filter and an aggregation over one page, as the drive runs them.
//!
//! ```text
//!   rows ─► columns ─► page (bytes) ─► columns ─┬─ Passed::of ─► rows_of ─► rows that pass
//!                                               └─ group ──────► GroupTable ─► groups of the rows that pass
//! ```
//!
//! A program is checked once against the schema of its table. Then it cannot fail on any page of the table.
//!
//! `cargo run -p lode-program --example filter`

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, Write};

use lode_base::{CommitNo, ExtentId, TableId};
use lode_page::{
    Column, ColumnBuilder, ColumnType, DataType, PageKind, PageMeta, Schema, Value, decode_page, encode,
};
use lode_program::{Aggregation, Call, ColumnSource, CompareOp, Expr, GroupTable, Meter, Passed, Program};

/// Columns of the table, by number.
const CITY: u16 = 0;
const FARE: u16 = 1;

/// The columns of a page. In the drive they are read from flash when the program asks for them.
struct Page(Vec<Column>);

impl ColumnSource for Page {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.0[0].rows()
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        Ok(self.0[usize::from(column)].clone())
    }
}

pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // A table of two columns, neither with NULLs.
    let column = |data_type| ColumnType { data_type, nullable: false };
    let schema = Schema {
        version: 1,
        columns: vec![column(DataType::Text), column(DataType::Integer)],
        absent: Vec::new(),
    };

    // A page of five rows, built by hand.
    let rows = [("Oslo", 120), ("Bergen", 80), ("Oslo", 45), ("Oslo", 200), ("Bergen", 150)];
    let mut columns = [ColumnBuilder::new(DataType::Text), ColumnBuilder::new(DataType::Integer)];
    for (city, fare) in rows {
        columns[usize::from(CITY)].push(&Value::text(city))?;
        columns[usize::from(FARE)].push(&Value::Int(fare))?;
    }
    let columns: Vec<Column> = columns.into_iter().map(ColumnBuilder::finish).collect();
    let lpid = ExtentId::new(1).expect("a small number").page(0);
    let (table, commit) = (TableId::new(1), CommitNo::new(0));
    let meta = PageMeta { lpid, table, schema_version: 1, kind: PageKind::Row, commit };
    let bytes = encode(&meta, &columns, 8192)?;
    writeln!(out, "a page of {} rows, {} bytes", rows.len(), bytes.len())?;

    // WHERE fare >= 100, with the city and the fare of the rows that pass.
    let at_least = |fare| {
        let constant = Expr::Const(Value::Int(fare), DataType::Integer);
        Expr::compare(CompareOp::GtEq, Expr::Column(FARE), constant)
    };
    let program = Program::check(schema, Some(at_least(100)), vec![CITY, FARE], false)?;

    let (_, columns) = decode_page(lpid, &bytes)?;
    let mut page = Page(columns);
    let mut meter = Meter::default();
    let passed = Passed::of(&program, &mut page, &mut meter)?;
    let answer = passed.rows_of(&program, lpid, &mut page)?;
    writeln!(out, "{} rows pass, {} values were compared", answer.rows, meter.values_compared)?;
    for row in 0..answer.rows as usize {
        writeln!(out, "  {} {}", text(&answer.columns[0], row), number(&answer.columns[1], row))?;
    }

    // SELECT city, count(*), sum(fare) WHERE fare >= 100 GROUP BY city. Groups are partial: a task over many pages may answer a
    // group more than once, and the host merges them.
    let grouped = program.with_aggregation(Aggregation {
        group_by: vec![CITY],
        calls: vec![Call::CountRows, Call::Sum(Expr::Column(FARE))],
        groups_max: 100,
    })?;
    let mut groups = GroupTable::new(&grouped).expect("the program has an aggregation");
    passed.group(&grouped, &mut page, &mut groups, &mut |_, _| unreachable!("100 groups are enough here"))?;
    let (count, columns) = groups.drain(&grouped);
    writeln!(out, "{count} groups")?;
    for group in 0..count {
        let (city, rows, sum) =
            (text(&columns[0], group), number(&columns[1], group), number(&columns[2], group));
        writeln!(out, "  {city}: {rows} rows, fares of {sum}")?;
    }
    Ok(())
}

fn text(column: &Column, row: usize) -> String {
    match column.value(row) {
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => unreachable!("{other:?} is no text"),
    }
}

fn number(column: &Column, row: usize) -> i64 {
    match column.value(row) {
        Value::Int(n) => n,
        other => unreachable!("{other:?} is no integer"),
    }
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout())
}
