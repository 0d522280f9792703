//! CREATE TABLE, CREATE INDEX, DROP: from the parsed statement to the engine's definitions.

use std::sync::Arc;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    ColumnDef as SqlColumn, ColumnOption, ColumnOptionDef, CreateTable, CreateTableOptions,
    DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GeneratedAs,
    GeneratedExpressionMode, IndexColumn, Query, SqlOption, Statement as Sql, TableConstraint, Value,
};
use lode_engine::{
    Changes, ColumnDef, Deferral, Encodings, EngineError, Fill, KeyIndex, Layout, PageBytes, Snapshot,
    TableDef, TableOptions, WriteTxn,
};
use lode_page::{ColumnType, EncodingChoice};

use crate::constraints::{self, Declared};
use crate::dml::{Checks, check_default, load};
use crate::error::state as sqlstate;
use crate::names::{check_name, is_temporary, listed, qualified, quoted, split};
use crate::namespaces::{self, Relations};
use crate::numbers::SequenceSession;
use crate::schemas::{Temporaries, temporary_schema};
use crate::sequences::{NewSequence, identity_options};
use crate::session::{plan, start};
use crate::statement::{StatementResult, fold, parse_expression};
use crate::threads::blocking;
use crate::types::{column_type, declared_type};
use crate::{Session, SqlError};

/// `CREATE TABLE [IF NOT EXISTS] t (...) [WITH (...)]`, or `CREATE TABLE t [WITH (...)] AS SELECT ...`.
pub(crate) async fn create_table(
    session: &Session,
    create: &CreateTable,
) -> Result<StatementResult, SqlError> {
    // A statement rebuilt from the parts that Lode supports must equal the original: else it has others.
    let known = CreateTableBuilder::new(create.name.clone())
        .columns(create.columns.clone())
        .constraints(create.constraints.clone())
        .if_not_exists(create.if_not_exists)
        .temporary(create.temporary)
        .on_commit(create.on_commit)
        .table_options(create.table_options.clone())
        .query(create.query.clone())
        .build();
    if known != *create {
        return Err(SqlError::Unsupported(
            "CREATE TABLE with more than columns, constraints, WITH (...) and AS".into(),
        ));
    }
    let name = created_name(session, create).await?;
    if let Some(query) = &create.query {
        if !create.columns.is_empty() || !create.constraints.is_empty() {
            return Err(SqlError::Unsupported("CREATE TABLE AS with column definitions".into()));
        }
        let done = create_table_as(session, create, name.clone(), query).await?;
        note_temporary(session, create, &name);
        return Ok(done);
    }
    let Body { columns, key, key_name, key_deferral, declared, sequences } = columns_and_key(create)?;
    let mut def = table_def(name, columns, key, &create.table_options, session.default_changes())?;
    (def.primary_key_deferral, def.primary_key_name) = (key_deferral, key_name);
    if !declared.is_empty() {
        def.constraints = constraints::resolve(&def, declared, &session.snapshot().await?)?;
    }
    constraints::check_temporary(&def)?;
    if let Some(key) = def.key_outside_page_index() {
        let names: Vec<&str> = key.iter().map(|&c| def.columns[usize::from(c)].name.as_str()).collect();
        let message = format!(
            "key_index cannot be 'page_index': the page index has no column of the key ({})",
            names.join(", ")
        );
        return Err(bad_option(message));
    }
    let snapshot = session.snapshot().await?;
    if create.if_not_exists && snapshot.table(&def.name).is_some() {
        return Ok(StatementResult::done("CREATE TABLE"));
    }
    let state = session.state_at(snapshot, None);
    name_sequences(session, &mut def)?;
    // A CHECK that is not a condition is an error of CREATE TABLE, not of the first INSERT.
    Checks::of(&state, &def)?;
    for (c, column) in (0u16..).zip(&def.columns) {
        if let Fill::Default(text) = &column.fill {
            check_default(&state, &def, c, text).await?;
        }
    }
    let (if_not_exists, name) = (create.if_not_exists, def.name.clone());
    session.define(move |txn| create_with_sequences(txn, def, sequences, if_not_exists)).await?;
    note_temporary(session, create, &name);
    Ok(StatementResult::done("CREATE TABLE"))
}

