//! From a filter to keys.
//!
//! | condition | keys |
//! |---|---|
//! | `c = v` | the field of v |
//! | `c >= a AND c <= b`, and with `<`, `>` | what the fields of both ends begin with |
//! | `c IN (...)` of up to three values | one of their fields; of more, what the least and the greatest begin with |
//! | `c LIKE '%abc%de'` | its longest literal |
//! | AND | of all terms, as far as three keys go: those that look for more bytes first |
//! | OR | of any term; no key if a term has none |
//! | anything else: `<>`, NOT, IS NULL, decimals, floats, two columns | none |
//!
//! Only columns of which every page has the fields have keys. A key that is longer than the hardware takes is cut. Ends of a range are those that pass: `c < '1995-10-01'` is `c <= '1995-09-30'`, so
//! that no key excludes a row. The paper takes the constant as it is written; both give 8F 97 in its example.

use std::fmt;

use lode_page::matchable::field;
use lode_page::{DataType, Value};

use super::{Limits, Matcher};
use crate::like::Pattern;
use crate::{CompareOp, Expr, Program};

/// Why a filter has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// There is no filter.
    NoFilter,
    /// No condition of the filter has a key that every row must have which passes.
    NoKey,
    /// Alternatives have more keys than the matcher takes.
    TooManyKeys,
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFilter => "there is no filter",
            Self::NoKey => "no condition can be searched for",
            Self::TooManyKeys => "alternatives have more keys than the matcher takes",
        })
    }
}

/// What must be found in a page.
#[derive(Clone, Debug, PartialEq)]
enum Needs {
    Key(Vec<u8>),
    All(Vec<Needs>),
    Any(Vec<Needs>),
}

impl Needs {
    /// Keys, counting equal ones each.
    fn keys(&self) -> usize {
        match self {
            Self::Key(_) => 1,
            Self::All(of) | Self::Any(of) => of.iter().map(Self::keys).sum(),
        }
    }

    /// The bytes that the least that must be found has.
    fn bytes(&self) -> usize {
        match self {
            Self::Key(k) => k.len(),
            Self::All(of) => of.iter().map(Self::bytes).sum(),
            Self::Any(of) => of.iter().map(Self::bytes).min().unwrap_or(0),
        }
    }

    /// The same with at most `keys` keys; `None` if alternatives have more.
    fn within(self, keys: usize) -> Option<Self> {
        match self {
            Self::Key(k) => (keys > 0).then_some(Self::Key(k)),
            Self::Any(of) => {
                let any = Self::Any(of);
                (any.keys() <= keys).then_some(any)
            }
            Self::All(mut of) => {
                // The sort keeps the order of equal terms, so that the same filter always has the same keys.
                of.sort_by_key(|n| std::cmp::Reverse(n.bytes()));
                let (mut left, mut kept) = (keys, Vec::new());
                for term in of {
                    if let Some(term) = term.within(left) {
                        left -= term.keys();
                        kept.push(term);
                    }
                }
                (!kept.is_empty()).then_some(Self::All(kept))
            }
        }
    }

    fn number(&self, keys: &mut Vec<Vec<u8>>) {
        match self {
            Self::Key(k) if keys.contains(k) => {}
            Self::Key(k) => keys.push(k.clone()),
            Self::All(of) | Self::Any(of) => of.iter().for_each(|n| n.number(keys)),
        }
    }

    fn holds(&self, found: u8, keys: &[Vec<u8>]) -> bool {
        match self {
            Self::Key(k) => keys.iter().position(|other| other == k).is_some_and(|i| found >> i & 1 == 1),
            Self::All(of) => of.iter().all(|n| n.holds(found, keys)),
            Self::Any(of) => of.iter().any(|n| n.holds(found, keys)),
        }
    }
}

impl Matcher {
    /// The matcher of a program's filter, for hardware with these limits. Columns `has_fields` of which the pages have the fields
    /// of all values may have keys.
    ///
    /// # Errors
    /// Why it has none.
    pub fn of(program: &Program, limits: Limits, has_fields: &dyn Fn(u16) -> bool) -> Result<Self, Declined> {
        let filter = program.filter().ok_or(Declined::NoFilter)?;
        let needs = Filter { program, limits, has_fields }.needs(filter).ok_or(Declined::NoKey)?;
        let needs = needs.within(limits.keys.into()).ok_or(Declined::TooManyKeys)?;
        let mut keys = Vec::new();
        needs.number(&mut keys);
        let passes = (0..1u8 << keys.len()).filter(|&found| needs.holds(found, &keys));
        let passes = passes.fold(0, |p, found| p | 1 << found);
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        Ok(Self::of_keys(&keys, passes).expect("keys are few and short"))
    }
}

/// A filter, and where its keys may come from.
struct Filter<'a> {
    program: &'a Program,
    limits: Limits,
    has_fields: &'a dyn Fn(u16) -> bool,
}

