//! The pattern matcher's keys are those of the paper, exclude no row that passes, and find as much by chance as theory says.

mod common;

use common::random::{self, Rng, TYPES};
use common::{naive, schema};
use lode_base::PageBuf;
use lode_base::wire::{Writer, read_whole};
use lode_page::matchable::field;
use lode_page::{Column, DataType, Value};
use lode_program::matcher::{Declined, KEYS_MAX, Limits, put_matcher, take_matcher};
use lode_program::{CompareOp, Expr, Matcher, Program};

fn keys_of(types: &[DataType], e: Expr) -> Result<Vec<Vec<u8>>, Declined> {
    let p = Program::check(schema(types), Some(e), vec![], false).expect("a good program");
    Matcher::of(&p, Limits::MOST, &|_| true).map(|m| m.keys().map(<[u8]>::to_vec).collect())
}

fn compare(op: CompareOp, c: u16, v: Value, t: DataType) -> Expr {
    Expr::compare(op, Expr::Column(c), Expr::Const(v, t))
}

fn like(c: u16, pattern: &str) -> Expr {
    Expr::Like { value: Box::new(Expr::Column(c)), pattern: pattern.into(), case_insensitive: false }
}

const TYPES_OF_PART: [DataType; 3] = [DataType::Integer, DataType::Text, DataType::Date];

#[test]
fn keys_are_those_of_the_paper() {
    let int = |op, v| compare(op, 0, Value::Int(v), DataType::Integer);
    let date = |op, days| compare(op, 2, Value::Int(days), DataType::Date);
    let check = |e: Expr, expected: &[&[u8]]| {
        let expected: Vec<Vec<u8>> = expected.iter().map(|k| k.to_vec()).collect();
        assert_eq!(keys_of(&TYPES_OF_PART, e.clone()), Ok(expected), "{e:?}");
    };
    // Query 1, and Q14 of TPC-H: 1995-09-01 to 1995-10-01.
    check(Expr::And(vec![int(CompareOp::Eq, 15), like(1, "%BRASS")]), &[b"BRASS", &[0x80, 0, 0, 0x0f]]);
    check(Expr::And(vec![date(CompareOp::GtEq, 9_374), date(CompareOp::Lt, 9_404)]), &[&[0x8f, 0x97]]);
    // 1994-01-01 to 1995-01-01: from 8F 94 21 to 8F 95 9F.
    check(Expr::And(vec![date(CompareOp::GtEq, 8_766), date(CompareOp::Lt, 9_131)]), &[&[0x8f]]);
    check(like(1, "MEDIUM POLISHED%"), &[b"MEDIUM POLISHED"]);
    check(like(1, "%special%requests%"), &[b"requests"]);
    check(like(1, "%a text of more than sixteen bytes%"), &[b"a text of more t"]);
    check(
        Expr::In { value: Box::new(Expr::Column(1)), list: vec![Value::text("MAIL"), Value::text("SHIP")] },
        &[b"MAIL", b"SHIP"],
    );
    // Of four keys the three that look for most.
    check(
        Expr::And(vec![int(CompareOp::Eq, 1), like(1, "%ab%"), like(1, "%abcdef"), like(1, "%xyz%")]),
        &[b"abcdef", &[0x80, 0, 0, 1], b"xyz"],
    );
    let declined = |e: Expr, why| assert_eq!(keys_of(&TYPES_OF_PART, e.clone()), Err(why), "{e:?}");
    declined(int(CompareOp::NotEq, 3), Declined::NoKey);
    declined(int(CompareOp::Lt, 3), Declined::NoKey);
    declined(Expr::Not(Box::new(like(1, "%special%"))), Declined::NoKey);
    declined(Expr::Or(vec![int(CompareOp::Eq, 3), int(CompareOp::Gt, 7)]), Declined::NoKey);
    declined(like(1, "%_%"), Declined::NoKey);
    declined(Expr::Or((0..4).map(|v| int(CompareOp::Eq, v)).collect()), Declined::TooManyKeys);
}

#[test]
fn and_and_or_are_said_of_pages() {
    let both = Matcher::of_keys(&[b"abc", b"xyz"], 1 << 3).unwrap();
    assert!(both.may_match(b"..xyz..abc") && !both.may_match(b"..abc..ab") && !both.may_match(b"xyz"));
    let either = Matcher::of_keys(&[b"abc", b"xyz"], 1 << 1 | 1 << 2 | 1 << 3).unwrap();
    assert!(either.may_match(b"xyz") && either.may_match(b"abc") && !either.may_match(b"ab xy"));
}

