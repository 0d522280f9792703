//! CREATE SEQUENCE, ALTER SEQUENCE, and the sequences of SERIAL and IDENTITY columns.

use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use lode_engine::{Fill, Object, ObjectKind, SequenceDef, SequenceOwner, WriteTxn};
use lode_page::DataType as ColumnType;

use super::options::defined;
use crate::error::state;
use crate::names::{beside, check_name, shown, split};
use crate::namespaces::{NameSpaces, Relations};
use crate::numbers::no_relation;
use crate::statement::{SequenceOption, SequenceStatement, StatementResult, fold, parts};
use crate::{Session, SqlError, comments};

/// The sequence of a column that a statement makes.
pub(crate) struct NewSequence {
    /// The column.
    pub(crate) column: u16,
    /// The column's type, which is that of the numbers.
    pub(crate) data_type: ColumnType,
    /// Options of an IDENTITY column.
    pub(crate) options: Vec<SequenceOption>,
    /// `Some(always)` for an IDENTITY column.
    pub(crate) identity: Option<bool>,
}

impl NewSequence {
    /// How the column is filled from the sequence of this number.
    pub(crate) fn fill(&self, number: u32) -> Fill {
        match self.identity {
            Some(always) => Fill::Identity { sequence: number, always },
            None => Fill::Sequence(number),
        }
    }

    /// Makes the sequence, which belongs to the column of a table that is there.
    ///
    /// # Errors
    /// When the options do not go together.
    pub(crate) fn make(&self, txn: &mut WriteTxn, table: &str, number: u32) -> Result<(), SqlError> {
        let of = txn.table(table).ok_or_else(|| no_relation(table))?;
        let owner =
            SequenceOwner { table: of.id().raw(), column: self.column, identity: self.identity.is_some() };
        let column = &of.def().columns[usize::from(self.column)].name;
        let name = free_name(txn, &beside(table, &format!("{}_{column}_seq", split(table).1)));
        let def = SequenceDef { owner: Some(owner), ..self.defined(number)? };
        txn.put_object(&name, Object::Sequence(def));
        Ok(())
    }

    fn defined(&self, id: u32) -> Result<SequenceDef, SqlError> {
        let t = match self.data_type {
            ColumnType::SmallInt => DataType::SmallInt(None),
            ColumnType::Integer => DataType::Integer(None),
            ColumnType::BigInt => DataType::BigInt(None),
            other => {
                let message =
                    format!("identity column type must be smallint, integer, or bigint, not {other}");
                return Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, message));
            }
        };
        let options: Vec<_> =
            [SequenceOption::As(t)].into_iter().chain(self.options.iter().cloned()).collect();
        defined(id, &options, None)
    }
}

/// A name that no relation has: `wanted`, or `wanted` with a number.
fn free_name(txn: &WriteTxn, wanted: &str) -> String {
    let numbered = (1..).map(|n| format!("{wanted}{n}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    names.find(|name| !txn.has_relation(name)).expect("there is no end of numbers")
}

/// Runs CREATE SEQUENCE or ALTER SEQUENCE.
pub(crate) async fn define(
    session: &Session,
    statement: &SequenceStatement,
) -> Result<StatementResult, SqlError> {
    let statement = statement.clone();
    let names = session.namespaces().clone();
    let verb = if statement.creates { "CREATE SEQUENCE" } else { "ALTER SEQUENCE" };
    session
        .define(move |txn| match statement.creates {
            true => create(txn, &names, &statement),
            false => alter(txn, &names, &statement),
        })
        .await?;
    Ok(StatementResult::done(verb))
}

fn create(txn: &mut WriteTxn, names: &NameSpaces, statement: &SequenceStatement) -> Result<(), SqlError> {
    let name = &names.created(&statement.name, statement.temporary, txn)?;
    check_name("sequence", split(name).1)?;
    if txn.has_relation(name) {
        return match statement.if_exists {
            true => Ok(()),
            false => {
                let message = format!("relation \"{}\" already exists", split(name).1);
                Err(SqlError::failed(state::DUPLICATE_TABLE, message))
            }
        };
    }
    let def = defined(txn.new_object(), &statement.options, None)?;
    let def = owned(txn, names, def, &statement.options)?;
    txn.put_object(name, Object::Sequence(def));
    Ok(())
}

fn alter(txn: &mut WriteTxn, names: &NameSpaces, statement: &SequenceStatement) -> Result<(), SqlError> {
    let wanted = parts(&statement.name)?;
    let name = match names.lookup(&wanted, txn)? {
        Some(name) => name,
        None if statement.if_exists => return Ok(()),
        None => return Err(no_relation(&wanted.join("."))),
    };
    let name = name.as_str();
    let Some(Object::Sequence(old)) = txn.object(ObjectKind::Sequence, name).cloned() else {
        let message = format!("\"{}\" is not a sequence", shown(name));
        return Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message));
    };
    if let Some(to) = &statement.rename {
        let to = beside(name, &fold(to));
        check_name("sequence", split(&to).1)?;
        if txn.has_relation(&to) {
            let message = format!("relation \"{}\" already exists", split(&to).1);
            return Err(SqlError::failed(state::DUPLICATE_TABLE, message));
        }
        txn.drop_object(ObjectKind::Sequence, name);
        txn.put_object(&to, Object::Sequence(old));
        return Ok(());
    }
    let def = owned(txn, names, defined(old.id, &statement.options, Some(&old))?, &statement.options)?;
    if def != old {
        txn.put_object(name, Object::Sequence(def));
    }
    Ok(())
}

