//! ALTER COLUMN ... TYPE.
//!
//! ```text
//!   t (a INTEGER, b)  ─►  a new column gets the values of a ─►  a is dropped, the new one has its name, place, keys and indexes
//! ```
//!
//! Pages and rows keep the old column until they are written again. So old snapshots read on, and a rollback has nothing to undo.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, DataType as SqlType, Expr, Ident, ObjectName,
};
use lode_engine::{
    ColumnDef, Constraint, Deferral, Fill, IndexDef, Object, Relation, Rule, SequenceDef, SequenceOwner,
    Summary, TableDef, WriteTxn,
};
use lode_page::DataType;

use crate::SqlError;
use crate::alter::Alteration;
use crate::arrow_convert::arrow_type;
use crate::dml::{self, Checks, find_table};
use crate::error::state;
use crate::hidden_columns;
use crate::indexes::create_within;
use crate::names::{shown, split};
use crate::summaries::domain_values;
use crate::summary_text::domain_texts;
use crate::transaction::StatementTxn;
use crate::types::{declared_type, timestamp_digits};
use crate::view_readers::check_unread;

/// The name of the new column while it gets its values.
const NEW: &str = "__lode_altered";

impl Alteration<'_> {
    /// `ALTER COLUMN name [SET DATA] TYPE to [USING expression]`. Indexes on expressions of the column, or with a condition on it, are made anew.
    pub(crate) async fn alter_type_and_indexes(
        &self,
        work: StatementTxn,
        name: &str,
        to: &SqlType,
        using: Option<&Expr>,
    ) -> Result<StatementTxn, SqlError> {
        let column = self.column(name)?;
        let state = self.session.state_at(self.snapshot.clone(), None);
        let def = self.table.def();
        let mut hidden = Checks::of(&state, def)?.generated_by(&[column]);
        hidden.retain(|c| def.columns[usize::from(*c)].hidden.is_some());
        if hidden.is_empty() {
            return self.alter_type(work, name, to, using).await;
        }
        let indexes = hidden_columns::indexes_with(self.table.indexes(), &hidden);
        let (names, statements): (Vec<String>, Vec<String>) = indexes
            .map(|i| (i.name.clone(), hidden_columns::create_text(def, i, self.table.name(), true)))
            .unzip();
        let work = self
            .change(work, move |txn, table| {
                for name in &names {
                    txn.drop_index(name, false)?;
                }
                hidden_columns::drop_unused(txn, table)
            })
            .await?;
        let (work, snapshot) = work.snapshot().await?;
        let table = find_table(&snapshot, self.table.name())?;
        let without = Alteration { session: self.session, snapshot: &snapshot, table: &table };
        let mut work = without.alter_type(work, name, to, using).await?;
        for statement in &statements {
            work = create_within(self.session, work, statement).await?;
        }
        Ok(work)
    }

    /// `ALTER COLUMN name [SET DATA] TYPE to [USING expression]` of a column that no expression of an index looks at.
    async fn alter_type(
        &self,
        work: StatementTxn,
        name: &str,
        to: &SqlType,
        using: Option<&Expr>,
    ) -> Result<StatementTxn, SqlError> {
        let column = self.column(name)?;
        let old = self.table.def().columns[usize::from(column)].clone();
        let (data_type, max_chars) = declared_type(to)?;
        let mut new = ColumnDef { declared: to.to_string(), max_chars, ..ColumnDef::new(NEW, data_type) };
        self.check_dependents(&work, name, column)?;
        let is_rounded =
            timestamp_digits(&new).is_some_and(|n| timestamp_digits(&old).is_none_or(|old| n < old));
        if data_type == old.ty.data_type && using.is_none() && !is_rounded {
            return self.alter_declared(work, name, column, &new).await;
        }
        if using.is_none() && !casts(old.ty.data_type, data_type) {
            let message = format!("column \"{name}\" cannot be cast automatically to type {to}");
            return Err(SqlError::failed(state::DATATYPE_MISMATCH, message));
        }
        self.check_filling(name, column, &new).await?;
        if let Fill::Generated(text) = &old.fill {
            new.fill = Fill::Generated(text.clone());
        }
        let number = self.table.def().columns.len() as u16;
        let mut def = self.table.def().clone();
        def.columns.push(new.clone());
        let work = self.change(work, move |txn, table| Ok(txn.alter_table(table, def)?)).await?;
        let value = match (&old.fill, using) {
            (Fill::Generated(_), None) => Expr::Identifier(Ident::new("DEFAULT")),
            (_, Some(using)) => using.clone(),
            (_, None) => Expr::Identifier(Ident::with_quote('"', name)),
        };
        let target = AssignmentTarget::ColumnName(ObjectName::from(vec![Ident::with_quote('"', NEW)]));
        let work = dml::update_all(self.session, work, self.table.name(), Assignment { target, value }).await;
        let work = work.map_err(|e| of_column(e, name))?;
        let (work, snapshot) = work.snapshot().await?;
        let table = find_table(&snapshot, self.table.name())?;
        let checks: Vec<String> =
            Checks::of(&self.session.state_at(snapshot, None), table.def())?.looking_at(&[column]);
        let swap = Swap { column, number, fill: old.fill.clone(), nullable: old.ty.nullable };
        let work = self.change(work, move |txn, table| swap.run(txn, table)).await?;
        self.check_again(work, &checks).await
    }

    /// Refuses what needs the column as it is.
    fn check_dependents(&self, work: &StatementTxn, name: &str, column: u16) -> Result<(), SqlError> {
        let relation = Relation::Table(self.table.id().raw());
        let what = format!("alter the type of column \"{name}\"");
        check_unread(&work.txn, relation, Some(column), state::FEATURE_NOT_SUPPORTED, &what)?;
        let state = self.session.state_at(self.snapshot.clone(), None);
        let generated = Checks::of(&state, self.table.def())?.generated_by(&[column]);
        if generated.iter().any(|c| *c != column) {
            let message = format!("cannot alter type of a column used by a generated column: \"{name}\"");
            return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
        }
        let options = &self.table.def().options;
        if options.cluster_by.contains(&column) || options.encoding.columns.contains_key(&column) {
            let message = format!("the options of table \"{}\" name the column", shown(self.table.name()));
            return Err(SqlError::failed(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        Ok(())
    }

    /// Checks that the default of the column, or its sequence, suits the new type.
    async fn check_filling(&self, name: &str, column: u16, new: &ColumnDef) -> Result<(), SqlError> {
        let old = &self.table.def().columns[usize::from(column)];
        let mismatch = |_| {
            let to = &new.declared;
            let message = format!("default for column \"{name}\" cannot be cast automatically to type {to}");
            SqlError::failed(state::DATATYPE_MISMATCH, message)
        };
        match &old.fill {
            Fill::Identity { .. } | Fill::Sequence(_) if !is_integer(new.ty.data_type) => {
                let message = "identity column type must be smallint, integer, or bigint";
                match old.fill {
                    Fill::Identity { .. } => Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, message)),
                    _ if casts(DataType::BigInt, new.ty.data_type) => Ok(()),
                    _ => Err(mismatch(())),
                }
            }
            Fill::Default(text) => {
                if !casts(old.ty.data_type, new.ty.data_type) {
                    return Err(mismatch(()));
                }
                let mut def = self.table.def().clone();
                let column = usize::from(column);
                def.columns[column] = ColumnDef { name: name.into(), ..new.clone() };
                let state = self.session.state_at(self.snapshot.clone(), None);
                let checked = dml::check_default(&state, &def, column as u16, text).await;
                checked.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Another declaration of the same type.
    async fn alter_declared(
        &self,
        work: StatementTxn,
        name: &str,
        column: u16,
        new: &ColumnDef,
    ) -> Result<StatementTxn, SqlError> {
        let mut def = self.table.def().clone();
        let c = &mut def.columns[usize::from(column)];
        if let Some(n) = new.max_chars.filter(|n| c.max_chars.is_none_or(|old| *n < old)) {
            let state = self.session.state_at(self.snapshot.clone(), None);
            let of = crate::names::qualified(self.table.name());
            let c = Ident::with_quote('"', name);
            let query = format!("SELECT 1 FROM {of} WHERE char_length({c}) > {n} LIMIT 1");
            if self.finds_row(&state, &query).await? {
                let message = format!("value too long for type {}", new.declared);
                return Err(SqlError::failed(state::STRING_DATA_RIGHT_TRUNCATION, message));
            }
        }
        (c.max_chars, c.declared) = (new.max_chars, new.declared.clone());
        self.change(work, move |txn, name| Ok(txn.alter_table(name, def)?)).await
    }

    /// Checks all rows against CHECKs that look at the column.
    async fn check_again(&self, work: StatementTxn, checks: &[String]) -> Result<StatementTxn, SqlError> {
        let (work, snapshot) = work.snapshot().await?;
        let table = find_table(&snapshot, self.table.name())?;
        let state = self.session.state_at(snapshot, None);
        Checks::of(&state, table.def())?;
        for c in &table.def().constraints {
            let Rule::Check { expression } = &c.rule else { continue };
            if !checks.contains(&c.name) {
                continue;
            }
            let of = crate::names::qualified(self.table.name());
            let query = format!("SELECT 1 FROM {of} WHERE NOT ({expression}) LIMIT 1");
            if self.finds_row(&state, &query).await? {
                return Err(SqlError::Check { table: self.table.name().into(), constraint: c.name.clone() });
            }
        }
        Ok(work)
    }
}

/// Puts a new column into the place of an old one.
struct Swap {
    column: u16,
    number: u16,
    fill: Fill,
    nullable: bool,
}

impl Swap {
    fn run(self, txn: &mut WriteTxn, name: &str) -> Result<(), SqlError> {
        let table = txn.table(name).expect("it was just found");
        let has = |columns: &[u16]| columns.contains(&self.column);
        let children = self.take_children(txn, name)?;
        let mut own = Vec::new();
        for c in table.def().constraints.clone() {
            let goes = match &c.rule {
                Rule::Unique { columns } => has(columns),
                Rule::ForeignKey { columns, parent, parent_columns, .. } => {
                    has(columns) || parent == name && has(parent_columns)
                }
                Rule::Check { .. } => false,
            };
            if goes {
                own.push(c);
            }
        }
        // A foreign key goes before the key that it references.
        let is_unique = |c: &Constraint| matches!(c.rule, Rule::Unique { .. });
        own.sort_by_key(is_unique);
        for c in &own {
            txn.drop_constraint(name, &c.name)?;
        }
        let primary = has(&table.def().primary_key).then(|| table.def().primary_key.clone());
        let (key_name, deferral): (_, Deferral) =
            (table.def().primary_key_name.clone(), table.def().primary_key_deferral);
        if primary.is_some() {
            txn.drop_primary_key(name)?;
        }
        let of_column = table.indexes().iter().filter(|i| has(&i.columns));
        let indexes =
            of_column.map(|i| self.retyped(table.def(), i)).collect::<Result<Vec<IndexDef>, _>>()?;
        for index in &indexes {
            txn.drop_index(&index.name, false)?;
        }
        self.swap(txn, name)?;
        if let Some(key) = primary {
            txn.add_primary_key(name, key_name, self.renumbered(&key), deferral)?;
        }
        own.reverse();
        for c in own {
            let rule = match c.rule {
                Rule::Unique { columns } => Rule::Unique { columns: self.renumbered(&columns) },
                Rule::ForeignKey { columns, parent, parent_columns, on_delete, on_update } => {
                    let parent_columns =
                        if parent == name { self.renumbered(&parent_columns) } else { parent_columns };
                    Rule::ForeignKey {
                        columns: self.renumbered(&columns),
                        parent,
                        parent_columns,
                        on_delete,
                        on_update,
                    }
                }
                rule @ Rule::Check { .. } => rule,
            };
            txn.add_constraint(name, Constraint { rule, ..c })?;
        }
        for index in indexes {
            let columns = self.renumbered(&index.columns);
            txn.create_index(IndexDef { columns, ..index }, false)?;
        }
        for (child, c) in children {
            txn.add_constraint(&child, c)?;
        }
        Ok(())
    }

    /// The index with the domains of the column's bitmaps as values of its new type.
    fn retyped(&self, def: &TableDef, index: &IndexDef) -> Result<IndexDef, SqlError> {
        let mut index = index.clone();
        for (summary, _) in index.summaries.iter_mut().zip(&index.columns).filter(|(_, c)| **c == self.column)
        {
            let Summary::Bitmap { values } = summary else { continue };
            let texts = domain_texts(def, self.column, values)?;
            *values = domain_values(def, self.number, texts).map_err(|e| {
                let what = format!(
                    "the domain of a bitmap in the index \"{}\" has a value that the new type has not: {e}; drop the index first",
                    split(&index.name).1
                );
                SqlError::failed(e.sqlstate(), what)
            })?;
        }
        Ok(index)
    }

    fn renumbered(&self, columns: &[u16]) -> Vec<u16> {
        columns.iter().map(|&c| if c == self.column { self.number } else { c }).collect()
    }

    /// Takes the foreign keys of other tables that reference the column. Each is told as it will be.
    fn take_children(&self, txn: &mut WriteTxn, name: &str) -> Result<Vec<(String, Constraint)>, SqlError> {
        let mut children = Vec::new();
        for child in txn.tables().filter(|t| t.name() != name) {
            for c in &child.def().constraints {
                let Rule::ForeignKey { parent, parent_columns, .. } = &c.rule else { continue };
                if parent == name && parent_columns.contains(&self.column) {
                    children.push((child.name().to_owned(), c.clone()));
                }
            }
        }
        for (child, c) in &mut children {
            txn.drop_constraint(child, &c.name)?;
            if let Rule::ForeignKey { parent_columns, .. } = &mut c.rule {
                *parent_columns = self.renumbered(parent_columns);
            }
        }
        Ok(children)
    }

    /// Drops the old column, and gives the new one its name, its place and its filling.
    fn swap(&self, txn: &mut WriteTxn, name: &str) -> Result<(), SqlError> {
        let table = txn.table(name).expect("it is still there");
        let mut def: TableDef = table.def().clone();
        let old = &mut def.columns[usize::from(self.column)];
        let place = old.place.unwrap_or(self.column);
        let own_name = old.name.clone();
        (old.is_dropped, old.ty.nullable, old.fill, old.place) = (true, true, Fill::Null, None);
        let new = &mut def.columns[usize::from(self.number)];
        (new.name, new.place, new.fill, new.ty.nullable) =
            (own_name, Some(place), self.fill.clone(), self.nullable);
        let data_type = new.ty.data_type;
        txn.alter_table(name, def)?;
        let id = table.id().raw();
        let is_owned =
            |s: &SequenceDef| s.owner.as_ref().is_some_and(|o| o.table == id && o.column == self.column);
        let owned: Vec<(String, SequenceDef)> =
            txn.sequences().filter(|(_, s)| is_owned(s)).map(|(n, s)| (n.to_owned(), s.clone())).collect();
        for (sequence, def) in owned {
            let identity = def.owner.as_ref().is_some_and(|o| o.identity);
            let mut def = def;
            if identity {
                widen(&mut def, data_type);
            }
            def.owner = Some(SequenceOwner { table: id, column: self.number, identity });
            txn.put_object(&sequence, Object::Sequence(def));
        }
        Ok(())
    }
}

/// The sequence of an IDENTITY column has the type of the column. Bounds that were those of the old type become those of the new one.
fn widen(def: &mut SequenceDef, to: DataType) {
    let (min, max, name) = match to {
        DataType::SmallInt => (i64::from(i16::MIN), i64::from(i16::MAX), "smallint"),
        DataType::Integer => (i64::from(i32::MIN), i64::from(i32::MAX), "integer"),
        _ => (i64::MIN, i64::MAX, "bigint"),
    };
    let of_types = [i64::from(i16::MAX), i64::from(i32::MAX), i64::MAX];
    let of_least = [i64::from(i16::MIN), i64::from(i32::MIN), i64::MIN];
    if of_types.contains(&def.max) || def.max > max {
        def.max = max;
    }
    if of_least.contains(&def.min) || def.min < min {
        def.min = min;
    }
    def.declared = name.into();
}

fn is_integer(t: DataType) -> bool {
    matches!(t, DataType::SmallInt | DataType::Integer | DataType::BigInt)
}

/// Whether PostgreSQL casts values of one type to another where they are assigned.
pub(crate) fn casts(from: DataType, to: DataType) -> bool {
    let is_number = |t: DataType| arrow_type(t).is_numeric();
    let is_moment = |t: DataType| matches!(t, DataType::Date | DataType::Timestamp);
    from == to || to == DataType::Text || is_number(from) && is_number(to) || is_moment(from) && is_moment(to)
}

/// An error about the column that gets the values, as one about the column.
fn of_column(e: SqlError, name: &str) -> SqlError {
    match e {
        SqlError::BadValue { state, column, message } if column == NEW => {
            SqlError::BadValue { state, column: name.to_owned(), message }
        }
        SqlError::Failed { state, place, message } => {
            SqlError::Failed { state, place, message: message.replace(NEW, name) }
        }
        other => other,
    }
}
