//! Index rules: which columns of a table's pages are indexed, by which kinds.
//!
//! ```text
//!   bytes of a rule (little-endian):
//!   | format 1 | schema version 4 | columns 2 | a column: tag 1, precision 1, scale 1, nullable 1 | ... | kinds |
//!
//!   kinds, format 1:   | columns 2 | a column: number 2 | ...                     one kind: wide range
//!   kinds, format 2:   | parts 1 | a part: kind 1, columns 2, a column: number 2, ... | ...
//!   kinds, format 3:   | absent 2 | a value of an absent column: length 4, bytes | ... | as format 2
//!   kinds, format 4:   | absent | parts 1 | a part: kind 1, columns 2, a column: number 2, form: length 2, bytes, ... | ...
//! ```
//!
//! Invariant: a rule has exactly one encoding. A rule with a column that has a form has format 4. Of the others, a rule whose schema has
//! absent columns has format 3. Of the rest, a rule with only the kind "wide range" has format 1.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use lode_base::PageBuf;
use lode_base::wire::{Reader, Writer};
use lode_page::wire::{put_value, take_value};
use lode_page::{ColumnType, Constant, DataType, Schema};

use super::entry::{ENTRY_BYTES_MAX, HEADER_BYTES};
use super::index_kind::{Bounds, IndexKind};
use super::part::{EntryPart, KeptColumn, PartColumn};
use super::{IndexEntry, kind, part, range};
use crate::{ColumnSource, EvalError, ProgramError, check};

/// Most columns of one kind in a rule.
pub const INDEX_COLUMNS_MAX: usize = 32;
/// The format of rules with only the kind "wide range".
const FORMAT_RANGE: u8 = 1;
/// The format of rules with other kinds.
const FORMAT_KINDS: u8 = 2;
/// The format of rules whose schema has absent columns.
const FORMAT_ABSENT: u8 = 3;
/// The format of rules with columns that have a form.
const FORMAT_FORMS: u8 = 4;
/// Most bytes of the form of a column.
const FORM_BYTES_MAX: usize = 4096;

/// A kind and the columns that it keeps.
pub type KindColumns = (&'static dyn IndexKind, Vec<KeptColumn>);

/// Which columns of a table's pages are indexed, by which kinds, and the schema of the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRule {
    schema: Schema,
    parts: Arc<[Part]>,
    /// The columns of all parts, one after the other.
    columns: Vec<u16>,
}

/// What the entries of a rule are made of: its kinds, and the columns of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryForm(Arc<[Part]>);

/// A kind and the columns that it keeps.
#[derive(Clone)]
pub(super) struct Part {
    kind: &'static dyn IndexKind,
    columns: Vec<PartColumn>,
    /// Where its bytes lie in an entry.
    bytes: Range<usize>,
}

impl Part {
    pub(super) fn kind(&self) -> &'static dyn IndexKind {
        self.kind
    }

    pub(super) fn columns(&self) -> &[PartColumn] {
        &self.columns
    }

    pub(super) fn bytes(&self) -> &Range<usize> {
        &self.bytes
    }

    /// This part of `entry`, which has the length of the rule's entries.
    pub(super) fn in_entry<'a>(&'a self, entry: &'a IndexEntry) -> EntryPart<'a> {
        let bytes = &entry.as_bytes()[self.bytes.clone()];
        EntryPart { rows: entry.rows(), columns: &self.columns, bytes }
    }
}

impl PartialEq for Part {
    fn eq(&self, o: &Self) -> bool {
        (self.kind.id(), &self.columns) == (o.kind.id(), &o.columns)
    }
}

impl Eq for Part {}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<u16> = self.columns.iter().map(|c| c.column).collect();
        write!(f, "{} of {columns:?}", self.kind.name())
    }
}

impl IndexRule {
    /// A rule with only the kind "range", over at most [`INDEX_COLUMNS_MAX`] distinct columns.
    ///
    /// # Errors
    /// When a column does not exist or is named twice, or there are too many.
    pub fn new(schema: Schema, columns: Vec<u16>) -> Result<Self, ProgramError> {
        Self::of_kinds(schema, vec![(&range::RANGE, part::kept(&columns))])
    }

