//! Constraints of CREATE TABLE: from the statement to the engine's definitions, and back.
//!
//! ```text
//!   column ... PRIMARY KEY | UNIQUE | CHECK (e) | REFERENCES t [(c)]  ─┐
//!   [CONSTRAINT name] PRIMARY KEY | UNIQUE | CHECK | FOREIGN KEY ─────┴─► Declared ─► Constraint, by column numbers
//! ```
//!
//! Names are given as PostgreSQL gives them: `t_a_b_key`, `t_a_check`, `t_a_fkey`, with a number where one is taken.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ConstraintCharacteristics, DeferrableInitial, Expr, ForeignKeyConstraint, Ident,
    NullsDistinctOption, ReferentialAction, TableConstraint, UniqueConstraint, visit_expressions,
};
use lode_engine::{Constraint, Deferral, Fill, ReferenceAction, Rule, Snapshot, TableDef};

use crate::SqlError;
use crate::ddl::plain_column;
use crate::deferral::is_deferrable;
use crate::dml::find_table;
use crate::error::state;
use crate::names::{is_temporary, qualified, quoted, split};
use crate::statement::{fold, parse_expression, table_name};

/// A constraint as it was declared.
pub(crate) struct Declared {
    name: Option<String>,
    what: DeclaredRule,
    deferral: Deferral,
}

enum DeclaredRule {
    Unique(Vec<String>),
    Check {
        column: Option<String>,
        expression: String,
    },
    Foreign {
        columns: Vec<String>,
        parent: String,
        parent_columns: Vec<String>,
        on_delete: ReferenceAction,
        on_update: ReferenceAction,
    },
}

impl Declared {
    /// With the name that stands before a column's constraint, if one does.
    pub(crate) fn named(self, given: &Option<Ident>) -> Self {
        Self { name: name(given).or(self.name), ..self }
    }
}

/// A constraint of the table other than its primary key.
pub(crate) fn of_table(constraint: &TableConstraint) -> Result<Declared, SqlError> {
    match constraint {
        TableConstraint::Unique(u) => {
            unique(u, u.columns.iter().map(plain_column).collect::<Result<_, _>>()?)
        }
        TableConstraint::Check(c) => check(c, None),
        TableConstraint::ForeignKey(f) => foreign_key(f, f.columns.iter().map(fold).collect()),
        other => Err(SqlError::Unsupported(format!("the constraint {other}"))),
    }
}

/// `UNIQUE`, of a table or of a column.
pub(crate) fn unique(u: &UniqueConstraint, columns: Vec<String>) -> Result<Declared, SqlError> {
    let plain = u.index_name.is_none()
        && u.index_type.is_none()
        && u.index_options.is_empty()
        && !matches!(u.nulls_distinct, NullsDistinctOption::NotDistinct);
    if !plain {
        return Err(SqlError::Unsupported(format!("the constraint {u}")));
    }
    let deferral = deferral(&u.characteristics)?;
    Ok(Declared { name: name(&u.name), what: DeclaredRule::Unique(columns), deferral })
}

/// `CHECK (...)`, of a table or of a column.
pub(crate) fn check(c: &CheckConstraint, column: Option<String>) -> Result<Declared, SqlError> {
    if c.enforced == Some(false) {
        return Err(SqlError::Unsupported("constraints that are NOT ENFORCED".into()));
    }
    let what = DeclaredRule::Check { column, expression: c.expr.to_string() };
    Ok(Declared { name: name(&c.name), what, deferral: Deferral::None })
}

/// `FOREIGN KEY (...) REFERENCES ...`, or a column's `REFERENCES ...`.
pub(crate) fn foreign_key(f: &ForeignKeyConstraint, columns: Vec<String>) -> Result<Declared, SqlError> {
    let (on_delete, on_update) = (action(f.on_delete), action(f.on_update));
    if f.match_kind.is_some_and(|m| m.to_string() != "MATCH SIMPLE") || f.index_name.is_some() {
        return Err(SqlError::Unsupported(format!("the constraint {f}")));
    }
    let deferral = deferral(&f.characteristics)?;
    let parent = table_name(&f.foreign_table)?;
    let parent_columns = f.referred_columns.iter().map(fold).collect();
    Ok(Declared {
        name: name(&f.name),
        what: DeclaredRule::Foreign { columns, parent, parent_columns, on_delete, on_update },
        deferral,
    })
}

/// What a foreign key does on an event.
const fn action(declared: Option<ReferentialAction>) -> ReferenceAction {
    match declared {
        None | Some(ReferentialAction::NoAction) => ReferenceAction::NoAction,
        Some(ReferentialAction::Restrict) => ReferenceAction::Restrict,
        Some(ReferentialAction::Cascade) => ReferenceAction::Cascade,
        Some(ReferentialAction::SetNull) => ReferenceAction::SetNull,
        Some(ReferentialAction::SetDefault) => ReferenceAction::SetDefault,
    }
}

