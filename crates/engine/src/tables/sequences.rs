//! The numbers of sequences.
//!
//! ```text
//!   next(n) ─┬─ durably reserved ───────────────────────────────────────────────────────────────► given
//!            ├─ few are left: the page of states says more ─► an unforced batch ─► some later sync ─► durable
//!            └─ not reserved: the same ─► a flush ───────────────────────────────────────────────► given
//! ```
//!
//! A number is given only when a durable page says that it was, so none is given twice, also after a crash. Numbers are reserved some
//! at a time, and before they run out. So as a rule the sync of some commit has made a reservation durable before its
//! numbers are needed, and `next` needs none of its own. A crash skips what was reserved. [`Sequences::settle`], before the database is
//! closed, takes reservations back, so that a reopened database goes on without a gap.
//!
//! Numbers are not part of transactions: a rollback gives none back. The sequence that a transaction has made itself has no state in
//! the drive before the commit.
//!
//! Invariant: once the database is open, the page of states has none of a sequence that a crash has undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::{CommitNo, Lpid};
use lode_command::Batch;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::objects::{self, Objects, SequenceDef};
use crate::EngineError;
use crate::storage::Storage;
use crate::storage::catalog::{PageKind, VERSION_PLAIN, decode, encode};
use crate::trees::Snapshot;

/// Numbers that a sequence reserves first. Each further reservation is twice as large.
const RESERVED_MIN: u64 = 32;
/// Numbers that a sequence reserves at most, unless it is asked for more at once.
const RESERVED_MAX: u64 = 512;

/// A sequence, in one of its epochs.
type Key = (u32, u32);

/// The numbers of all sequences of a database.
pub(crate) struct Sequences {
    storage: Arc<Storage>,
    states: Mutex<States>,
}

#[derive(Default)]
struct States {
    by_key: BTreeMap<Key, State>,
    /// The sequences that the newest catalog names. Only of these the drive has a state.
    named: BTreeSet<Key>,
    /// Where the states are in the drive, once a catalog says so.
    page: Option<Lpid>,
}

/// Where a sequence stands.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The last number.
    at: Place,
    /// Durably reserved up to here.
    reserved: Place,
    /// Reserved up to here, as soon as a commit is durable.
    pending: Option<(Place, CommitNo)>,
    /// How many numbers the next reservation is for.
    ahead: u64,
}

/// A place in the numbers of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    last: i64,
    /// Whether `last` was given. If not, it is the next number.
    given: bool,
    /// How often the sequence began again at its end.
    rounds: u64,
}

/// What the page of states says: number, epoch and place of each sequence.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Body {
    states: Vec<(u32, u32, Place)>,
}

/// Consecutive numbers of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// The first.
    pub first: i64,
    /// The distance from each to the next.
    pub increment: i64,
    /// How many.
    pub count: u64,
}

impl Place {
    /// Before the first number.
    fn before(def: &SequenceDef) -> Self {
        Self { last: def.first, given: false, rounds: 0 }
    }

    /// The next numbers, up to `count`, as far as the sequence has them, and the place after them.
    fn next(self, def: &SequenceDef, count: u64) -> Option<(SequenceNumbers, Self)> {
        let (last, increment) = (i128::from(self.last), i128::from(def.increment));
        let (min, max) = (i128::from(def.min), i128::from(def.max));
        let mut first = if self.given { last + increment } else { last };
        let mut rounds = self.rounds;
        if !(min..=max).contains(&first) {
            if !def.cycle {
                return None;
            }
            first = if increment > 0 { min } else { max };
            rounds += 1;
        }
        let room = if increment > 0 { max - first } else { first - min };
        let count = i128::from(count.max(1)).min(room / increment.abs() + 1);
        let last = first + (count - 1) * increment;
        let within = |n: i128| i64::try_from(n).expect("it lies between MINVALUE and MAXVALUE");
        let numbers = SequenceNumbers { first: within(first), increment: def.increment, count: count as u64 };
        Some((numbers, Self { last: within(last), given: true, rounds }))
    }

    /// Greater for a place that comes later.
    fn rank(self, def: &SequenceDef) -> (u64, i128, bool) {
        (self.rounds, i128::from(self.last) * i128::from(def.increment.signum()), self.given)
    }

    /// How many numbers lie between it and a later place of the same round.
    fn numbers_to(self, later: Self, def: &SequenceDef) -> u64 {
        match self.rounds == later.rounds {
            true => self.last.abs_diff(later.last) / def.increment.unsigned_abs(),
            false => u64::MAX,
        }
    }
}