impl Filter<'_> {
    /// What every page has in which a row passes `e`; `None` if nothing is known.
    fn needs(&self, e: &Expr) -> Option<Needs> {
        match e {
            Expr::And(terms) => {
                let mut flat = Vec::new();
                flatten(terms, &mut flat);
                let mut all: Vec<Needs> = self.ranges(&flat).into_iter().map(Needs::Key).collect();
                all.extend(flat.iter().filter(|t| self.bound(t).is_none()).filter_map(|t| self.needs(t)));
                match all.len() {
                    0 => None,
                    1 => all.pop(),
                    _ => Some(Needs::All(all)),
                }
            }
            Expr::Or(terms) if terms.is_empty() => None,
            Expr::Or(terms) => terms.iter().map(|t| self.needs(t)).collect::<Option<_>>().map(Needs::Any),
            Expr::Compare(..) => self.ranges(&[e]).pop().map(Needs::Key),
            Expr::In { value, list } => {
                let t = self.column(value)?.1;
                // A NULL in the list is never equal.
                let fields = list.iter().filter(|v| !v.is_null()).map(|v| field(t, v));
                let mut fields = fields.collect::<Option<Vec<_>>>()?;
                fields.sort_unstable();
                fields.dedup();
                match fields.len() {
                    0 => None,
                    n if n <= self.limits.keys.into() => fields
                        .iter()
                        .map(|f| self.key(f).map(Needs::Key))
                        .collect::<Option<_>>()
                        .map(Needs::Any),
                    n => self.common(&fields[0], &fields[n - 1]).map(Needs::Key),
                }
            }
            Expr::Like { value, pattern, case_insensitive: false } => {
                self.column(value)?;
                let pattern = Pattern::new(pattern);
                // Of equally long literals the first.
                let longest = pattern.literals().into_iter().rev().max_by_key(|l| l.len())?;
                self.key(longest).map(Needs::Key)
            }
            _ => None,
        }
    }

    /// A column that may have keys, and its type.
    fn column(&self, e: &Expr) -> Option<(u16, DataType)> {
        let Expr::Column(c) = e else { return None };
        (self.has_fields)(*c).then(|| (*c, self.program.schema().columns[usize::from(*c)].data_type))
    }

    /// A comparison of such a column with a constant: the column, its type, and the least and the greatest value that pass, where
    /// they are known.
    fn bound(&self, e: &Expr) -> Option<(u16, DataType, Option<Value>, Option<Value>)> {
        use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let Expr::Compare(op, a, b) = e else { return None };
        let (column, constant, op) = match (&**a, &**b) {
            (Expr::Column(_), Expr::Const(v, _)) => (a, v, *op),
            (Expr::Const(v, _), Expr::Column(_)) => (b, v, op.flipped()),
            _ => return None,
        };
        let (c, t) = self.column(column)?;
        let beside = |by: i64| match constant {
            Value::Int(i) => i.checked_add(by).map(Value::Int),
            v => Some(v.clone()),
        };
        let v = constant.clone();
        Some(match op {
            Eq => (c, t, Some(v.clone()), Some(v)),
            GtEq => (c, t, Some(v), None),
            Gt => (c, t, beside(1), None),
            LtEq => (c, t, None, Some(v)),
            Lt => (c, t, None, beside(-1)),
            NotEq => return None,
        })
    }

    /// The keys of comparisons that all hold: for each column, what the fields of both ends begin with.
    fn ranges(&self, terms: &[&Expr]) -> Vec<Vec<u8>> {
        let mut columns: Vec<Ends> = Vec::new();
        for (column, t, low, high) in terms.iter().filter_map(|e| self.bound(e)) {
            let (low, high) = (low.and_then(|v| field(t, &v)), high.and_then(|v| field(t, &v)));
            match columns.iter_mut().find(|of| of.column == column) {
                Some(of) => {
                    of.low = of.low.take().max(low);
                    of.high = match (of.high.take(), high) {
                        (Some(a), Some(b)) => Some(a.min(b)),
                        (a, b) => a.or(b),
                    };
                }
                None => columns.push(Ends { column, low, high }),
            }
        }
        // Of texts between two others all begin as both do, so that the same holds for them.
        columns.into_iter().filter_map(|of| self.common(&of.low?, &of.high?)).collect()
    }

    /// What both begin with.
    fn common(&self, a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        self.key(&a[..same])
    }

    /// A key of these bytes; none of no bytes.
    fn key(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let bytes = &bytes[..bytes.len().min(self.limits.key_bytes.into())];
        (!bytes.is_empty()).then(|| bytes.to_vec())
    }
}

fn flatten<'a>(terms: &'a [Expr], out: &mut Vec<&'a Expr>) {
    for t in terms {
        match t {
            Expr::And(terms) => flatten(terms, out),
            t => out.push(t),
        }
    }
}

/// The fields between which a column's fields lie in rows that pass, where they are known.
struct Ends {
    column: u16,
    low: Option<Box<[u8]>>,
    high: Option<Box<[u8]>>,
}
