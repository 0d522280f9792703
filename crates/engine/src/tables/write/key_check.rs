//! PRIMARY KEY and UNIQUE: once the transaction is committed, no two rows of a table have the same key. A key with a NULL does not
//! count.
//!
//! ```text
//!   few new keys      hash set ─► drive scan of the key columns for just these ─► a row that keeps its key? duplicate
//!   ascending keys    above the greatest key of the page index ─► nothing to do
//!   all else          hashes of old and new keys, a part of them at a time ─► equal hashes ─► compare the keys
//! ```
//!
//! The table is read at the state that the commit follows. Rows that the transaction deleted, or gave another key, do not count.

use std::sync::Arc;

use lode_base::Lpid;
use lode_command::Answer;
use lode_page::{Column, DataType, Value, ops};
use lode_program::{CompareOp, Expr, Program, key_of};

use super::key_order::KeyOrder;
use crate::storage::columns::unpublished;
use crate::tables::delta::OwnRows;
use crate::tables::delta::RowId;
use crate::tables::key::{KeyReader, has_null, hash, show};
use crate::tables::overlay::id_at;
use crate::tables::own::{Edits, FreedSlots};
use crate::tables::planted::{self, Planted};
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::Snapshot;
use crate::{EngineError, Set};

/// Most new keys that are kept in memory as they are.
const FEW_KEYS_MAX: usize = 1 << 18;
/// Most values of an IN list that looks for keys. More values become bounds.
const LIST_MAX: usize = 1024;
/// More keys than this are not looked up by the page index one by one.
pub(super) const PAGE_LOOKUPS_MAX: usize = 16;
/// Equal hashes whose keys are compared at a time.
const SUSPECTS_MAX: usize = 4096;

/// What is known of a table's keys when a transaction commits.
pub(super) struct NewKeys<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Bytes of key hashes that a check may hold at a time.
    pub(super) key_check_bytes: usize,
    /// The table at the snapshot; `None` when the transaction creates it.
    pub(super) base: Option<&'a Table>,
    /// The table as the transaction has it.
    pub(super) table: &'a Table,
    /// The name of the constraint. The primary key has none.
    pub(super) constraint: Option<&'a str>,
    /// Which of the table's keys it is.
    pub(super) n: usize,
    pub(super) key: &'a [u16],
    pub(super) edits: &'a Edits,
    /// The rows of a delta that the transaction changed. Those that it did not delete are in `held`.
    pub(super) own: &'a OwnRows,
    /// Key columns of rows in memory.
    pub(super) held: Vec<Vec<Column>>,
    /// Whether all of `held` came with the load that `order` watched.
    pub(super) held_is_load: bool,
    /// Pages with edits of rows that get new keys, and how many rows.
    pub(super) rekeyed: Vec<(Lpid, usize)>,
    /// Pages that the load wrote, and their rows.
    pub(super) loaded: Vec<Lpid>,
    pub(super) loaded_rows: u64,
    pub(super) order: Option<&'a KeyOrder>,
    /// Whether the keys of the table itself are compared with each other too.
    pub(super) whole: bool,
}

/// Which keys of a table are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// All, at a commit.
    All,
    /// Those that are not deferred, at the end of a statement.
    Immediate,
    /// Those that are, at the commit of what the ends of statements have checked at the same snapshot.
    Deferred,
    /// Those that the table did not have before the transaction, with all its rows.
    Added,
}

impl Checked {
    /// Whether the `n`-th key of a table is one of them. `base`: the table before the transaction.
    pub(super) fn has(self, t: &Table, base: Option<&Table>, n: usize) -> bool {
        match self {
            Self::Added => {
                let key = t.keys().nth(n).map(|(_, key)| key);
                base.is_some_and(|b| b.keys().all(|(_, of_base)| Some(of_base) != key))
            }
            Self::All => true,
            Self::Immediate => !t.def().is_key_deferred(n),
            Self::Deferred => t.def().is_key_deferred(n) && !planted::is(Planted::DeferredNotChecked),
        }
    }
}

