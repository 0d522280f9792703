//! Weakens run-time filters to expressions that programs have.
//!
//! ```text
//!   bounds AND hash_lookup(k)                  ─► bounds
//!   CASE hash(k) % 2 WHEN 0 THEN a ELSE b END  ─► a OR b, or the hull of both where they are ranges and lists
//! ```
//!
//! Invariant: the result is true wherever the filter is true. Nothing is negated here, since a weakened expression
//! becomes too strong under a NOT.

use super::{
    Arc, BinaryExpr, CaseExpr, CompareOp, DataType, DynamicFilterPhysicalExpr, Expr, Literal, Operator,
    PhysicalExpr, ScalarValue, Translator, Value, type_of,
};

/// The longest list that is merged from the lists of several partitions. Longer ones are reduced to their bounds.
const LIST_MAX: usize = 32_768;

pub(super) fn translate(t: &Translator<'_>, e: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    let weakened = walk(t, e, 0)?;
    (type_of(t.schema, &weakened).ok()? == DataType::Boolean).then_some(weakened)
}

fn walk(t: &Translator<'_>, e: &Arc<dyn PhysicalExpr>, depth: usize) -> Option<Expr> {
    if depth > super::DEPTH_MAX {
        return None;
    }
    if let Some(d) = e.downcast_ref::<DynamicFilterPhysicalExpr>() {
        return walk(t, &d.current().ok()?, depth + 1);
    }
    if let Some(l) = e.downcast_ref::<Literal>() {
        // A filter that is true excludes nothing; one that is false or NULL excludes every row.
        let passes = matches!(l.value(), ScalarValue::Boolean(Some(true)));
        return (!passes).then_some(Expr::Const(Value::Boolean(false), DataType::Boolean));
    }
    if let Some(c) = e.downcast_ref::<CaseExpr>() {
        let branches = c.when_then_expr().iter().map(|(_, then)| then).chain(c.else_expr());
        return union(branches.map(|b| walk(t, b, depth + 1)).collect::<Option<_>>()?);
    }
    if let Some(b) = e.downcast_ref::<BinaryExpr>() {
        match b.op() {
            Operator::And => {
                let (left, right) = (walk(t, b.left(), depth + 1), walk(t, b.right(), depth + 1));
                return match (left, right) {
                    (Some(left), Some(right)) => Some(all_of([terms(left), terms(right)].concat())),
                    (left, right) => left.or(right),
                };
            }
            Operator::Or => {
                return union(vec![walk(t, b.left(), depth + 1)?, walk(t, b.right(), depth + 1)?]);
            }
            _ => {}
        }
    }
    t.exact(e)
}

fn terms(e: Expr) -> Vec<Expr> {
    match e {
        Expr::And(terms) => terms,
        e => vec![e],
    }
}

fn all_of(mut terms: Vec<Expr>) -> Expr {
    if terms.len() == 1 { terms.remove(0) } else { Expr::And(terms) }
}

/// An expression that is true wherever one of the branches is.
fn union(mut branches: Vec<Expr>) -> Option<Expr> {
    let nothing = Expr::Const(Value::Boolean(false), DataType::Boolean);
    branches.retain(|b| *b != nothing);
    match branches.len() {
        0 => Some(nothing),
        1 => branches.pop(),
        _ => Some(hull(&branches).unwrap_or(Expr::Or(branches))),
    }
}

/// For each value, one range and one list that enclose those of all branches. This is nearly as tight as their union,
/// since the partitions of a hash cover the same range, and it is cheaper to evaluate. `None` if a branch is anything
/// else.
fn hull(branches: &[Expr]) -> Option<Expr> {
    let mut sides = branches.iter().map(|b| terms(b.clone()));
    let mut hull: Vec<Expr> = sides.next()?.into_iter().filter(is_bound).collect();
    for side in sides {
        if !side.iter().all(is_bound) {
            return None;
        }
        hull = hull.into_iter().filter_map(|h| side.iter().find_map(|s| around(&h, s))).collect();
    }
    if hull.is_empty() || !terms(branches[0].clone()).iter().all(is_bound) {
        return None;
    }
    Some(all_of(hull))
}