impl State {
    fn new(at: Place) -> Self {
        Self { at, reserved: at, pending: None, ahead: RESERVED_MIN }
    }

    /// What the drive has, or will have.
    fn written(&self) -> Place {
        self.pending.map_or(self.reserved, |(place, _)| place)
    }
}

impl Sequences {
    /// The numbers of the sequences that `objects` names, as `page` of the drive has them.
    ///
    /// # Errors
    /// When the page is damaged, or the drive fails.
    pub(crate) fn open(storage: Arc<Storage>, current: &Snapshot) -> Result<Self, EngineError> {
        let (objects, page) = current.tables_state().objects();
        let body: Body = match page {
            Some(lpid) => decode(PageKind::Sequences, lpid, &current.view().read_page(lpid)?)?,
            None => Body::default(),
        };
        let named = keys(objects);
        let is_named = |(id, epoch, _): &(u32, u32, Place)| named.contains(&(*id, *epoch));
        let has_others = !body.states.iter().all(is_named);
        let known = body.states.into_iter().filter(is_named);
        let by_key = known.map(|(id, epoch, place)| ((id, epoch), State::new(place))).collect();
        let states = Mutex::new(States { by_key, named, page });
        let sequences = Self { storage, states };
        if has_others {
            // A sequence that gets the number of one that a crash has undone must not go on from there.
            match sequences.write(&sequences.states.lock(), None) {
                Err(e) if e.is_of_writes() => {}
                written => drop(written?),
            }
        }
        Ok(sequences)
    }

    /// The next `count` numbers of a sequence, or fewer, but at least one: those before its end.
    ///
    /// # Errors
    /// [`EngineError::SequenceEnd`]; when the drive fails, or takes no writes.
    pub(crate) fn next(
        &self,
        name: &str,
        def: &SequenceDef,
        count: u64,
    ) -> Result<SequenceNumbers, EngineError> {
        let mut states = self.states.lock();
        let key = (def.id, def.epoch);
        let mut state = states.by_key.get(&key).copied().unwrap_or_else(|| State::new(Place::before(def)));
        let Some((numbers, at)) = state.at.next(def, count) else {
            let (name, limit) = (name.to_owned(), if def.increment > 0 { def.max } else { def.min });
            return Err(EngineError::SequenceEnd { name, is_max: def.increment > 0, limit });
        };
        state.at = at;
        if !states.named.contains(&key) {
            states.by_key.insert(key, state);
            return Ok(numbers);
        }
        if let Some((place, commit)) = state.pending
            && self.storage.store().is_durable(commit)
        {
            (state.reserved, state.pending) = (place, None);
        }
        let is_reserved = |place: Place| at.rank(def) <= place.rank(def);
        let is_low = at.numbers_to(state.written(), def) < state.ahead / 4;
        if !is_reserved(state.written()) || is_low {
            let ahead = at.next(def, state.ahead).map_or(at, |(_, place)| place);
            match self.write(&states, Some((key, ahead))) {
                Ok(commit) => {
                    state.pending = Some((ahead, commit));
                    state.ahead = (state.ahead * 2).min(RESERVED_MAX);
                }
                // These numbers are reserved. A drive that is full may have room by the time of the next ones.
                Err(e) if is_reserved(state.written()) && e.is_of_writes() => {}
                Err(e) => return Err(e),
            }
        }
        if !is_reserved(state.reserved) {
            self.storage.store().flush()?;
            (state.reserved, state.pending) = (state.written(), None);
        }
        states.by_key.insert(key, state);
        Ok(numbers)
    }

    /// `setval`: the next number is the one after `value`, or with `given` false `value` itself.
    ///
    /// # Errors
    /// When the drive fails, or takes no writes.
    pub(crate) fn set(&self, def: &SequenceDef, value: i64, given: bool) -> Result<(), EngineError> {
        let mut states = self.states.lock();
        let key = (def.id, def.epoch);
        let place = Place { last: value, given, rounds: 0 };
        if states.named.contains(&key) {
            self.write(&states, Some((key, place)))?;
            self.storage.store().flush()?;
        }
        states.by_key.insert(key, State::new(place));
        Ok(())
    }

    /// The last number, and whether it was given: if not, it is the next one.
    pub(crate) fn last(&self, def: &SequenceDef) -> (i64, bool) {
        let states = self.states.lock();
        let place = states.by_key.get(&(def.id, def.epoch)).map_or(Place::before(def), |s| s.at);
        (place.last, place.given)
    }

