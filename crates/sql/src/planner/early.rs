//! Early filtering, as YourSQL decides it: which table the drive's matcher filters before any of its pages is read, and is joined first.
//!
//! ```text
//!   tables with filters ─► scores of their predicates ─► the best ─► sampled by the matcher ─► share of pages < threshold?
//!                            └─ small, or below SCORE_MIN: none                                └─ yes: offload = hints, first in the order
//! ```
//!
//! `SET lode.planner = yoursql` asks for it; `SET lode.early_filter` names a table instead, or none. The paper says that equality scores
//! more than a range; the numbers are ours, chosen before any query was looked at. `SET lode.early_scores` tries others.
//! Source: YourSQL (VLDB 2016), sections 3.1.1 and 3.2.1.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use lode_page::Value;
use lode_program::{CompareOp, Expr};

use crate::options::{EarlyFilter, EarlyScores, LodeOptions, Planner};
use crate::query_shape::{Place, Shape};
use crate::scan::estimate::matched;
use crate::scan::{Early, LodeScanExec, MatchedPages, ScanSpec};

/// A table whose predicates score less is no candidate.
const SCORE_MIN: f64 = 2.0;
/// A table of at most so many pages is small: the drive answers hints of as many at a time.
const SMALL_PAGES: u64 = 64;
/// The share of a table's pages that is sampled.
const SAMPLED: f64 = 0.05;

/// Below which share of pages a filter is early, by where its table is.
const SINGLE: f64 = 0.3;
const JOINED: f64 = 0.7;
const SMALLEST_OF_A_JOIN: f64 = 0.3;
const DERIVED: f64 = 1.0;
const SUBQUERY: f64 = 0.7;
const MATERIALIZED: f64 = 0.0;

/// Why a filter is early, or why it is not.
enum Reason {
    Asked,
    Small,
    Score(f64),
    NoKeys(String),
    Beaten { score: f64, by: String },
    Sampled { score: f64, pages: MatchedPages, threshold: f64 },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("asked for"),
            Self::Small => write!(f, "at most {SMALL_PAGES} pages"),
            Self::Score(score) => write!(f, "score {score} is below {SCORE_MIN}"),
            Self::NoKeys(why) => f.write_str(why),
            Self::Beaten { score, by } => write!(f, "score {score}, {by} has more"),
            Self::Sampled { score, pages: p, threshold } => write!(
                f,
                "score {score}, {:.3} of pages ({:.3} to {:.3} by {}), threshold {threshold}",
                p.share, p.low, p.high, p.pages
            ),
        }
    }
}

/// `plan`, with what was decided written into its scans.
pub(super) fn decided(plan: Arc<dyn ExecutionPlan>, options: &LodeOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let mut scans: Vec<Arc<ScanSpec>> = Vec::new();
    collect(&plan, &mut scans);
    let decisions = match &options.early_filter {
        EarlyFilter::Table(name) => {
            let named = scans.iter().filter(|s| s.table.name() == name && s.filter.is_some());
            named.map(|s| (s.clone(), true, Reason::Asked)).collect()
        }
        EarlyFilter::Auto if options.planner == Planner::Yoursql => decide(&scans, options.early_scores)?,
        EarlyFilter::Auto | EarlyFilter::None => return Ok(plan),
    };
    let replaced = |node: Arc<dyn ExecutionPlan>| {
        let decision = node.downcast_ref::<LodeScanExec>().and_then(|scan| {
            let of = decisions.iter().find(|(spec, ..)| std::ptr::eq(&**spec, scan.spec()))?;
            let early = Early { is_first: of.1, text: of.2.to_string() };
            Some(Arc::new(scan.with_early(early)) as Arc<dyn ExecutionPlan>)
        });
        Ok(match decision {
            Some(scan) => Transformed::yes(scan),
            None => Transformed::no(node),
        })
    };
    plan.clone().transform_up(replaced).data()
}

/// Whether `plan` reads the table that is filtered early.
pub(super) fn is_first(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_it = |scan: &LodeScanExec| scan.spec().early.as_ref().is_some_and(|e| e.is_first);
    plan.downcast_ref::<LodeScanExec>().is_some_and(is_it) || plan.children().into_iter().any(is_first)
}

fn collect(plan: &Arc<dyn ExecutionPlan>, scans: &mut Vec<Arc<ScanSpec>>) {
    if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
        scans.push(scan.shared_spec().clone());
    }
    plan.children().into_iter().for_each(|input| collect(input, scans));
}

