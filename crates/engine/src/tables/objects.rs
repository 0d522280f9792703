//! What a database has beside tables and indexes: sequences, views, schemas, and comments on all of these.
//!
//! They are entries of the section "objects" of the catalog's root page. A transaction that makes, changes or drops one conflicts with
//! others that do so with the same one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::snapshot::Tables;
use super::table::Table;
use crate::EngineError;

/// What kind of object a name stands for. Kinds have names of their own; the caller keeps names unique across kinds where SQL wants that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A namespace.
    Schema,
    /// A source of numbers.
    Sequence,
    /// A query with a name.
    View,
    /// A comment on another object.
    Comment,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// A namespace. The caller makes the names of what is in it.
    Schema,
    /// A source of numbers.
    Sequence(SequenceDef),
    /// A query with a name.
    View(ViewDef),
    /// A comment on the object, table, column or constraint that the name of this object says.
    Comment(String),
}

impl Object {
    /// Its kind.
    pub const fn kind(&self) -> ObjectKind {
        match self {
            Self::Schema => ObjectKind::Schema,
            Self::Sequence(_) => ObjectKind::Sequence,
            Self::View(_) => ObjectKind::View,
            Self::Comment(_) => ObjectKind::Comment,
        }
    }
}

/// A sequence as it was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDef {
    /// Its number, which is never used again.
    pub id: u32,
    /// Counts restarts: RESTART begins the sequence anew within its transaction, and a rollback goes back to the numbers of before.
    pub epoch: u32,
    /// The type of its numbers, in SQL.
    pub declared: String,
    /// What RESTART without a number begins with.
    pub start: i64,
    /// The first number of this epoch.
    pub first: i64,
    /// The distance of its numbers, which is not 0.
    pub increment: i64,
    /// The least number.
    pub min: i64,
    /// The greatest number.
    pub max: i64,
    /// Whether it begins again at its end.
    pub cycle: bool,
    /// How many numbers a session takes at a time, in SQL. It only shows in the definition.
    pub cache: i64,
    /// Table and column that it is dropped with.
    pub owner: Option<SequenceOwner>,
}

/// The column that a sequence belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceOwner {
    /// The number of the table.
    pub table: u32,
    /// The number of the column.
    pub column: u16,
    /// Whether it is the sequence of an IDENTITY column, which cannot be dropped alone.
    pub identity: bool,
}

impl SequenceDef {
    /// Checks that its numbers go together; what does not, otherwise.
    pub fn check(&self) -> Result<(), String> {
        if self.increment == 0 {
            return Err("INCREMENT must not be zero".into());
        }
        if self.min >= self.max {
            return Err(format!("MINVALUE ({}) must be less than MAXVALUE ({})", self.min, self.max));
        }
        for (what, value) in [("START", self.start), ("RESTART", self.first)] {
            if value < self.min {
                return Err(format!("{what} value ({value}) cannot be less than MINVALUE ({})", self.min));
            }
            if value > self.max {
                return Err(format!("{what} value ({value}) cannot be greater than MAXVALUE ({})", self.max));
            }
        }
        Ok(())
    }
}

/// A view as it was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewDef {
    /// Its number, which is never used again.
    pub id: u32,
    /// Its query, in SQL. Relations and columns have the names in it that they had when the view was made.
    pub query: String,
    /// Its columns: name and type, in SQL.
    pub columns: Vec<(String, String)>,
    /// The relations of its query.
    pub reads: Vec<ViewRead>,
}

/// A relation that the query of a view reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewRead {
    /// Its name in the query.
    pub name: String,
    /// What it is.
    pub relation: Relation,
    /// The columns that the query knows: their numbers, and their names in it.
    pub columns: Vec<(u16, String)>,
    /// The numbers of the columns that the query needs.
    pub needs: Vec<u16>,
}

/// A relation, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// A table.
    Table(u32),
    /// A view.
    View(u32),
    /// A sequence.
    Sequence(u32),
}

/// All objects and tables of a snapshot. It keeps no view of the drive open.
#[derive(Clone, Debug, Default)]
pub struct AllObjects {
    pub(super) objects: Objects,
    pub(super) tables: Tables,
}

impl AllObjects {
    /// The object of this kind and name.
    pub fn get(&self, kind: ObjectKind, name: &str) -> Option<&Object> {
        get(&self.objects, kind, name)
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(name)
    }

    /// The tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The sequences, by name.
    pub fn sequences(&self) -> impl Iterator<Item = (&str, &SequenceDef)> {
        sequences(&self.objects)
    }

