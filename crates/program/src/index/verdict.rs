//! The verdict of an index entry on a page: whether a row can pass a filter, and whether every row does.
//!
//! ```text
//!   filter ─► AND, OR, NOT, IS NULL of predicates, ...     walked here
//!                └─► leaf ─► each kind of the rule that keeps one of its columns ─► outcomes it holds possible
//!                            outcomes that all of them hold possible
//!
//!   true  false  NULL   possible outcomes of the filter
//!    no    any   any    No      no row passes: the page stays unread
//!    yes   no    no     Yes     every row passes
//!    yes   else         Maybe
//! ```
//!
//! Worked example: a page has a from 3 to 9, without NULL, and b is not indexed. `a < 3` is No. `a < 10` is Yes.
//! `a < 5` is Maybe, and so is `a < 10 AND b = 1`. `a < 3 AND b = 1` is No, `a < 10 OR b = 1` is Yes.
//!
//! Invariant: the answer errs to one side only: it never excludes an outcome that some row of the page has.

use std::cell::Cell;

use super::leaf::{Leaf, Outcomes};
use super::{IndexEntry, IndexRule};
use crate::plan::{Node, Pred};
use crate::{CompareOp, Program, Verdict};

/// The verdict of the entry on the filter of `p` over the rows of its page.
pub fn verdict(p: &Program, rule: &IndexRule, entry: &IndexEntry) -> Verdict {
    metered_verdict(p, rule, entry).0
}

/// The same, and how many keys of the entry were compared: a range, a bitmap or a filter each, 1 at least.
pub fn metered_verdict(p: &Program, rule: &IndexRule, entry: &IndexEntry) -> (Verdict, u64) {
    if entry.rows() == 0 {
        return (Verdict::No, 1);
    }
    let Some(plan) = p.plan() else { return (Verdict::Yes, 1) };
    // An entry of another schema or another rule proves nothing. One that was made before columns were added is good for the others.
    if !rule.schema().agrees_with(p.schema()) || rule.entry_bytes() != entry.encoded_bytes() {
        return (Verdict::Maybe, 1);
    }
    let view = View { program: p, rule, entry, compared: Cell::new(0) };
    let verdict = match view.outcomes(plan) {
        Outcomes { can_be_true: false, .. } => Verdict::No,
        Outcomes { can_be_false: false, can_be_null: false, .. } => Verdict::Yes,
        _ => Verdict::Maybe,
    };
    (verdict, view.compared.get().max(1))
}

/// Whether a row of the page that `entry` describes can pass the filter of `p`. False only if certainly no row does.
pub fn may_match(p: &Program, rule: &IndexRule, entry: &IndexEntry) -> bool {
    verdict(p, rule, entry) != Verdict::No
}

/// Whether every row of the page that `entry` describes passes the filter of `p`. True only if certainly every row
/// does.
pub fn covers(p: &Program, rule: &IndexRule, entry: &IndexEntry) -> bool {
    verdict(p, rule, entry) == Verdict::Yes
}

struct View<'a> {
    program: &'a Program,
    rule: &'a IndexRule,
    entry: &'a IndexEntry,
    /// Keys of the entry that were compared.
    compared: Cell<u64>,
}

impl View<'_> {
    fn outcomes(&self, node: &Node) -> Outcomes {
        match &node.pred {
            Pred::Const(b) => Outcomes {
                can_be_true: *b == Some(true),
                can_be_false: *b == Some(false),
                can_be_null: b.is_none(),
            },
            Pred::And(terms) => {
                let of = terms.iter().map(|t| self.outcomes(t));
                of.fold(Outcomes { can_be_true: true, ..Outcomes::NEVER }, |a, b| Outcomes {
                    can_be_true: a.can_be_true && b.can_be_true,
                    can_be_false: a.can_be_false || b.can_be_false,
                    can_be_null: a.can_be_null || b.can_be_null,
                })
            }
            Pred::Or(terms) => {
                let of = terms.iter().map(|t| self.outcomes(t));
                of.fold(Outcomes { can_be_false: true, ..Outcomes::NEVER }, |a, b| Outcomes {
                    can_be_true: a.can_be_true || b.can_be_true,
                    can_be_false: a.can_be_false && b.can_be_false,
                    can_be_null: a.can_be_null || b.can_be_null,
                })
            }
            Pred::Not(a) => {
                let a = self.outcomes(a);
                Outcomes { can_be_true: a.can_be_false, can_be_false: a.can_be_true, ..a }
            }
            Pred::IsUnknown(a) => {
                let a = self.outcomes(a);
                Outcomes {
                    can_be_true: a.can_be_null,
                    can_be_false: a.can_be_true || a.can_be_false,
                    can_be_null: false,
                }
            }
            Pred::Test { miss_is_null: true, .. } => missing(self.leaf(node)),
            Pred::Column(_) | Pred::IsNull | Pred::Test { .. } | Pred::Compare { .. } => self.leaf(node),
            Pred::BoolCompare { op, a, b } => compared(*op, self.outcomes(a), self.outcomes(b)),
            Pred::BoolIn { value, has_true, has_false, miss_is_null } => {
                let a = self.outcomes(value);
                let of = Outcomes {
                    can_be_true: a.can_be_true && *has_true || a.can_be_false && *has_false,
                    can_be_false: a.can_be_true && !has_true || a.can_be_false && !has_false,
                    can_be_null: a.can_be_null,
                };
                if *miss_is_null { missing(of) } else { of }
            }
        }
    }

    /// The outcomes that all kinds hold possible which keep a column of the predicate.
    fn leaf(&self, node: &Node) -> Outcomes {
        let leaf = Leaf { program: self.program, node };
        let mut possible = Outcomes::ANY;
        for part in self.rule.parts() {
            if part.columns().iter().any(|c| node.columns.contains(&c.column)) {
                self.compared.set(self.compared.get() + 1);
                possible = possible.and(part.kind().outcomes(&part.in_entry(self.entry), &leaf));
            }
        }
        // If no outcome is possible, the entry is damaged, since the page has rows.
        if possible == Outcomes::NEVER { Outcomes::ANY } else { possible }
    }
}

/// Turns false into NULL: of `IN` with a NULL in its list.
fn missing(of: Outcomes) -> Outcomes {
    Outcomes { can_be_false: false, can_be_null: of.can_be_null || of.can_be_false, ..of }
}

/// The outcomes of a comparison of two predicates; false is less than true.
fn compared(op: CompareOp, a: Outcomes, b: Outcomes) -> Outcomes {
    let mut of = Outcomes { can_be_null: a.can_be_null || b.can_be_null, ..Outcomes::NEVER };
    let values = |of: Outcomes| {
        [(false, of.can_be_false), (true, of.can_be_true)].into_iter().filter(|v| v.1).map(|v| v.0)
    };
    for x in values(a) {
        for y in values(b) {
            let holds = match op {
                CompareOp::Eq => x == y,
                CompareOp::NotEq => x != y,
                CompareOp::Lt => !x & y,
                CompareOp::LtEq => x <= y,
                CompareOp::Gt => x & !y,
                CompareOp::GtEq => x >= y,
            };
            of.can_be_true |= holds;
            of.can_be_false |= !holds;
        }
    }
    of
}
