//! Random changes of a schema and of rows, and what the relations hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use lode_base::random::Random;

/// Tables that there are at most.
const TABLES_MAX: usize = 4;
/// Columns of a table, beside its key.
const COLUMNS_MAX: usize = 5;

/// A column: what tells it from all others, its name, and its default.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    number: u64,
    name: String,
    default: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    number: u64,
    columns: Vec<Column>,
    /// By key: the values of the columns.
    rows: BTreeMap<i64, Vec<i64>>,
    indexes: BTreeMap<String, u64>,
}

/// A view of a table's key and one column.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    table: u64,
    column: u64,
    /// The name that the column had.
    name: String,
}

/// A schema with its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    tables: BTreeMap<String, Table>,
    views: BTreeMap<String, View>,
    next: u64,
}

#[allow(dead_code, reason = "each test uses its part")]
impl State {
    /// The names of all relations that can be read.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.tables.keys().chain(self.views.keys()).cloned().collect()
    }

    /// A key that no row has.
    pub(crate) const KEY_OF_NONE: i64 = 1_000_000_000;

    /// The names of its tables.
    pub(crate) fn table_names(&self) -> BTreeSet<String> {
        self.tables.keys().cloned().collect()
    }

    /// The values of a row of a table that is inserted with its key alone.
    pub(crate) fn new_row(&self, table: &str) -> Vec<i64> {
        self.tables[table].columns.iter().map(|c| c.default).collect()
    }

    /// The query of a relation's rows.
    pub(crate) fn query(name: &str) -> String {
        format!("SELECT * FROM {name} ORDER BY id")
    }

    /// The rows of a relation, as lines: names of columns, then values.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let line = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(" ");
        if let Some(t) = self.tables.get(name) {
            let names = std::iter::once("id".to_owned()).chain(t.columns.iter().map(|c| c.name.clone()));
            let mut lines = vec![line(&mut names.into_iter())];
            for (id, values) in &t.rows {
                let values = std::iter::once(id).chain(values);
                lines.push(line(&mut values.map(i64::to_string)));
            }
            return lines;
        }
        let view = &self.views[name];
        let table = self.tables.values().find(|t| t.number == view.table).expect("a view has its table");
        let place = table.columns.iter().position(|c| c.number == view.column).expect("and its column");
        let mut lines = vec![format!("id {}", view.name)];
        lines.extend(table.rows.iter().map(|(id, values)| format!("{id} {}", values[place])));
        lines
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for name in self.names() {
            writeln!(text, "{name}: {}", self.lines(&name).join(" | ")).expect("a text takes it");
        }
        text
    }

    fn name(&mut self, prefix: &str) -> (u64, String) {
        self.next += 1;
        (self.next, format!("{prefix}{}", self.next))
    }

    /// A statement, which is applied. `None` if there is nothing that it could be about.
    pub(crate) fn change(&mut self, random: &mut Random) -> Option<String> {
        let names: Vec<String> = self.tables.keys().cloned().collect();
        let choice = random.below(20);
        if names.is_empty() || choice == 0 && names.len() < TABLES_MAX {
            return Some(self.create(random));
        }
        let name = random.pick(&names)?.clone();
        match choice {
            1 => Some(self.drop(&name)),
            2 => {
                let (_, to) = self.name("t");
                let table = self.tables.remove(&name)?;
                self.tables.insert(to.clone(), table);
                Some(format!("ALTER TABLE {name} RENAME TO {to}"))
            }
            3 | 4 => self.add_column(random, &name),
            5 => self.drop_column(random, &name),
            6 => self.rename_column(random, &name),
            7 => self.create_view(random, &name),
            8 => {
                let views: Vec<String> = self.views.keys().cloned().collect();
                let view = random.pick(&views)?.clone();
                self.views.remove(&view);
                Some(format!("DROP VIEW {view}"))
            }
            9 => self.index(random, &name),
            10 => {
                let table = self.tables.get_mut(&name)?;
                let c = random.below(table.columns.len() as u64) as usize;
                let column = table.columns.get_mut(c)?;
                column.default = random.below(1000) as i64;
                let (of, default) = (&column.name, column.default);
                Some(format!("ALTER TABLE {name} ALTER COLUMN {of} SET DEFAULT {default}"))
            }
            11 => self.update(random, &name),
            12 => {
                let (m, table) = (2 + random.below(5) as i64, self.tables.get_mut(&name)?);
                table.rows.retain(|id, _| id % m != 0);
                Some(format!("DELETE FROM {name} WHERE id % {m} = 0"))
            }
            13 => {
                self.tables.get_mut(&name)?.rows.clear();
                Some(format!("TRUNCATE {name}"))
            }
            14 => self.alter_type(random, &name),
            _ => self.insert(random, &name),
        }
    }

    fn create(&mut self, random: &mut Random) -> String {
        let (number, name) = self.name("t");
        let (c, of) = self.name("c");
        let default = random.below(1000) as i64;
        let columns = vec![Column { number: c, name: of.clone(), default }];
        let table = Table { number, columns, rows: BTreeMap::new(), indexes: BTreeMap::new() };
        self.tables.insert(name.clone(), table);
        format!("CREATE TABLE {name} (id BIGINT PRIMARY KEY, {of} BIGINT DEFAULT {default})")
    }

    fn drop(&mut self, name: &str) -> String {
        if let Some(table) = self.tables.remove(name) {
            self.views.retain(|_, v| v.table != table.number);
        }
        format!("DROP TABLE {name} CASCADE")
    }

    fn add_column(&mut self, random: &mut Random, name: &str) -> Option<String> {
        if self.tables[name].columns.len() >= COLUMNS_MAX {
            return None;
        }
        let (number, of) = self.name("c");
        let default = random.below(1000) as i64;
        let table = self.tables.get_mut(name)?;
        table.columns.push(Column { number, name: of.clone(), default });
        table.rows.values_mut().for_each(|values| values.push(default));
        let not_null = if random.once_in(2) { " NOT NULL" } else { "" };
        Some(format!("ALTER TABLE {name} ADD COLUMN {of} BIGINT DEFAULT {default}{not_null}"))
    }

    fn drop_column(&mut self, random: &mut Random, name: &str) -> Option<String> {
        let table = self.tables.get_mut(name)?;
        if table.columns.len() < 2 {
            return None;
        }
        let place = random.below(table.columns.len() as u64) as usize;
        let column = table.columns.remove(place);
        for values in table.rows.values_mut() {
            values.remove(place);
        }
        table.indexes.retain(|_, of| *of != column.number);
        self.views.retain(|_, v| v.column != column.number);
        Some(format!("ALTER TABLE {name} DROP COLUMN {} CASCADE", column.name))
    }

    /// Another type of the key or a column. All types show the same values.
    fn alter_type(&mut self, random: &mut Random, name: &str) -> Option<String> {
        let table = &self.tables[name];
        let column = random.pick(&table.columns)?;
        let is_key = random.once_in(3);
        let needs = |v: &View| v.table == table.number && (is_key || v.column == column.number);
        if self.views.values().any(needs) {
            return None;
        }
        let of = if is_key { "id" } else { &column.name };
        let to = random.pick(&["INTEGER", "BIGINT", "NUMERIC(20, 0)"])?;
        let using = if random.once_in(2) { format!(" USING {of} + 0") } else { String::new() };
        Some(format!("ALTER TABLE {name} ALTER COLUMN {of} TYPE {to}{using}"))
    }

    fn rename_column(&mut self, random: &mut Random, name: &str) -> Option<String> {
        let (_, to) = self.name("c");
        let table = self.tables.get_mut(name)?;
        let place = random.below(table.columns.len() as u64) as usize;
        let from = std::mem::replace(&mut table.columns[place].name, to.clone());
        Some(format!("ALTER TABLE {name} RENAME COLUMN {from} TO {to}"))
    }

    fn create_view(&mut self, random: &mut Random, name: &str) -> Option<String> {
        let (_, view) = self.name("v");
        let table = &self.tables[name];
        let column = random.pick(&table.columns)?.clone();
        let of = View { table: table.number, column: column.number, name: column.name.clone() };
        self.views.insert(view.clone(), of);
        Some(format!("CREATE VIEW {view} AS SELECT id, {} FROM {name}", column.name))
    }

    fn index(&mut self, random: &mut Random, name: &str) -> Option<String> {
        let (_, index) = self.name("i");
        let table = self.tables.get_mut(name)?;
        if let Some(old) = table.indexes.keys().next().cloned().filter(|_| random.once_in(3)) {
            table.indexes.remove(&old);
            return Some(format!("DROP INDEX IF EXISTS {old}"));
        }
        let column = random.pick(&table.columns)?.clone();
        table.indexes.insert(index.clone(), column.number);
        Some(format!("CREATE INDEX {index} ON {name} ({})", column.name))
    }

    fn update(&mut self, random: &mut Random, name: &str) -> Option<String> {
        let table = self.tables.get_mut(name)?;
        let place = random.below(table.columns.len() as u64) as usize;
        let (m, d) = (1 + random.below(4) as i64, 1 + random.below(100) as i64);
        let of = table.columns[place].name.clone();
        table.rows.iter_mut().filter(|(id, _)| *id % m == 0).for_each(|(_, values)| values[place] += d);
        Some(format!("UPDATE {name} SET {of} = {of} + {d} WHERE id % {m} = 0"))
    }

    fn insert(&mut self, random: &mut Random, name: &str) -> Option<String> {
        let table = self.tables.get_mut(name)?;
        let next = table.rows.keys().next_back().map_or(1, |k| k + 1);
        let most = if random.once_in(6) { 60 } else { 5 };
        let count = 1 + random.below(most) as i64;
        let given = random.below(table.columns.len() as u64 + 1) as usize;
        let list: String = table.columns[..given].iter().map(|c| format!(", {}", c.name)).collect();
        let mut rows = Vec::new();
        for id in next..next + count {
            let values = table.columns.iter().enumerate().map(|(i, c)| match i < given {
                true => random.below(1000) as i64,
                false => c.default,
            });
            let values: Vec<i64> = values.collect();
            let shown: String = values[..given].iter().map(|v| format!(", {v}")).collect();
            rows.push(format!("({id}{shown})"));
            table.rows.insert(id, values);
        }
        Some(format!("INSERT INTO {name} (id{list}) VALUES {}", rows.join(", ")))
    }
}