/// `def` with the owner that OWNED BY says.
fn owned(
    txn: &WriteTxn,
    names: &NameSpaces,
    def: SequenceDef,
    options: &[SequenceOption],
) -> Result<SequenceDef, SqlError> {
    let owned_by = options.iter().find_map(|o| match o {
        SequenceOption::OwnedBy(of) => Some(of),
        _ => None,
    });
    let Some(owned_by) = owned_by else { return Ok(def) };
    if def.owner.as_ref().is_some_and(|o| o.identity) {
        let message = "cannot change ownership of identity sequence";
        return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
    }
    let Some(column) = owned_by else { return Ok(SequenceDef { owner: None, ..def }) };
    let (of, column) = match column.0.as_slice() {
        [table @ .., column] if !table.is_empty() => {
            (ObjectName(table.to_vec()), column.as_ident().map(fold))
        }
        _ => {
            let message = "invalid OWNED BY option: specify OWNED BY table.column or OWNED BY NONE";
            return Err(SqlError::failed(state::SYNTAX_ERROR, message));
        }
    };
    let wanted = parts(&of)?;
    let name = names.lookup(&wanted, txn)?.ok_or_else(|| no_relation(&wanted.join(".")))?;
    let table = txn.table(&name).ok_or_else(|| no_relation(&name))?;
    let column = column.unwrap_or_default();
    let Some(number) = table.column(&column) else { return Err(SqlError::NoColumn { table: name, column }) };
    let owner = Some(SequenceOwner { table: table.id().raw(), column: number, identity: false });
    Ok(SequenceDef { owner, ..def })
}

/// Lets the sequences that belong to a table begin anew.
pub(crate) fn restart_owned(txn: &mut WriteTxn, table: u32) {
    let is_owned = |def: &SequenceDef| def.owner.as_ref().is_some_and(|o| o.table == table);
    let owned = txn.sequences().filter(|(_, def)| is_owned(def));
    let owned: Vec<_> = owned.map(|(name, def)| (name.to_owned(), def.clone())).collect();
    for (name, def) in owned {
        txn.put_object(
            &name,
            Object::Sequence(SequenceDef { epoch: def.epoch + 1, first: def.start, ..def }),
        );
    }
}

/// The sequences that belong to a table, or to a column of it.
pub(crate) fn owned_by(txn: &WriteTxn, table: u32, column: Option<u16>) -> Vec<(String, SequenceDef)> {
    let is_owned = |def: &SequenceDef| {
        def.owner.as_ref().is_some_and(|o| o.table == table && column.is_none_or(|c| c == o.column))
    };
    let all = txn.sequences().filter(|(_, def)| is_owned(def));
    all.map(|(name, def)| (name.to_owned(), def.clone())).collect()
}

/// Drops the sequences that belong to a table, or to one of its columns.
pub(crate) fn drop_owned(txn: &mut WriteTxn, table: u32, column: Option<u16>) {
    for (name, _) in owned_by(txn, table, column) {
        if let Some(Object::Sequence(def)) = txn.drop_object(ObjectKind::Sequence, &name) {
            comments::forget_all(txn, "sequence", def.id);
        }
    }
}