/// The engine's name of a new table. A temporary one gets the session its schema.
async fn created_name(session: &Session, create: &CreateTable) -> Result<String, SqlError> {
    let named_temporary = create.name.0.len() == 2
        && create.name.0[0].as_ident().is_some_and(|schema| fold(schema) == namespaces::TEMPORARY);
    let is_temporary = create.temporary || named_temporary;
    if is_temporary {
        temporary_schema(session)?;
    } else if create.on_commit.is_some() {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(SqlError::failed(sqlstate::INVALID_TABLE_DEFINITION, message));
    }
    let name = session.namespaces().created(&create.name, is_temporary, &session.snapshot().await?)?;
    check_name("table", split(&name).1)?;
    Ok(name)
}

/// Notes what becomes of a temporary table at the end of a transaction.
fn note_temporary(session: &Session, create: &CreateTable, name: &str) {
    if is_temporary(name) {
        session.kept().of::<Temporaries>().on_commit(name, create.on_commit.as_ref());
    }
}

/// A DEFAULT that is nothing but `nextval` of a sequence names the sequence by its number.
pub(crate) fn name_sequences(session: &Session, def: &mut TableDef) -> Result<(), SqlError> {
    for column in &mut def.columns {
        if let Fill::Default(text) = &column.fill
            && let Some(name) = sequence_of_default(text)?
        {
            column.fill = Fill::Sequence(
                session.kept().of::<SequenceSession>().named(&name, session.namespaces())?.1.id,
            );
        }
    }
    Ok(())
}

/// The name in `nextval('name')`.
fn sequence_of_default(text: &str) -> Result<Option<String>, SqlError> {
    let Expr::Function(f) = parse_expression(text)? else { return Ok(None) };
    let is_next = f.name.0.last().and_then(|part| part.as_ident()).is_some_and(|i| fold(i) == "nextval");
    let FunctionArguments::List(list) = &f.args else { return Ok(None) };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else {
        return Ok(None);
    };
    let argument = match argument {
        Expr::Cast { expr, .. } => expr.as_ref(),
        other => other,
    };
    Ok(match argument {
        Expr::Value(v) if is_next => match &v.value {
            Value::SingleQuotedString(name) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    })
}

/// Checks that no relation has this name.
///
/// # Errors
/// 42P07 for a table, as for a view, a sequence or an index.
pub(crate) fn check_free(txn: &WriteTxn, name: &str) -> Result<(), SqlError> {
    match txn.has_relation(name) {
        true => Err(EngineError::TableExists(name.to_owned()).into()),
        false => Ok(()),
    }
}

/// Creates a table and the sequences of its columns; answers whether it did.
fn create_with_sequences(
    txn: &mut WriteTxn,
    mut def: TableDef,
    sequences: Vec<NewSequence>,
    if_not_exists: bool,
) -> Result<bool, SqlError> {
    let table = def.name.clone();
    match check_free(txn, &table) {
        Err(_) if if_not_exists => return Ok(false),
        free => free?,
    }
    let mut numbers = Vec::with_capacity(sequences.len());
    for sequence in &sequences {
        let number = txn.new_object();
        def.columns[usize::from(sequence.column)].fill = sequence.fill(number);
        numbers.push(number);
    }
    if !txn.create_table(def, if_not_exists)? {
        return Ok(false);
    }
    for (sequence, number) in sequences.iter().zip(numbers) {
        sequence.make(txn, &table, number)?;
    }
    Ok(true)
}

async fn create_table_as(
    session: &Session,
    create: &CreateTable,
    name: String,
    query: &Query,
) -> Result<StatementResult, SqlError> {
    let (mut work, snapshot) = session.work().await?.snapshot().await?;
    if snapshot.table(&name).is_some() && create.if_not_exists {
        work.finish()?;
        return Ok(StatementResult::done("CREATE TABLE AS"));
    }
    let state = session.state_at(snapshot, None);
    let query = Parsed::Statement(Box::new(Sql::Query(Box::new(query.clone()))));
    let plan = plan(&state, query).await?;
    let (schema, rows) = start(&state, &plan).await?;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let data_type = column_type(field.data_type()).ok_or_else(|| {
            SqlError::Unsupported(format!(
                "column \"{}\" of type {}: CAST it to a type that columns have",
                field.name(),
                field.data_type()
            ))
        })?;
        columns.push(ColumnDef::new(field.name(), data_type));
    }
    let def = table_def(name, columns, Vec::new(), &create.table_options, session.default_changes())?;
    let table = Arc::new(def.clone());
    let work = blocking(move || {
        work.txn.create_table(def, false)?;
        Ok(work)
    })
    .await?;
    let checks = Checks::of(&state, &table)?;
    let (work, rows) = load(&state, work, table, checks, rows).await?;
    blocking(move || work.finish()).await?;
    Ok(StatementResult::Count { verb: "SELECT", rows })
}

