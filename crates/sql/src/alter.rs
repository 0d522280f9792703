//! ALTER TABLE: its actions one after the other, in one transaction.
//!
//! ```text
//!   ADD COLUMN     ─► rows that are there read the default, computed once; one that differs by row is written to them
//!   DROP COLUMN    ─► its keys, foreign keys, CHECKs and indexes go first
//!   RENAME         ─► expressions of the table follow
//!   ADD CONSTRAINT ─► the rows that are there are checked
//! ```

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, Assignment, AssignmentTarget,
    ColumnDef as SqlColumn, DropBehavior, Expr, GeneratedAs, Ident, ObjectName, RenameTableNameKind,
    TableConstraint, visit_expressions_mut,
};
use lode_engine::{Constraint, Deferral, Fill, Relation, Rule, Snapshot, Table, TableDef, WriteTxn};
use lode_page::{Constant, Value};

use crate::constraints::{self, Declared};
use crate::ddl;
use crate::dml::{self, Checks, find_table};
use crate::drop::{drop_references, free_sequence};
use crate::error::state;
use crate::names::{beside, check_name, primary_key_name, qualified, split};
use crate::sequences::{self, NewSequence, identity_options};
use crate::session::{plan, start};
use crate::statement::{StatementResult, fold, parse_expression, table_name};
use crate::threads::blocking;
use crate::transaction::StatementTxn;
use crate::view_readers::{check_unread, drop_readers};
use crate::{Session, SqlError, hidden_columns};

/// Runs ALTER TABLE.
pub(crate) async fn alter_table(session: &Session, alter: &AlterTable) -> Result<StatementResult, SqlError> {
    if alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
        return Err(SqlError::Unsupported(alter.to_string()));
    }
    let mut name = table_name(&alter.name)?;
    let (mut work, snapshot) = session.work().await?.snapshot().await?;
    if snapshot.table(&name).is_none() && alter.if_exists {
        blocking(move || work.finish()).await?;
        return Ok(StatementResult::done("ALTER TABLE"));
    }
    drop(snapshot);
    for operation in &alter.operations {
        let (with, snapshot) = work.snapshot().await?;
        let table = find_table(&snapshot, &name)?;
        let on = Alteration { session, snapshot: &snapshot, table: &table };
        (work, name) = on.run(with, operation).await?;
    }
    blocking(move || work.finish()).await?;
    Ok(StatementResult::done("ALTER TABLE"))
}

/// One action on a table.
pub(crate) struct Alteration<'a> {
    pub(crate) session: &'a Session,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) table: &'a Table,
}

