//! Programs, index rules and index entries on the wire.
//!
//! ```text
//!   program:     schema, has filter 1 [expression], columns of the projection 4 x 2, slots 1, has aggregation 1 [aggregation]
//!   aggregation: keys 4 x 2, calls 4, each: kind 1 (0 rows, 1 count, 2 sum, 3 least, 4 greatest) [expression]; groups 4
//!   expression:  kind 1, then by kind:
//!                0 column 2     1 value, type     2 compare: operator 1, two     3 AND: n, terms     4 OR: n, terms
//!                5 NOT: one     6 IS NULL: one    7 IN: one, n, values           8 LIKE: folds case 1, pattern, one
//!                9 arithmetic: operator 1, two    10 cast: type, one
//!   index rule, index entry: length 4, bytes as on the medium
//! ```
//!
//! Invariant: a program that was read has passed [`Program::check`]. Reading never builds more depth, nodes or values
//! than the check allows.

use std::sync::Arc;

use lode_base::wire::{Malformed, Reader, Writer};
use lode_page::wire::{put_schema, put_type, put_value, take_schema, take_type, take_value};

use crate::check::{DEPTH_MAX, LIST_MAX, NODES_MAX};
use crate::keys::{put_keys, take_keys};
use crate::{Aggregation, ArithOp, Call, CompareOp, Expr, IndexEntry, IndexRule, Program};

/// Writes a program.
pub fn put_program(w: &mut Writer<'_>, p: &Program) {
    put_schema(w, p.schema());
    w.flag(p.filter().is_some());
    if let Some(filter) = p.filter() {
        put_expr(w, filter);
    }
    put_columns(w, p.projection());
    w.flag(p.slots());
    w.flag(p.aggregation().is_some());
    if let Some(a) = p.aggregation() {
        put_columns(w, &a.group_by);
        w.count(a.calls.len());
        a.calls.iter().for_each(|c| put_call(w, c));
        w.u32(a.groups_max);
    }
}

/// Reads a program, and checks it.
///
/// # Errors
/// When the bytes are not those of one, or it does not pass the check.
pub fn take_program(r: &mut Reader<'_>) -> Result<Program, Malformed> {
    let schema = take_schema(r)?;
    let mut nodes = NODES_MAX;
    let filter = if r.flag()? { Some(take_expr(r, 1, &mut nodes)?) } else { None };
    let projection = take_columns(r)?;
    let slots = r.flag()?;
    let program = Program::check(schema, filter, projection, slots);
    let program = program.map_err(|_| r.bad("a program that is not allowed"))?;
    if !r.flag()? {
        return Ok(program);
    }
    if slots || !program.projection().is_empty() {
        return Err(r.bad("a projection beside an aggregation"));
    }
    let group_by = take_columns(r)?;
    let calls = (0..r.count(1)?).map(|_| take_call(r)).collect::<Result<_, _>>()?;
    let aggregation = Aggregation { group_by, calls, groups_max: r.u32()? };
    program.with_aggregation(aggregation).map_err(|_| r.bad("an aggregation that is not allowed"))
}

fn put_columns(w: &mut Writer<'_>, columns: &[u16]) {
    w.count(columns.len());
    columns.iter().for_each(|&c| w.u16(c));
}

fn take_columns(r: &mut Reader<'_>) -> Result<Vec<u16>, Malformed> {
    (0..r.count(2)?).map(|_| r.u16()).collect()
}

fn put_call(w: &mut Writer<'_>, c: &Call) {
    let (kind, argument) = match c {
        Call::CountRows => (0, None),
        Call::Count(e) => (1, Some(e)),
        Call::Sum(e) => (2, Some(e)),
        Call::Min(e) => (3, Some(e)),
        Call::Max(e) => (4, Some(e)),
    };
    w.u8(kind);
    if let Some(e) = argument {
        put_expr(w, e);
    }
}

fn take_call(r: &mut Reader<'_>) -> Result<Call, Malformed> {
    let kind = r.u8()?;
    if kind == 0 {
        return Ok(Call::CountRows);
    }
    let make = match kind {
        1 => Call::Count,
        2 => Call::Sum,
        3 => Call::Min,
        4 => Call::Max,
        _ => return Err(r.bad("no kind of aggregate")),
    };
    take_expr(r, 1, &mut { NODES_MAX }).map(make)
}

const COMPARE: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq];
const ARITH: [ArithOp; 3] = [ArithOp::Add, ArithOp::Sub, ArithOp::Mul];

