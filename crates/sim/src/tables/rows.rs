//! Rows of the simulation's tables, and how they are read: by scans, by pages, by keys and by indexes.
//!
//! | table | changes | keys |
//! |---|---|---|
//! | parent | delta | PRIMARY KEY k, UNIQUE r |
//! | child | delta | PRIMARY KEY k, FOREIGN KEY r to parent k |
//! | plain | delta | none |
//! | pages | pages | PRIMARY KEY k |

use std::sync::Arc;

use lode_command::Answer;
use lode_engine::{
    Changes, ColumnDef, Constraint, Deferral, EngineError, IndexDef, IndexKind, OnDelete, OnUpdate,
    RowAddress, Rule, Snapshot, Table, TableDef, TableOptions,
};
use lode_page::{Column, ColumnBuilder, ColumnType, DataType, Value};
use lode_program::{CompareOp, Expr, Program};

/// The numbers of the tables.
pub(super) const PARENT: usize = 0;
pub(super) const CHILD: usize = 1;
pub(super) const PLAIN: usize = 2;
pub(super) const TABLES: usize = 4;

const NAMES: [&str; TABLES] = ["parent", "child", "plain", "pages"];
const COLUMNS: [(&str, DataType); 4] =
    [("k", DataType::BigInt), ("r", DataType::BigInt), ("d", DataType::BigInt), ("s", DataType::Text)];
/// The numbers of all columns.
pub(super) const ALL: [u16; COLUMNS.len()] = [0, 1, 2, 3];

/// A row: `k`, `r`, `d`, and `s`, which is another text in each version of a row.
pub(super) type Row = Arc<Vec<Value>>;

pub(super) fn name(table: usize) -> &'static str {
    NAMES[table]
}

/// Whether changes of few rows of a table go to a delta.
pub(super) fn has_delta(table: usize) -> bool {
    table < TABLES - 1
}

/// The columns that are keys of a table, each alone.
pub(super) fn keys(table: usize) -> &'static [u16] {
    match table {
        PARENT => &[0, 1],
        PLAIN => &[],
        _ => &[0],
    }
}

pub(super) fn definition(table: usize) -> TableDef {
    let column = |(name, data_type): (&str, DataType)| ColumnDef {
        name: name.into(),
        ty: ColumnType { data_type, nullable: true },
        max_chars: None,
        declared: data_type.to_string(),
    };
    let rule = match table {
        PARENT => Some(Rule::Unique { columns: vec![1] }),
        CHILD => Some(Rule::ForeignKey {
            columns: vec![1],
            parent: NAMES[PARENT].into(),
            parent_columns: vec![0],
            on_delete: OnDelete::NoAction,
            on_update: OnUpdate::NoAction,
        }),
        _ => None,
    };
    TableDef {
        name: NAMES[table].into(),
        columns: COLUMNS.map(column).into(),
        primary_key: if table == PLAIN { Vec::new() } else { vec![0] },
        primary_key_deferral: Deferral::None,
        options: TableOptions {
            changes: if has_delta(table) { Changes::Delta } else { Changes::Pages },
            ..TableOptions::default()
        },
        constraints: rule
            .map(|rule| Constraint { name: "rule".into(), rule, deferral: Deferral::None })
            .into_iter()
            .collect(),
    }
}

pub(super) fn index(table: usize, column: u16) -> IndexDef {
    IndexDef {
        name: format!("{}_{column}", NAMES[table]),
        table: NAMES[table].into(),
        columns: vec![column],
        kind: IndexKind::Btree { unique: false },
    }
}

/// The text of a row.
pub(super) fn text(row: &[Value]) -> &[u8] {
    match &row[3] {
        Value::Bytes(b) => b,
        _ => &[],
    }
}

pub(super) fn int(v: &Value) -> Option<i64> {
    if let Value::Int(v) = v { Some(*v) } else { None }
}

/// A row in a message.
pub(super) fn shown(row: Option<&Row>) -> String {
    row.map_or("no row".into(), |r| {
        let text = String::from_utf8_lossy(text(r)).into_owned();
        format!("{:?} {}", &r[..3], text.split(' ').next().unwrap_or_default())
    })
}

pub(super) fn columns<'a>(rows: impl IntoIterator<Item = &'a Row> + Clone) -> Vec<Column> {
    let column = |(c, (_, data_type)): (usize, (&str, DataType))| {
        let mut b = ColumnBuilder::new(data_type);
        rows.clone().into_iter().for_each(|r| b.push(&r[c]).expect("the value is of the column's type"));
        b.finish()
    };
    COLUMNS.into_iter().enumerate().map(column).collect()
}

/// Rows with their addresses, through the drive's scan.
pub(super) fn scan(s: &Snapshot, t: &Table) -> Result<Vec<(RowAddress, Row)>, EngineError> {
    let program = Arc::new(Program::check(t.schema().clone(), None, ALL.into(), true)?);
    let mut scan = s.scan(t, s.page_ranges(t), program, Answer::Rows, None)?;
    let mut rows = Vec::new();
    while let Some(unit) = scan.next()? {
        for p in unit.pages {
            for r in 0..p.rows as usize {
                let slot = p.slots.as_ref().map_or(r as u32, |s| s[r]);
                let row = p.columns.iter().map(|c| c.value(r)).collect();
                rows.push((t.row_address(p.lpid, slot), Arc::new(row)));
            }
        }
    }
    Ok(rows)
}

/// Rows through the buffer pool.
pub(super) fn read(s: &Snapshot, t: &Table) -> Result<Vec<Row>, EngineError> {
    let program = Arc::new(Program::check(t.schema().clone(), None, Vec::new(), false)?);
    let mut scan = s.scan(t, s.page_ranges(t), program, Answer::Mapped, None)?;
    let mut rows = Vec::new();
    while let Some(unit) = scan.next()? {
        for p in unit.pages {
            let page = s.read_columns(p.lpid, &ALL)?;
            rows.extend(
                (0..page.rows).map(|r| Arc::new(page.columns.iter().map(|c| c.value(r)).collect::<Vec<_>>())),
            );
        }
    }
    Ok(rows)
}

/// Rows with a value in a column, by the index of the column. `None` if the index cannot tell.
pub(super) fn by_index(
    s: &Snapshot,
    t: &Table,
    column: u16,
    value: i64,
) -> Result<Option<Vec<Row>>, EngineError> {
    let filter =
        Expr::compare(CompareOp::Eq, Expr::Column(column), Expr::Const(Value::Int(value), DataType::BigInt));
    let Some(found) = s.index_pages(t, &filter, u64::MAX)? else { return Ok(None) };
    let program = Program::check(t.schema().clone(), Some(filter), ALL.into(), false)?;
    let mut scan = s.scan(t, found.pages, Arc::new(program), Answer::Rows, None)?;
    let mut rows = Vec::new();
    while let Some(unit) = scan.next()? {
        for p in unit.pages {
            rows.extend(
                (0..p.rows as usize).map(|r| Arc::new(p.columns.iter().map(|c| c.value(r)).collect())),
            );
        }
    }
    Ok(Some(rows))
}

/// Rows with a value in a key.
pub(super) fn by_key(s: &Snapshot, t: &Table, column: u16, value: i64) -> Result<Vec<Row>, EngineError> {
    let found = s.rows_by_key(t, &[column], &[Value::Int(value)], 16)?;
    let row =
        |address: RowAddress| -> Result<Row, EngineError> { Ok(Arc::new(s.row_values(t, address, &ALL)?)) };
    found.into_iter().map(row).collect()
}
