//! How many rows an operator answers, and how many values its columns have.
//!
//! ```text
//!   scan: rows x sampled share; distinct values by key, by bounds, by a page, or assumed
//!   aggregate: the product of its group columns' values       semi-join: the share of keys that match
//! ```
//!
//! Source: "Access path selection in a relational database management system" (1979) for joins by distinct values;
//! Cardenas' formula for the values that remain in a sample.

use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, JoinOnRef, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use lode_page::{DataType, Value};
use lode_program::Expr;

use super::{cost, unique};
use crate::columns::place_of;
use crate::join;
use crate::offload::Offload;
use crate::scan::distinct::distinct_in_table;
use crate::scan::{GroupForm, LodeScanExec, Passing, ScanSpec, engine_error};
use crate::translate::Translator;

/// The share of rows that is assumed to pass a condition that nothing is known of.
const UNKNOWN_SHARE: f64 = 1.0 / 3.0;
/// The same of an equality with something computed.
const UNKNOWN_EQUAL_SHARE: f64 = 0.1;
/// The rows of a source that says nothing.
const UNKNOWN_ROWS: f64 = 1000.0;
/// A text column without a key is assumed to have one value for so many rows.
const ROWS_A_TEXT: f64 = 10.0;

/// What is expected of an operator.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    pub(super) rows: f64,
    /// The rows before any condition: what keys refer to.
    pub(super) rows_before: f64,
    pub(super) columns: Vec<ColumnEstimate>,
    /// The rows of the tables below for which a key would be looked up in a key set: those that pass the other conditions of their scans.
    pub(super) looked_up: f64,
    /// What the operator and those below it cost, as far as that shrinks with the rows that a key set lets through.
    pub(super) work: f64,
}

/// What is expected of a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnEstimate {
    /// Distinct values before any condition.
    pub(super) domain: f64,
    /// The most distinct values that are left, as far as other columns say that equal it.
    pub(super) most: f64,
    /// Whether a scan below looks its values up in key sets, so that these exclude rows before they are answered.
    pub(super) takes_keys: bool,
    /// Bounds of its values in its table, if it is that table's key, a number.
    pub(super) key_bounds: Option<(i64, i64)>,
}

impl ColumnEstimate {
    fn computed(rows: f64) -> Self {
        Self { domain: rows.max(1.0), most: f64::INFINITY, takes_keys: false, key_bounds: None }
    }
}

impl Estimate {
    /// The share of the rows before conditions that passed them.
    pub(super) fn share(&self) -> f64 {
        if self.rows_before > 0.0 { (self.rows / self.rows_before).min(1.0) } else { 1.0 }
    }

    /// The share of a column's values that so many keys are.
    pub(super) fn key_share(keys: f64, domain: f64) -> f64 {
        keys / keys.max(domain)
    }

    /// Distinct values of a column in the rows that passed.
    pub(super) fn distinct(&self, column: usize) -> f64 {
        let column = &self.columns[column];
        remaining(column.domain, self.rows_before, self.rows).min(column.most)
    }

    fn with_rows(mut self, rows: f64) -> Self {
        self.rows = rows;
        self
    }
}

/// The distinct values in `rows` of `rows_before` rows that have `domain` of them.
fn remaining(domain: f64, rows_before: f64, rows: f64) -> f64 {
    if rows >= rows_before || domain <= 1.0 {
        return domain.min(rows.max(1.0));
    }
    let rows_a_value = (rows_before / domain).max(1.0);
    let share = 1.0 - (1.0 - rows / rows_before).powf(rows_a_value);
    (domain * share).clamp(1.0, rows.max(1.0))
}

/// The estimate of `plan`.
pub(super) fn estimate(plan: &Arc<dyn ExecutionPlan>) -> Result<Estimate> {
    if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
        return of_scan(scan);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let below = estimate(filter.input())?;
        let passed = of_filter(filter, &below)?.max(1.0);
        return Ok(match filter.projection() {
            Some(places) => projected(below.with_rows(passed), places.iter().map(|&i| Some(i))),
            None => below.with_rows(passed),
        });
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let places = projection.expr().iter();
        let places = places.map(|p| place_of(&p.expr));
        return Ok(projected(estimate(projection.input())?, places));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return of_aggregate(aggregate);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Ok(of_join(join, estimate(join.left())?, estimate(join.right())?));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let share = if join.filter().is_some() { UNKNOWN_SHARE } else { 1.0 };
        let pairs = Pairs { join_type: *join.join_type(), on: &[], key_rows: None, share };
        let joined = of_pairs(pairs, estimate(join.left())?, estimate(join.right())?);
        return Ok(of_places(joined, join.projection().as_deref()));
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        let pairs = Pairs { join_type: JoinType::Inner, on: &[], key_rows: None, share: 1.0 };
        return Ok(of_pairs(pairs, estimate(join.left())?, estimate(join.right())?));
    }
    if let Some(replaced) = join::replaced(plan.as_ref()) {
        return estimate(replaced);
    }
    if plan.is::<UnionExec>() {
        let rows = plan.children().into_iter().map(|input| Ok(estimate(input)?.rows)).sum::<Result<f64>>()?;
        return Ok(of_rows(rows.max(1.0), plan.schema().fields().len()));
    }
    match plan.children()[..] {
        // Sorts, limits, windows, and whatever else passes rows on.
        [input] if passes_rows_on(plan, input) => {
            let mut below = estimate(input)?;
            let rows = plan.fetch().map_or(below.rows, |n| below.rows.min(n as f64));
            below.columns.resize(plan.schema().fields().len(), ColumnEstimate::computed(rows));
            Ok(below.with_rows(rows))
        }
        _ => of_unknown(plan),
    }
}