fn is_bound(e: &Expr) -> bool {
    match e {
        Expr::Compare(CompareOp::GtEq | CompareOp::LtEq, _, b) => {
            matches!(&**b, Expr::Const(v, _) if !v.is_null())
        }
        Expr::In { list, .. } => !list.iter().any(Value::is_null),
        _ => false,
    }
}

/// The weaker of two bounds of one kind on one value.
fn around(a: &Expr, b: &Expr) -> Option<Expr> {
    match (a, b) {
        (Expr::Compare(op, x, low), Expr::Compare(op_b, y, other)) if op == op_b && x == y => {
            let (Expr::Const(v, t), Expr::Const(w, u)) = (&**low, &**other) else { return None };
            if !super::same_values(*t, *u) {
                return None;
            }
            let v_is_lower = v.compare(w)?.is_le();
            let wider = if v_is_lower == (*op == CompareOp::GtEq) { low } else { other };
            Some(Expr::Compare(*op, x.clone(), wider.clone()))
        }
        (Expr::In { value: x, list }, Expr::In { value: y, list: more })
            if x == y && list.len() + more.len() <= LIST_MAX =>
        {
            let list = list.iter().chain(more).cloned().collect();
            Some(Expr::In { value: x.clone(), list })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema as ArrowSchema};
    use datafusion::physical_expr::expressions::{Column, binary, lit};
    use lode_page::{ColumnType, Schema};

    use super::*;

    fn column() -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("k", 0))
    }

    fn arrow() -> ArrowSchema {
        ArrowSchema::new(vec![Field::new("k", ArrowType::Int64, true)])
    }

    fn op(a: Arc<dyn PhysicalExpr>, o: Operator, b: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        binary(a, o, b, &arrow()).unwrap()
    }

    fn range(low: i64, high: i64) -> Arc<dyn PhysicalExpr> {
        let low = op(column(), Operator::GtEq, lit(low));
        op(low, Operator::And, op(column(), Operator::LtEq, lit(high)))
    }

    fn opaque() -> Arc<dyn PhysicalExpr> {
        op(op(column(), Operator::Modulo, lit(7i64)), Operator::Eq, lit(3i64))
    }

    fn weak(e: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
        let k = ColumnType { data_type: DataType::BigInt, nullable: true };
        let schema = Schema { version: 1, columns: vec![k], absent: Vec::new() };
        Translator::new(&schema, &[Some(0)]).weak(e)
    }

    fn bounds(low: i64, high: i64) -> Expr {
        let c = |v| Expr::Const(Value::Int(v), DataType::BigInt);
        Expr::between(Expr::Column(0), c(low), c(high))
    }

    #[test]
    fn the_opaque_part_of_a_conjunction_is_dropped() {
        assert_eq!(weak(&op(range(3, 9), Operator::And, opaque())), Some(bounds(3, 9)));
        assert_eq!(weak(&op(opaque(), Operator::And, range(3, 9))), Some(bounds(3, 9)));
        assert_eq!(weak(&opaque()), None);
        assert_eq!(weak(&op(range(3, 9), Operator::Or, opaque())), None);
    }

    #[test]
    fn a_case_over_partitions_is_the_hull_of_its_branches() {
        let route = op(column(), Operator::Modulo, lit(2i64));
        let case = |a, b| -> Arc<dyn PhysicalExpr> {
            let whens = vec![(lit(0i64), a), (lit(1i64), b)];
            Arc::new(CaseExpr::try_new(Some(route.clone()), whens, Some(lit(false))).unwrap())
        };
        let a = op(range(3, 9), Operator::And, opaque());
        assert_eq!(weak(&case(a.clone(), range(1, 8))), Some(bounds(1, 9)));
        assert_eq!(weak(&case(a.clone(), lit(false))), Some(bounds(3, 9)));
        assert_eq!(weak(&case(a, lit(true))), None);
    }

    #[test]
    fn a_dynamic_filter_counts_with_its_current_value() {
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column()], lit(true)));
        let e: Arc<dyn PhysicalExpr> = filter.clone();
        assert_eq!(weak(&e), None);
        filter.update(range(5, 6)).unwrap();
        assert_eq!(weak(&e), Some(bounds(5, 6)));
        filter.update(lit(false)).unwrap();
        assert_eq!(weak(&e), Some(Expr::Const(Value::Boolean(false), DataType::Boolean)));
    }
}