impl NewKeys<'_> {
    /// Checks that there is no key twice.
    pub(super) fn check(mut self) -> Result<(), EngineError> {
        let held_rows: usize = self.held.iter().map(|part| part[0].rows()).sum();
        let held_rows = held_rows + self.rekeyed.iter().map(|(_, rows)| rows).sum::<usize>();
        if self.whole {
            let rows = held_rows as u64 + self.loaded_rows + self.base_rows()?;
            let twice = |columns: &[Column], row| self.twice(columns, row);
            return find_duplicate(rows, self.key_check_bytes, twice, |each| self.visit(each));
        }
        if held_rows == 0 && self.loaded.is_empty() {
            return Ok(());
        }
        if self.loaded.is_empty() && held_rows <= FEW_KEYS_MAX {
            for (lpid, _) in std::mem::take(&mut self.rekeyed) {
                let part = self.rekeyed_in(lpid)?;
                self.held.push(part);
            }
            return self.check_few();
        }
        if self.held_is_load && self.is_above_table()? {
            return Ok(());
        }
        let old_rows = self.base_rows()?;
        let rows = held_rows as u64 + self.loaded_rows + old_rows;
        let twice = |columns: &[Column], row| self.twice(columns, row);
        find_duplicate(rows, self.key_check_bytes, twice, |each| self.visit(each))
    }

    fn twice(&self, columns: &[Column], row: usize) -> EngineError {
        duplicate(self.table, self.constraint, columns, row)
    }

    /// Whether the keys of the load ascend, and are above all keys of the table.
    fn is_above_table(&self) -> Result<bool, EngineError> {
        // More rows may follow, so this order must not end.
        let Some(mut order) = self.order.cloned() else { return Ok(false) };
        let Some(first) = order.finish() else { return Ok(false) };
        let least = key_of(first.data_type(), &first.value(0));
        let (Some(base), 1..) = (self.base, self.base_rows()?) else { return Ok(true) };
        let greatest = self.greatest(base)?;
        Ok(greatest.is_some_and(|max| least > Some(max)))
    }

    /// An order key that no value of the key's first column exceeds in the table.
    fn greatest(&self, base: &Table) -> Result<Option<u64>, EngineError> {
        let leading = usize::from(self.key[0]);
        Ok(self.snapshot.statistics(base)?.keys[leading].map(|(_, max)| max))
    }

    fn check_few(&self) -> Result<(), EngineError> {
        let mut keys: Set<Vec<u8>> = Set::default();
        let mut key = Vec::new();
        for part in &self.held {
            let reader = KeyReader::new(part);
            for row in (0..part[0].rows()).filter(|&row| !has_null(part, row)) {
                reader.read(row, &mut key);
                if !keys.insert(key.clone()) {
                    return Err(self.twice(part, row));
                }
            }
        }
        // Each lookup may read a page that the page index does not exclude; a scan reads it once.
        let is_fast = |t: &&Table| !t.finds_keys_by_page() || keys.len() <= PAGE_LOOKUPS_MAX;
        if let Some(base) = self.base.filter(|t| t.has_delta()).filter(is_fast) {
            return self.look_up_each(base);
        }
        let (Some(base), 1..) = (self.base, self.base_rows()?) else { return Ok(()) };
        if keys.is_empty() {
            return Ok(());
        }
        if let Some(max) = self.greatest(base)? {
            let leading = self.held.iter().map(|part| &part[0]);
            let mut keys =
                leading.flat_map(|c| (0..c.rows()).map(|row| key_of(c.data_type(), &c.value(row))));
            if keys.all(|key| key > Some(max)) {
                return Ok(());
            }
        }
        let data_type = |c: u16| self.table.schema().columns[usize::from(c)].data_type;
        let terms = self.key.iter().enumerate().map(|(i, &c)| looking_for(&self.held, i, c, data_type(c)));
        let filter = Expr::And(terms.collect());
        self.visit_table(base, Some(filter), &mut |columns, row, key| match keys.contains(key) {
            true => Err(self.twice(columns, row)),
            false => Ok(()),
        })
    }

    /// The new keys that edits give rows of a page.
    fn rekeyed_in(&self, lpid: Lpid) -> Result<Vec<Column>, EngineError> {
        self.edits[&lpid].new_keys(self.key, read::columns(self.snapshot, lpid, self.key)?.columns)
    }

    /// Visits every key that there will be.
    fn visit(&self, each: &mut EachKey<'_>) -> Result<(), EngineError> {
        for part in &self.held {
            visit_rows(part, each)?;
        }
        for &(lpid, _) in &self.rekeyed {
            visit_rows(&self.rekeyed_in(lpid)?, each)?;
        }
        for &lpid in &self.loaded {
            let store = self.snapshot.storage().store();
            visit_rows(&unpublished(store, self.table.page_owner(), lpid, self.key)?, each)?;
        }
        match (self.base, self.base_rows()?) {
            (Some(base), 1..) => self.visit_table(base, None, each),
            _ => Ok(()),
        }
    }

    fn base_rows(&self) -> Result<u64, EngineError> {
        self.base.map_or(Ok(0), |t| self.snapshot.rows(t))
    }

    /// Looks each new key up in a table with a delta.
    fn look_up_each(&self, base: &Table) -> Result<(), EngineError> {
        let directory = self.snapshot.directory(base)?;
        // If the transaction gave the table other keys, only its own version says where their entries are.
        let t = if base.is_defined_as(self.table) { base } else { self.table };
        let mut freed = FreedSlots::new(self.edits, self.key);
        let mut is_changed = |id: RowId| {
            self.own.get(id).is_some()
                || directory.place(id).is_some_and(|(lpid, slot)| freed.contains(lpid, slot))
        };
        for part in &self.held {
            for row in (0..part[0].rows()).filter(|&row| !has_null(part, row)) {
                let values: Vec<Value> = part.iter().map(|c| c.value(row)).collect();
                let found = self.snapshot.rows_of_key(t, self.n, self.key, &values)?;
                if found.iter().any(|id| !is_changed(*id)) {
                    return Err(self.twice(part, row));
                }
            }
        }
        Ok(())
    }

    fn visit_table(
        &self,
        base: &Table,
        filter: Option<Expr>,
        each: &mut EachKey<'_>,
    ) -> Result<(), EngineError> {
        visit_table(self.snapshot, base, self.key, filter, Some((self.edits, self.own)), each)
    }
}