    /// A rule of distinct kinds, each over distinct columns.
    ///
    /// # Errors
    /// When there is no kind; when a kind, or a column of one kind, is named twice; when a column does not exist or
    /// has a type or a form that its kind cannot keep; when there are too many columns; when entries would be longer than
    /// [`ENTRY_BYTES_MAX`].
    pub fn of_kinds(schema: Schema, kinds: Vec<KindColumns>) -> Result<Self, ProgramError> {
        check::check_schema(&schema)?;
        if kinds.is_empty() {
            return Err(ProgramError::BadRule("it has no kind"));
        }
        let mut end = HEADER_BYTES;
        let mut parts: Vec<Part> = Vec::with_capacity(kinds.len());
        for (kind, columns) in kinds {
            if parts.iter().any(|p| p.kind.id() == kind.id()) {
                return Err(ProgramError::BadRule("a kind is named twice"));
            }
            let columns = part_columns(&schema, kind, columns)?;
            let start = end;
            end += columns.last().map_or(kind.header_bytes(0), |c| c.bytes.end);
            parts.push(Part { kind, columns, bytes: start..end });
        }
        if end > ENTRY_BYTES_MAX {
            let what = "bytes in an index entry";
            return Err(ProgramError::TooLarge { what, got: end, max: ENTRY_BYTES_MAX });
        }
        let columns = parts.iter().flat_map(|p| &p.columns).map(|c| c.column).collect();
        Ok(Self { schema, parts: parts.into(), columns })
    }

    /// The schema of the pages.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The columns of all kinds, in the order of the entries: a column that two kinds keep comes twice.
    pub fn columns(&self) -> &[u16] {
        &self.columns
    }

    /// The columns of which entries have bounds, in the order of the entries.
    pub fn bounded_columns(&self) -> impl Iterator<Item = u16> {
        let bounded = self.parts.iter().filter(|p| p.kind.has_bounds());
        bounded.flat_map(|p| &p.columns).map(|c| c.column)
    }

    /// The kinds and the columns that each keeps, in the order of the entries.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static dyn IndexKind, &[PartColumn])> {
        self.parts.iter().map(|p| (p.kind, &p.columns[..]))
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// What entries are made of. Rules with the same form, over schemas that agree, make the same entries.
    pub fn entry_form(&self) -> EntryForm {
        EntryForm(self.parts.clone())
    }

    /// Bytes of each entry.
    pub fn entry_bytes(&self) -> usize {
        self.parts.last().map_or(HEADER_BYTES, |p| p.bytes.end)
    }

    /// The entry of a page.
    ///
    /// # Errors
    /// When the source fails, or gives a column of another type or length than it should.
    pub fn entry<S: ColumnSource>(&self, source: &mut S) -> Result<IndexEntry, EvalError<S::Error>> {
        IndexEntry::of(self, source)
    }

    /// Checks that an entry may be one of this rule.
    ///
    /// # Errors
    /// When the rule never makes such an entry.
    pub fn check(&self, entry: &IndexEntry) -> Result<(), ProgramError> {
        if entry.encoded_bytes() != self.entry_bytes() {
            return Err(corrupt("index entry", entry.encoded_bytes()));
        }
        for p in &*self.parts {
            p.kind.check(&p.in_entry(entry)).map_err(|at| corrupt("index entry", p.bytes.start + at))?;
        }
        Ok(())
    }

    /// Widens `union` to the rows that `entry` describes, too: afterwards it is an entry for the pages of both, and excludes nothing that
    /// one of the two does not exclude.
    ///
    /// # Panics
    /// When one of the two is not of the length of the rule's entries.
    pub fn widen(&self, union: &mut IndexEntry, entry: &IndexEntry) {
        for p in &*self.parts {
            p.kind.widen(&mut union.as_bytes_mut()[p.bytes.clone()], &p.in_entry(entry));
        }
        union.set_rows(union.rows().saturating_add(entry.rows()));
    }

    /// The first column for which `entry` excludes something that occurs in the page; `None` if the entry is sound.
    /// `own` is built from the page's rows.
    ///
    /// # Panics
    /// When one of the two is not of the length of the rule's entries.
    pub fn denied(&self, entry: &IndexEntry, own: &IndexEntry) -> Option<u16> {
        self.parts
            .iter()
            .find_map(|p| Some(p.columns[p.kind.denies(&p.in_entry(entry), &p.in_entry(own))?].column))
    }

