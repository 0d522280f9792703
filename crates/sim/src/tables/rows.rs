//! Rows of the simulation's tables, and how they are read: by scans, by pages, by keys and by indexes.
//!
//! | table | changes | keys |
//! |---|---|---|
//! | parent | delta | PRIMARY KEY k, UNIQUE r |
//! | child | delta | PRIMARY KEY k, FOREIGN KEY r to parent k |
//! | plain | delta | none |
//! | pages | pages | PRIMARY KEY k |

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use lode_command::{Answer, PageRange};
use lode_engine::{
    Changes, ColumnDef, Constraint, Deferral, EngineError, EntryOf, IndexDef, IndexKind, KeyOrder,
    ReferenceAction, RowAddress, Rule, Snapshot, Table, TableDef, TableOptions,
};
use lode_page::{Column, ColumnBuilder, DataType, Value};
use lode_program::{CompareOp, Expr, Program};

use crate::random::Random;

/// The numbers of the tables.
pub(super) const PARENT: usize = 0;
pub(super) const CHILD: usize = 1;
pub(super) const PLAIN: usize = 2;
pub(super) const TABLES: usize = 4;

const NAMES: [&str; TABLES] = ["parent", "child", "plain", "pages"];
const COLUMNS: [(&str, DataType); 4] =
    [("k", DataType::BigInt), ("r", DataType::BigInt), ("d", DataType::BigInt), ("s", DataType::Text)];
/// The numbers of the columns that a table is created with.
pub(super) const CREATED: usize = COLUMNS.len();
/// The types of columns that are added.
const ADDED_TYPES: [DataType; 3] = [DataType::BigInt, DataType::Text, DataType::Boolean];

/// The columns of a table, as ALTER TABLE made them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns {
    names: Vec<String>,
    /// The types and constants of those that were added.
    pub(super) added: Vec<(DataType, Value)>,
    pub(super) dropped: BTreeSet<usize>,
    pub(super) not_null: BTreeSet<usize>,
}

impl Columns {
    /// Those of a new table.
    pub(super) fn created(table: usize) -> Self {
        let key = (table != PLAIN).then_some(0);
        Self {
            names: COLUMNS.map(|(name, _)| name.into()).into(),
            added: Vec::new(),
            dropped: BTreeSet::new(),
            not_null: key.into_iter().collect(),
        }
    }

    fn data_type(&self, column: usize) -> DataType {
        match column.checked_sub(CREATED) {
            Some(at) => self.added[at].0,
            None => COLUMNS[column].1,
        }
    }

    fn count(&self) -> usize {
        self.names.len()
    }

    /// Alters them at random. Names that end up in a table differ.
    pub(super) fn alter(&mut self, table: usize, version: u64, r: &mut Random) {
        let added: Vec<usize> = (CREATED..self.count()).filter(|c| !self.dropped.contains(c)).collect();
        match r.below(8) {
            0..3 => {
                let data_type = *r.pick(&ADDED_TYPES).expect("there are some");
                let constant = if r.once_in(3) { Value::Null } else { any_value(data_type, r) };
                if !constant.is_null() && r.once_in(2) {
                    self.not_null.insert(self.count());
                }
                self.names.push(format!("c{version}"));
                self.added.push((data_type, constant));
            }
            3 => {
                if let Some(&c) = r.pick(&added) {
                    self.dropped.insert(c);
                    self.not_null.remove(&c);
                }
            }
            4 => {
                let c = r.below(self.count() as u64) as usize;
                self.names[c] = format!("c{version}");
            }
            _ => {
                // A child that must have a parent could not be inserted where there is none.
                let first = if table == CHILD { 2 } else { 1 };
                let all = (first..3).chain(added);
                let all: Vec<usize> = all.collect();
                let c = *r.pick(&all).expect("there are some");
                if !self.not_null.remove(&c) {
                    self.not_null.insert(c);
                }
            }
        }
    }

    /// What they are, for a comparison with a table.
    pub(super) fn described(&self) -> Vec<String> {
        let one = |c: usize| {
            let nullable = !self.not_null.contains(&c);
            describe(&self.names[c], self.data_type(c), nullable, self.dropped.contains(&c))
        };
        (0..self.count()).map(one).collect()
    }

