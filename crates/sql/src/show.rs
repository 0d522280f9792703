//! SET, RESET, SHOW and DESCRIBE.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::sql::parser::{ResetStatement, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, ObjectName, Set, ShowCreateObject, ShowStatementFilter,
    ShowStatementFilterPosition, ShowStatementOptions, Statement as Sql, UnaryOperator, Value,
};
use lode_engine::{IndexKind, Object, ObjectKind, Snapshot, Table};

use crate::dml::find_table;
use crate::error::state;
use crate::hidden_columns::DeclaredIndex;
use crate::names::{is_temporary, listed, qualified, shown};
use crate::namespaces::SearchPath;
use crate::settings::{SEARCH_PATH, canonical, no_setting};
use crate::statement::{StatementResult, fold, table_name};
use crate::{EarlyFilter, Session, SqlError, ddl};

/// `SET [LOCAL] name = value`.
pub(crate) async fn set(session: &Session, set: &Set) -> Result<StatementResult, SqlError> {
    let (scope, name, values): (_, String, &[Expr]) = match set {
        Set::SingleAssignment { scope, hivevar: false, variable, values } => {
            (*scope, canonical(&setting_name(variable)?), values)
        }
        Set::SetTimeZone { local, value } => {
            (local.then_some(ContextModifier::Local), canonical("timezone"), std::slice::from_ref(value))
        }
        Set::SetNames { charset_name, collation_name: None } => {
            let value = fold(charset_name);
            put(session, "client_encoding", value.trim_matches('\''), false)?;
            return Ok(StatementResult::done("SET"));
        }
        other => return Err(SqlError::Unsupported(format!("{other}: expected SET name = value"))),
    };
    let local = match scope {
        None | Some(ContextModifier::Session) => false,
        Some(ContextModifier::Local) => true,
        Some(ContextModifier::Global) => return Err(SqlError::Unsupported("SET GLOBAL".into())),
    };
    let is_word = |value: &Expr, text: &str| matches!(value, Expr::Identifier(word) if word.quote_style.is_none() && fold(word) == text);
    if let [value] = values
        && (is_word(value, "default") || name == "timezone" && is_word(value, "local"))
    {
        let first = session.first_setting(&name).ok_or_else(|| no_setting(&name))?;
        put(session, &name, &first, local)?;
        return Ok(StatementResult::done("SET"));
    }
    let value = match values {
        values if name == SEARCH_PATH => SearchPath::of_values(values)?.text(),
        [value] => setting_value(value).ok_or_else(|| {
            let message = format!("{name} cannot be set to the expression {value}");
            SqlError::failed(state::INVALID_PARAMETER_VALUE, message)
        })?,
        _ => {
            if !session.has_setting(&name) {
                return Err(no_setting(&name));
            }
            let values: Option<Vec<String>> = values.iter().map(setting_value).collect();
            values.ok_or_else(|| SqlError::Unsupported("SET of several values".into()))?.join(", ")
        }
    };
    if name == "lode.join_order" {
        check_tables(session, &name, listed(&value)).await?;
    }
    if let ("lode.early_filter", EarlyFilter::Table(table)) = (&*name, EarlyFilter::named(&value)) {
        check_tables(session, &name, [&*table]).await?;
    }
    put(session, &name, &value, local)?;
    Ok(StatementResult::done("SET"))
}

/// Checks that the tables that a setting names exist.
async fn check_tables<'a>(
    session: &Session,
    setting: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), SqlError> {
    let snapshot = session.snapshot().await?;
    match names.into_iter().find(|name| snapshot.table(name).is_none()) {
        Some(name) => {
            Err(SqlError::failed(state::UNDEFINED_TABLE, format!("{setting}: there is no table {name}")))
        }
        None => Ok(()),
    }
}

/// Gives a setting a value, which the open transaction takes back if it ends so.
pub(crate) fn put(session: &Session, name: &str, value: &str, local: bool) -> Result<(), SqlError> {
    let before = session.setting(name);
    session.put_setting(name, value)?;
    if let Some(before) = before {
        session.note_setting(name, before, local)?;
    }
    Ok(())
}

/// `RESET name`: back to the value at the start of the session.
pub(crate) fn reset(session: &Session, reset: &ResetStatement) -> Result<StatementResult, SqlError> {
    let ResetStatement::Variable(variable) = reset;
    let name = canonical(&setting_name(variable)?);
    if !session.has_setting(&name) {
        return Err(no_setting(&name));
    }
    match session.first_setting(&name) {
        Some(value) => put(session, &name, &value, false)?,
        None => return Err(SqlError::Unsupported(format!("RESET of {name}, which began without a value"))),
    }
    Ok(StatementResult::done("RESET"))
}