/// The part of CREATE TABLE between parentheses.
struct Body {
    columns: Vec<ColumnDef>,
    /// The names of the primary key's columns; empty without one.
    key: Vec<String>,
    /// The name that the statement gives the primary key.
    key_name: Option<String>,
    key_deferral: Deferral,
    /// All other constraints.
    declared: Vec<Declared>,
    /// The sequences of SERIAL and IDENTITY columns.
    sequences: Vec<NewSequence>,
}

fn columns_and_key(create: &CreateTable) -> Result<Body, SqlError> {
    if create.columns.is_empty() {
        return Err(SqlError::Unsupported("a table without columns: a table has at least one column".into()));
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    let mut keys: Vec<(Vec<String>, Option<String>, Deferral)> = Vec::new();
    let (mut declared, mut sequences) = (Vec::new(), Vec::new());
    for column in &create.columns {
        let (def, key) = column_def(columns.len() as u16, column, &mut declared, &mut sequences)?;
        let is_key = |o: &&ColumnOptionDef| matches!(o.option, ColumnOption::PrimaryKey(_));
        let name = column.options.iter().find(is_key).and_then(|o| o.name.as_ref()).map(fold);
        keys.extend(key.map(|deferral| (vec![def.name.clone()], name, deferral)));
        columns.push(def);
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) if key.index_type.is_none() => {
                let columns = key.columns.iter().map(plain_column).collect::<Result<_, _>>()?;
                keys.push((
                    columns,
                    key.name.as_ref().map(fold),
                    constraints::deferral(&key.characteristics)?,
                ));
            }
            other => declared.push(constraints::of_table(other)?),
        }
    }
    if keys.len() > 1 {
        let message = "a table has at most one PRIMARY KEY";
        return Err(SqlError::failed(sqlstate::INVALID_TABLE_DEFINITION, message));
    }
    let (key, key_name, key_deferral) = keys.pop().unwrap_or_default();
    Ok(Body { columns, key, key_name, key_deferral, declared, sequences })
}

