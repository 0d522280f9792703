//! What hosts registered for reads by the page index: programs, rules by which keys are collected, and the sets that were collected.
//!
//! ```text
//!   owner 4:  program 1 ──┐
//!             keys 7 ─────┴─► set, good for views from commit 20 to 33      34: a commit that changed a page of owner 4
//! ```
//!
//! Nothing of it is on the medium. Room for a set is taken when its rule is registered, so that a set that was collected is always kept.
//!
//! Invariants: a set is found only at views that show the pages that it was collected from, and by the program that it was collected by;
//! what is registered takes no more than its share of memory.
//! Source: FLIXR §4.5: per-table indexes that are saved and used again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lode_base::{OwnerId, ViewId};
use lode_command::{Among, CommandError, KeysRule};
use lode_page::DataType;
use lode_program::{KeySet, Program};
use parking_lot::Mutex;

use crate::planted::{self, Planted};

/// Bytes of what is kept beside a program or a set.
const HEADER_BYTES: u64 = 256;
/// A program in memory has its plan beside its expressions, and takes up to so many times its bytes on the link.
const PLANNED: u64 = 4;

/// An owner and a number of its choice.
type Name = (u32, u32);

/// What is registered.
pub(crate) struct Registered {
    bytes_max: u64,
    inner: Mutex<Inner>,
    /// Whether there are keys, of which commits have to tell.
    has_keys: AtomicBool,
}

#[derive(Default)]
struct Inner {
    programs: BTreeMap<Name, (u64, Arc<Program>)>,
    keys: BTreeMap<Name, Keys>,
    registrations: u64,
    /// Bytes that all of it takes, or may take.
    bytes: u64,
}

/// Registered keys.
struct Keys {
    rule: KeysRule,
    registration: u64,
    /// The owner's pages are since this commit what they are now.
    stands_since: u64,
    saved: Option<Saved>,
}

/// A set that was collected.
struct Saved {
    /// The registration of the program that it was collected by.
    program: u64,
    set: Arc<KeySet>,
    data_type: DataType,
    /// The first commit that shows the pages it was collected from, and the first after that which does not.
    from: u64,
    until: u64,
}

/// Where a set goes that is being collected.
#[derive(Clone, Debug)]
pub(crate) struct KeysPlace {
    name: Name,
    registration: u64,
    /// The number of the program, and its registration.
    program: (u32, u64),
    /// What the view shows that the pages are read at.
    commit: u64,
}