    /// The bounds of a column's values by a kind whose bounds are tight: each end is the key of a value that occurs.
    ///
    /// # Panics
    /// When the entry is not of the length of the rule's entries.
    pub fn extremes(&self, entry: &IndexEntry, column: u16) -> Option<Bounds> {
        self.parts.iter().filter(|p| p.kind.is_tight()).find_map(|p| {
            let place = p.columns.iter().position(|c| c.column == column)?;
            p.kind.bounds(&p.in_entry(entry), place)
        })
    }

    /// The bounds of a column's values by all kinds together; `None` if nothing is known.
    ///
    /// # Panics
    /// When the entry is not of the length of the rule's entries.
    pub fn bounds(&self, entry: &IndexEntry, column: u16) -> Option<Bounds> {
        let of = |p: &Part| {
            let place = p.columns.iter().position(|c| c.column == column)?;
            p.kind.bounds(&p.in_entry(entry), place)
        };
        self.parts.iter().filter_map(of).reduce(|a, b| Bounds {
            keys: a.keys.zip(b.keys).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1))),
            has_nulls: a.has_nulls && b.has_nulls,
        })
    }

    /// The rule as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let format = self.format();
        let one = format == FORMAT_RANGE;
        let mut b = vec![format];
        b.extend(self.schema.version.to_le_bytes());
        b.extend((self.schema.columns.len() as u16).to_le_bytes());
        for c in &self.schema.columns {
            let (tag, precision, scale) = c.data_type.tag();
            b.extend([tag, precision, scale, u8::from(c.nullable)]);
        }
        if format >= FORMAT_ABSENT {
            b.extend((self.schema.absent.len() as u16).to_le_bytes());
            for c in &self.schema.absent {
                let mut value = Vec::new();
                put_value(&mut Writer::new(&mut value), c.value());
                b.extend((value.len() as u32).to_le_bytes());
                b.extend(value);
            }
        }
        if !one {
            b.push(self.parts.len() as u8);
        }
        for p in &*self.parts {
            if !one {
                b.push(p.kind.id());
            }
            b.extend((p.columns.len() as u16).to_le_bytes());
            for c in &p.columns {
                b.extend(c.column.to_le_bytes());
                if format == FORMAT_FORMS {
                    b.extend((c.form.len() as u16).to_le_bytes());
                    b.extend(&c.form);
                }
            }
        }
        b
    }

    fn format(&self) -> u8 {
        match &self.parts[..] {
            parts if parts.iter().flat_map(|p| &p.columns).any(|c| !c.form.is_empty()) => FORMAT_FORMS,
            _ if !self.schema.absent.is_empty() => FORMAT_ABSENT,
            [one] if one.kind.id() == range::WIDE_RANGE.id() => FORMAT_RANGE,
            _ => FORMAT_KINDS,
        }
    }

    /// The rule in these bytes.
    ///
    /// # Errors
    /// When they are not those of a rule.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProgramError> {
        let corrupt = |at| corrupt("index rule", at);
        let mut at = 0;
        let [format] = take(bytes, &mut at)?;
        if !(FORMAT_RANGE..=FORMAT_FORMS).contains(&format) {
            return Err(corrupt(0));
        }
        let version = u32::from_le_bytes(take(bytes, &mut at)?);
        let count = u16::from_le_bytes(take(bytes, &mut at)?);
        let mut columns = Vec::new();
        for _ in 0..count {
            let [tag, precision, scale, nullable] = take(bytes, &mut at)?;
            let data_type = DataType::from_tag(tag, precision, scale).ok_or(corrupt(at - 4))?;
            if nullable > 1 {
                return Err(corrupt(at - 1));
            }
            columns.push(ColumnType { data_type, nullable: nullable == 1 });
        }
        let mut absent = Vec::new();
        if format >= FORMAT_ABSENT {
            for _ in 0..u16::from_le_bytes(take(bytes, &mut at)?) {
                let len = u32::from_le_bytes(take(bytes, &mut at)?) as usize;
                let end = at.checked_add(len).filter(|end| *end <= bytes.len()).ok_or(corrupt(at))?;
                let value = PageBuf::copy_from(&bytes[at..end]);
                let mut r = Reader::new(&value);
                let constant = take_value(&mut r).and_then(|v| r.end().map(|()| Constant::from(v)));
                absent.push(constant.map_err(|_| corrupt(at))?);
                at = end;
            }
        }
        let count = if format == FORMAT_RANGE { 1 } else { take::<1>(bytes, &mut at)?[0] };
        let mut kinds: Vec<KindColumns> = Vec::new();
        for _ in 0..count {
            let id =
                if format == FORMAT_RANGE { range::WIDE_RANGE.id() } else { take::<1>(bytes, &mut at)?[0] };
            let kind =
                kind(id).ok_or(ProgramError::BadRule("an index kind that this version does not know"))?;
            let count = u16::from_le_bytes(take(bytes, &mut at)?);
            let mut columns = Vec::new();
            for _ in 0..count {
                let column = u16::from_le_bytes(take(bytes, &mut at)?);
                let len = match format {
                    FORMAT_FORMS => u16::from_le_bytes(take(bytes, &mut at)?).into(),
                    _ => 0,
                };
                let form = bytes.get(at..at + len).ok_or(corrupt(at))?.into();
                at += len;
                columns.push(KeptColumn { column, form });
            }
            kinds.push((kind, columns));
        }
        if at != bytes.len() {
            return Err(corrupt(at));
        }
        let rule = Self::of_kinds(Schema { version, columns, absent }, kinds)?;
        if rule.format() != format {
            return Err(corrupt(0));
        }
        Ok(rule)
    }
}