/// `[NOT] DEFERRABLE [INITIALLY DEFERRED | IMMEDIATE]`. INITIALLY DEFERRED alone means DEFERRABLE too.
pub(crate) fn deferral(c: &Option<ConstraintCharacteristics>) -> Result<Deferral, SqlError> {
    let Some(c) = c else { return Ok(Deferral::None) };
    if c.enforced == Some(false) {
        return Err(SqlError::Unsupported("constraints that are NOT ENFORCED".into()));
    }
    match (c.deferrable, c.initially) {
        (Some(false), Some(DeferrableInitial::Deferred)) => {
            let message = "a constraint that is INITIALLY DEFERRED must be DEFERRABLE";
            Err(SqlError::failed(state::SYNTAX_ERROR, message))
        }
        (_, Some(DeferrableInitial::Deferred)) => Ok(Deferral::Deferred),
        (Some(true), _) => Ok(Deferral::Immediate),
        (None | Some(false), _) => Ok(Deferral::None),
    }
}

fn name(name: &Option<Ident>) -> Option<String> {
    name.as_ref().map(fold)
}

/// The constraints by column numbers, each with a name. Tables that are referenced are looked up in `snapshot`.
pub(crate) fn resolve(
    def: &TableDef,
    declared: Vec<Declared>,
    snapshot: &Snapshot,
) -> Result<Vec<Constraint>, SqlError> {
    let mut taken: Vec<String> = declared.iter().filter_map(|d| d.name.clone()).collect();
    taken.extend(def.constraints.iter().map(|c| c.name.clone()));
    if let Some(twice) = (1..taken.len()).find(|&i| taken[..i].contains(&taken[i])) {
        let message = format!("constraint \"{}\" for relation \"{}\" already exists", taken[twice], def.name);
        return Err(SqlError::failed(state::DUPLICATE_OBJECT, message));
    }
    let mut constraints = Vec::with_capacity(declared.len());
    let table = split(&def.name).1;
    for Declared { name, what, deferral } in declared {
        let wanted = match &what {
            DeclaredRule::Unique(columns) => format!("{table}_{}_key", columns.join("_")),
            DeclaredRule::Check { column: Some(column), .. } => format!("{table}_{column}_check"),
            DeclaredRule::Check { column: None, expression } => match one_column(def, expression)? {
                Some(column) => format!("{table}_{column}_check"),
                None => format!("{table}_check"),
            },
            DeclaredRule::Foreign { columns, .. } => format!("{table}_{}_fkey", columns.join("_")),
        };
        let name = name.unwrap_or_else(|| {
            let numbered = (1..).map(|n| format!("{wanted}{n}"));
            let mut names = std::iter::once(wanted.clone()).chain(numbered);
            let free = names.find(|n| !taken.contains(n)).expect("there is no end of numbers");
            taken.push(free.clone());
            free
        });
        let rule = match what {
            DeclaredRule::Unique(columns) => Rule::Unique { columns: numbers(def, &columns)? },
            DeclaredRule::Check { expression, .. } => Rule::Check { expression },
            DeclaredRule::Foreign { columns, parent, parent_columns, on_delete, on_update } => {
                let referenced;
                let of = match parent == def.name {
                    true => def,
                    false => {
                        referenced = find_table(snapshot, &parent)?;
                        referenced.def()
                    }
                };
                let parent_columns = match parent_columns.is_empty() {
                    true => of.primary_key.clone(),
                    false => numbers(of, &parent_columns)?,
                };
                let all: Vec<Constraint> = of.constraints.iter().chain(&constraints).cloned().collect();
                let of_table = if parent == def.name { &all } else { &of.constraints };
                if is_deferrable(of, of_table, &parent_columns) {
                    let message = format!("cannot use a deferrable key for referenced table \"{parent}\"");
                    return Err(SqlError::failed(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
                }
                let columns = numbers(def, &columns)?;
                let is_generated = |c: &u16| matches!(def.columns[usize::from(*c)].fill, Fill::Generated(_));
                let refused = |on: &ReferenceAction| {
                    !matches!(on, ReferenceAction::NoAction | ReferenceAction::Restrict)
                };
                if columns.iter().any(is_generated)
                    && (refused(&on_update) || refused(&on_delete) && on_delete != ReferenceAction::Cascade)
                {
                    let message = "invalid action of a foreign key constraint with a generated column";
                    return Err(SqlError::failed(state::SYNTAX_ERROR, message));
                }
                check_reference(def, of, of_table, &columns, &parent_columns, &name)?;
                Rule::ForeignKey { columns, parent, parent_columns, on_delete, on_update }
            }
        };
        constraints.push(Constraint { name, rule, deferral });
    }
    Ok(constraints)
}

fn numbers(def: &TableDef, names: &[String]) -> Result<Vec<u16>, SqlError> {
    let mut numbers = Vec::with_capacity(names.len());
    for name in names {
        let at = def.columns.iter().position(|c| c.name == *name && !c.is_dropped);
        let Some(at) = at else {
            return Err(SqlError::NoColumn { table: def.name.clone(), column: name.clone() });
        };
        numbers.push(at as u16);
    }
    Ok(numbers)
}

/// The column that an expression looks at, if it is one.
fn one_column(def: &TableDef, expression: &str) -> Result<Option<String>, SqlError> {
    let mut found = BTreeSet::new();
    let _ = visit_expressions(&parse_expression(expression)?, |e| {
        let name = match e {
            Expr::Identifier(name) => Some(fold(name)),
            Expr::CompoundIdentifier(parts) => parts.last().map(fold),
            _ => None,
        };
        found.extend(name.filter(|name| def.columns.iter().any(|c| c.name == *name && !c.is_dropped)));
        ControlFlow::<()>::Continue(())
    });
    let mut found = found.into_iter();
    Ok(found.next().filter(|_| found.next().is_none()))
}

/// Checks that a foreign key references a key with as many columns, of the same types.
fn check_reference(
    def: &TableDef,
    parent: &TableDef,
    of_parent: &[Constraint],
    columns: &[u16],
    parent_columns: &[u16],
    name: &str,
) -> Result<(), SqlError> {
    let invalid = |message: String| Err(SqlError::failed(state::INVALID_FOREIGN_KEY, message));
    if columns.len() != parent_columns.len() {
        return invalid(format!(
            "number of referencing and referenced columns for foreign key \"{name}\" disagree"
        ));
    }
    let is_same =
        |key: &[u16]| key.len() == parent_columns.len() && key.iter().all(|c| parent_columns.contains(c));
    let is_unique = |c: &Constraint| matches!(&c.rule, Rule::Unique { columns } if is_same(columns));
    let is_key = !parent.primary_key.is_empty() && is_same(&parent.primary_key);
    if !is_key && !of_parent.iter().any(is_unique) {
        let parent = &parent.name;
        return invalid(format!(
            "there is no unique constraint matching given keys for referenced table \"{parent}\""
        ));
    }
    let data_type = |def: &TableDef, c: &u16| def.columns[usize::from(*c)].ty.data_type;
    let mut pairs = columns.iter().zip(parent_columns);
    match pairs.find(|(own, of)| data_type(def, own) != data_type(parent, of)) {
        Some((own, of)) => {
            let (own, of) = (data_type(def, own), data_type(parent, of));
            let message = format!("foreign key constraint \"{name}\" cannot be implemented: {own} and {of}");
            Err(SqlError::failed(state::DATATYPE_MISMATCH, message))
        }
        None => Ok(()),
    }
}

/// Refuses foreign keys between temporary and other tables.
pub(crate) fn check_temporary(def: &TableDef) -> Result<(), SqlError> {
    let own = is_temporary(&def.name);
    let other = |c: &Constraint| match &c.rule {
        Rule::ForeignKey { parent, .. } => is_temporary(parent) != own,
        _ => false,
    };
    if !def.constraints.iter().any(other) {
        return Ok(());
    }
    let kind = if own { "temporary" } else { "permanent" };
    let message = format!("constraints on {kind} tables may reference only {kind} tables");
    Err(SqlError::failed(state::INVALID_TABLE_DEFINITION, message))
}

/// The constraint as CREATE TABLE writes it; `parent_column` names the columns of other tables.
pub(crate) fn text(def: &TableDef, c: &Constraint, snapshot: &Snapshot) -> String {
    let list = |def: &TableDef, columns: &[u16]| -> String {
        let names = columns.iter().map(|&c| quoted(&def.columns[usize::from(c)].name));
        names.collect::<Vec<_>>().join(", ")
    };
    let rule = match &c.rule {
        Rule::Unique { columns } => format!("UNIQUE ({})", list(def, columns)),
        Rule::Check { expression } => format!("CHECK ({expression})"),
        Rule::ForeignKey { columns, parent, parent_columns, on_delete, on_update } => {
            let of = if *parent == def.name { None } else { snapshot.table(parent) };
            let names = list(of.as_ref().map_or(def, |t| t.def()), parent_columns);
            let actions = format!("{}{}", on_update.declared("ON UPDATE"), on_delete.declared("ON DELETE"));
            format!(
                "FOREIGN KEY ({}) REFERENCES {} ({names}){actions}",
                list(def, columns),
                qualified(parent)
            )
        }
    };
    format!("CONSTRAINT {} {rule}{}", quoted(&c.name), c.deferral.declared())
}