impl Registered {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, inner: Mutex::default(), has_keys: AtomicBool::new(false) }
    }

    /// Registers a program, or forgets one.
    ///
    /// # Errors
    /// When there is no memory for it, or nothing to forget; then all stays as it was.
    pub(crate) fn set_program(
        &self,
        owner: OwnerId,
        number: u32,
        program: Option<Arc<Program>>,
    ) -> Result<(), CommandError> {
        let mut inner = self.inner.lock();
        let name = (owner.raw(), number);
        let old = inner.programs.get(&name).map(|(registration, p)| (*registration, program_bytes(p)));
        let old_bytes = old.map_or(0, |(_, bytes)| bytes);
        match program {
            None if old.is_none() => return Err(CommandError::no_program(owner, number)),
            None => drop(inner.programs.remove(&name)),
            Some(p) if p.aggregation().is_some() => {
                let what = "a registered program filters pages: it has no aggregation";
                return Err(CommandError::Invalid(what.into()));
            }
            Some(p) => {
                let needed_bytes = program_bytes(&p);
                self.check_room(&inner, needed_bytes, old_bytes)?;
                inner.bytes += needed_bytes;
                inner.registrations += 1;
                let registration = inner.registrations;
                inner.programs.insert(name, (registration, p));
            }
        }
        inner.bytes -= old_bytes;
        // Nobody finds a set again that the old program collected.
        for keys in inner.keys_of(owner) {
            keys.saved.take_if(|s| old.is_some_and(|(registration, _)| s.program == registration));
        }
        Ok(())
    }

    /// Registers keys, or forgets them with their set. `newest` is the newest commit, and none is being installed.
    ///
    /// # Errors
    /// As of programs, and for a set of an odd size.
    pub(crate) fn set_keys(
        &self,
        owner: OwnerId,
        number: u32,
        rule: Option<KeysRule>,
        newest: u64,
    ) -> Result<(), CommandError> {
        let mut inner = self.inner.lock();
        let name = (owner.raw(), number);
        let old_bytes = inner.keys.get(&name).map_or(0, |k| keys_bytes(&k.rule));
        match rule {
            None => {
                inner.keys.remove(&name).ok_or(CommandError::no_keys_rule(owner, number))?;
            }
            Some(rule) => {
                rule.form.check().map_err(|e| CommandError::Invalid(e.to_string()))?;
                self.check_room(&inner, keys_bytes(&rule), old_bytes)?;
                inner.bytes += keys_bytes(&rule);
                inner.registrations += 1;
                let registration = inner.registrations;
                inner.keys.insert(name, Keys { rule, registration, stands_since: newest, saved: None });
            }
        }
        inner.bytes -= old_bytes;
        self.has_keys.store(!inner.keys.is_empty(), Ordering::Relaxed);
        Ok(())
    }

    fn check_room(&self, inner: &Inner, needed_bytes: u64, old_bytes: u64) -> Result<(), CommandError> {
        let free_bytes = self.bytes_max.saturating_sub(inner.bytes - old_bytes);
        match needed_bytes > free_bytes {
            true => Err(CommandError::NoMemory { needed_bytes, free_bytes }),
            false => Ok(()),
        }
    }

    /// A program.
    ///
    /// # Errors
    /// When it is not registered.
    pub(crate) fn program(&self, owner: OwnerId, number: u32) -> Result<Arc<Program>, CommandError> {
        let inner = self.inner.lock();
        let found = inner.programs.get(&(owner.raw(), number)).map(|(_, p)| p.clone());
        found.ok_or(CommandError::no_program(owner, number))
    }

    /// The rule by which keys are collected at commit `commit`, the program with which they are, and where the set goes.
    ///
    /// # Errors
    /// When it is not registered.
    pub(crate) fn keys_place(
        &self,
        (owner, number): (OwnerId, u32),
        program: u32,
        commit: u64,
    ) -> Result<(KeysRule, Arc<Program>, KeysPlace), CommandError> {
        let inner = self.inner.lock();
        let name = (owner.raw(), number);
        let keys = inner.keys.get(&name).ok_or(CommandError::no_keys_rule(owner, number))?;
        let found = inner.programs.get(&(owner.raw(), program));
        let (registered, p) = found.ok_or(CommandError::no_program(owner, program))?;
        let (registration, program) = (keys.registration, (program, *registered));
        Ok((keys.rule, p.clone(), KeysPlace { name, registration, program, commit }))
    }

    /// Keeps a set that was collected.
    ///
    /// # Errors
    /// When its rule or its program was forgotten or replaced meanwhile.
    pub(crate) fn save(
        &self,
        place: KeysPlace,
        set: KeySet,
        data_type: DataType,
    ) -> Result<(), CommandError> {
        let mut inner = self.inner.lock();
        let (owner, (program, registered)) = (place.name.0, place.program);
        if inner.programs.get(&(owner, program)).is_none_or(|(registration, _)| *registration != registered) {
            return Err(CommandError::no_program(OwnerId::new(owner), program));
        }
        let is_it = |k: &&mut Keys| k.registration == place.registration;
        let Some(keys) = inner.keys.get_mut(&place.name).filter(is_it) else {
            return Err(CommandError::no_keys_rule(OwnerId::new(place.name.0), place.name.1));
        };
        debug_assert!(
            set.link_bytes() <= keys.rule.form.bytes_max() as usize,
            "a set is no longer than its room"
        );
        let stands = || keys.stands_since <= place.commit;
        let (from, until) = match planted::instead(Planted::KeysCollectedLate, stands, || true) {
            true => (keys.stands_since, u64::MAX),
            // The pages changed since. What else changed them, before and after that view, is not known.
            false => (place.commit, place.commit + 1),
        };
        keys.saved = Some(Saved { program: registered, set: Arc::new(set), data_type, from, until });
        Ok(())
    }

    /// The set of these keys at `view`, which shows `commit`, and the type of the keys.
    ///
    /// # Errors
    /// When they are not registered, or were not collected from what the view shows by the program that is named.
    pub(crate) fn keys(
        &self,
        among: &Among,
        view: ViewId,
        commit: u64,
    ) -> Result<(Arc<KeySet>, DataType), CommandError> {
        let Among { owner, keys: number, program, .. } = *among;
        let inner = self.inner.lock();
        let keys = inner.keys.get(&(owner.raw(), number)).ok_or(CommandError::no_keys_rule(owner, number))?;
        let program = inner.programs.get(&(owner.raw(), program));
        let (program, _) = program.ok_or(CommandError::no_program(owner, among.program))?;
        let shows = |s: &Saved| {
            s.from <= commit && planted::instead(Planted::KeysStale, || commit < s.until, || true)
        };
        let is_of = |s: &Saved| planted::instead(Planted::KeysOfProgram, || s.program == *program, || true);
        let found = keys.saved.as_ref().filter(|s| shows(s) && is_of(s));
        found.map(|s| (s.set.clone(), s.data_type)).ok_or(CommandError::NoKeys { owner, number, view })
    }

    /// Whether commits have to tell whose pages they change.
    #[inline]
    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys.load(Ordering::Relaxed)
    }

    /// Commit `commit` changes pages of these owners. No view shows it yet.
    pub(crate) fn changed(&self, owners: &BTreeSet<OwnerId>, commit: u64) {
        let mut inner = self.inner.lock();
        for &owner in owners {
            for keys in inner.keys_of(owner) {
                keys.stands_since = commit;
                if let Some(s) = &mut keys.saved {
                    s.until = s.until.min(commit);
                }
            }
        }
    }
}

impl Inner {
    /// The keys of an owner.
    fn keys_of(&mut self, owner: OwnerId) -> impl Iterator<Item = &mut Keys> {
        self.keys.range_mut((owner.raw(), 0)..=(owner.raw(), u32::MAX)).map(|(_, keys)| keys)
    }
}

fn program_bytes(p: &Program) -> u64 {
    HEADER_BYTES + PLANNED * p.link_bytes() as u64
}

fn keys_bytes(rule: &KeysRule) -> u64 {
    HEADER_BYTES + u64::from(rule.form.bytes_max())
}