/// A column, and if it is the primary key, whether the check of that may wait.
pub(crate) fn column_def(
    number: u16,
    column: &SqlColumn,
    declared: &mut Vec<Declared>,
    sequences: &mut Vec<NewSequence>,
) -> Result<(ColumnDef, Option<Deferral>), SqlError> {
    let name = fold(&column.name);
    let serial = serial_type(&column.data_type);
    let declared_as = serial.as_ref().unwrap_or(&column.data_type);
    let (data_type, max_chars) = declared_type(declared_as)
        .map_err(|e| e.at(column.name.span.start.line, column.name.span.start.column))?;
    let (mut nullable, mut key) = (serial.is_none(), None);
    let mut fill = Fill::Null;
    let mut set_fill = |new: Fill| {
        let both = match (&fill, &new) {
            (Fill::Null, _) => {
                fill = new;
                return Ok(());
            }
            (Fill::Default(_), Fill::Default(_)) => "multiple default values",
            (Fill::Generated(_), Fill::Generated(_)) => "multiple generation clauses",
            (Fill::Generated(_), Fill::Default(_)) | (Fill::Default(_), Fill::Generated(_)) => {
                "both default and generation expression"
            }
            (Fill::Identity { .. }, Fill::Identity { .. }) => "multiple identity specifications",
            _ => "both default and identity",
        };
        let message = format!("{both} specified for column \"{name}\"");
        Err(SqlError::failed(sqlstate::SYNTAX_ERROR, message))
    };
    if serial.is_some() {
        sequences.push(NewSequence { column: number, data_type, options: Vec::new(), identity: None });
        // The number follows when the sequence is made.
        set_fill(Fill::Sequence(0))?;
    }
    let says = |what: fn(&ColumnOption) -> bool| column.options.iter().any(|o| what(&o.option));
    let not_null = serial.is_some()
        || says(|o| matches!(o, ColumnOption::NotNull))
        || says(|o| matches!(o, ColumnOption::Generated { generation_expr: None, .. }));
    if not_null && says(|o| matches!(o, ColumnOption::Null)) {
        let message = format!("conflicting NULL/NOT NULL declarations for column \"{name}\"");
        return Err(SqlError::failed(sqlstate::SYNTAX_ERROR, message));
    }
    for option in &column.options {
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::Default(e) => set_fill(Fill::Default(e.to_string()))?,
            ColumnOption::Generated { generation_expr: Some(e), generation_expr_mode, .. } => {
                if *generation_expr_mode != Some(GeneratedExpressionMode::Stored) {
                    let message = format!("a generated column that is not STORED: \"{name}\"");
                    return Err(SqlError::Unsupported(message));
                }
                set_fill(Fill::Generated(e.to_string()))?;
            }
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                let always = *generated_as == GeneratedAs::Always;
                set_fill(Fill::Identity { sequence: 0, always })?;
                let options = identity_options(sequence_options.as_deref().unwrap_or_default())?;
                sequences.push(NewSequence { column: number, data_type, options, identity: Some(always) });
                nullable = false;
            }
            ColumnOption::NotNull => nullable = false,
            ColumnOption::PrimaryKey(k) => key = Some(constraints::deferral(&k.characteristics)?),
            ColumnOption::Unique(u) => {
                declared.push(constraints::unique(u, vec![name.clone()])?.named(&option.name));
            }
            ColumnOption::Check(c) => {
                declared.push(constraints::check(c, Some(name.clone()))?.named(&option.name));
            }
            ColumnOption::ForeignKey(f) => {
                declared.push(constraints::foreign_key(f, vec![name.clone()])?.named(&option.name));
            }
            other => return Err(SqlError::Unsupported(format!("{other} of column \"{name}\""))),
        }
    }
    let ty = ColumnType { data_type, nullable: nullable && key.is_none() };
    let declared = declared_as.to_string();
    Ok((ColumnDef { ty, max_chars, declared, fill, ..ColumnDef::new(&name, ty.data_type) }, key))
}

/// The type of a SERIAL column.
fn serial_type(declared: &SqlType) -> Option<SqlType> {
    let SqlType::Custom(name, modifiers) = declared else { return None };
    let [part] = name.0.as_slice() else { return None };
    match (fold(part.as_ident()?).as_str(), modifiers.is_empty()) {
        ("serial" | "serial4", true) => Some(SqlType::Integer(None)),
        ("bigserial" | "serial8", true) => Some(SqlType::BigInt(None)),
        ("smallserial" | "serial2", true) => Some(SqlType::SmallInt(None)),
        _ => None,
    }
}