fn setting_name(name: &ObjectName) -> Result<String, SqlError> {
    let parts: Option<Vec<String>> = name.0.iter().map(|p| p.as_ident().map(fold)).collect();
    parts.map(|p| p.join(".")).ok_or_else(|| SqlError::Unsupported(format!("the setting {name}")))
}

fn setting_value(value: &Expr) -> Option<String> {
    match value {
        Expr::Function(_) => Some(value.to_string()),
        Expr::Identifier(word) => Some(word.value.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(format!("-{}", setting_value(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => setting_value(expr),
        Expr::Value(v) => match &v.value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => Some(s.clone()),
            Value::Number(n, _) => Some(n.clone()),
            Value::Boolean(b) => Some(b.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// The SHOW statements and DESCRIBE.
pub(crate) async fn show(session: &Session, statement: &Sql) -> Result<StatementResult, SqlError> {
    match statement {
        Sql::ShowTables { terse, history, extended, full, external, show_options } => {
            if *terse || *history || *extended || *full || *external {
                return Err(SqlError::Unsupported("SHOW TABLES with options".into()));
            }
            let pattern = like_filter(show_options)?;
            tables(&session.snapshot().await?, pattern)
        }
        Sql::ShowColumns { show_options, .. } => match name_after_from(show_options) {
            Some(name) => columns(session, &name, statement).await,
            None => Err(SqlError::failed(state::SYNTAX_ERROR, "SHOW COLUMNS needs FROM and a table")),
        },
        Sql::ExplainTable { table_name, .. } => columns(session, table_name, statement).await,
        Sql::ShowCreate { obj_type: ShowCreateObject::Table, obj_name } => {
            let snapshot = session.snapshot().await?;
            let table = find_table(&snapshot, &table_name(obj_name)?)?;
            let statement = ddl::create_statement(table.def(), &snapshot);
            rows(&["table_name", "create_statement"], vec![vec![shown(table.name()), statement]])
        }
        Sql::ShowCreate { obj_type: ShowCreateObject::View, obj_name } => {
            let (snapshot, name) = (session.snapshot().await?, table_name(obj_name)?);
            let Some(Object::View(view)) = snapshot.object(ObjectKind::View, &name) else {
                return Err(lode_engine::EngineError::NoSuchTable(name).into());
            };
            let statement = format!("CREATE VIEW {} AS {}", qualified(&name), view.query);
            rows(&["table_name", "create_statement"], vec![vec![shown(&name), statement]])
        }
        Sql::ShowCreate { obj_type, .. } => Err(SqlError::Unsupported(format!("SHOW CREATE {obj_type}"))),
        Sql::ShowVariable { variable } => {
            let words: Vec<String> = variable.iter().map(fold).collect();
            match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["indexes"] => indexes(&session.snapshot().await?),
                [] => Err(SqlError::failed(
                    state::SYNTAX_ERROR,
                    "SHOW needs the name of a setting; SHOW ALL lists them",
                )),
                ["all", ..] => query(session, statement).await,
                ["time", "zone"] => {
                    rows(&["TimeZone"], vec![vec![session.setting("timezone").unwrap_or_default()]])
                }
                names => {
                    let known = |n: &str| session.has_setting(n);
                    let name = names.join(".");
                    if session.is_own_setting(&name) {
                        return rows(&[&name], vec![vec![session.setting(&name).unwrap_or_default()]]);
                    }
                    if !known(name.trim_end_matches(".verbose")) && !name.starts_with("datafusion.runtime.") {
                        return Err(no_setting(&name));
                    }
                    query(session, statement).await
                }
            }
        }
        other => Err(SqlError::Unsupported(other.to_string())),
    }
}

async fn query(session: &Session, statement: &Sql) -> Result<StatementResult, SqlError> {
    session.query(Parsed::Statement(Box::new(statement.clone()))).await
}

fn tables(snapshot: &Snapshot, pattern: Option<String>) -> Result<StatementResult, SqlError> {
    let views = snapshot.objects(ObjectKind::View).map(|(name, _)| name);
    let named = snapshot.tables().map(|t| t.name()).chain(views).filter(|name| !is_temporary(name));
    let mut names: Vec<String> = named.map(shown).collect();
    if let Some(pattern) = pattern {
        names.retain(|name| like(name, &pattern));
    }
    names.sort_unstable();
    rows(&["table_name"], names.into_iter().map(|n| vec![n]).collect())
}

/// Whether `text` is LIKE `pattern` (`%` and `_`).
fn like(text: &str, pattern: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('%') => {
            text.char_indices().any(|(i, _)| like(&text[i..], rest.as_str())) || like("", rest.as_str())
        }
        Some(p) => {
            let mut chars = text.chars();
            chars.next().is_some_and(|c| p == '_' || p == c) && like(chars.as_str(), rest.as_str())
        }
    }
}

fn like_filter(options: &ShowStatementOptions) -> Result<Option<String>, SqlError> {
    match &options.filter_position {
        None if options.show_in.is_none() && options.starts_with.is_none() && options.limit.is_none() => {
            Ok(None)
        }
        Some(
            ShowStatementFilterPosition::Infix(ShowStatementFilter::Like(pattern))
            | ShowStatementFilterPosition::Suffix(ShowStatementFilter::Like(pattern)),
        ) if options.show_in.is_none() => Ok(Some(pattern.clone())),
        _ => Err(SqlError::Unsupported("SHOW TABLES with more than LIKE".into())),
    }
}

fn name_after_from(options: &ShowStatementOptions) -> Option<ObjectName> {
    options.show_in.as_ref().and_then(|show_in| show_in.parent_name.clone())
}

async fn columns(session: &Session, name: &ObjectName, statement: &Sql) -> Result<StatementResult, SqlError> {
    if name.0.len() == 2 && name.0[0].as_ident().is_some_and(|s| fold(s) == "information_schema") {
        return query(session, statement).await;
    }
    let (snapshot, name) = (session.snapshot().await?, table_name(name)?);
    if let Some(Object::View(view)) = snapshot.object(ObjectKind::View, &name) {
        let line = |(name, t): &(String, String)| vec![name.clone(), t.clone(), "YES".into(), String::new()];
        let lines = view.columns.iter().map(line).collect();
        return rows(&["column_name", "data_type", "is_nullable", "key"], lines);
    }
    let table: Arc<Table> = find_table(&snapshot, &name)?;
    let key = |i: usize| table.def().primary_key.iter().any(|&k| usize::from(k) == i);
    let lines = table.def().live_columns().map(usize::from).map(|i| {
        let c = &table.def().columns[i];
        vec![
            c.name.clone(),
            c.declared.clone(),
            if c.ty.nullable { "YES" } else { "NO" }.to_owned(),
            if key(i) { "PRIMARY KEY" } else { "" }.to_owned(),
        ]
    });
    rows(&["column_name", "data_type", "is_nullable", "key"], lines.collect())
}

fn indexes(snapshot: &Snapshot) -> Result<StatementResult, SqlError> {
    let mut lines = Vec::new();
    for table in snapshot.tables() {
        for index in table.indexes() {
            let declared = DeclaredIndex::of(table.def(), index, str::to_owned);
            lines.push(vec![
                shown(&index.name),
                shown(table.name()),
                kind_of(index.kind).to_owned(),
                declared.to_string(),
            ]);
        }
    }
    lines.sort_unstable();
    rows(&["index_name", "table_name", "kind", "columns"], lines)
}

fn kind_of(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Page => "page_index",
        IndexKind::Btree { unique: false } => "btree",
        IndexKind::Btree { unique: true } => "unique btree",
    }
}

/// Rows of texts.
pub(crate) fn rows(names: &[&str], lines: Vec<Vec<String>>) -> Result<StatementResult, SqlError> {
    let fields: Vec<Field> = names.iter().map(|n| Field::new(*n, DataType::Utf8, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let columns: Vec<ArrayRef> = (0..names.len())
        .map(|i| Arc::new(StringArray::from_iter_values(lines.iter().map(|line| &line[i]))) as ArrayRef)
        .collect();
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    let stream = MemoryStream::try_new(vec![batch], schema.clone(), None)?;
    Ok(StatementResult::Rows { schema, stream: Box::pin(stream) })
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn names_are_matched_as_by_like() {
        let check =
            |text, pattern, expected| assert_eq!(like(text, pattern), expected, "{text} LIKE {pattern}");
        check("orders", "%", true);
        check("", "%", true);
        check("orders", "o%s", true);
        check("orders", "_rders", true);
        check("orders", "order", false);
        check("lineitem", "%item", true);
        check("lineitem", "%line", false);
    }
}