fn put_expr(w: &mut Writer<'_>, e: &Expr) {
    let place = |found: Option<usize>| found.expect("the table has every operator") as u8;
    let terms = |w: &mut Writer<'_>, kind, terms: &[Expr]| {
        w.u8(kind);
        w.count(terms.len());
        terms.iter().for_each(|t| put_expr(w, t));
    };
    match e {
        Expr::Column(c) => {
            w.u8(0);
            w.u16(*c);
        }
        Expr::Const(v, t) => {
            w.u8(1);
            put_value(w, v);
            put_type(w, *t);
        }
        Expr::Compare(op, a, b) => {
            w.u8(2);
            w.u8(place(COMPARE.iter().position(|o| o == op)));
            put_expr(w, a);
            put_expr(w, b);
        }
        Expr::And(all) => terms(w, 3, all),
        Expr::Or(all) => terms(w, 4, all),
        Expr::Not(a) => {
            w.u8(5);
            put_expr(w, a);
        }
        Expr::IsNull(a) => {
            w.u8(6);
            put_expr(w, a);
        }
        Expr::In { value, list } => {
            w.u8(7);
            put_expr(w, value);
            w.count(list.len());
            list.iter().for_each(|v| put_value(w, v));
        }
        Expr::InKeys { value, keys } => {
            w.u8(11);
            put_expr(w, value);
            put_keys(w, keys);
        }
        Expr::Like { value, pattern, case_insensitive } => {
            w.u8(8);
            w.flag(*case_insensitive);
            w.text(pattern);
            put_expr(w, value);
        }
        Expr::Arith(op, a, b) => {
            w.u8(9);
            w.u8(place(ARITH.iter().position(|o| o == op)));
            put_expr(w, a);
            put_expr(w, b);
        }
        Expr::Cast(a, t) => {
            w.u8(10);
            put_type(w, *t);
            put_expr(w, a);
        }
    }
}

/// An expression at this depth. `nodes` is the number of nodes that it may still have.
fn take_expr(r: &mut Reader<'_>, depth: usize, nodes: &mut usize) -> Result<Expr, Malformed> {
    if depth > DEPTH_MAX || *nodes == 0 {
        return Err(r.bad("an expression that is too large"));
    }
    *nodes -= 1;
    let one = |r: &mut Reader<'_>, nodes: &mut usize| take_expr(r, depth + 1, nodes).map(Box::new);
    let terms = |r: &mut Reader<'_>, nodes: &mut usize| {
        let count = r.count(1)?;
        if count > *nodes {
            return Err(r.bad("an expression that is too large"));
        }
        (0..count).map(|_| take_expr(r, depth + 1, nodes)).collect::<Result<Vec<_>, _>>()
    };
    Ok(match r.u8()? {
        0 => Expr::Column(r.u16()?),
        1 => Expr::Const(take_value(r)?, take_type(r)?),
        2 => {
            let op = COMPARE.get(usize::from(r.u8()?)).ok_or(r.bad("no comparison"))?;
            Expr::Compare(*op, one(r, nodes)?, one(r, nodes)?)
        }
        3 => Expr::And(terms(r, nodes)?),
        4 => Expr::Or(terms(r, nodes)?),
        5 => Expr::Not(one(r, nodes)?),
        6 => Expr::IsNull(one(r, nodes)?),
        7 => {
            let value = one(r, nodes)?;
            let count = r.count(1)?;
            if count > LIST_MAX {
                return Err(r.bad("a list that is too long"));
            }
            let list = (0..count).map(|_| take_value(r)).collect::<Result<_, _>>()?;
            Expr::In { value, list }
        }
        8 => {
            let case_insensitive = r.flag()?;
            let pattern = r.text()?.to_string();
            Expr::Like { value: one(r, nodes)?, pattern, case_insensitive }
        }
        9 => {
            let op = ARITH.get(usize::from(r.u8()?)).ok_or(r.bad("no arithmetic"))?;
            Expr::Arith(*op, one(r, nodes)?, one(r, nodes)?)
        }
        10 => {
            let t = take_type(r)?;
            Expr::Cast(one(r, nodes)?, t)
        }
        11 => {
            let value = one(r, nodes)?;
            Expr::InKeys { value, keys: Arc::new(take_keys(r)?) }
        }
        _ => return Err(r.bad("no kind of expression")),
    })
}

/// Writes an index rule.
pub fn put_rule(w: &mut Writer<'_>, rule: &IndexRule) {
    w.bytes(&rule.to_bytes());
}

/// Reads an index rule.
///
/// # Errors
/// When the bytes are not those of one.
pub fn take_rule(r: &mut Reader<'_>) -> Result<IndexRule, Malformed> {
    let bytes = r.bytes()?;
    IndexRule::from_bytes(bytes).map_err(|_| r.bad("no index rule"))
}

/// Writes an index entry.
pub fn put_entry(w: &mut Writer<'_>, e: &IndexEntry) {
    w.bytes(e.as_bytes());
}

/// Reads an index entry of an unknown rule.
///
/// # Errors
/// When no entry has so many bytes.
pub fn take_entry(r: &mut Reader<'_>) -> Result<IndexEntry, Malformed> {
    let bytes = r.bytes()?;
    IndexEntry::from_bytes(bytes).map_err(|_| r.bad("no index entry"))
}

#[cfg(test)]
mod tests {
    use lode_base::PageBuf;
    use lode_base::wire::read_whole;
    use lode_page::{ColumnType, DataType, Schema, Value};
    use proptest::prelude::*;

    use super::*;
    use crate::KeySet;

    const MONEY: DataType = DataType::Decimal { precision: 15, scale: 2 };