    /// The views, by name.
    pub fn views(&self) -> impl Iterator<Item = (&str, &ViewDef)> {
        views(&self.objects)
    }
}

/// The objects of a state.
pub(super) type Objects = Arc<BTreeMap<ObjectKind, BTreeMap<String, Object>>>;

/// Objects as the root page has them: kind, name and object of each.
pub(super) type Listed = Vec<(ObjectKind, String, Object)>;

/// Objects from a root page.
pub(super) fn from_listed(listed: Listed) -> Result<Objects, String> {
    let mut objects = BTreeMap::<ObjectKind, BTreeMap<String, Object>>::new();
    for (kind, name, object) in listed {
        if object.kind() != kind {
            return Err(format!("\"{name}\" is not what its entry says"));
        }
        if objects.entry(kind).or_default().insert(name.clone(), object).is_some() {
            return Err(format!("two objects of a kind are called \"{name}\""));
        }
    }
    Ok(Arc::new(objects))
}

/// Objects as a root page has them.
pub(super) fn listed(objects: &Objects) -> Listed {
    let of = |(kind, named): (&ObjectKind, &BTreeMap<String, Object>)| {
        let kind = *kind;
        named.iter().map(move |(name, object)| (kind, name.clone(), object.clone())).collect::<Vec<_>>()
    };
    objects.iter().flat_map(of).collect()
}

/// The sequences among objects, by name.
pub(super) fn sequences(objects: &Objects) -> impl Iterator<Item = (&str, &SequenceDef)> {
    let named = objects.get(&ObjectKind::Sequence).into_iter().flatten();
    named.filter_map(|(name, object)| match object {
        Object::Sequence(def) => Some((name.as_str(), def)),
        _ => None,
    })
}

/// The views among objects, by name.
pub(super) fn views(objects: &Objects) -> impl Iterator<Item = (&str, &ViewDef)> {
    let named = objects.get(&ObjectKind::View).into_iter().flatten();
    named.filter_map(|(name, object)| match object {
        Object::View(def) => Some((name.as_str(), def)),
        _ => None,
    })
}

/// The object of this name.
pub(super) fn get<'a>(objects: &'a Objects, kind: ObjectKind, name: &str) -> Option<&'a Object> {
    objects.get(&kind)?.get(name)
}

/// The objects of `now` with what `mine` changed since `base`.
///
/// # Errors
/// [`EngineError::Conflict`] when others changed an object that `mine` changed too.
pub(super) fn rebased(base: &Objects, mine: &Objects, now: &Objects) -> Result<Objects, EngineError> {
    if Arc::ptr_eq(base, mine) || base == mine {
        return Ok(now.clone());
    }
    if Arc::ptr_eq(base, now) {
        return Ok(mine.clone());
    }
    let mut merged = now.clone();
    let all = base.iter().chain(mine.iter()).flat_map(|(kind, named)| named.keys().map(|n| (*kind, n)));
    for (kind, name) in all {
        let (was, is) = (get(base, kind, name), get(mine, kind, name));
        if was == is {
            continue;
        }
        if get(now, kind, name) != was {
            let what = format!("\"{name}\" was made, changed or dropped meanwhile");
            return Err(EngineError::Conflict { what });
        }
        let named = Arc::make_mut(&mut merged).entry(kind).or_default();
        match is {
            Some(object) => named.insert(name.clone(), object.clone()),
            None => named.remove(name),
        };
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(names: &[(&str, &str)]) -> Objects {
        let comment = |(name, text): &(&str, &str)| {
            (ObjectKind::Comment, (*name).to_owned(), Object::Comment((*text).to_owned()))
        };
        from_listed(names.iter().map(comment).collect()).unwrap()
    }

    #[test]
    fn changes_of_different_objects_are_merged_and_changes_of_one_conflict() {
        let base = objects(&[("a", "1"), ("b", "1")]);
        let mine = objects(&[("a", "2"), ("b", "1"), ("c", "1")]);
        let now = objects(&[("a", "1"), ("d", "1")]);
        let merged = rebased(&base, &mine, &now).unwrap();
        assert_eq!(merged, objects(&[("a", "2"), ("c", "1"), ("d", "1")]));
        let now = objects(&[("a", "3"), ("b", "1")]);
        assert!(matches!(rebased(&base, &mine, &now), Err(EngineError::Conflict { .. })));
        let now = objects(&[("a", "1"), ("b", "1"), ("c", "1")]);
        assert!(rebased(&base, &mine, &now).is_err(), "two transactions made one object");
        assert_eq!(from_listed(listed(&mine)).unwrap(), mine);
    }
}
