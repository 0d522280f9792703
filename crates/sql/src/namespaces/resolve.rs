//! Puts the names of a statement into the schemas to which they lead.
//!
//! ```text
//!   WITH w AS (SELECT * FROM t) SELECT * FROM w, u   ─►  WITH w AS (SELECT * FROM b.t) SELECT * FROM w, a.u
//! ```
//!
//! Names of `public` stay as they are. The name that CREATE gives is left alone: it leads to no relation yet.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, ColumnDef, ColumnOption, CopySource, Ident, ObjectName, ObjectNamePart, Query,
    Statement as Sql, TableConstraint, TableFactor, VisitMut, VisitorMut,
};

use super::known::{NameSpaces, Relations};
use crate::SqlError;
use crate::error::state;
use crate::names::{SCHEMA, fold, in_schema, split};

/// Puts the names of relations in a statement into their schemas. Recurses over it.
///
/// # Errors
/// SQLSTATE 42P01 when a name leads to no relation.
pub(crate) fn resolve(parsed: &mut Parsed, names: &NameSpaces, of: &impl Relations) -> Result<(), SqlError> {
    match parsed {
        Parsed::Explain(explain) => resolve(&mut explain.statement, names, of),
        Parsed::Statement(sql) => resolve_sql(sql, names, of),
        _ => Ok(()),
    }
}

fn resolve_sql(sql: &mut Sql, names: &NameSpaces, of: &impl Relations) -> Result<(), SqlError> {
    let mut resolver = Resolver { names, of, created: None, scopes: Vec::new(), is_function: false };
    let done = match sql {
        // What is prepared is resolved on its own: its names may lead elsewhere later.
        Sql::Prepare { .. } => return Ok(()),
        Sql::CreateTable(create) => {
            let name = create.name.clone();
            resolver.created = names.created(&name, create.temporary, of).ok();
            let mut columns = create.columns.iter_mut();
            let foreign = columns.try_for_each(|c| resolver.column(c));
            let foreign = match foreign {
                ControlFlow::Continue(()) => {
                    create.constraints.iter_mut().try_for_each(|c| resolver.constraint(c))
                }
                broken => broken,
            };
            match foreign {
                ControlFlow::Continue(()) => {
                    create.name = ObjectName(Vec::new());
                    let done = create.visit(&mut resolver);
                    create.name = name;
                    done
                }
                broken => broken,
            }
        }
        Sql::CreateView(view) => view.query.visit(&mut resolver),
        Sql::AlterTable(alter) => {
            // IF EXISTS is carried out where the table is looked for.
            let found = resolver.place(&mut alter.name);
            if let (ControlFlow::Break(_), true) = (&found, alter.if_exists) {
                return Ok(());
            }
            match found {
                ControlFlow::Continue(()) => {
                    alter.operations.iter_mut().try_for_each(|operation| match operation {
                        AlterTableOperation::AddColumn { column_def, .. } => resolver.column(column_def),
                        AlterTableOperation::AddConstraint { constraint, .. } => {
                            resolver.constraint(constraint)
                        }
                        _ => ControlFlow::Continue(()),
                    })
                }
                broken => broken,
            }
        }
        Sql::Copy { source: CopySource::Table { table_name, .. }, .. } => resolver.place(table_name),
        Sql::ExplainTable { table_name, .. } => resolver.place(table_name),
        Sql::ShowCreate { obj_name, .. } => resolver.place(obj_name),
        Sql::Vacuum(vacuum) => {
            vacuum.table_name.as_mut().map_or(ControlFlow::Continue(()), |name| resolver.place(name))
        }
        other => other.visit(&mut resolver),
    };
    match done {
        ControlFlow::Break(e) => Err(e),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Resolver<'a, R> {
    names: &'a NameSpaces,
    of: &'a R,
    /// The engine's name of the table that the statement makes.
    created: Option<String>,
    /// The names that WITH gives, of each query around.
    scopes: Vec<Vec<String>>,
    /// Whether the next name is that of a function.
    is_function: bool,
}

impl<R: Relations> Relations for Resolver<'_, R> {
    fn has_relation(&self, name: &str) -> bool {
        self.created.as_deref() == Some(name) || self.of.has_relation(name)
    }

    fn has_rows(&self, name: &str) -> bool {
        self.created.as_deref() == Some(name) || self.of.has_rows(name)
    }

    fn has_schema(&self, name: &str) -> bool {
        self.of.has_schema(name)
    }
}