/// A filter that all rows with one of these keys pass, on key column `i`, which is column `c` of the table.
pub(super) fn looking_for(keys: &[Vec<Column>], i: usize, c: u16, data_type: DataType) -> Expr {
    let mut seen: Set<Vec<u8>> = Set::default();
    let mut list: Vec<Value> = Vec::new();
    let mut bounds: Option<(Value, Value)> = None;
    let mut key = Vec::new();
    for part in keys {
        let reader = KeyReader::new(&part[i..=i]);
        for row in (0..part[0].rows()).filter(|&row| !has_null(part, row)) {
            reader.read(row, &mut key);
            if list.len() <= LIST_MAX && seen.insert(key.clone()) {
                list.push(part[i].value(row));
            }
        }
    }
    if list.len() <= LIST_MAX {
        return Expr::In { value: Box::new(Expr::Column(c)), list };
    }
    for part in keys {
        for row in (0..part[0].rows()).filter(|&row| !has_null(part, row)) {
            let v = part[i].value(row);
            bounds = Some(match bounds.take() {
                None => (v.clone(), v),
                Some((min, max)) if v.compare(&min).is_some_and(|o| o.is_lt()) => (v, max),
                Some((min, max)) if v.compare(&max).is_some_and(|o| o.is_gt()) => (min, v),
                Some(bounds) => bounds,
            });
        }
    }
    let (min, max) = bounds.expect("there are more values than a list holds");
    let bound = |op, v| Expr::compare(op, Expr::Column(c), Expr::Const(v, data_type));
    Expr::And(vec![bound(CompareOp::GtEq, min), bound(CompareOp::LtEq, max)])
}

/// Called for each key, with the columns and the row that it is in, and its bytes.
pub(super) type EachKey<'a> = dyn FnMut(&[Column], usize, &[u8]) -> Result<(), EngineError> + 'a;

/// Visits the keys of some rows, except those with a NULL.
pub(super) fn visit_rows(columns: &[Column], each: &mut EachKey<'_>) -> Result<(), EngineError> {
    let reader = KeyReader::new(columns);
    let mut key = Vec::new();
    (0..columns[0].rows()).filter(|&row| !has_null(columns, row)).try_for_each(|row| {
        reader.read(row, &mut key);
        each(columns, row, &key)
    })
}