fn decide(scans: &[Arc<ScanSpec>], scores: EarlyScores) -> Result<Vec<(Arc<ScanSpec>, bool, Reason)>> {
    let mut decisions = Vec::new();
    let mut candidates: Vec<(f64, &Arc<ScanSpec>)> = Vec::new();
    for spec in scans {
        let Some(filter) = &spec.filter else { continue };
        let score = score(filter, scores);
        if spec.table.pages() <= SMALL_PAGES {
            decisions.push((spec.clone(), false, Reason::Small));
        } else if score < SCORE_MIN {
            decisions.push((spec.clone(), false, Reason::Score(score)));
        } else {
            candidates.push((score, spec));
        }
    }
    // Of two with the same score the first in FROM.
    let best = candidates.iter().rev().max_by(|a, b| a.0.total_cmp(&b.0)).copied();
    let Some((best_score, best)) = best else { return Ok(decisions) };
    for (score, spec) in candidates {
        if !Arc::ptr_eq(spec, best) {
            let by = best.table.name().to_owned();
            decisions.push((spec.clone(), false, Reason::Beaten { score, by }));
        }
    }
    let shape = best.counts.shape();
    let threshold = threshold(best, scans, &shape);
    let decision = match matched(best, SAMPLED)? {
        Ok(pages) => {
            let reason = Reason::Sampled { score: best_score, pages, threshold };
            (best.clone(), pages.share < threshold, reason)
        }
        Err(why) => (best.clone(), false, Reason::NoKeys(why.to_string())),
    };
    decisions.push(decision);
    Ok(decisions)
}

fn threshold(spec: &ScanSpec, scans: &[Arc<ScanSpec>], shape: &Shape) -> f64 {
    let beside = |place: Place| scans.iter().filter(move |s| shape.place_of(s.table.name()) == place);
    match shape.place_of(spec.table.name()) {
        Place::Derived => DERIVED,
        Place::Subquery => SUBQUERY,
        Place::Materialized => MATERIALIZED,
        Place::From if beside(Place::From).count() < 2 => SINGLE,
        Place::From => {
            let is_smallest = beside(Place::From).all(|s| s.table.bytes() >= spec.table.bytes());
            if is_smallest { SMALLEST_OF_A_JOIN } else { JOINED }
        }
    }
}

/// How restrictive a filter looks.
fn score(filter: &Expr, scores: EarlyScores) -> f64 {
    let of = |term: &Expr| score(term, scores);
    match filter {
        Expr::And(terms) => terms.iter().map(of).sum(),
        Expr::Or(terms) => terms.iter().map(of).reduce(f64::min).unwrap_or(0.0),
        Expr::Compare(op, a, b) => match (&**a, &**b) {
            (Expr::Column(_), Expr::Const(v, _)) | (Expr::Const(v, _), Expr::Column(_)) => match op {
                CompareOp::Eq if is_restrictive(v) => scores.equal,
                CompareOp::Eq | CompareOp::NotEq => 0.0,
                CompareOp::Lt | CompareOp::LtEq | CompareOp::Gt | CompareOp::GtEq => scores.range_end,
            },
            _ => 0.0,
        },
        Expr::In { list, .. } if list.iter().all(is_restrictive) => scores.listed,
        Expr::Like { pattern, .. } => {
            let longest = pattern.split(['%', '_']).map(str::len).max().unwrap_or(0);
            if longest > 1 { scores.like } else { 0.0 }
        }
        _ => 0.0,
    }
}

/// A single character is on every page.
fn is_restrictive(v: &Value) -> bool {
    !matches!(v, Value::Bytes(b) if b.len() < 2) && !matches!(v, Value::Null | Value::Boolean(_))
}

#[cfg(test)]
mod tests {
    use lode_page::DataType;

    use super::*;

    #[test]
    fn equality_scores_more_than_a_range_and_scores_add_up() {
        let (column, text) = (|| Expr::Column(0), |s: &str| Expr::Const(Value::text(s), DataType::Text));
        let equal = |s: &str| Expr::compare(CompareOp::Eq, column(), text(s));
        let end = |op| Expr::compare(op, column(), Expr::Const(Value::Int(7), DataType::Date));
        let like = |pattern: &str| Expr::Like {
            value: Box::new(column()),
            pattern: pattern.into(),
            case_insensitive: false,
        };
        let scores = EarlyScores::default();
        let EarlyScores { equal: by_value, like: by_text, range_end, .. } = scores;
        let check = |e: Expr, expected: f64| assert_eq!(score(&e, scores), expected, "{e:?}");
        check(equal("EUROPE"), by_value);
        check(equal("F"), 0.0);
        check(like("%BRASS"), by_text);
        check(like("%B%"), 0.0);
        check(Expr::Not(Box::new(like("%BRASS"))), 0.0);
        check(end(CompareOp::LtEq), range_end);
        check(Expr::And(vec![end(CompareOp::GtEq), end(CompareOp::Lt)]), 2.0 * range_end);
        check(Expr::And(vec![equal("ab"), like("%BRASS")]), by_value + by_text);
        check(Expr::Or(vec![equal("ab"), end(CompareOp::Lt)]), range_end);
        check(Expr::compare(CompareOp::Lt, column(), Expr::Column(1)), 0.0);
        assert!(by_value > 2.0 * range_end && 2.0 * range_end >= SCORE_MIN && range_end < SCORE_MIN);
    }
}