#[test]
fn what_the_hardware_does_not_take_is_refused_in_a_line() {
    let refused = |keys: &[&[u8]], expected: &str| {
        assert_eq!(Matcher::of_keys(keys, 1).err().as_deref(), Some(expected));
    };
    refused(&[b"a".as_slice(); 4], "a matcher takes 1 to 3 keys, not 4");
    refused(&[], "a matcher takes 1 to 3 keys, not 0");
    refused(&[b"a".as_slice(), &[0; 17]], "a key of a matcher has 1 to 16 bytes, not 17");
    refused(&[b""], "a key of a matcher has 1 to 16 bytes, not 0");
}

/// A predicate most conditions of which have keys, with values that occur and others.
fn predicate(rng: &mut Rng, columns: &[Column], depth: usize) -> Expr {
    if depth > 0 {
        let terms = (0..=rng.below(3)).map(|_| predicate(rng, columns, depth - 1)).collect();
        return if rng.one_in(3) { Expr::Or(terms) } else { Expr::And(terms) };
    }
    if rng.one_in(8) {
        return random::predicate(rng, 1);
    }
    let with_fields: Vec<usize> = (0..TYPES.len())
        .filter(|&c| {
            !TYPES[c].is_float() && !matches!(TYPES[c], DataType::Boolean | DataType::Decimal { .. })
        })
        .collect();
    let c = rng.pick(&with_fields);
    let t = TYPES[c];
    let value = |rng: &mut Rng| match columns[c].value(rng.below(columns[c].rows())) {
        v if v.is_null() || rng.one_in(2) => random::value(rng, t),
        v => v,
    };
    let column = Expr::Column(c as u16);
    match value(rng) {
        Value::Bytes(b) if t == DataType::Text && rng.one_in(2) => {
            let text: Vec<char> = String::from_utf8_lossy(&b).chars().collect();
            let from = rng.below(text.len() + 1);
            let to = from + rng.below(text.len() - from + 1);
            like(c as u16, &format!("%{}%", text[from..to].iter().collect::<String>()))
        }
        v if rng.one_in(4) => Expr::In { value: Box::new(column), list: vec![v, value(rng), value(rng)] },
        Value::Int(v) if rng.one_in(2) => {
            let near = |v: i64| if Value::Int(v).fits(t) { v } else { 0 };
            let (low, high) = (near(v.saturating_sub(3)), near(v.saturating_add(3)));
            Expr::And(vec![
                compare(rng.pick(&[CompareOp::Gt, CompareOp::GtEq]), c as u16, Value::Int(low), t),
                compare(rng.pick(&[CompareOp::Lt, CompareOp::LtEq]), c as u16, Value::Int(high), t),
            ])
        }
        v => {
            let op =
                rng.pick(&[CompareOp::Eq, CompareOp::Eq, CompareOp::Lt, CompareOp::GtEq, CompareOp::NotEq]);
            let constant = Expr::Const(v, t);
            if rng.one_in(2) {
                Expr::compare(op, column, constant)
            } else {
                Expr::compare(op, constant, column)
            }
        }
    }
}

#[test]
fn no_row_that_passes_is_on_an_excluded_page() {
    let (mut excluded, mut passed) = (0, 0);
    for seed in 0..20_000 {
        let rng = &mut Rng::new(seed);
        let rows = rng.pick(&[1, 1, 2, 5]);
        let columns: Vec<_> = TYPES.iter().map(|&t| random::column(rng, t, rows)).collect();
        let depth = rng.below(3);
        let e = predicate(rng, &columns, depth);
        let p = Program::check(schema(&TYPES), Some(e), vec![], false).expect("a good program");
        let Ok(matcher) = Matcher::of(&p, Limits::MOST, &|_| true) else { continue };
        assert!(matcher.keys().count() <= KEYS_MAX);
        // Fields by column, as in a page of ours, or by row, as in MariaDB's.
        let places = (0..rows).flat_map(|row| (0..TYPES.len()).map(move |c| (c, row)));
        let mut places: Vec<(usize, usize)> = places.collect();
        if rng.one_in(2) {
            places.sort_unstable();
        }
        let (mut page, mut is_matchable) = (Vec::new(), true);
        for (c, row) in places {
            let (t, v) = (TYPES[c], columns[c].value(row));
            match field(t, &v) {
                Some(f) => page.extend_from_slice(&f),
                None => is_matchable &= v.is_null() || t != DataType::Date,
            }
        }
        if !is_matchable {
            continue;
        }
        let filter = p.filter().expect("it has one");
        let passes = |row| naive::passes(p.schema(), filter, &|c| columns[usize::from(c)].value(row));
        let (may, does) = (matcher.may_match(&page), (0..rows).any(passes));
        assert!(may || !does, "seed {seed}: {filter:?} with {matcher:?}");
        excluded += u32::from(!may);
        passed += u32::from(does);
    }
    assert!(excluded > 500 && passed > 500, "{excluded} pages were excluded, {passed} have rows that pass");
}

