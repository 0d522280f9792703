//! What `prepare` changes in a statement's tree for functions that return sets.
//!
//! ```text
//!   SELECT generate_series(1, 9), a        ─► SELECT unnest(__lode_series(1, 9)) AS generate_series, a
//!   FROM generate_series(1, n)             ─► FROM LATERAL generate_series(1, n)
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    Select, SelectItem, TableFactor, TableFunctionArgs, Value, visit_expressions,
};

use super::list::SERIES_LIST;
use super::{GENERATE_SERIES, UNNEST};
use crate::SqlError;
use crate::names::fold;

/// The functions in a SELECT list that return sets.
pub(crate) fn in_select_list(select: &mut Select) {
    let mut unnamed = 0;
    for item in &mut select.projection {
        match item {
            SelectItem::ExprWithAlias { expr, .. } => in_expression(expr),
            SelectItem::UnnamedExpr(expr) => {
                let name = set_function(expr);
                in_expression(expr);
                if let Some(name) = name {
                    let number = if unnamed == 0 { String::new() } else { format!(":{unnamed}") };
                    unnamed += 1;
                    let alias = Ident::with_quote('"', format!("{name}{number}"));
                    let expr = std::mem::replace(expr, Expr::value(Value::Null));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            _ => {}
        }
    }
}

/// Whether an expression has a function that returns a set.
pub(crate) fn has_set(expr: &Expr) -> bool {
    let found = |e: &Expr| match set_function(e) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    };
    visit_expressions(expr, found).is_break()
}

/// The name of a function that returns a set.
fn set_function(expr: &Expr) -> Option<&'static str> {
    let Expr::Function(f) = expr else { return None };
    let [part] = f.name.0.as_slice() else { return None };
    let name = fold(part.as_ident()?);
    [GENERATE_SERIES, UNNEST].into_iter().find(|known| *known == name)
}

/// Makes the series of an expression a set, also below operators and casts. Elsewhere it is an error of its own.
fn in_expression(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, right, .. } => {
            in_expression(left);
            in_expression(right);
        }
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } | Expr::Cast { expr: inner, .. } => {
            in_expression(inner);
        }
        Expr::Function(f) if set_function(&Expr::Function(f.clone())) == Some(GENERATE_SERIES) => {
            f.name = ObjectName::from(vec![Ident::new(SERIES_LIST)]);
            let list = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(f.clone())));
            let args =
                FunctionArgumentList { duplicate_treatment: None, args: vec![list], clauses: Vec::new() };
            *expr = Expr::Function(Function {
                name: ObjectName::from(vec![Ident::new(UNNEST)]),
                args: FunctionArguments::List(args),
                ..f.clone()
            });
        }
        _ => {}
    }
}

/// Gives the functions of FROM one form. One whose arguments name columns is LATERAL.
///
/// # Errors
/// What is not carried out.
pub(crate) fn function_in_from(factor: &mut TableFactor, typed: impl Fn(&mut Expr)) -> Result<(), SqlError> {
    let of = |name: &ObjectName, args: Vec<FunctionArg>, alias: &Option<_>, with_ordinality: bool| {
        TableFactor::Function {
            lateral: false,
            name: name.clone(),
            args,
            with_ordinality,
            alias: alias.clone(),
        }
    };
    match factor {
        TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
            let TableFunctionArgs { args, settings: None } = args else {
                return Err(SqlError::Unsupported("SETTINGS of a function in FROM".into()));
            };
            *factor = of(name, std::mem::take(args), alias, *with_ordinality);
        }
        TableFactor::UNNEST {
            alias,
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality,
        } => {
            let args = std::mem::take(array_exprs);
            let args = args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
            *factor = of(&ObjectName::from(vec![Ident::new(UNNEST)]), args, alias, *with_ordinality);
        }
        _ => {}
    }
    if let TableFactor::Function { lateral, args, .. } = factor {
        for argument in args.iter_mut() {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = argument {
                typed(e);
            }
        }
        let is_column = |e: &Expr| match e {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        *lateral = visit_expressions(args, is_column).is_break();
    }
    Ok(())
}