/// Visits the keys of a table's rows, except those that edits free, those of rows of a delta that the transaction changed, and those
/// with a NULL.
pub(super) fn visit_table(
    snapshot: &Snapshot,
    t: &Table,
    key: &[u16],
    filter: Option<Expr>,
    changed: Option<(&Edits, &OwnRows)>,
    each: &mut EachKey<'_>,
) -> Result<(), EngineError> {
    let directory = if t.has_delta() { Some(snapshot.directory(t)?) } else { None };
    let pages = match &filter {
        Some(filter) => snapshot.pages_of_keys(t, key, filter)?,
        None => None,
    };
    let program = Program::check(t.schema().clone(), filter, key.to_vec(), true)?;
    let pages = pages.unwrap_or_else(|| t.all_ranges());
    let mut scan = snapshot.scan(t, pages, Arc::new(program), Answer::Rows, None)?;
    let mut bytes = Vec::new();
    while let Some(unit) = scan.next()? {
        for page in &unit.pages {
            let freed = changed.and_then(|(e, _)| e.get(&page.lpid)).map(|e| e.freed(key));
            let is_own = |slot: u32| match (&directory, changed) {
                (Some(d), Some((_, own))) => {
                    id_at(d, page.lpid, slot).is_some_and(|id| own.get(id).is_some())
                }
                _ => false,
            };
            let reader = KeyReader::new(&page.columns);
            for row in 0..page.rows as usize {
                let slot = page.slots.as_ref().map_or(row as u32, |s| s[row]);
                let is_freed = freed.as_ref().is_some_and(|f| f.contains(slot)) || is_own(slot);
                if !is_freed && !has_null(&page.columns, row) {
                    reader.read(row, &mut bytes);
                    each(&page.columns, row, &bytes)?;
                }
            }
        }
    }
    Ok(())
}

/// Checks that the rows of a table at a snapshot have distinct keys.
pub(crate) fn check_table(snapshot: &Snapshot, key_check_bytes: usize, t: &Table) -> Result<(), EngineError> {
    t.keys().try_for_each(|(constraint, key)| {
        let twice = |columns: &[Column], row: usize| duplicate(t, constraint, columns, row);
        check_key(snapshot, key_check_bytes, t, key, twice)
    })
}

/// Checks that no two rows of a table at a snapshot have the same values in the columns `key`. `twice` makes the error.
pub(super) fn check_key(
    snapshot: &Snapshot,
    key_check_bytes: usize,
    t: &Table,
    key: &[u16],
    twice: impl Fn(&[Column], usize) -> EngineError,
) -> Result<(), EngineError> {
    find_duplicate(snapshot.rows(t)?, key_check_bytes, twice, |each| {
        visit_table(snapshot, t, key, None, None, each)
    })
}

/// Visits all keys (about `rows`) as often as needed to hold at most `limit_bytes` of their hashes at a time.
fn find_duplicate(
    rows: u64,
    limit_bytes: usize,
    twice: impl Fn(&[Column], usize) -> EngineError,
    mut visit: impl FnMut(&mut EachKey<'_>) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let passes = (rows * 8).div_ceil(limit_bytes.max(1 << 16) as u64).max(1);
    for pass in 0..passes {
        let mut hashes: Vec<u64> = Vec::with_capacity((rows / passes) as usize);
        visit(&mut |_, _, key| {
            let h = hash(key);
            if h % passes == pass {
                hashes.push(h);
            }
            Ok(())
        })?;
        hashes.sort_unstable();
        let mut suspects: Vec<u64> = hashes.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
        suspects.dedup();
        for suspects in suspects.chunks(SUSPECTS_MAX) {
            let suspects: Set<u64> = suspects.iter().copied().collect();
            let mut keys: Set<Vec<u8>> = Set::default();
            visit(
                &mut |columns, row, key| match suspects.contains(&hash(key)) && !keys.insert(key.into()) {
                    true => Err(twice(columns, row)),
                    false => Ok(()),
                },
            )?;
        }
    }
    Ok(())
}

/// The error of a key that is there twice.
pub(super) fn duplicate(t: &Table, constraint: Option<&str>, columns: &[Column], row: usize) -> EngineError {
    let row: Vec<Column> = columns.iter().map(|c| ops::slice(c, row, 1)).collect();
    let (table, key) = (t.name().into(), show(&row, 0));
    match constraint {
        None => EngineError::DuplicateKey { table, constraint: t.def().primary_key_name.clone(), key },
        Some(name) => EngineError::Unique { table, constraint: name.into(), key },
    }
}