/// Checks the columns that a kind should keep, and places them in its part of the entries.
fn part_columns(
    schema: &Schema,
    kind: &dyn IndexKind,
    columns: Vec<KeptColumn>,
) -> Result<Vec<PartColumn>, ProgramError> {
    let (got, max) = (columns.len(), INDEX_COLUMNS_MAX);
    if got > max {
        return Err(ProgramError::TooLarge { what: "indexed columns", got, max });
    }
    let mut placed: Vec<PartColumn> = Vec::with_capacity(got);
    let mut end = kind.header_bytes(got);
    for KeptColumn { column, form } in columns {
        let Some(c) = schema.columns.get(usize::from(column)) else {
            return Err(ProgramError::NoSuchColumn { column, columns: schema.columns.len() });
        };
        let data_type = c.data_type;
        if placed.iter().any(|p| p.column == column) {
            return Err(ProgramError::BadRule("a column is indexed twice"));
        }
        if !kind.keeps(data_type) {
            return Err(ProgramError::BadRule("a column is of a type that the kind does not keep"));
        }
        if form.len() > FORM_BYTES_MAX {
            let what = "bytes in the form of an indexed column";
            return Err(ProgramError::TooLarge { what, got: form.len(), max: FORM_BYTES_MAX });
        }
        kind.check_form(data_type, &form).map_err(ProgramError::BadRule)?;
        let start = end;
        end += kind.column_bytes(data_type, &form);
        placed.push(PartColumn { column, data_type, form, bytes: start..end });
    }
    Ok(placed)
}

pub(super) fn corrupt(what: &'static str, at: usize) -> ProgramError {
    ProgramError::Corrupt { what, at }
}

fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], ProgramError> {
    let field = bytes.get(*at..).and_then(|b| b.first_chunk::<N>()).ok_or(corrupt("index rule", *at))?;
    *at += N;
    Ok(*field)
}

#[cfg(test)]
mod tests {
    use lode_page::Value;

    use super::super::part::kept;
    use super::*;

    fn rule() -> IndexRule {
        let types = [
            DataType::Boolean,
            DataType::SmallInt,
            DataType::Integer,
            DataType::BigInt,
            DataType::Real,
            DataType::Double,
            DataType::Decimal { precision: 15, scale: 2 },
            DataType::Text,
            DataType::Bytea,
            DataType::Date,
            DataType::Timestamp,
        ];
        let columns = types.map(|data_type| ColumnType { data_type, nullable: data_type.is_variable() });
        IndexRule::new(Schema { version: 3, columns: columns.into(), absent: Vec::new() }, vec![6, 0, 10])
            .unwrap()
    }

