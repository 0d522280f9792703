//! Functions that tell something of the session or the catalog: each call becomes the text that it tells.
//!
//! ```text
//!   SELECT current_schema(), obj_description('t'::regclass)   ─►   SELECT 'public', 'what t is about'
//! ```
//!
//! `set_config` sets a setting; it stands alone in a SELECT.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SelectItem, SetExpr,
    Value, VisitMut, VisitorMut,
};
use lode_engine::{AllObjects, Fill};

use crate::comments::comment_on;
use crate::names::{CATALOG, fold, split};
use crate::numbers::{no_relation, parts_of};
use crate::settings::{canonical, no_setting};
use crate::{Session, SqlError};

/// The one user.
const USER: &str = "lode";
/// What `version()` begins with: the dialect, as drivers look for it.
const DIALECT: &str = "PostgreSQL 15.0";

/// Puts what the functions of a statement tell in their places. Recurses over it.
///
/// # Errors
/// When a function asks for what is not there.
pub(crate) fn tell(parsed: &mut Parsed, session: &Session) -> Result<(), SqlError> {
    match parsed {
        Parsed::Explain(explain) => tell(&mut explain.statement, session),
        Parsed::Statement(sql) => match sql.visit(&mut Teller { session }) {
            ControlFlow::Break(e) => Err(e),
            ControlFlow::Continue(()) => Ok(()),
        },
        _ => Ok(()),
    }
}

struct Teller<'a> {
    session: &'a Session,
}

impl VisitorMut for Teller<'_> {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(f) = expr else { return ControlFlow::Continue(()) };
        match told(f, self.session) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(text)) => {
                let value = text.map_or(Value::Null, Value::SingleQuotedString);
                *expr = Expr::Cast {
                    kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
                    expr: Box::new(Expr::value(value)),
                    data_type: DataType::Text,
                    array: false,
                    format: None,
                };
                ControlFlow::Continue(())
            }
            Err(e) => ControlFlow::Break(e),
        }
    }
}

/// What a function tells: `Some(None)` is NULL. `None` for a function of another kind, or over what is no constant.
fn told(f: &Function, session: &Session) -> Result<Option<Option<String>>, SqlError> {
    let Some(name) = f.name.0.last().and_then(|part| part.as_ident()).map(fold) else { return Ok(None) };
    let Some(arguments) = constants(f) else { return Ok(None) };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let objects = || -> Result<AllObjects, SqlError> { Ok(session.snapshot_now()?.all_objects()) };
    let text = match (name.as_str(), arguments.as_slice()) {
        ("current_schema", []) => session.namespaces().current_schema(&objects()?),
        ("current_database" | "current_catalog", []) => Some(CATALOG.to_owned()),
        ("current_user" | "session_user" | "user" | "current_role", []) => Some(USER.to_owned()),
        ("version", []) => Some(format!("{DIALECT}, Lode {}", env!("CARGO_PKG_VERSION"))),
        ("current_setting", [setting]) => {
            let setting = canonical(setting);
            Some(session.setting(&setting).ok_or_else(|| no_setting(&setting))?)
        }
        ("current_setting", [setting, missing_ok]) if *missing_ok == "true" => {
            session.setting(&canonical(setting))
        }
        ("obj_description", [relation] | [relation, "pg_class"]) => {
            let objects = objects()?;
            comment_on(&objects, &found(relation, session, &objects)?, None)
        }
        ("col_description", [relation, number]) => {
            let objects = objects()?;
            let number = number.parse().unwrap_or(0);
            comment_on(&objects, &found(relation, session, &objects)?, Some(number))
        }
        ("pg_get_serial_sequence", [table, column]) => {
            let objects = objects()?;
            let table = found(table, session, &objects)?;
            let no_column = || SqlError::NoColumn { table: table.clone(), column: (*column).to_owned() };
            let of = objects.table(&table).ok_or_else(|| no_relation(&table))?;
            let number = of.column(column).ok_or_else(no_column)?;
            let sequence = match of.def().columns[usize::from(number)].fill {
                Fill::Sequence(id) | Fill::Identity { sequence: id, .. } => {
                    objects.sequences().find(|(_, def)| def.id == id)
                }
                _ => None,
            };
            let owned =
                sequence.filter(|(_, def)| def.owner.as_ref().is_some_and(|o| o.table == of.id().raw()));
            owned.map(|(name, _)| {
                let (schema, own) = split(name);
                format!("{schema}.{own}")
            })
        }
        _ => return Ok(None),
    };
    Ok(Some(text))
}

/// The relation that a text names.
fn found(text: &str, session: &Session, objects: &AllObjects) -> Result<String, SqlError> {
    let parts = parts_of(text)?;
    session.namespaces().lookup(&parts, objects)?.ok_or_else(|| no_relation(&parts.join(".")))
}

/// The arguments of a function, if all are constants.
fn constants(f: &Function) -> Option<Vec<String>> {
    if f.over.is_some() || f.filter.is_some() {
        return None;
    }
    match &f.args {
        FunctionArguments::None => Some(Vec::new()),
        FunctionArguments::Subquery(_) => None,
        FunctionArguments::List(list) => {
            let constant = |a: &FunctionArg| match a {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => text_of(e),
                _ => None,
            };
            list.args.iter().map(constant).collect()
        }
    }
}

fn text_of(e: &Expr) -> Option<String> {
    match e {
        Expr::Value(v) => match &v.value {
            Value::SingleQuotedString(s) => Some(s.clone()),
            Value::Number(n, _) => Some(n.clone()),
            Value::Boolean(b) => Some(b.to_string()),
            _ => None,
        },
        Expr::Cast { expr, .. } | Expr::Nested(expr) => text_of(expr),
        _ => None,
    }
}

/// The setting, the value and whether it is for the transaction alone, if a query is `SELECT set_config(...)`.
pub(crate) fn set_config(query: &Query) -> Option<(String, String, bool)> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [
        SelectItem::UnnamedExpr(Expr::Function(f))
        | SelectItem::ExprWithAlias { expr: Expr::Function(f), .. },
    ] = select.projection.as_slice()
    else {
        return None;
    };
    let name = f.name.0.last().and_then(|part| part.as_ident()).map(fold)?;
    if name != "set_config" || !select.from.is_empty() || select.selection.is_some() || query.with.is_some() {
        return None;
    }
    match constants(f)?.as_slice() {
        [setting, value, local] => Some((canonical(setting), value.clone(), local == "true")),
        _ => None,
    }
}