/// A table's definition: checks names, makes the key's columns NOT NULL, and reads the options. Without a declared
/// page index the engine chooses one.
fn table_def(
    name: String,
    mut columns: Vec<ColumnDef>,
    key: Vec<String>,
    options: &CreateTableOptions,
    default_changes: Changes,
) -> Result<TableDef, SqlError> {
    for (i, column) in columns.iter().enumerate() {
        check_name("column", &column.name)?;
        if columns[..i].iter().any(|c| c.name == column.name) {
            return Err(SqlError::ColumnTwice { column: column.name.clone(), how: "declared" });
        }
    }
    let number = |column: &str| {
        let at = columns.iter().position(|c| c.name == column).and_then(|i| u16::try_from(i).ok());
        at.ok_or_else(|| SqlError::NoColumn { table: name.to_owned(), column: column.to_owned() })
    };
    let numbers = |names: &[String]| -> Result<Vec<u16>, SqlError> {
        let mut numbers = Vec::with_capacity(names.len());
        for column in names {
            let n = number(column)?;
            if numbers.contains(&n) {
                return Err(SqlError::ColumnTwice { column: column.clone(), how: "named" });
            }
            numbers.push(n);
        }
        Ok(numbers)
    };
    let primary_key = numbers(&key)?;
    let mut layout = Layout::Auto;
    let mut page_bytes = None;
    let mut page_index = Vec::new();
    let mut encoding = Encodings::default();
    let mut changes = None;
    let mut cluster_by = Vec::new();
    let mut key_index = None;
    for (option, value) in table_options(options)? {
        match option.as_str() {
            "layout" => {
                layout = match value.to_ascii_lowercase().as_str() {
                    "row" => Layout::Row,
                    "column" => Layout::Column,
                    "auto" => Layout::Auto,
                    other => {
                        let message = format!("layout cannot be '{other}': expected row, column or auto");
                        return Err(bad_option(message));
                    }
                }
            }
            "page_bytes" => {
                let size = value.parse().ok().and_then(PageBytes::new).ok_or_else(|| {
                    bad_option(format!("page_bytes cannot be '{value}': expected 4096, 8192 or 16384"))
                })?;
                page_bytes = Some(size);
            }
            "page_index" => {
                let names: Vec<String> = listed(&value).map(str::to_owned).collect();
                page_index = numbers(&names)?;
            }
            "encoding" => encoding = encodings(&columns, &value, &number)?,
            "changes" => {
                let choice = Changes::named(&value.to_ascii_lowercase()).ok_or_else(|| {
                    bad_option(format!("changes cannot be '{value}': expected delta or pages"))
                })?;
                changes = Some(choice);
            }
            "cluster_by" => {
                let names: Vec<String> = value.split(',').map(|c| c.trim().to_owned()).collect();
                if names.iter().any(String::is_empty) {
                    let message = format!("cluster_by cannot be '{value}': expected names of columns");
                    return Err(bad_option(message));
                }
                cluster_by = numbers(&names)?;
            }
            "key_index" => {
                let choice = KeyIndex::named(&value.to_ascii_lowercase()).ok_or_else(|| {
                    bad_option(format!("key_index cannot be '{value}': expected tree or page_index"))
                })?;
                key_index = Some(choice);
            }
            other => {
                let message = format!(
                    "there is no table option \"{other}\": expected layout, page_bytes, page_index, encoding, \
                     changes, cluster_by or key_index"
                );
                return Err(bad_option(message));
            }
        }
    }
    if page_bytes.is_some() && layout != Layout::Row {
        let message = "page_bytes is the size of row pages: say layout = 'row', too";
        return Err(bad_option(message.into()));
    }
    let changes = match (layout, changes) {
        (Layout::Row, Some(Changes::Delta)) => {
            let message = "a table with layout = 'row' has no delta: leave out changes, or say 'pages'";
            return Err(bad_option(message.into()));
        }
        (Layout::Row, _) => Changes::Pages,
        (_, changes) => changes.unwrap_or(default_changes),
    };
    if changes == Changes::Pages && key_index == Some(KeyIndex::Tree) {
        let message =
            "key_index cannot be 'tree' in a table whose changes go to pages: it has no tree of keys";
        return Err(bad_option(message.into()));
    }
    let key_index = key_index.unwrap_or_default();
    for &k in &primary_key {
        columns[usize::from(k)].ty.nullable = false;
    }
    Ok(TableDef {
        name,
        columns,
        primary_key,
        primary_key_deferral: Deferral::None,
        primary_key_name: None,
        options: TableOptions {
            layout,
            page_bytes,
            page_index,
            encoding,
            changes,
            cluster_by,
            key_index,
            narrow_keys: true,
        },
        constraints: Vec::new(),
    })
}