    #[test]
    fn rules_survive_as_bytes_and_no_lie_does() {
        let bytes = rule().to_bytes();
        assert_eq!(IndexRule::from_bytes(&bytes), Ok(rule()));
        for n in 0..bytes.len() {
            assert!(IndexRule::from_bytes(&bytes[..n]).is_err(), "cut to {n} bytes");
            let mut flipped = bytes.clone();
            flipped[n] ^= 0x80;
            assert_ne!(IndexRule::from_bytes(&flipped), Ok(rule()), "byte {n} flipped");
        }
        assert_eq!(IndexRule::from_bytes(&[bytes, vec![0]].concat()), Err(corrupt("index rule", 61)));
    }

    /// Images that were written before there were kinds have these bytes, and versions of then read them.
    #[test]
    fn a_rule_of_ranges_has_the_bytes_that_it_had_before_kinds() {
        let column = |data_type, nullable| ColumnType { data_type, nullable };
        let columns = vec![
            column(DataType::Integer, false),
            column(DataType::Decimal { precision: 15, scale: 2 }, true),
            column(DataType::Text, true),
        ];
        let schema = Schema { version: 0x0403_0201, columns, absent: Vec::new() };
        let rule = IndexRule::of_kinds(schema, vec![(&range::WIDE_RANGE, kept(&[2, 0]))]).unwrap();
        let tag = |t: DataType| t.tag().0;
        let decimal = tag(DataType::Decimal { precision: 15, scale: 2 });
        let expected = [
            &[1, 1, 2, 3, 4, 3, 0][..],
            &[tag(DataType::Integer), 0, 0, 0, decimal, 15, 2, 1, tag(DataType::Text), 0, 0, 1],
            &[2, 0, 2, 0, 0, 0],
        ];
        assert_eq!(rule.to_bytes(), expected.concat());
        assert_eq!(rule.entry_bytes(), 8 + 2 * 16);
    }

    #[test]
    fn a_rule_keeps_the_values_of_absent_columns() {
        let mut schema = rule().schema().clone();
        let absent = [Value::text("x"), Value::Null, Value::Int(7), Value::Int(-1)];
        schema.absent = absent.into_iter().map(Constant::from).collect();
        let rule = IndexRule::new(schema, vec![6, 0, 10]).unwrap();
        let bytes = rule.to_bytes();
        assert_eq!(bytes[0], FORMAT_ABSENT);
        assert_eq!(IndexRule::from_bytes(&bytes), Ok(rule.clone()));
        for n in 0..bytes.len() {
            assert!(IndexRule::from_bytes(&bytes[..n]).is_err(), "cut to {n} bytes");
            let mut flipped = bytes.clone();
            flipped[n] ^= 0x80;
            assert_ne!(IndexRule::from_bytes(&flipped), Ok(rule.clone()), "byte {n} flipped");
        }
    }

    #[test]
    fn a_rule_has_one_form_as_bytes() {
        let s = Schema {
            version: 1,
            columns: vec![ColumnType { data_type: DataType::Integer, nullable: false }],
            absent: Vec::new(),
        };
        let one = IndexRule::of_kinds(s, vec![(&range::WIDE_RANGE, kept(&[0]))]).unwrap().to_bytes();
        let schema_bytes = one.len() - 4;
        let with = |kinds: &[u8]| IndexRule::from_bytes(&[&[2], &one[1..schema_bytes], kinds].concat());
        assert_eq!(with(&[1, 1, 1, 0, 0, 0]), Err(corrupt("index rule", 0)));
        assert_eq!(with(&[0]), Err(ProgramError::BadRule("it has no kind")));
        assert_eq!(
            with(&[2, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0]),
            Err(ProgramError::BadRule("a kind is named twice"))
        );
        assert!(matches!(with(&[1, 0, 1, 0, 0, 0]), Err(ProgramError::BadRule(_))));
    }

    #[test]
    fn rules_name_real_columns_once() {
        let s = rule().schema().clone();
        assert!(matches!(IndexRule::new(s.clone(), vec![11]), Err(ProgramError::NoSuchColumn { .. })));
        assert!(matches!(IndexRule::new(s.clone(), vec![1, 1]), Err(ProgramError::BadRule(_))));
        assert!(matches!(IndexRule::new(s, (0..33).collect()), Err(ProgramError::TooLarge { .. })));
    }
}