impl Alteration<'_> {
    /// Runs an action. Answers the name that the table has then.
    async fn run(
        &self,
        work: StatementTxn,
        operation: &AlterTableOperation,
    ) -> Result<(StatementTxn, String), SqlError> {
        let name = self.table.name().to_owned();
        let work = match operation {
            AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                self.add_column(work, column_def, *if_not_exists).await?
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let names: Vec<String> = column_names.iter().map(fold).collect();
                self.drop_columns(work, names, *if_exists, *drop_behavior).await?
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(work, &fold(old_column_name), &fold(new_column_name)).await?
            }
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::To(to) | RenameTableNameKind::As(to),
            } => {
                let to = beside(self.table.name(), &table_name(to)?);
                check_name("table", split(&to).1)?;
                // A key keeps its name.
                let key =
                    (!self.table.def().primary_key.is_empty()).then(|| primary_key_name(self.table.def()));
                let def = TableDef { name: to.clone(), primary_key_name: key, ..self.table.def().clone() };
                let work = self.change(work, move |txn, name| {
                    ddl::check_free(txn, &def.name)?;
                    Ok(txn.alter_table(name, def)?)
                });
                return Ok((work.await?, to));
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let (old, new) = (fold(old_name), fold(new_name));
                let is_key =
                    !self.table.def().primary_key.is_empty() && old == primary_key_name(self.table.def());
                self.change(work, move |txn, name| match is_key {
                    true => Ok(txn.rename_primary_key(name, &new)?),
                    false => Ok(txn.rename_constraint(name, &old, &new)?),
                })
                .await?
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column(work, &fold(column_name), op).await?
            }
            AlterTableOperation::AddConstraint { constraint, not_valid: false } => {
                self.add_constraint(work, constraint).await?
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                self.drop_constraint(work, fold(name), *if_exists, *drop_behavior).await?
            }
            other => return Err(SqlError::Unsupported(format!("ALTER TABLE {other}"))),
        };
        Ok((work, name))
    }

    /// Changes definitions on a thread for blocking work.
    pub(crate) async fn change(
        &self,
        mut work: StatementTxn,
        f: impl FnOnce(&mut WriteTxn, &str) -> Result<(), SqlError> + Send + 'static,
    ) -> Result<StatementTxn, SqlError> {
        let name = self.table.name().to_owned();
        blocking(move || {
            f(&mut work.txn, &name)?;
            Ok(work)
        })
        .await
    }

    pub(crate) fn column(&self, name: &str) -> Result<u16, SqlError> {
        let table = self.table.name().to_owned();
        self.table.column(name).ok_or_else(|| SqlError::NoColumn { table, column: name.to_owned() })
    }

    async fn add_column(
        &self,
        work: StatementTxn,
        column: &SqlColumn,
        if_not_exists: bool,
    ) -> Result<StatementTxn, SqlError> {
        let mut def = self.table.def().clone();
        let number = def.columns.len() as u16;
        let (mut declared, mut sequences): (Vec<Declared>, Vec<NewSequence>) = Default::default();
        let (mut new, key) = ddl::column_def(number, column, &mut declared, &mut sequences)?;
        check_name("column", &new.name)?;
        if self.table.column(&new.name).is_some() {
            if if_not_exists {
                return Ok(work);
            }
            let message =
                format!("column \"{}\" of relation \"{}\" already exists", new.name, self.table.name());
            return Err(SqlError::failed(state::DUPLICATE_COLUMN, message));
        }
        let state = self.session.state_at(self.snapshot.clone(), None);
        let of_row = matches!(new.fill, Fill::Generated(_)) || !sequences.is_empty();
        let mut constant = Value::Null;
        let mut fills = of_row;
        let probe = |new: &lode_engine::ColumnDef| {
            let mut probe = def.clone();
            probe.columns.push(new.clone());
            probe
        };
        if let Fill::Default(text) = new.fill.clone() {
            let mut named = probe(&new);
            ddl::name_sequences(self.session, &mut named)?;
            new.fill = named.columns[usize::from(number)].fill.clone();
            match new.fill {
                Fill::Sequence(_) => fills = true,
                _ => match dml::check_default(&state, &named, number, &text).await? {
                    Some(value) => constant = value,
                    None => fills = true,
                },
            }
        }
        let nullable = new.ty.nullable && key.is_none();
        // Rows that get their values by an UPDATE have none until then.
        new.ty.nullable = nullable || fills;
        new.absent = Some(Constant::from(constant));
        let name = new.name.clone();
        def.columns.push(new.clone());
        let work = self
            .change(work, move |txn, table| {
                let mut numbers = Vec::with_capacity(sequences.len());
                for sequence in &sequences {
                    let number = txn.new_object();
                    def.columns[usize::from(sequence.column)].fill = sequence.fill(number);
                    numbers.push(number);
                }
                txn.alter_table(table, def)?;
                for (sequence, number) in sequences.iter().zip(numbers) {
                    sequence.make(txn, table, number)?;
                }
                Ok(())
            })
            .await?;
        let (mut work, snapshot) = work.snapshot().await?;
        let table = find_table(&snapshot, self.table.name())?;
        // The definition of a generated column may be wrong although there is no row yet.
        let state = self.session.state_at(snapshot.clone(), None);
        Checks::of(&state, table.def())?;
        if fills {
            let set = Assignment {
                target: AssignmentTarget::ColumnName(ObjectName::from(vec![Ident::with_quote('"', &name)])),
                value: Expr::Identifier(Ident::new("DEFAULT")),
            };
            work = dml::update_all(self.session, work, self.table.name(), set).await?;
        }
        if fills && !nullable {
            work = self.set_not_null(work, number).await?;
        }
        let (mut work, snapshot) = work.snapshot().await?;
        let table = find_table(&snapshot, self.table.name())?;
        if let Some(deferral) = key {
            work = self
                .change(work, move |txn, table| {
                    Ok(txn.add_primary_key(table, None, vec![number], deferral)?)
                })
                .await?;
        }
        for constraint in self.resolved(&snapshot, &table, declared)? {
            work = self.add_resolved(work, constraint).await?;
        }
        Ok(work)
    }

    /// New constraints with names that the table has not.
    fn resolved(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        declared: Vec<Declared>,
    ) -> Result<Vec<Constraint>, SqlError> {
        if declared.is_empty() {
            return Ok(Vec::new());
        }
        constraints::resolve(table.def(), declared, snapshot)
    }

    async fn add_constraint(
        &self,
        work: StatementTxn,
        constraint: &TableConstraint,
    ) -> Result<StatementTxn, SqlError> {
        if let TableConstraint::PrimaryKey(key) = constraint {
            if !self.table.def().primary_key.is_empty() {
                let message =
                    format!("multiple primary keys for table \"{}\" are not allowed", self.table.name());
                return Err(SqlError::failed(state::INVALID_TABLE_DEFINITION, message));
            }
            let names = key.columns.iter().map(ddl::plain_column).collect::<Result<Vec<_>, _>>()?;
            let columns = dml::column_numbers(self.table, &names)?;
            let deferral: Deferral = constraints::deferral(&key.characteristics)?;
            let own = key.name.as_ref().map(fold);
            return self
                .change(work, move |txn, name| Ok(txn.add_primary_key(name, own, columns, deferral)?))
                .await;
        }
        let mut work = work;
        for resolved in self.resolved(self.snapshot, self.table, vec![constraints::of_table(constraint)?])? {
            work = self.add_resolved(work, resolved).await?;
        }
        Ok(work)
    }

    async fn add_resolved(
        &self,
        work: StatementTxn,
        constraint: Constraint,
    ) -> Result<StatementTxn, SqlError> {
        let name = constraint.name.clone();
        if self.table.def().constraints.iter().any(|c| c.name == name) {
            let message =
                format!("constraint \"{name}\" for relation \"{}\" already exists", self.table.name());
            return Err(SqlError::failed(state::DUPLICATE_OBJECT, message));
        }
        let check = match &constraint.rule {
            Rule::Check { expression } => Some(expression.clone()),
            _ => None,
        };
        let work = self.change(work, move |txn, table| Ok(txn.add_constraint(table, constraint)?)).await?;
        let Some(check) = check else { return Ok(work) };
        let (work, snapshot) = work.snapshot().await?;
        let table = find_table(&snapshot, self.table.name())?;
        let state = self.session.state_at(snapshot, None);
        Checks::of(&state, table.def())?;
        let of = qualified(self.table.name());
        let query = format!("SELECT 1 FROM {of} WHERE NOT ({check}) LIMIT 1");
        if self.finds_row(&state, &query).await? {
            return Err(SqlError::Check { table: self.table.name().into(), constraint: name });
        }
        Ok(work)
    }

    /// Whether a query has a row.
    pub(crate) async fn finds_row(
        &self,
        state: &datafusion::execution::context::SessionState,
        query: &str,
    ) -> Result<bool, SqlError> {
        use futures::StreamExt;
        let mut statement = crate::Statement::parse(query)?;
        let mut parsed: Parsed = (*statement.remove(0).parsed).clone();
        crate::statement::prepare(&mut parsed)?;
        let (_, mut rows) = start(state, &plan(state, parsed).await?).await?;
        while let Some(batch) = rows.next().await {
            if batch?.num_rows() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn drop_constraint(
        &self,
        work: StatementTxn,
        constraint: String,
        if_exists: bool,
        behavior: Option<DropBehavior>,
    ) -> Result<StatementTxn, SqlError> {
        let def = self.table.def();
        let is_primary = !def.primary_key.is_empty() && constraint == primary_key_name(def);
        let of_it = def.constraints.iter().find(|c| c.name == constraint);
        let key = match of_it.map(|c| &c.rule) {
            Some(Rule::Unique { columns }) => Some(columns.clone()),
            _ => is_primary.then(|| def.primary_key.clone()),
        };
        if of_it.is_none() && !is_primary {
            if if_exists {
                return Ok(work);
            }
            let message = format!("constraint \"{constraint}\" of relation \"{}\" does not exist", def.name);
            return Err(SqlError::failed(state::UNDEFINED_OBJECT, message));
        }
        let cascade = behavior == Some(DropBehavior::Cascade);
        self.change(work, move |txn, name| {
            if let (true, Some(key)) = (cascade, key) {
                drop_references(txn, name, Some(&key))?;
            }
            match is_primary {
                true => Ok(txn.drop_primary_key(name)?),
                false => Ok(txn.drop_constraint(name, &constraint)?),
            }
        })
        .await
    }

    async fn drop_columns(
        &self,
        mut work: StatementTxn,
        names: Vec<String>,
        if_exists: bool,
        behavior: Option<DropBehavior>,
    ) -> Result<StatementTxn, SqlError> {
        for name in names {
            let (with, snapshot) = work.snapshot().await?;
            let table = find_table(&snapshot, self.table.name())?;
            work = with;
            let Some(column) = table.column(&name) else {
                if if_exists {
                    continue;
                }
                return Err(SqlError::NoColumn { table: table.name().into(), column: name });
            };
            let state = self.session.state_at(snapshot, None);
            let checks = Checks::of(&state, table.def())?;
            let cascade = behavior == Some(DropBehavior::Cascade);
            let generated = checks.generated_by(&[column]);
            let is_shown = |c: &u16| table.def().columns[usize::from(*c)].hidden.is_none();
            if generated.iter().any(is_shown) && !cascade {
                let message = format!(
                    "cannot drop column \"{name}\" of table \"{}\" because other objects depend on it",
                    table.name()
                );
                return Err(SqlError::failed(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            let doomed: Vec<u16> = std::iter::once(column).chain(generated).collect();
            let of_checks: Vec<String> = checks.looking_at(&doomed);
            let relation = Relation::Table(table.id().raw());
            let what = format!("drop column \"{name}\" of table \"{}\"", table.name());
            work = self
                .change(work, move |txn, table| {
                    for &column in &doomed {
                        let state = state::DEPENDENT_OBJECTS_STILL_EXIST;
                        match cascade {
                            true => drop_readers(txn, relation, Some(column)),
                            false => check_unread(txn, relation, Some(column), state, &what)?,
                        }
                    }
                    drop_columns(txn, table, &doomed, &of_checks, cascade)
                })
                .await?;
        }
        Ok(work)
    }

    async fn rename_column(
        &self,
        work: StatementTxn,
        from: &str,
        to: &str,
    ) -> Result<StatementTxn, SqlError> {
        let column = self.column(from)?;
        check_name("column", to)?;
        if self.table.column(to).is_some() {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", self.table.name());
            return Err(SqlError::failed(state::DUPLICATE_COLUMN, message));
        }
        let mut def = self.table.def().clone();
        def.columns[usize::from(column)].name = to.to_owned();
        for c in &mut def.columns {
            if let Fill::Generated(text) = &mut c.fill {
                *text = renamed(text, from, to)?;
            }
            hidden_columns::rename(c);
        }
        for c in &mut def.constraints {
            if let Rule::Check { expression } = &mut c.rule {
                *expression = renamed(expression, from, to)?;
            }
        }
        self.change(work, move |txn, name| Ok(txn.alter_table(name, def)?)).await
    }

    async fn set_not_null(&self, work: StatementTxn, column: u16) -> Result<StatementTxn, SqlError> {
        self.change(work, move |txn, name| {
            let mut def = txn.table(name).expect("it was just found").def().clone();
            def.columns[usize::from(column)].ty.nullable = false;
            Ok(txn.alter_table(name, def)?)
        })
        .await
    }

    async fn alter_column(
        &self,
        work: StatementTxn,
        name: &str,
        op: &AlterColumnOperation,
    ) -> Result<StatementTxn, SqlError> {
        let column = self.column(name)?;
        let mut def = self.table.def().clone();
        let at = usize::from(column);
        match op {
            AlterColumnOperation::SetNotNull => return self.set_not_null(work, column).await,
            AlterColumnOperation::DropNotNull => {
                if def.primary_key.contains(&column) {
                    let message = format!("column \"{name}\" is in a primary key");
                    return Err(SqlError::failed(state::INVALID_TABLE_DEFINITION, message));
                }
                if let Fill::Identity { .. } = def.columns[at].fill {
                    let message =
                        format!("column \"{name}\" of relation \"{}\" is an identity column", def.name);
                    return Err(SqlError::failed(state::SYNTAX_ERROR, message));
                }
                def.columns[at].ty.nullable = true;
            }
            AlterColumnOperation::SetDefault { value } => {
                self.refuse_other_filling(name, &def.columns[at].fill)?;
                def.columns[at].fill = Fill::Default(value.to_string());
                let state = self.session.state_at(self.snapshot.clone(), None);
                ddl::name_sequences(self.session, &mut def)?;
                if let Fill::Default(text) = def.columns[at].fill.clone() {
                    dml::check_default(&state, &def, column, &text).await?;
                }
            }
            AlterColumnOperation::DropDefault => {
                self.refuse_other_filling(name, &def.columns[at].fill)?;
                def.columns[at].fill = Fill::Null;
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                return self.alter_type_and_indexes(work, name, data_type, using.as_ref()).await;
            }
            AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                let c = &def.columns[at];
                if !c.fill.is_null() {
                    self.refuse_other_filling(name, &c.fill)?;
                    let message =
                        format!("column \"{name}\" of relation \"{}\" already has a default value", def.name);
                    return Err(SqlError::failed(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
                }
                if c.ty.nullable {
                    let message = format!(
                        "column \"{name}\" of relation \"{}\" must be declared NOT NULL before identity can be added",
                        def.name
                    );
                    return Err(SqlError::failed(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
                }
                let always = *generated_as == Some(GeneratedAs::Always);
                let options = identity_options(sequence_options.as_deref().unwrap_or_default())?;
                let sequence =
                    NewSequence { column, data_type: c.ty.data_type, options, identity: Some(always) };
                return self
                    .change(work, move |txn, table| {
                        let number = txn.new_object();
                        def.columns[at].fill = sequence.fill(number);
                        sequence.make(txn, table, number)?;
                        Ok(txn.alter_table(table, def)?)
                    })
                    .await;
            }
        }
        self.change(work, move |txn, name| Ok(txn.alter_table(name, def)?)).await
    }

    fn refuse_other_filling(&self, name: &str, fill: &Fill) -> Result<(), SqlError> {
        let what = match fill {
            Fill::Identity { .. } => "an identity column",
            Fill::Generated(_) => "a generated column",
            _ => return Ok(()),
        };
        let message = format!("column \"{name}\" of relation \"{}\" is {what}", self.table.name());
        Err(SqlError::failed(state::SYNTAX_ERROR, message))
    }
}

/// Drops columns with the constraints, indexes and sequences that have them.
fn drop_columns(
    txn: &mut WriteTxn,
    name: &str,
    doomed: &[u16],
    checks: &[String],
    cascade: bool,
) -> Result<(), SqlError> {
    let table = txn.table(name).expect("it was just found");
    let has = |columns: &[u16]| columns.iter().any(|c| doomed.contains(c));
    let live = table.def().live_columns();
    if live.filter(|c| !doomed.contains(c)).count() == 0 {
        return Err(SqlError::Unsupported("a table without columns: a table has at least one column".into()));
    }
    if has(&table.def().options.cluster_by)
        || doomed.iter().any(|c| table.def().options.encoding.columns.contains_key(c))
    {
        let message = format!("the options of table \"{name}\" name the column");
        return Err(SqlError::failed(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
    }
    for c in table.def().constraints.clone() {
        let goes = match &c.rule {
            Rule::Unique { columns } => has(columns),
            Rule::ForeignKey { columns, .. } => has(columns),
            Rule::Check { .. } => checks.contains(&c.name),
        };
        if !goes {
            continue;
        }
        if let (true, Rule::Unique { columns }) = (cascade, &c.rule) {
            drop_references(txn, name, Some(columns))?;
        }
        txn.drop_constraint(name, &c.name)?;
    }
    if has(&table.def().primary_key) {
        if cascade {
            drop_references(txn, name, Some(&table.def().primary_key))?;
        }
        txn.drop_primary_key(name)?;
    }
    for index in table.indexes().iter().filter(|i| has(&i.columns)) {
        txn.drop_index(&index.name, false)?;
    }
    hidden_columns::drop_unused(txn, name)?;
    for &c in doomed {
        for (sequence, def) in sequences::owned_by(txn, table.id().raw(), Some(c)) {
            free_sequence(txn, &sequence, &def, &[name.to_owned()], cascade)?;
        }
        sequences::drop_owned(txn, table.id().raw(), Some(c));
    }
    let mut def = txn.table(name).expect("it is still there").def().clone();
    for &c in doomed {
        let column = &mut def.columns[usize::from(c)];
        (column.is_dropped, column.ty.nullable, column.fill) = (true, true, Fill::Null);
        column.hidden = None;
    }
    Ok(txn.alter_table(name, def)?)
}

/// An expression with another name of a column.
fn renamed(text: &str, from: &str, to: &str) -> Result<String, SqlError> {
    let mut expression = parse_expression(text)?;
    let rename = |ident: &mut Ident| {
        if fold(ident) == from {
            *ident = Ident::with_quote('"', to);
        }
    };
    let _ = visit_expressions_mut(&mut expression, |e| {
        match e {
            Expr::Identifier(ident) => rename(ident),
            Expr::CompoundIdentifier(parts) => parts.last_mut().into_iter().for_each(rename),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(expression.to_string())
}