impl<R: Relations> Resolver<'_, R> {
    fn place(&self, name: &mut ObjectName) -> ControlFlow<SqlError> {
        let ident = |part: &ObjectNamePart| part.as_ident().cloned();
        let Some(parts) = name.0.iter().map(ident).collect::<Option<Vec<Ident>>>() else {
            return ControlFlow::Continue(());
        };
        match parts.as_slice() {
            [own] => {
                let bare = fold(own);
                match self.names.schema_of(&bare, self) {
                    Some(schema) if schema == SCHEMA => {}
                    Some(schema) => {
                        let schema = Ident { span: own.span, ..Ident::with_quote('"', schema) };
                        name.0.insert(0, ObjectNamePart::Identifier(schema));
                    }
                    None => {
                        let message = format!("there is no table {bare}");
                        let e = SqlError::failed(state::UNDEFINED_TABLE, message);
                        let at = own.span.start;
                        return ControlFlow::Break(if at.line > 0 { e.at(at.line, at.column) } else { e });
                    }
                }
            }
            [schema, _] => {
                let own = self.names.own_schema(&fold(schema));
                if own != fold(schema) {
                    name.0[0] = ObjectNamePart::Identifier(Ident::with_quote('"', own));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn column(&self, column: &mut ColumnDef) -> ControlFlow<SqlError> {
        column.options.iter_mut().try_for_each(|o| match &mut o.option {
            ColumnOption::ForeignKey(f) => self.place(&mut f.foreign_table),
            _ => ControlFlow::Continue(()),
        })
    }

    fn constraint(&self, constraint: &mut TableConstraint) -> ControlFlow<SqlError> {
        match constraint {
            TableConstraint::ForeignKey(f) => self.place(&mut f.foreign_table),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl<R: Relations> VisitorMut for Resolver<'_, R> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let mut scope = Vec::new();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = fold(&cte.alias.name);
                if !with.recursive {
                    // It does not see itself, nor those that follow.
                    self.scopes.push(scope.clone());
                    let done = cte.query.visit(self);
                    self.scopes.pop();
                    done?;
                }
                scope.push(name);
            }
        }
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        self.is_function = matches!(factor, TableFactor::Table { args: Some(_), .. });
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<SqlError> {
        if std::mem::take(&mut self.is_function) || name.0.is_empty() {
            return ControlFlow::Continue(());
        }
        let of_with = match name.0.as_slice() {
            [part] => part.as_ident().is_some_and(|own| {
                let own = fold(own);
                self.scopes.iter().flatten().any(|with| *with == own)
            }),
            _ => false,
        };
        if of_with { ControlFlow::Continue(()) } else { self.place(name) }
    }
}

impl NameSpaces {
    /// The engine's name of a relation that a statement makes.
    ///
    /// # Errors
    /// SQLSTATE 3F000 when its schema is not there, or no schema of the path is; 42P16 for a temporary relation in a schema that is not.
    pub(crate) fn created(
        &self,
        name: &ObjectName,
        temporary: bool,
        of: &impl Relations,
    ) -> Result<String, SqlError> {
        let (schema, own) = match crate::statement::table_name(name)? {
            own if name.0.len() > 1 => {
                let (schema, own) = split(&own);
                (Some(self.own_schema(schema)), own.to_owned())
            }
            own => (None, own),
        };
        let temp = self.temporary().map(|t| t.name);
        if temporary || schema.is_some() && schema == temp {
            return match (temp, schema) {
                (Some(temp), None) => Ok(in_schema(&temp, &own)),
                (Some(temp), Some(schema)) if schema == temp => Ok(in_schema(&temp, &own)),
                _ => {
                    let message = "cannot create temporary relation in non-temporary schema";
                    Err(SqlError::failed(state::INVALID_TABLE_DEFINITION, message))
                }
            };
        }
        match schema {
            Some(schema) if of.has_schema(&schema) => Ok(in_schema(&schema, &own)),
            Some(schema) => Err(no_schema(&schema)),
            None => match self.current_schema(of) {
                Some(schema) => Ok(in_schema(&schema, &own)),
                None => {
                    let message = "no schema has been selected to create in";
                    Err(SqlError::failed(state::INVALID_SCHEMA_NAME, message))
                }
            },
        }
    }
}

/// The error of a schema that is not there.
pub(crate) fn no_schema(schema: &str) -> SqlError {
    SqlError::failed(state::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist"))
}