#[test]
fn keys_are_found_by_chance_as_often_as_theory_says() {
    const PAGES: u32 = 4000;
    const PAGE_BYTES: usize = 4096;
    let rng = &mut Rng::new(11);
    for key in [&[0x8f, 0x97][..], b"BR", &[0, 0, 0]] {
        let matcher = Matcher::of_keys(&[key], 1 << 1).unwrap();
        let mut found = 0;
        for _ in 0..PAGES {
            let page: Vec<u8> = (0..PAGE_BYTES / 8).flat_map(|_| rng.next().to_le_bytes()).collect();
            found += u32::from(matcher.may_match(&page));
        }
        // A key that overlaps itself comes in clumps: a run of three equal bytes goes on with 1 in 256.
        let own = if key.iter().all(|b| *b == key[0]) { 1.0 - 1.0 / 256.0 } else { 1.0 };
        let places = (PAGE_BYTES - key.len() + 1) as f64;
        let chance = 1.0 - (-own * places / 256f64.powi(key.len() as i32)).exp();
        let expected = chance * f64::from(PAGES);
        let sigma = (expected * (1.0 - chance)).sqrt();
        assert!(found > 0, "{key:?}");
        assert!(
            (f64::from(found) - expected).abs() <= 3.0 * sigma,
            "{key:?}: {found}, expected {expected} ± {sigma}"
        );
    }
}

#[test]
fn columns_without_fields_and_smaller_hardware_have_fewer_keys() {
    let p = |e| Program::check(schema(&TYPES_OF_PART), Some(e), vec![], false).unwrap();
    let both = p(Expr::And(vec![
        compare(CompareOp::Eq, 0, Value::Int(15), DataType::Integer),
        like(1, "%POLISHED BRASS"),
    ]));
    let keys = |limits, has_fields: &dyn Fn(u16) -> bool| {
        Matcher::of(&both, limits, has_fields).map(|m| m.keys().map(<[u8]>::to_vec).collect::<Vec<_>>())
    };
    assert_eq!(keys(Limits::MOST, &|c| c == 0), Ok(vec![vec![0x80, 0, 0, 15]]));
    assert_eq!(keys(Limits::MOST, &|_| false), Err(Declined::NoKey));
    let small = Limits { keys: 1, key_bytes: 6 };
    assert_eq!(keys(small, &|_| true), Ok(vec![b"POLISH".to_vec()]));
    let matcher = Matcher::of(&both, Limits::MOST, &|_| true).unwrap();
    assert!(matcher.is_within(Limits::MOST) && !matcher.is_within(small));
    // Of two alternatives none may be left out.
    let either =
        Expr::In { value: Box::new(Expr::Column(1)), list: vec![Value::text("ab"), Value::text("cd")] };
    assert_eq!(Matcher::of(&p(either), small, &|_| true), Err(Declined::NoKey));
}

#[test]
fn matchers_survive_the_wire_and_malformed_ones_do_not() {
    let read = |bytes: &[u8]| read_whole(&PageBuf::copy_from(bytes), take_matcher);
    let written = |keys: &[&[u8]], passes: u8| {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.count(keys.len());
        keys.iter().for_each(|k| w.bytes(k));
        w.u8(passes);
        bytes
    };
    let m = Matcher::of_keys(&[b"abc", &[0; 16]], 1 << 1 | 1 << 3).unwrap();
    let mut bytes = Vec::new();
    put_matcher(&mut Writer::new(&mut bytes), &m);
    assert_eq!((bytes.len(), &bytes), (m.link_bytes(), &written(&[b"abc", &[0; 16]], 1 << 1 | 1 << 3)));
    assert_eq!(read(&bytes).unwrap(), m);
    for cut in 0..bytes.len() {
        assert!(read(&bytes[..cut]).is_err(), "{cut} bytes");
    }
    for bad in [&[b"x".as_slice(); 4][..], &[&[b'x'; 17][..]], &[], &[b""]] {
        let e = read(&written(bad, 1)).unwrap_err().to_string();
        assert!(e.contains("keys that no matcher takes"), "{e}");
    }
}