    /// Writes the page of states, with one that differs from what is noted. It is durable with the next sync.
    fn write(&self, states: &States, differs: Option<(Key, Place)>) -> Result<CommitNo, EngineError> {
        let lpid = states.page.expect("a catalog that names sequences names the page of their states");
        let noted = states.by_key.iter().map(|(&key, s)| (key, s.written()));
        let mut all: BTreeMap<Key, Place> = noted.filter(|(key, _)| states.named.contains(key)).collect();
        all.extend(differs);
        let body = Body { states: all.into_iter().map(|((id, epoch), place)| (id, epoch, place)).collect() };
        let page = encode(PageKind::Sequences, VERSION_PLAIN, lpid, &body);
        let store = self.storage.store();
        let page_bytes_max = store.identity().page_bytes_max as usize;
        if page.data.len() > page_bytes_max {
            let what = format!("the sequences take {} bytes, a page holds {page_bytes_max}", page.data.len());
            return Err(EngineError::BadCatalog { lpid, what });
        }
        Ok(store.write(Batch { writes: vec![page], unforced: true, ..Batch::default() })?.commit)
    }

    /// Before the commit of a transaction after which the catalog names `objects`: the states of sequences that it made go to `page`,
    /// and are durable before the commit is.
    ///
    /// # Errors
    /// When the drive fails, or takes no writes.
    pub(super) fn prepare(&self, objects: &Objects, page: Option<Lpid>) -> Result<(), EngineError> {
        let keys = keys(objects);
        let mut states = self.states.lock();
        if keys.is_subset(&states.named) {
            return Ok(());
        }
        states.page = page;
        states.named.extend(keys);
        self.write(&states, None).map(drop)
    }

    /// Notes the sequences that the newest catalog names. The others keep their places: a transaction that began before may still take
    /// numbers from them.
    pub(super) fn published(&self, objects: &Objects) {
        self.states.lock().named = keys(objects);
    }

    /// Takes back what was reserved and not given.
    ///
    /// # Errors
    /// When the drive fails, or takes no writes.
    pub(crate) fn settle(&self) -> Result<(), EngineError> {
        let mut states = self.states.lock();
        let States { by_key, named, .. } = &mut *states;
        let mut ahead =
            by_key.iter_mut().filter(|(key, s)| named.contains(key) && s.written() != s.at).peekable();
        if ahead.peek().is_none() {
            return Ok(());
        }
        // From here on the next number is reserved again, whether or not this succeeds.
        ahead.for_each(|(_, s)| *s = State::new(s.at));
        self.write(&states, None)?;
        self.storage.store().flush()
    }
}

/// The sequences among objects.
fn keys(objects: &Objects) -> BTreeSet<Key> {
    objects::sequences(objects).map(|(_, def)| (def.id, def.epoch)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn def(first: i64, increment: i64, min: i64, max: i64, cycle: bool) -> SequenceDef {
        let (id, epoch, cache, declared) = (1, 0, 1, "bigint".to_owned());
        SequenceDef {
            id,
            epoch,
            declared,
            start: first,
            first,
            increment,
            min,
            max,
            cycle,
            cache,
            owner: None,
        }
    }

    #[test]
    fn numbers_follow_each_other_until_the_end() {
        let check = |def: &SequenceDef, counts: &[u64], expected: &[Option<(i64, u64)>]| {
            let mut place = Place::before(def);
            for (&count, expected) in counts.iter().zip(expected) {
                let next = place.next(def, count);
                assert_eq!(next.map(|(n, _)| (n.first, n.count)), *expected, "{def:?}");
                if let Some((_, then)) = next {
                    assert!(place.rank(def) < then.rank(def), "{place:?} {then:?}");
                    place = then;
                }
            }
        };
        check(&def(1, 1, 1, 5, false), &[1, 3, 3, 1], &[Some((1, 1)), Some((2, 3)), Some((5, 1)), None]);
        check(&def(1, 1, 1, 3, true), &[2, 2, 1], &[Some((1, 2)), Some((3, 1)), Some((1, 1))]);
        check(&def(-1, -2, -6, -1, false), &[2, 9, 1], &[Some((-1, 2)), Some((-5, 1)), None]);
        check(&def(-1, -2, -6, -1, true), &[9, 1], &[Some((-1, 3)), Some((-1, 1))]);
        let ends = def(i64::MAX - 1, 7, i64::MIN, i64::MAX, false);
        check(&ends, &[9, 1], &[Some((i64::MAX - 1, 1)), None]);
        let wide = def(i64::MIN, i64::MAX, i64::MIN, i64::MAX, false);
        check(&wide, &[9, 1], &[Some((i64::MIN, 3)), None]);
    }
}
