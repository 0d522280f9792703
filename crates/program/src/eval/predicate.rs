//! Evaluates predicates by a walk over their tree.

use std::ops::Range;

use lode_page::{Column, Values};

use super::value::evaluate;
use super::{Columns, Meter, dictionary, encoded, kernel};
use crate::CompareOp;
use crate::bits::{self, Tri};
use crate::plan::{Node, Pred, Test, Val};

/// Rows of a block of computed values: temporary vectors stay in the processor's cache.
pub(crate) const BLOCK_ROWS: usize = 2048;

/// An evaluation over `rows` rows.
pub(super) struct Run<'m, C> {
    pub(super) columns: C,
    pub(super) rows: usize,
    pub(super) meter: &'m mut Meter,
}

impl<C: Columns> Run<'_, C> {
    /// The outcomes of the rows that `active` asks for; other rows have any outcome.
    pub(super) fn evaluate(&mut self, node: &Node, active: &[u64]) -> Result<Tri, C::Error> {
        if let [only] = *node.columns {
            let column = self.columns.get(only)?;
            if let Values::Dict { dictionary, .. } = column.values()
                && dictionary.rows() <= count(active)
            {
                self.meter.values_compared += count(active) as u64;
                return Ok(dictionary::evaluate(node, &column, active));
            }
        }
        let words = active.len();
        match &node.pred {
            Pred::Const(b) => Ok(Tri::constant(*b, words)),
            Pred::Column(c) => {
                let column = self.columns.get(*c)?;
                self.meter.values_compared += count(active) as u64;
                let Values::Bits(b) = column.values() else { unreachable!("BOOLEAN columns are bits") };
                let truth = bits::words(b, words);
                let tri = Tri { truth, known: None };
                Ok(tri.where_valid(column.validity().map(|v| bits::words(v, words))))
            }
            Pred::And(terms) => {
                let (mut all, mut live) = (Tri::constant(Some(true), words), active.to_vec());
                for t in terms {
                    all.and(&self.evaluate(t, &live)?);
                    // A false term decides an AND, so such rows are not evaluated again.
                    (0..words).for_each(|i| live[i] &= all.truth[i] | !all.known_word(i));
                    if live.iter().all(|&w| w == 0) {
                        break;
                    }
                }
                Ok(all)
            }
            Pred::Or(terms) => {
                let (mut any, mut live) = (Tri::constant(Some(false), words), active.to_vec());
                for t in terms {
                    any.or(&self.evaluate(t, &live)?);
                    // A true term decides an OR, so such rows are not evaluated again.
                    (0..words).for_each(|i| live[i] &= !any.truth[i]);
                    if live.iter().all(|&w| w == 0) {
                        break;
                    }
                }
                Ok(any)
            }
            Pred::Not(a) => Ok(self.evaluate(a, active)?.not()),
            Pred::IsUnknown(a) => {
                let a = self.evaluate(a, active)?;
                Ok(Tri { truth: (0..words).map(|i| !a.known_word(i)).collect(), known: None })
            }
            Pred::IsNull => {
                let held = self.hold(node, active)?;
                let truth = match bits::valid(held.iter().map(|(_, c)| c), words) {
                    Some(valid) => valid.into_iter().map(|w| !w).collect(),
                    None => vec![0; words],
                };
                Ok(Tri { truth, known: None })
            }
            Pred::Test { value, test, miss_is_null } => {
                let held = self.hold(node, active)?;
                let mut truth = vec![0; words];
                self.test(value, test, &held, active, &mut truth);
                let known = miss_is_null.then(|| truth.clone());
                Ok(Tri { truth, known }.where_valid(bits::valid(held.iter().map(|(_, c)| c), words)))
            }
            Pred::Compare { op, a, b } => {
                let held = self.hold(node, active)?;
                let mut truth = vec![0; words];
                let whole = matches!((a, b), (Val::Column(_), Val::Column(_)))
                    && held.iter().all(|(_, c)| !is_coded(c));
                for rows in blocks(self.rows, whole) {
                    let part = rows.start / 64..rows.end.div_ceil(64);
                    if active[part.clone()].iter().any(|&w| w != 0) {
                        let of = |v| evaluate(v, &rows, &|c| find(&held, c));
                        kernel::compare(*op, of(a), of(b), &active[part.clone()], &mut truth[part]);
                    }
                }
                Ok(Tri { truth, known: None }.where_valid(bits::valid(held.iter().map(|(_, c)| c), words)))
            }
            Pred::BoolCompare { op, a, b } => {
                let (a, b) = (self.evaluate(a, active)?, self.evaluate(b, active)?);
                let known = (0..words).map(|i| a.known_word(i) & b.known_word(i)).collect();
                let compared = |i: usize| {
                    let (a, b) = (a.truth[i], b.truth[i]);
                    match op {
                        CompareOp::Eq => !(a ^ b),
                        CompareOp::NotEq => a ^ b,
                        CompareOp::Lt => !a & b,
                        CompareOp::LtEq => !a | b,
                        CompareOp::Gt => a & !b,
                        CompareOp::GtEq => a | !b,
                    }
                };
                let truth = (0..words).map(compared).collect();
                Ok(Tri { truth, known: None }.where_valid(Some(known)))
            }
            Pred::BoolIn { value, has_true, has_false, miss_is_null } => {
                let a = self.evaluate(value, active)?;
                let spread = |b: bool| if b { !0 } else { 0 };
                let hit = |t: &u64| t & spread(*has_true) | !t & spread(*has_false);
                let truth: Vec<u64> = a.truth.iter().map(hit).collect();
                let known = miss_is_null.then(|| truth.clone());
                Ok(Tri { truth, known }.where_valid(a.known))
            }
        }
    }

    fn test(&self, value: &Val, test: &Test, held: &[(u16, Column)], active: &[u64], truth: &mut [u64]) {
        if let Val::Column(c) = value
            && encoded::test(test, find(held, *c), active, truth)
        {
            return;
        }
        let whole = match value {
            Val::Column(c) => !is_coded(find(held, *c)),
            _ => false,
        };
        for rows in blocks(self.rows, whole) {
            let part = rows.start / 64..rows.end.div_ceil(64);
            if active[part.clone()].iter().any(|&w| w != 0) {
                let data = evaluate(value, &rows, &|c| find(held, c));
                kernel::test(test, &data, &active[part.clone()], &mut truth[part]);
            }
        }
    }

    /// The columns that a leaf reads.
    fn hold(&mut self, node: &Node, active: &[u64]) -> Result<Vec<(u16, Column)>, C::Error> {
        self.meter.values_compared += (count(active) * node.columns.len()) as u64;
        node.columns.iter().map(|&c| Ok((c, self.columns.get(c)?))).collect()
    }
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|w| w.count_ones() as usize).sum()
}

/// Whether values are made for each block, and not borrowed for all of them.
fn is_coded(c: &Column) -> bool {
    matches!(c.values(), Values::Dict { .. } | Values::Packed(_) | Values::Symbols(_))
}

fn find(held: &[(u16, Column)], column: u16) -> &Column {
    let at = held.binary_search_by_key(&column, |(c, _)| *c).expect("a leaf holds its columns");
    &held[at].1
}

/// Divides `rows` rows into blocks. There is one block if no value is computed.
fn blocks(rows: usize, whole: bool) -> impl Iterator<Item = Range<usize>> {
    let step = if whole { rows.max(1) } else { BLOCK_ROWS };
    (0..rows).step_by(step).map(move |start| start..rows.min(start + step))
}