/// Whether an operator answers its input's columns, perhaps more behind them, and at most its rows.
fn passes_rows_on(plan: &Arc<dyn ExecutionPlan>, input: &Arc<dyn ExecutionPlan>) -> bool {
    let (below, here) = (input.schema(), plan.schema());
    let is_window = plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>();
    below.fields().len() == here.fields().len() || is_window
}

/// The estimate of a scan.
pub(super) fn of_scan(scan: &LodeScanExec) -> Result<Estimate> {
    let of_rows = of_scanned_rows(scan)?;
    Ok(match &scan.spec().groups {
        Some(form) => of_groups(scan.spec(), form, &of_rows),
        None => of_rows,
    })
}

/// The estimate of the groups that the drive makes of these rows.
fn of_groups(spec: &ScanSpec, form: &GroupForm, of_rows: &Estimate) -> Estimate {
    let place = |c: &u16| spec.output.iter().position(|stored| stored == &Some(*c));
    let places: Vec<Option<usize>> = form.aggregation.group_by.iter().map(place).collect();
    of_group_columns(of_rows, &places, form.schema.fields().len())
}

/// The estimate of a scan's rows, before the drive makes groups of them.
fn of_scanned_rows(scan: &LodeScanExec) -> Result<Estimate> {
    let spec = scan.spec();
    let known = spec.snapshot.statistics(&spec.table).map_err(engine_error)?;
    let rows = (known.rows as f64).max(1.0);
    let key = &spec.table.def().primary_key;
    let column = |c: &Option<u16>| match *c {
        None => Ok(ColumnEstimate::computed(rows)),
        Some(c) => {
            let (at, data_type) = (usize::from(c), spec.table.schema().columns[usize::from(c)].data_type);
            let bounds = known.columns.get(at).and_then(Option::as_ref);
            let domain = match key[..] == [c] {
                true => rows,
                false => domain(data_type, bounds, rows, distinct_in_table(spec, c, rows)?),
            };
            let key_bounds = match bounds {
                Some((Value::Int(min), Value::Int(max))) if key[..] == [c] => Some((*min, *max)),
                _ => None,
            };
            let takes_keys = spec.offload != Offload::Off;
            Ok(ColumnEstimate { domain, most: f64::INFINITY, takes_keys, key_bounds })
        }
    };
    let passed = (rows * spec.selectivity).max(1.0);
    let answered = passed.min(scan.fetch().map_or(rows, |n| n as f64));
    Ok(Estimate {
        rows: answered,
        work: cost::answered(answered, spec.output.len()),
        rows_before: rows,
        columns: spec.output.iter().map(column).collect::<Result<_>>()?,
        looked_up: passed,
    })
}

/// The distinct values of a column with these bounds in a table of `rows` rows, of which a page may have shown how many there are.
fn domain(data_type: DataType, bounds: Option<&(Value, Value)>, rows: f64, found: Option<f64>) -> f64 {
    let span = match bounds {
        Some((Value::Int(min), Value::Int(max))) => Some((*max as f64 - *min as f64) + 1.0),
        Some((Value::Decimal(min), Value::Decimal(max))) => Some((*max as f64 - *min as f64) + 1.0),
        Some((Value::Boolean(min), Value::Boolean(max))) => Some(if min == max { 1.0 } else { 2.0 }),
        Some((min, max)) if min == max => Some(1.0),
        _ => None,
    };
    let assumed = match data_type {
        DataType::Text | DataType::Bytea => rows / ROWS_A_TEXT,
        _ => rows,
    };
    span.into_iter().chain(found).reduce(f64::min).unwrap_or(assumed).clamp(1.0, rows)
}