/// `encoding = 'for'` for all columns, or `encoding = 'a for, b fsst'` for some.
fn encodings(
    columns: &[ColumnDef],
    value: &str,
    number: &impl Fn(&str) -> Result<u16, SqlError>,
) -> Result<Encodings, SqlError> {
    let named = |name: &str| {
        EncodingChoice::named(&name.to_ascii_lowercase()).ok_or_else(|| {
            let names: Vec<_> = EncodingChoice::names().collect();
            let (last, others) = names.split_last().expect("there are encodings");
            let expected = format!("{} or {last}", others.join(", "));
            bad_option(format!("encoding cannot be '{name}': expected {expected}"))
        })
    };
    let mut encodings = Encodings::default();
    let parts: Vec<&str> = listed(value).collect();
    if parts.is_empty() {
        return Err(named("").unwrap_err());
    }
    for part in &parts {
        match part.rsplit_once(char::is_whitespace) {
            None if parts.len() == 1 => encodings.all = named(part)?,
            None => {
                let what =
                    format!("encoding cannot be '{value}': expected one name, or a column and a name each");
                return Err(bad_option(what));
            }
            Some((column, name)) => {
                let column = number(column.trim())?;
                if encodings.columns.insert(column, named(name)?).is_some() {
                    let column = &columns[usize::from(column)].name;
                    return Err(bad_option(format!("column \"{column}\" has two encodings")));
                }
            }
        }
    }
    for (i, c) in (0u16..).zip(columns) {
        if !encodings.of(i).takes(c.ty.data_type) {
            return Err(bad_option(format!(
                "column \"{}\" is {}, which cannot have the encoding '{}'",
                c.name,
                c.ty.data_type,
                encodings.of(i).name()
            )));
        }
    }
    Ok(encodings)
}

fn bad_option(message: String) -> SqlError {
    SqlError::failed(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn table_options(options: &CreateTableOptions) -> Result<Vec<(String, String)>, SqlError> {
    let options = match options {
        CreateTableOptions::None => return Ok(Vec::new()),
        CreateTableOptions::With(options) => options,
        other => return Err(SqlError::Unsupported(format!("table options {other}"))),
    };
    let mut pairs = Vec::with_capacity(options.len());
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(bad_option(format!("expected option = 'value', found {option}")));
        };
        let text = match value {
            Expr::Value(v) => match &v.value {
                Value::SingleQuotedString(s) => s.clone(),
                other => other.to_string(),
            },
            Expr::Identifier(ident) => fold(ident),
            other => return Err(bad_option(format!("expected {key} = 'value', found {other}"))),
        };
        pairs.push((fold(key), text));
    }
    Ok(pairs)
}

/// The name of a column of an index or a key. An order or an expression is refused.
pub(crate) fn plain_column(column: &IndexColumn) -> Result<String, SqlError> {
    match &column.column.expr {
        Expr::Identifier(name) if *column == IndexColumn::from(name.clone()) => Ok(fold(name)),
        other => Err(SqlError::Unsupported(format!("{other} in a key or index: expected a column's name"))),
    }
}

