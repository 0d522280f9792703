//! Properties that every index kind must have, checked for all kinds of the table and the kind of the example.

mod common;
#[path = "../examples/index_kind.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use common::random::{self, Rng, TYPES};
use common::{Memory, naive, schema};
use lode_page::DataType;
use lode_program::index::{IndexKind, KINDS, KindColumns, covers, kind, verdict};
use lode_program::{IndexEntry, IndexRule, Program, Verdict, key_of};
use proptest::prelude::*;

/// The kinds of a random rule, each with columns that it can keep.
fn kinds(rng: &mut Rng) -> Vec<KindColumns> {
    let all = KINDS.iter().copied().chain([&example::Members as &dyn IndexKind]);
    let mut kinds: Vec<KindColumns> = Vec::new();
    for k in all {
        if rng.one_in(4) {
            continue;
        }
        let keeps = |c: &u16| k.keeps(TYPES[usize::from(*c)]);
        kinds.push((k, (0..TYPES.len() as u16).filter(keeps).filter(|_| !rng.one_in(3)).collect()));
    }
    if kinds.is_empty() {
        kinds.push((KINDS[0], vec![0]));
    }
    kinds
}

fn page(rng: &mut Rng) -> Memory {
    let rows = rng.pick(&[0, 1, 2, 7, 64, 65]);
    Memory::new(rows, TYPES.iter().map(|&t| random::column(rng, t, rows)).collect())
}

fn program(rng: &mut Rng) -> Program {
    let depth = rng.below(4);
    Program::check(schema(&TYPES), Some(random::predicate(rng, depth)), vec![], false)
        .expect("a good program")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_means_no_row_and_yes_means_every_row(seed: u64) {
        let rng = &mut Rng::new(seed);
        let (mut memory, p) = (page(rng), program(rng));
        let rule = IndexRule::of_kinds(schema(&TYPES), kinds(rng)).unwrap();
        let entry = rule.entry(&mut memory).unwrap();
        let filter = p.filter().unwrap();
        let passes = |row: &usize| {
            naive::passes(p.schema(), filter, &|c| memory.columns[usize::from(c)].value(*row))
        };
        let passed = (0..memory.rows).filter(passes).count();
        match verdict(&p, &rule, &entry) {
            Verdict::No => prop_assert_eq!(passed, 0, "{:?} of {:?}", filter, rule),
            Verdict::Maybe => {}
            Verdict::Yes => prop_assert_eq!(passed, memory.rows, "{:?} of {:?}", filter, rule),
        }
        prop_assert!(!covers(&p, &rule, &entry) || passed == memory.rows);
    }

    #[test]
    fn entries_are_sound_and_of_the_length_that_was_said(seed: u64) {
        let rng = &mut Rng::new(seed);
        let (mut memory, mut other) = (page(rng), page(rng));
        let rule = IndexRule::of_kinds(schema(&TYPES), kinds(rng)).unwrap();
        let entry = rule.entry(&mut memory).unwrap();
        prop_assert_eq!(entry.rows() as usize, memory.rows);
        prop_assert_eq!(entry.encoded_bytes(), rule.entry_bytes());
        prop_assert_eq!(IndexEntry::decode(&rule, entry.as_bytes()), Ok(entry.clone()));
        prop_assert_eq!(rule.denied(&entry, &entry), None);
        for &c in rule.columns() {
            let Some(bounds) = rule.bounds(&entry, c) else { continue };
            let column = &memory.columns[usize::from(c)];
            for row in 0..column.rows() {
                let within = match (key_of(column.data_type(), &column.value(row)), bounds.keys) {
                    (None, _) => bounds.has_nulls,
                    (Some(key), Some((min, max))) => min <= key && key <= max,
                    (Some(_), None) => false,
                };
                prop_assert!(within, "row {row} of column {c} is beyond {bounds:?}");
            }
        }
        // An entry that excludes a value of another page must be recognised as not that page's.
        let others = rule.entry(&mut other).unwrap();
        if rule.denied(&entry, &others).is_none() {
            let p = program(rng);
            let filter = p.filter().unwrap();
            let passes = |row: &usize| {
                naive::passes(p.schema(), filter, &|c| other.columns[usize::from(c)].value(*row))
            };
            let passed = (0..other.rows).any(|row| passes(&row));
            prop_assert!(!passed || entry.rows() == 0 || verdict(&p, &rule, &entry) != Verdict::No);
        }
    }

    #[test]
    fn any_bytes_of_the_right_length_are_harmless(seed: u64) {
        let rng = &mut Rng::new(seed);
        let p = program(rng);
        let rule = IndexRule::of_kinds(schema(&TYPES), kinds(rng)).unwrap();
        let mut forged = || {
            let corner = [0, 0xff, 0x80, 0x7f];
            let bytes: Vec<u8> = (0..rule.entry_bytes())
                .map(|_| if rng.one_in(2) { rng.pick(&corner) } else { rng.next() as u8 })
                .collect();
            IndexEntry::from_bytes(&bytes).unwrap()
        };
        let (a, b) = (forged(), forged());
        let _ = (verdict(&p, &rule, &a), rule.check(&a), rule.denied(&a, &b));
        for &c in rule.columns() {
            let _ = rule.bounds(&a, c);
        }
    }

    #[test]
    fn rules_of_the_table_come_back(seed: u64) {
        let rng = &mut Rng::new(seed);
        let mut kinds = kinds(rng);
        kinds.retain(|(k, _)| kind(k.id()).is_some());
        prop_assume!(!kinds.is_empty());
        let rule = IndexRule::of_kinds(schema(&TYPES), kinds).unwrap();
        prop_assert_eq!(IndexRule::from_bytes(&rule.to_bytes()), Ok(rule));
    }
}

#[test]
fn a_kind_that_the_table_lacks_is_not_read_back() {
    let rule = IndexRule::of_kinds(schema(&[DataType::Integer]), vec![(&example::Members, vec![0])]).unwrap();
    let e = IndexRule::from_bytes(&rule.to_bytes()).unwrap_err();
    assert_eq!(e.to_string(), "bad index rule: an index kind that this version does not know");
    let floats = IndexRule::of_kinds(schema(&[DataType::Double]), vec![(&example::Members, vec![0])]);
    assert!(floats.is_err(), "the kind keeps no floats");
}