fn projected(below: Estimate, places: impl Iterator<Item = Option<usize>>) -> Estimate {
    let places: Vec<Option<usize>> = places.collect();
    let rows = below.rows;
    let column = |p: &Option<usize>| p.map_or(ColumnEstimate::computed(rows), |i| below.columns[i]);
    let columns = places.iter().map(column).collect();
    Estimate { columns, ..below }
}

/// The rows that pass a filter in the host. Those of a table are sampled, as they are where the drive filters.
fn of_filter(filter: &FilterExec, below: &Estimate) -> Result<f64> {
    let terms = split_conjunction(filter.predicate());
    let scan = filter.input().downcast_ref::<LodeScanExec>().filter(|scan| scan.is_plain());
    let Some(spec) = scan.map(LodeScanExec::spec).filter(|spec| spec.samples_in_host) else {
        return Ok(below.rows * terms.into_iter().map(|e| share_of(e, below)).product::<f64>());
    };
    let translator = Translator::new(spec.table.schema(), &spec.output);
    let (mut sampled, mut share) = (Vec::new(), 1.0);
    for term in terms {
        match translator.exact(term) {
            Some(term) => sampled.push(term),
            None => share *= share_of(term, below),
        }
    }
    let all = match sampled.len() {
        0 => return Ok(below.rows * share),
        1 => sampled.remove(0),
        _ => Expr::And(sampled),
    };
    let passing = Passing::of(&spec.snapshot, &spec.table, &all, &spec.counts)?;
    // The scan may read only the pages that an index names for the same filter.
    Ok((below.rows_before * passing.share).min(below.rows) * share)
}

fn share_of(e: &Arc<dyn PhysicalExpr>, below: &Estimate) -> f64 {
    let Some(b) = e.downcast_ref::<BinaryExpr>() else { return UNKNOWN_SHARE };
    let is_constant = |e: &Arc<dyn PhysicalExpr>| e.is::<Literal>();
    match (b.op(), place_of(b.left()), place_of(b.right())) {
        (Operator::Eq, Some(c), _) if is_constant(b.right()) => 1.0 / below.distinct(c),
        (Operator::Eq, _, Some(c)) if is_constant(b.left()) => 1.0 / below.distinct(c),
        (Operator::Eq, Some(c), Some(d)) => 1.0 / below.distinct(c).max(below.distinct(d)),
        (Operator::Eq, ..) => UNKNOWN_EQUAL_SHARE,
        _ => UNKNOWN_SHARE,
    }
}

fn of_aggregate(aggregate: &AggregateExec) -> Result<Estimate> {
    let groups = aggregate.group_expr().expr().iter();
    let places: Vec<Option<usize>> = groups.map(|(e, _)| place_of(e)).collect();
    let below = estimate(aggregate.input())?;
    Ok(of_group_columns(&below, &places, aggregate.schema().fields().len()))
}

/// The estimate of groups by these columns, with so many columns; `None` is a computed one.
fn of_group_columns(below: &Estimate, places: &[Option<usize>], answered: usize) -> Estimate {
    let values = |p: &Option<usize>| p.map_or(below.rows, |c| below.distinct(c));
    let before = |p: &Option<usize>| p.map_or(below.rows_before, |c| below.columns[c].domain);
    let rows = places.iter().map(values).product::<f64>().min(below.rows).max(1.0);
    let rows_before = places.iter().map(before).product::<f64>().min(below.rows_before).max(rows);
    let column = |p: &Option<usize>| match *p {
        Some(c) => ColumnEstimate { domain: below.columns[c].domain.min(rows_before), ..below.columns[c] },
        None => ColumnEstimate::computed(rows),
    };
    let mut columns: Vec<ColumnEstimate> = places.iter().map(column).collect();
    columns.resize(answered, ColumnEstimate::computed(rows));
    let work = below.work + cost::aggregated(below.rows);
    Estimate { rows, rows_before, columns, looked_up: below.looked_up, work }
}

/// The estimate of a join of these sides.
pub(super) fn of_join(join: &HashJoinExec, left: Estimate, right: Estimate) -> Estimate {
    let [of_left, of_right] = unique::met_by_key(join);
    let key_rows = [(of_left, left.rows_before), (of_right, right.rows_before)];
    let key_rows = key_rows.into_iter().filter(|(is_key, _)| *is_key).map(|(_, rows)| rows).reduce(f64::max);
    let pairs = Pairs { join_type: *join.join_type(), on: join.on(), key_rows, share: 1.0 };
    of_places(of_pairs(pairs, left, right), join.projection.as_deref())
}

