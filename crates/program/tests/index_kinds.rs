//! Properties that every index kind must have, checked for all kinds of the table and the kind of the example.

mod common;
#[path = "../examples/index_kind.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use common::random::{self, Rng, TYPES};
use common::{Memory, naive, schema};
use lode_page::{DataType, Value};
use lode_program::index::{
    IndexKind, KINDS, KeptColumn, KindColumns, bitmap, covers, kept, kind, range::RANGE, verdict,
};
use lode_program::{CompareOp, Expr, IndexEntry, IndexRule, Program, Verdict, key_of};
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
        let columns: Vec<u16> = (0..TYPES.len() as u16).filter(keeps).filter(|_| !rng.one_in(3)).collect();
        let kept = columns.iter().map(|&column| KeptColumn { column, form: form(rng, k, column) });
        kinds.push((k, kept.collect()));
    }
    if kinds.is_empty() {
        kinds.push((&RANGE, kept(&[0])));
    }
    kinds
}

/// A random form of a column for a kind.
fn form(rng: &mut Rng, k: &dyn IndexKind, column: u16) -> Box<[u8]> {
    match k.name() {
        "prefix" => Box::new([rng.pick(&[1, 2, 3, 8, 9])]),
        "bloom" | "trigram" => rng.pick(&[2u16, 3, 9]).to_le_bytes().into(),
        "bitmap" => {
            let t = TYPES[usize::from(column)];
            let values = random::column(rng, t, 9);
            let mut domain: Vec<Value> = (0..9).map(|row| values.value(row)).collect();
            // A column may have only NULLs.
            domain.push(match t {
                DataType::Boolean => Value::Boolean(true),
                DataType::Decimal { .. } => Value::Decimal(1),
                t if t.is_variable() => Value::text("a"),
                _ => Value::Int(1),
            });
            bitmap::domain(&domain)
        }
        _ => Box::default(),
    }
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
    fn the_entry_of_several_pages_excludes_no_row_of_them(seed: u64) {
        let rng = &mut Rng::new(seed);
        let rule = IndexRule::of_kinds(schema(&TYPES), kinds(rng)).unwrap();
        let mut pages: Vec<Memory> = (0..1 + rng.below(4)).map(|_| page(rng)).collect();
        let entries: Vec<IndexEntry> = pages.iter_mut().map(|p| rule.entry(p).unwrap()).collect();
        let mut union = entries[0].clone();
        entries[1..].iter().for_each(|e| rule.widen(&mut union, e));
        let p = program(rng);
        let filter = p.filter().unwrap();
        for memory in &pages {
            let passes = |row: &usize| {
                naive::passes(p.schema(), filter, &|c| memory.columns[usize::from(c)].value(*row))
            };
            let passed = (0..memory.rows).filter(passes).count();
            match verdict(&p, &rule, &union) {
                Verdict::No => prop_assert_eq!(passed, 0, "{:?} of {:?}", filter, rule),
                Verdict::Maybe => {}
                Verdict::Yes => prop_assert_eq!(passed, memory.rows, "{:?} of {:?}", filter, rule),
            }
        }
        for (e, &c) in entries.iter().flat_map(|e| rule.columns().iter().map(move |c| (e, c))) {
            let (Some(all), Some(one)) = (rule.bounds(&union, c), rule.bounds(e, c)) else { continue };
            let within = |(min, max)| all.keys.is_some_and(|(a, b)| a <= min && max <= b);
            prop_assert!(all.has_nulls >= one.has_nulls && one.keys.is_none_or(within), "column {c}");
        }
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
    fn a_part_of_a_text_of_the_page_may_match(seed: u64) {
        let rng = &mut Rng::new(seed);
        let t = DataType::Text;
        let texts: Vec<String> = (0..3).map(|_| (0..rng.below(12)).map(|_| rng.pick(&['a', 'b'])).collect()).collect();
        let values: Vec<Value> = texts.iter().map(|t| Value::text(t)).collect();
        let mut memory = Memory::new(3, vec![random::plain(rng, t, &values)]);
        let forms = KINDS.iter().filter(|k| k.keeps(t)).map(|k| {
            let form = match k.name() {
                "bitmap" => bitmap::domain(&values[..1]),
                // Large enough that a trigram that is missing shows.
                "bloom" | "trigram" => 99u16.to_le_bytes().into(),
                _ => form(rng, *k, 10),
            };
            (*k, vec![KeptColumn { column: 0, form }])
        });
        let rule = IndexRule::of_kinds(schema(&[t]), forms.collect()).unwrap();
        let entry = rule.entry(&mut memory).unwrap();
        let text = rng.pick(&texts);
        let from = rng.below(text.len() + 1);
        let part = &text[from..from + rng.below(text.len() - from + 1)];
        let column = Box::new(Expr::Column(0));
        let filters = [
            Expr::Like { value: column.clone(), pattern: format!("%{part}%"), case_insensitive: false },
            Expr::Like { value: column.clone(), pattern: format!("{}%", &text[..from]), case_insensitive: false },
            Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::Const(Value::text(&text), t)),
        ];
        for filter in filters {
            let p = Program::check(schema(&[t]), Some(filter.clone()), vec![], false).unwrap();
            prop_assert_ne!(verdict(&p, &rule, &entry), Verdict::No, "{:?} of {:?}", filter, texts);
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
    let rule =
        IndexRule::of_kinds(schema(&[DataType::Integer]), vec![(&example::Members, kept(&[0]))]).unwrap();
    let e = IndexRule::from_bytes(&rule.to_bytes()).unwrap_err();
    assert_eq!(e.to_string(), "bad index rule: an index kind that this version does not know");
    let floats = IndexRule::of_kinds(schema(&[DataType::Double]), vec![(&example::Members, kept(&[0]))]);
    assert!(floats.is_err(), "the kind keeps no floats");
}

/// What each kind excludes that the range of a page does not.
#[test]
fn kinds_exclude_what_ranges_do_not() {
    let t = DataType::Text;
    let values = ["customer 1 likes tea", "customer 1 likes wine"].map(Value::text);
    let like = |pattern: &str| Expr::Like {
        value: Box::new(Expr::Column(0)),
        pattern: pattern.into(),
        case_insensitive: false,
    };
    let equals =
        |text: &str| Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::Const(Value::text(text), t));
    let cases = [
        ("range", equals("customer 2"), Verdict::Maybe),
        ("range", equals("dustomer 2"), Verdict::No),
        ("prefix", equals("customer 2"), Verdict::No),
        ("prefix", like("customer 2%"), Verdict::No),
        ("prefix", like("customer 1%"), Verdict::Maybe),
        ("bloom", equals("customer 1 likes teas"), Verdict::No),
        ("bloom", equals("customer 1 likes tea"), Verdict::Maybe),
        ("bitmap", equals("customer 1 likes beer"), Verdict::No),
        ("bitmap", equals("customer 1 likes wine"), Verdict::Maybe),
        ("trigram", like("%beer%"), Verdict::No),
        ("trigram", like("%like%wine"), Verdict::Maybe),
        ("trigram", equals("customer 1 likes beer"), Verdict::No),
    ];
    for (name, filter, expected) in cases {
        let k = *KINDS.iter().find(|k| k.name() == name).unwrap();
        let form: Box<[u8]> = match name {
            "prefix" => Box::new([20]),
            "bitmap" => bitmap::domain(&["customer 1 likes tea", "customer 1 likes beer"].map(Value::text)),
            "range" => Box::default(),
            _ => 60u16.to_le_bytes().into(),
        };
        let rule =
            IndexRule::of_kinds(schema(&[t]), vec![(k, vec![KeptColumn { column: 0, form }])]).unwrap();
        let mut memory = Memory::new(2, vec![random::plain(&mut Rng::new(1), t, &values)]);
        let entry = rule.entry(&mut memory).unwrap();
        let p = Program::check(schema(&[t]), Some(filter.clone()), vec![], false).unwrap();
        assert_eq!(verdict(&p, &rule, &entry), expected, "{name}: {filter:?}");
    }
}
