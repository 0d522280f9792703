//! What a snapshot shows, compared with a state of the model.

use std::collections::BTreeMap;

use lode_engine::{EngineError, IndexKind, Snapshot};
use lode_page::Value;

use super::{Done, Read, World};
use crate::failure::{FailureKind, Wrong};
use crate::random::Random;
use crate::tables::model::{State, TableState};
use crate::tables::rows::{self, CREATED, Row, TABLES, int, shown, text};

/// Values that are looked up by each key and index.
const LOOKUPS: u64 = 4;
/// A snapshot that sees so many merges is old.
const MANY_MERGES: u64 = 100;

/// The rows of all tables, sorted by their texts, the columns with an index, and what the columns are.
pub(super) type Contents = BTreeMap<usize, (Vec<u16>, Vec<Row>, Vec<String>)>;

pub(super) fn contents(s: &Snapshot) -> Result<Contents, EngineError> {
    let mut all = Contents::new();
    for table in 0..TABLES {
        let Some(t) = s.table(rows::name(table)) else { continue };
        let found = rows::scan(s, &t)?.into_iter().map(|(_, row)| row).collect();
        let btrees = t.indexes().iter().filter(|i| i.kind != IndexKind::Page);
        let mut indexes: Vec<u16> = btrees.map(|i| i.columns[0]).collect();
        indexes.sort_unstable();
        all.insert(table, (indexes, sorted(found), rows::described(&t)));
    }
    Ok(all)
}

pub(super) fn expected(state: &State) -> Contents {
    let of = |t: &TableState| {
        let rows = sorted(t.rows.values().cloned().collect());
        (t.indexes.iter().copied().collect(), rows, t.columns.described())
    };
    state.0.iter().map(|(&table, t)| (table, of(t))).collect()
}

/// Names a difference.
pub(super) fn difference(got: &Contents, expected: &Contents) -> Option<String> {
    for table in 0..TABLES {
        let name = rows::name(table);
        match (got.get(&table), expected.get(&table)) {
            (None, None) => {}
            (Some(_), None) => return Some(format!("table {name} exists")),
            (None, Some(_)) => return Some(format!("table {name} is missing")),
            (Some(got), Some(expected)) if got.0 != expected.0 => {
                return Some(format!("{name} has indexes of {:?} instead of {:?}", got.0, expected.0));
            }
            (Some(got), Some(expected)) if got.2 != expected.2 => {
                return Some(format!("{name} has the columns {:?} instead of {:?}", got.2, expected.2));
            }
            (Some(got), Some(expected)) => {
                if let Some(what) = difference_of_rows(&got.1, &expected.1) {
                    return Some(format!("{name}: {what}"));
                }
            }
        }
    }
    None
}

/// Names the first row that differs. The rows are sorted.
fn difference_of_rows(got: &[Row], expected: &[Row]) -> Option<String> {
    let at = (0..got.len().max(expected.len())).find(|&i| got.get(i) != expected.get(i))?;
    let (counts, got, expected) = ((got.len(), expected.len()), shown(got.get(at)), shown(expected.get(at)));
    Some(format!("read {got} instead of {expected}; {} rows instead of {}", counts.0, counts.1))
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| text(a).cmp(text(b)));
    rows
}

fn same(what: &str, got: Vec<Row>, expected: Vec<Row>) -> Result<(), Read> {
    match difference_of_rows(&sorted(got), &sorted(expected)) {
        None => Ok(()),
        Some(difference) => {
            let what = format!("{what}: {difference}");
            Err(Read::Wrong(Wrong { kind: FailureKind::Isolation, what }))
        }
    }
}

/// Compares the rows that a transaction reads of a table.
pub(super) fn same_rows<'a>(
    table: &str,
    got: Vec<Row>,
    expected: impl Iterator<Item = &'a Row>,
) -> Result<(), Read> {
    same(&format!("within a transaction, {table}"), got, expected.cloned().collect())
}

/// Compares every way to read with a state.
pub(super) fn compare(s: &Snapshot, state: &State, r: &mut Random) -> Result<(), Read> {
    let bad = |what: String| Err(Read::Wrong(Wrong { kind: FailureKind::Isolation, what }));
    if let Some(difference) = difference(&contents(s)?, &expected(state)) {
        return bad(format!("by a scan, {difference}"));
    }
    for (&table, expected) in &state.0 {
        let name = rows::name(table);
        let t = s.table(name).expect("it was just read");
        if r.once_in(2) {
            same(
                &format!("by pages, {name}"),
                rows::read(s, &t)?,
                expected.rows.values().cloned().collect(),
            )?;
        }
        let counted = s.rows(&t)?;
        if counted != expected.rows.len() as u64 {
            return bad(format!(
                "{name} has {counted} rows by its counts instead of {}",
                expected.rows.len()
            ));
        }
        let all: Vec<&Row> = expected.rows.values().collect();
        for column in CREATED..expected.columns.numbers().len() {
            let value = r.pick(&all).map_or(Value::Null, |row| row[column].clone());
            let with = all.iter().filter(|row| row[column] == value).count() as u64;
            let found = rows::count_with(s, &t, column as u16, &value)?;
            if found != with {
                return bad(format!(
                    "{name} has {found} rows with column {column} = {value:?} instead of {with}"
                ));
            }
        }
        for column in [0, 1, 2] {
            let with = |value: i64| -> Vec<Row> {
                let has = |row: &&&Row| int(&row[usize::from(column)]) == Some(value);
                all.iter().filter(has).map(|row| (*row).clone()).collect()
            };
            for _ in 0..LOOKUPS {
                let one = r.pick(&all).and_then(|row| int(&row[usize::from(column)]));
                let value = one.filter(|_| !r.once_in(4)).unwrap_or_else(|| r.below(1000) as i64);
                if rows::keys(table).contains(&column) {
                    let found = rows::by_key(s, &t, column, value)?;
                    same(&format!("by key {column} = {value}, {name}"), found, with(value))?;
                }
                if expected.indexes.contains(&column)
                    && let Some(found) = rows::by_index(s, &t, column, value)?
                {
                    same(&format!("by the index of {column} = {value}, {name}"), found, with(value))?;
                }
                let high = value.saturating_add(r.below(4) as i64);
                if let Some(found) = rows::by_minima(s, &t, column, (value, high))? {
                    let within = |row: &&&Row| {
                        int(&row[usize::from(column)]).is_some_and(|v| (value..=high).contains(&v))
                    };
                    let expected = all.iter().filter(within).map(|row| (*row).clone()).collect();
                    same(&format!("by minima of {column} from {value} to {high}, {name}"), found, expected)?;
                }
            }
        }
    }
    Ok(())
}

impl World<'_> {
    /// Compares what a kept snapshot shows.
    pub(super) fn look(&mut self, at: usize, seed: u64) -> Done {
        let held = &self.held[at];
        let (state, began, merges) = (held.state.clone(), held.began, held.merges);
        let compared = compare(&held.snapshot, &state, &mut Random::of_seed(seed));
        if self.compared("a read of an old snapshot", began, compared)? {
            self.machine.met("looks at old snapshots");
            let old = self.merges - merges >= MANY_MERGES;
            self.machine.met_times("snapshots across 100 merges", old.into());
        }
        Ok(())
    }
}