    /// The definition of a table with these columns, after another definition.
    pub(super) fn definition(&self, mut def: TableDef) -> TableDef {
        for c in def.columns.len()..self.count() {
            let (data_type, constant) = self.added[c - CREATED].clone();
            def.columns.push(ColumnDef {
                absent: Some(constant.into()),
                ..ColumnDef::new(&self.names[c], data_type)
            });
        }
        for (c, column) in def.columns.iter_mut().enumerate() {
            column.name = self.names[c].clone();
            column.is_dropped = self.dropped.contains(&c);
            column.ty.nullable = !self.not_null.contains(&c);
        }
        def
    }

    /// A row with values in the columns that were added.
    pub(super) fn completed(&self, mut row: Vec<Value>, r: &mut Random) -> Row {
        for c in row.len()..self.count() {
            let (data_type, constant) = &self.added[c - CREATED];
            let v = match r.below(4) {
                _ if self.dropped.contains(&c) => Value::Null,
                0 if !self.not_null.contains(&c) => Value::Null,
                1 if !constant.is_null() => constant.clone(),
                _ => any_value(*data_type, r),
            };
            row.push(v);
        }
        Arc::new(row)
    }

    /// The columns of some rows.
    pub(super) fn of_rows<'a>(&self, rows: impl IntoIterator<Item = &'a Row> + Clone) -> Vec<Column> {
        let column = |c: usize| {
            let mut b = ColumnBuilder::new(self.data_type(c));
            rows.clone().into_iter().for_each(|r| b.push(&r[c]).expect("the value is of the column's type"));
            b.finish()
        };
        (0..self.count()).map(column).collect()
    }

    /// The numbers of the columns.
    pub(super) fn numbers(&self) -> Vec<u16> {
        (0..self.count() as u16).collect()
    }
}

fn any_value(t: DataType, r: &mut Random) -> Value {
    match t {
        DataType::Boolean => Value::Boolean(r.once_in(2)),
        DataType::Text => Value::text(&format!("t{}", r.below(5))),
        _ => Value::Int(r.below(10) as i64),
    }
}

fn describe(name: &str, t: DataType, nullable: bool, is_dropped: bool) -> String {
    format!(
        "{name} {t}{}{}",
        if nullable { "" } else { " NOT NULL" },
        if is_dropped { ", dropped" } else { "" }
    )
}

/// What the columns of a table are.
pub(super) fn described(t: &Table) -> Vec<String> {
    let of = |c: &ColumnDef| describe(&c.name, c.ty.data_type, c.ty.nullable, c.is_dropped);
    t.def().columns.iter().map(of).collect()
}

fn all(t: &Table) -> Vec<u16> {
    (0..t.schema().columns.len() as u16).collect()
}

/// A row: `k`, `r`, `d`, and `s`, which is another text in each version of a row. Columns that were added follow.
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
    let column = |(name, data_type): (&str, DataType)| ColumnDef::new(name, data_type);
    let rule = match table {
        PARENT => Some(Rule::Unique { columns: vec![1] }),
        CHILD => Some(Rule::ForeignKey {
            columns: vec![1],
            parent: NAMES[PARENT].into(),
            parent_columns: vec![0],
            on_delete: ReferenceAction::NoAction,
            on_update: ReferenceAction::NoAction,
        }),
        _ => None,
    };
    TableDef {
        name: NAMES[table].into(),
        columns: COLUMNS.map(column).into(),
        primary_key: if table == PLAIN { Vec::new() } else { vec![0] },
        primary_key_deferral: Deferral::None,
        primary_key_name: None,
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
        orders: match column % 2 {
            0 => Vec::new(),
            _ => vec![KeyOrder { descending: true, nulls_first: table.is_multiple_of(2) }],
        },
        summaries: Vec::new(),
        entries: match has_delta(table) || column.is_multiple_of(2) {
            true => EntryOf::Pages,
            false => EntryOf::Rows,
        },
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
        let key = text.split(' ').next().unwrap_or_default();
        format!("{:?} {key} {:?}", &r[..3], &r[CREATED.min(r.len())..])
    })
}