/// How CREATE TABLE writes the filling of a column, behind its type.
pub(crate) fn filling_text(fill: &Fill, snapshot: &Snapshot) -> String {
    let objects = snapshot.all_objects();
    let sequence = |id: u32| objects.sequences().find(|(_, def)| def.id == id);
    match fill {
        Fill::Null => String::new(),
        Fill::Default(text) => format!(" DEFAULT {text}"),
        Fill::Generated(text) => format!(" GENERATED ALWAYS AS ({text}) STORED"),
        Fill::Sequence(id) => {
            let name =
                sequence(*id).map_or_else(String::new, |(name, _)| qualified(name).replace('\'', "''"));
            format!(" DEFAULT nextval('{name}')")
        }
        Fill::Identity { always, .. } => {
            format!(" GENERATED {} AS IDENTITY", if *always { "ALWAYS" } else { "BY DEFAULT" })
        }
    }
}

/// The CREATE TABLE statement that makes `def`.
pub(crate) fn create_statement(def: &TableDef, snapshot: &Snapshot) -> String {
    let list = |columns: &[u16]| -> Vec<&str> {
        columns.iter().map(|&c| def.columns[usize::from(c)].name.as_str()).collect()
    };
    let mut lines: Vec<String> = def
        .live_columns()
        .map(|c| &def.columns[usize::from(c)])
        .map(|c| {
            let not_null = if c.ty.nullable { "" } else { " NOT NULL" };
            format!("  {} {}{}{not_null}", quoted(&c.name), c.declared, filling_text(&c.fill, snapshot))
        })
        .collect();
    if !def.primary_key.is_empty() {
        let key: Vec<String> = list(&def.primary_key).into_iter().map(quoted).collect();
        let deferral = def.primary_key_deferral.declared();
        let name = def.primary_key_name.as_ref().map(|name| format!("CONSTRAINT {} ", quoted(name)));
        let name = name.unwrap_or_default();
        lines.push(format!("  {name}PRIMARY KEY ({}){deferral}", key.join(", ")));
    }
    lines.extend(def.constraints.iter().map(|c| format!("  {}", constraints::text(def, c, snapshot))));
    let layout = match def.options.layout {
        Layout::Row => "row",
        Layout::Column => "column",
        Layout::Auto => "auto",
    };
    let name = qualified(&def.name);
    let page_index = list(&def.options.page_index).join(",").replace('\'', "''");
    let encodings = &def.options.encoding;
    let each = encodings.columns.iter().map(|(&c, e)| format!("{} {}", list(&[c])[0], e.name()));
    let encoding = match (each.collect::<Vec<_>>(), encodings.all) {
        (each, EncodingChoice::Auto) if each.is_empty() => String::new(),
        (each, all) if each.is_empty() => format!(", encoding = '{}'", all.name()),
        (each, _) => format!(", encoding = '{}'", each.join(", ").replace('\'', "''")),
    };
    let page_bytes = match def.options.page_bytes {
        Some(size) => format!(", page_bytes = '{}'", size.get()),
        None => String::new(),
    };
    let cluster_by = match list(&def.options.cluster_by) {
        columns if columns.is_empty() => String::new(),
        columns => format!(", cluster_by = '{}'", columns.join(",").replace('\'', "''")),
    };
    let key_index = match def.options.key_index {
        KeyIndex::Tree => String::new(),
        key_index => format!(", key_index = '{}'", key_index.name()),
    };
    let changes = match (def.options.layout, def.options.changes) {
        (Layout::Row, _) | (_, Changes::Delta) => String::new(),
        (_, changes) => format!(", changes = '{}'", changes.name()),
    };
    let others = format!("{page_bytes}{encoding}{cluster_by}{changes}{key_index}");
    format!(
        "CREATE TABLE {name} (\n{}\n) WITH (layout = '{layout}', page_index = '{page_index}'{others})",
        lines.join(",\n")
    )
}
