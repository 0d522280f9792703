//! Races on the reference store, and on one that loses writes.

use std::path::Path;
use std::time::Duration;

use super::race::Plan;
use super::*;
use crate::harness::RunError;
use crate::memory::MemoryStore;
use crate::store::{KeyValue, OneTree, Reader, StoreError, StoreResult, WriteBatch};

const SIZES: Sizes = Sizes { pages: 1500, records: 2000, record_bytes: 100, small_records: 500 };

fn plan(dir: &Path) -> Plan<'_> {
    Plan { dir, space: Space::Recycled, sizes: SIZES, slice: Duration::from_millis(20), rounds: 2, age: 1 }
}

fn entry(name: &str, make: fn() -> Box<dyn Contestant>) -> Entry {
    Entry { name: name.into(), settings: "none".into(), make: Box::new(move |_| Ok(make())) }
}

fn memory() -> Box<dyn Contestant> {
    let store = OneTree::new(MemoryStore::default(), "kv", ()).unwrap();
    Box::new(Contest::new(store, SIZES, 3))
}

#[test]
fn every_case_runs_and_tells_a_row_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let entries = [entry("one", memory), entry("two", memory)];
    let mut rows = Vec::new();
    for group in Case::GROUPS {
        race(group, &entries, &plan(dir.path()), &|| false, &mut |r| {
            rows.push(r.clone());
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(rows.len(), 2 * 8);
    for r in &rows {
        assert!(r.rate > 0.0 && r.burst >= r.rate * 0.9 && r.latencies.count > 0, "{r:?}");
        assert!(r.latencies.p99_us >= r.latencies.p50_us && r.mb_a_second > 0.0);
    }
    let amplified = |letter: char| {
        rows.iter().filter(move |r| r.case.starts_with(letter)).all(|r| r.write_amplification.is_none())
    };
    assert!(amplified('C') && amplified('D'), "reads write nothing");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "stores go away");
}

#[test]
fn fresh_stores_are_not_loaded_before_they_write() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { space: Space::Fresh, rounds: 1, ..plan(dir.path()) };
    let mut rows = 0;
    race(&[Case::PagesInTurn], &[entry("one", memory)], &plan, &|| false, &mut |r| {
        rows += 1;
        assert_eq!(r.space, Space::Fresh);
        Ok(())
    })
    .unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn it_stops_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let stopped =
        race(Case::GROUPS[0], &[entry("one", memory)], &plan(dir.path()), &|| true, &mut |_| Ok(()));
    assert!(matches!(stopped, Err(RunError::Stopped)));
}

/// A store that loses every tenth record.
struct Forgetful;
struct Nothing(u64);

impl KeyValue for Forgetful {
    type Reader<'a> = Nothing;
    type Batch<'a> = Nothing;

    fn reader(&self) -> StoreResult<Nothing> {
        Ok(Nothing(0))
    }

    fn batch(&self) -> StoreResult<Nothing> {
        Ok(Nothing(0))
    }

    fn settle(&self) -> StoreResult {
        Ok(())
    }
}

impl Reader for Nothing {
    fn get<R>(&mut self, _: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        self.0 += 1;
        Ok((!self.0.is_multiple_of(10)).then(|| f(&[0; 100])))
    }

    fn scan(&mut self, _: &[u8], mut f: impl FnMut(&[u8], &[u8]) -> bool) -> StoreResult {
        for n in 0..SIZES.records / 10 * 9 {
            if !f(&n.to_be_bytes(), &[0; 100]) {
                break;
            }
        }
        Ok(())
    }
}

impl WriteBatch for Nothing {
    fn put(&mut self, _: &[u8], _: &[u8]) -> StoreResult {
        Ok(())
    }

    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        Reader::get(self, key, f)
    }

    fn commit(self) -> StoreResult {
        Ok(())
    }
}

#[test]
fn lost_records_end_the_race() {
    let make = || Box::new(Contest::new(Forgetful, SIZES, 3)) as Box<dyn Contestant>;
    for case in [Case::Zipf, Case::Reads(1), Case::Scan] {
        let dir = tempfile::tempdir().unwrap();
        let failed = race(&[case], &[entry("one", make)], &plan(dir.path()), &|| false, &mut |_| Ok(()));
        assert!(matches!(failed, Err(RunError::Store(StoreError::Missing(_)))), "{case:?}: {failed:?}");
    }
}

#[test]
fn files_that_recycle_space_go_away() {
    let dir = tempfile::tempdir().unwrap();
    recycle(dir.path(), 1, &|| false).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