/// The columns at these places; without places all.
fn of_places(of: Estimate, places: Option<&[usize]>) -> Estimate {
    match places {
        Some(places) => projected(of, places.iter().map(|&i| Some(i))),
        None => of,
    }
}

/// Which pairs of rows a join answers.
#[derive(Clone, Copy)]
struct Pairs<'a> {
    join_type: JoinType,
    on: JoinOnRef<'a>,
    /// The rows of the side whose key the columns are, if they are one: with two such sides, of the larger.
    key_rows: Option<f64>,
    /// The share of those with equal keys.
    share: f64,
}

/// The estimate of a join's pairs, with all columns.
fn of_pairs(pairs: Pairs<'_>, mut left: Estimate, mut right: Estimate) -> Estimate {
    let looked_up = left.looked_up + right.looked_up;
    let work = left.work + right.work;
    // The least number of values that one side's keys and the other side's have.
    let mut met: f64 = 1.0;
    let (mut left_share, mut right_share): (f64, f64) = (1.0, 1.0);
    // A join makes no new values, however many rows it answers.
    for side in [&mut left, &mut right] {
        (0..side.columns.len()).for_each(|c| side.columns[c].most = side.distinct(c));
    }
    for (a, b) in pairs.on {
        let of = |e: &Arc<dyn PhysicalExpr>, side: &Estimate| match place_of(e) {
            Some(c) => (side.columns[c].domain, side.distinct(c)),
            None => (side.rows, side.rows),
        };
        let ((a_domain, a_now), (b_domain, b_now)) = (of(a, &left), of(b, &right));
        met *= a_domain.max(b_domain).max(1.0);
        left_share = left_share.min(b_now / a_domain.max(b_domain).max(1.0));
        right_share = right_share.min(a_now / a_domain.max(b_domain).max(1.0));
        // Which values are left on both sides. Those of a preserved side are not concerned.
        if matches!(pairs.join_type, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi) {
            place_of(a).into_iter().for_each(|i| left.columns[i].most = left.columns[i].most.min(b_now));
            place_of(b).into_iter().for_each(|i| right.columns[i].most = right.columns[i].most.min(a_now));
        }
    }
    // The values of a key are as many as its rows. Else no more are known than there are rows.
    let most_met = pairs.key_rows.unwrap_or_else(|| left.rows_before.max(right.rows_before));
    let met = met.min(most_met).max(1.0);
    let inner = (left.rows * right.rows / met * pairs.share).max(1.0);
    let semi = |rows: f64, share: f64| (rows * share.min(1.0)).max(1.0);
    let anti = |rows: f64, share: f64| (rows * (1.0 - share).clamp(0.1, 1.0)).max(1.0);
    let mark = |mut side: Estimate| {
        side.columns.push(ColumnEstimate { domain: 2.0, ..ColumnEstimate::computed(2.0) });
        side
    };
    let both = |rows: f64| {
        let columns = left.columns.iter().chain(&right.columns).copied().collect();
        let rows_before = left.rows_before.max(right.rows_before).max(rows);
        Estimate { rows, rows_before, columns, looked_up, work }
    };
    let whole = match pairs.join_type {
        JoinType::Inner => both(inner),
        JoinType::Left => both(inner.max(left.rows)),
        JoinType::Right => both(inner.max(right.rows)),
        JoinType::Full => both(inner.max(left.rows + right.rows)),
        JoinType::LeftSemi => {
            let rows = semi(left.rows, left_share);
            left.with_rows(rows)
        }
        JoinType::RightSemi => {
            let rows = semi(right.rows, right_share);
            right.with_rows(rows)
        }
        JoinType::LeftAnti => {
            let rows = anti(left.rows, left_share);
            left.with_rows(rows)
        }
        JoinType::RightAnti => {
            let rows = anti(right.rows, right_share);
            right.with_rows(rows)
        }
        JoinType::LeftMark => mark(left),
        JoinType::RightMark => mark(right),
    };
    let out = cost::joined(whole.rows);
    Estimate { looked_up, work: work + out, ..whole }
}

fn of_unknown(plan: &Arc<dyn ExecutionPlan>) -> Result<Estimate> {
    let known = StatisticsContext::new().compute(&**plan, &StatisticsArgs::new())?;
    let rows = known.num_rows.get_value().map_or(UNKNOWN_ROWS, |n| *n as f64).max(1.0);
    Ok(of_rows(rows, plan.schema().fields().len()))
}

/// The estimate of so many rows of which nothing else is known.
fn of_rows(rows: f64, columns: usize) -> Estimate {
    let work = cost::answered(rows, columns);
    let columns = vec![ColumnEstimate::computed(rows); columns];
    Estimate { rows, rows_before: rows, columns, looked_up: rows, work }
}
