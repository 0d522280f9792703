//! An index kind of your own: for each column, 64 bits that tell which values a page can have.
//!
//! ```text
//!   value ─► hash ─► one of 64 bits      part of an entry: | a column: bits 8 | ...
//!   c = 15 ─► its bit is not set ─► No   the range 10..30 says Maybe
//! ```
//!
//! `docs/extending.md` explains each step. To make it part of Lode, put the kind into a file of
//! `crates/program/src/index/` and add a line to `KINDS`. Rules that name it can then be read back from the medium.

use std::convert::Infallible;

use lode_base::PageBuf;
use lode_page::{Column, ColumnType, DataType, Schema, Value, Values};
use lode_program::index::{
    EntryPart, IndexKind, KindColumns, Leaf, Outcomes, PartColumn, kept, range::RANGE, verdict,
};
use lode_program::{ColumnSource, CompareOp, Expr, IndexRule, Program, Verdict};

/// The kind "members": a bit for each value that occurs, among 64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members;

/// Longer lists are not looked up, since so many values need most of the bits anyway.
const POINTS_MAX: usize = 64;

impl IndexKind for Members {
    fn id(&self) -> u8 {
        200
    }

    fn name(&self) -> &'static str {
        "members"
    }

    fn keeps(&self, t: DataType) -> bool {
        // Floats are left out: equal floats can have different bits.
        !t.is_float()
    }

    fn column_bytes(&self, _: DataType, _: &[u8]) -> usize {
        8
    }

    fn build(&self, _: &[PartColumn], columns: &[Column], out: &mut Vec<u8>) {
        for c in columns {
            let values = (0..c.rows()).map(|row| c.value(row)).filter(|v| *v != Value::Null);
            out.extend(values.fold(0, |bits, v| bits | bit(&v)).to_le_bytes());
        }
    }

    fn check(&self, _: &EntryPart<'_>) -> Result<(), usize> {
        // Every combination of 64 bits is possible, so nothing needs checking.
        Ok(())
    }

    fn widen(&self, union: &mut [u8], part: &EntryPart<'_>) {
        union.iter_mut().zip(part.bytes).for_each(|(u, b)| *u |= b);
    }

    fn outcomes(&self, part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Outcomes {
        let Some((column, values)) = leaf.points(POINTS_MAX) else { return Outcomes::ANY };
        let Some(place) = part.place(column, leaf.data_type(column)) else { return Outcomes::ANY };
        let part = bits(part, place);
        // A set bit proves nothing, since another value may have set it. So the answer is never Yes.
        Outcomes { can_be_true: values.iter().any(|v| part & bit(v) != 0), ..Outcomes::ANY }
    }

    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize> {
        (0..part.columns.len()).find(|&i| bits(own, i) & !bits(part, i) != 0)
    }
}

fn bits(part: &EntryPart<'_>, place: usize) -> u64 {
    u64::from_le_bytes(*part.of(place).first_chunk().expect("8 bytes a column"))
}

/// The bit of a value.
fn bit(v: &Value) -> u64 {
    let fold = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    let bytes = |b: &[u8]| b.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| fold(h, b));
    let hash = match v {
        Value::Boolean(b) => bytes(&[u8::from(*b)]),
        Value::Int(i) => bytes(&i.to_le_bytes()),
        Value::Decimal(d) => bytes(&d.to_le_bytes()),
        Value::Bytes(b) => bytes(b),
        Value::Null | Value::Real(_) | Value::Double(_) => unreachable!("the kind keeps no such values"),
    };
    1 << (hash >> 58)
}

/// A page of one column.
struct Page(Column);

impl ColumnSource for Page {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn column(&mut self, _: u16) -> Result<Column, Infallible> {
        Ok(self.0.clone())
    }
}

fn main() {
    let t = DataType::Integer;
    let schema = Schema {
        version: 1,
        columns: vec![ColumnType { data_type: t, nullable: false }],
        absent: Vec::new(),
    };
    let values = Values::Fixed { width: 4, data: PageBuf::from_values(&[10i32, 20, 30]) };
    let mut page = Page(Column::new(t, 3, None, values).expect("a good column"));
    let equals = |v| Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::Const(Value::Int(v), t));
    let rules: [(&str, Vec<KindColumns>); 3] = [
        ("range", vec![(&RANGE, kept(&[0]))]),
        ("members", vec![(&Members, kept(&[0]))]),
        ("range and members", vec![(&RANGE, kept(&[0])), (&Members, kept(&[0]))]),
    ];
    println!("a page of 10, 20 and 30");
    for (name, kinds) in rules {
        let rule = IndexRule::of_kinds(schema.clone(), kinds).expect("a good rule");
        let entry = rule.entry(&mut page).expect("a good page");
        let said: Vec<Verdict> = [9, 15, 20]
            .into_iter()
            .map(|v| {
                let p = Program::check(schema.clone(), Some(equals(v)), vec![0], false);
                verdict(&p.expect("a good program"), &rule, &entry)
            })
            .collect();
        println!(
            "{name}, {} bytes: = 9 {:?}, = 15 {:?}, = 20 {:?}",
            rule.entry_bytes(),
            said[0],
            said[1],
            said[2]
        );
        assert_ne!(said[2], Verdict::No, "20 is there");
    }
}