/// Rows with their addresses, through the drive's scan.
pub(super) fn scan(s: &Snapshot, t: &Table) -> Result<Vec<(RowAddress, Row)>, EngineError> {
    let program = Arc::new(Program::check(t.schema().clone(), None, all(t), true)?);
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

/// A program over the rows whose first column is in a range.
pub(super) fn in_range(t: &Table, range: &Range<i64>) -> Result<Program, EngineError> {
    let compare = |op, v| Expr::compare(op, Expr::Column(0), Expr::Const(Value::Int(v), DataType::BigInt));
    let filter = Expr::And(vec![compare(CompareOp::GtEq, range.start), compare(CompareOp::Lt, range.end)]);
    Ok(Program::check(t.schema().clone(), Some(filter), Vec::new(), false)?)
}

/// Rows through the buffer pool.
pub(super) fn read(s: &Snapshot, t: &Table) -> Result<Vec<Row>, EngineError> {
    let program = Arc::new(Program::check(t.schema().clone(), None, Vec::new(), false)?);
    let mut scan = s.scan(t, s.page_ranges(t), program, Answer::Mapped, None)?;
    let mut rows = Vec::new();
    while let Some(unit) = scan.next()? {
        for p in unit.pages {
            let page = s.read_columns(p.lpid, &all(t))?;
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
    match s.index_pages(t, &filter, u64::MAX)? {
        Some(found) => on_pages(s, t, filter, found.pages).map(Some),
        None => Ok(None),
    }
}

/// Rows whose column has a value from `low` on and up to `high`, by the minima of pages that the host keeps. `None` if the page index has
/// none of the column.
pub(super) fn by_minima(
    s: &Snapshot,
    t: &Table,
    column: u16,
    (low, high): (i64, i64),
) -> Result<Option<Vec<Row>>, EngineError> {
    let end = |op, v| Expr::compare(op, Expr::Column(column), Expr::Const(Value::Int(v), DataType::BigInt));
    let filter = Expr::And(vec![end(CompareOp::GtEq, low), end(CompareOp::LtEq, high)]);
    match s.pages_by_minima(t, &filter)? {
        Some(found) => on_pages(s, t, filter, found.pages).map(Some),
        None => Ok(None),
    }
}

/// Rows of some pages that pass a filter.
fn on_pages(s: &Snapshot, t: &Table, filter: Expr, pages: Vec<PageRange>) -> Result<Vec<Row>, EngineError> {
    let program = Program::check(t.schema().clone(), Some(filter), all(t), false)?;
    let mut scan = s.scan(t, pages, Arc::new(program), Answer::Rows, None)?;
    let mut rows = Vec::new();
    while let Some(unit) = scan.next()? {
        for p in unit.pages {
            rows.extend(
                (0..p.rows as usize).map(|r| Arc::new(p.columns.iter().map(|c| c.value(r)).collect())),
            );
        }
    }
    Ok(rows)
}

/// Rows with a value in a key.
pub(super) fn by_key(s: &Snapshot, t: &Table, column: u16, value: i64) -> Result<Vec<Row>, EngineError> {
    let found = s.rows_by_key(t, &[column], &[Value::Int(value)], 16)?;
    let row = |address: RowAddress| -> Result<Row, EngineError> {
        Ok(Arc::new(s.row_values(t, address, &all(t))?))
    };
    found.into_iter().map(row).collect()
}

/// How many rows have a value in a column, by the drive's filter.
pub(super) fn count_with(s: &Snapshot, t: &Table, column: u16, value: &Value) -> Result<u64, EngineError> {
    let data_type = t.schema().columns[usize::from(column)].data_type;
    let filter = match value {
        Value::Null => Expr::IsNull(Box::new(Expr::Column(column))),
        v => Expr::compare(CompareOp::Eq, Expr::Column(column), Expr::Const(v.clone(), data_type)),
    };
    let program = Program::check(t.schema().clone(), Some(filter), Vec::new(), false)?;
    let mut scan = s.scan(t, s.page_ranges(t), Arc::new(program), Answer::Rows, None)?;
    let mut rows = 0;
    while let Some(unit) = scan.next()? {
        rows += unit.pages.iter().map(|p| u64::from(p.rows)).sum::<u64>();
    }
    Ok(rows)
}