    fn schema() -> Schema {
        let types = [DataType::Integer, DataType::Text, MONEY, DataType::Boolean];
        Schema {
            version: 9,
            columns: types.map(|data_type| ColumnType { data_type, nullable: true }).into(),
            absent: Vec::new(),
        }
    }

    fn programs() -> Vec<Program> {
        let col = |c| Box::new(Expr::Column(c));
        let int = |i| Box::new(Expr::Const(Value::Int(i), DataType::Integer));
        let all = Expr::And(vec![
            Expr::Or(vec![
                Expr::Compare(CompareOp::GtEq, col(0), int(-7)),
                Expr::Not(Box::new(Expr::IsNull(col(2)))),
            ]),
            Expr::In { value: col(1), list: vec![Value::text("a"), Value::Null] },
            Expr::InKeys { value: col(0), keys: Arc::new(KeySet::of_numbers(vec![1, 5, 9])) },
            Expr::InKeys {
                value: col(2),
                keys: Arc::new(KeySet::of_numbers((0..1100).map(|i| i << 40).collect())),
            },
            Expr::Like { value: col(1), pattern: "%x_".into(), case_insensitive: false },
            Expr::Compare(
                CompareOp::NotEq,
                Box::new(Expr::Arith(ArithOp::Mul, col(0), int(3))),
                Box::new(Expr::Const(Value::Int(9), DataType::BigInt)),
            ),
            Expr::Compare(
                CompareOp::Lt,
                Box::new(Expr::Cast(col(0), DataType::Double)),
                Box::new(Expr::Const(Value::Double(0.5), DataType::Double)),
            ),
            Expr::Column(3),
        ]);
        let plain = Program::check(schema(), Some(all.clone()), vec![2, 0, 0], true).unwrap();
        let sum = Call::Sum(Expr::Arith(ArithOp::Mul, col(2), col(2)));
        let calls = vec![Call::CountRows, sum, Call::Count(Expr::Column(3)), Call::Min(Expr::Column(1))];
        let aggregation = Aggregation { group_by: vec![1, 0], calls, groups_max: 16 };
        let grouped = Program::check(schema(), Some(all), vec![], false).unwrap();
        vec![
            Program::check(schema(), None, vec![], false).unwrap(),
            plain,
            grouped.with_aggregation(aggregation).unwrap(),
        ]
    }

    fn bytes(p: &Program) -> Vec<u8> {
        let mut b = Vec::new();
        put_program(&mut Writer::new(&mut b), p);
        b
    }

    fn read(b: &[u8]) -> Result<Program, Malformed> {
        read_whole(&PageBuf::copy_from(b), take_program)
    }

    #[test]
    fn programs_come_back() {
        for p in programs() {
            let b = bytes(&p);
            let back = read(&b).unwrap();
            assert_eq!((back.schema(), back.filter()), (p.schema(), p.filter()));
            assert_eq!((back.projection(), back.slots()), (p.projection(), p.slots()));
            assert_eq!((back.aggregation(), back.group_types()), (p.aggregation(), p.group_types()));
            (0..b.len()).for_each(|n| assert!(read(&b[..n]).is_err(), "cut to {n}"));
        }
    }

    #[test]
    fn deep_and_wide_expressions_are_refused_before_they_are_built() {
        let deep = |n: usize| {
            let mut b = Vec::new();
            let mut w = Writer::new(&mut b);
            put_schema(&mut w, &schema());
            w.flag(true);
            (0..n).for_each(|_| w.u8(5));
            w.u8(0);
            w.u16(3);
            put_columns(&mut w, &[]);
            w.flag(false);
            w.flag(false);
            b
        };
        assert!(read(&deep(DEPTH_MAX - 1)).is_ok());
        assert!(read(&deep(DEPTH_MAX)).is_err());
        assert!(read(&deep(1 << 20)).is_err());
    }

    #[test]
    fn rules_and_entries_come_back() {
        let rule = IndexRule::new(schema(), vec![2, 0]).unwrap();
        let mut entry = vec![1; rule.entry_bytes()];
        entry[..5].copy_from_slice(&[5, 0, 0, 0, 2]);
        let entry = IndexEntry::decode(&rule, &entry).unwrap();
        let mut b = Vec::new();
        let mut w = Writer::new(&mut b);
        put_rule(&mut w, &rule);
        put_entry(&mut w, &entry);
        let read = |b: &[u8]| {
            let b = PageBuf::copy_from(b);
            let r = &mut Reader::new(&b);
            Ok::<_, Malformed>((take_rule(r)?, take_entry(r)?))
        };
        assert_eq!(read(&b), Ok((rule, entry)));
        (0..b.len()).for_each(|n| assert!(read(&b[..n]).is_err()));
    }

    proptest! {
        #[test]
        fn mutated_bytes_are_refused_or_a_program(which in 0usize..3, at: u16, to: u8, more: u16, other: u8) {
            let mut b = bytes(&programs()[which]);
            let n = b.len();
            b[usize::from(at) % n] = to;
            b[usize::from(more) % n] = other;
            if let Ok(p) = read(&b) {
                prop_assert!(read(&bytes(&p)).is_ok());
            }
        }
    }
}
