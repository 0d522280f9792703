//! Plans a checked expression for evaluation.
//!
//! ```text
//!   Expr ─► Node { pred, columns, cost }     predicates: three-valued
//!             └─► Val                        values: NULL as soon as one of their columns is
//! ```
//!
//! Planning happens once for each program. Constants become places in their type's order. Comparisons with constants
//! become tests of one value. Lists are sorted and patterns are compiled. ANDs are flattened and ordered by cost, and
//! ranges over one column are merged.
//!
//! Invariant: a `Val` has no NULL constant in it, so it is NULL exactly where one of its columns is.

use std::sync::Arc;

use lode_page::{DataType, Schema, Value};

use crate::keys::{NumberKeys, StringKeys};
use crate::lanes::Data;
use crate::like::Pattern;
use crate::order_key::order_of;
use crate::sets::{BytesSet, IntSet};
use crate::{ArithOp, CompareOp, Expr, KeySet, check};

/// A predicate with its columns and its cost.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) pred: Pred,
    /// The columns that it reads, ascending, distinct.
    pub(crate) columns: Vec<u16>,
    /// The approximate cost of a row, in comparisons of integers.
    pub(crate) cost: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Pred {
    /// The same outcome for all rows; `None` is NULL.
    Const(Option<bool>),
    /// A BOOLEAN column.
    Column(u16),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    /// Whether a predicate is NULL.
    IsUnknown(Box<Node>),
    /// Whether a value is NULL: whether one of the node's columns is.
    IsNull,
    /// A test of a value; with `miss_is_null`, NULL instead of false.
    Test {
        value: Val,
        test: Test,
        miss_is_null: bool,
    },
    /// A comparison of two values.
    Compare {
        op: CompareOp,
        a: Val,
        b: Val,
    },
    /// A comparison of two predicates; false is less than true.
    BoolCompare {
        op: CompareOp,
        a: Box<Node>,
        b: Box<Node>,
    },
    /// Whether a predicate is among these outcomes; with `miss_is_null`, NULL instead of false.
    BoolIn {
        value: Box<Node>,
        has_true: bool,
        has_false: bool,
        miss_is_null: bool,
    },
}

/// A value that is not BOOLEAN.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    Column(u16),
    Const(Data<'static>),
    Arith {
        op: ArithOp,
        a: Box<Val>,
        b: Box<Val>,
    },
    /// To 32 bits.
    ToI32(Box<Val>),
    /// To 64 bits.
    ToI64(Box<Val>),
    ToDouble(Box<Val>),
    /// An integer or a decimal, times this.
    ToDecimal(Box<Val>, i128),
}

#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// From `low` to `high` in the type's order (nothing if `low > high`); with `outside`, everything else.
    Range { low: i128, high: i128, outside: bool },
    /// In a set of numbers.
    Ints(IntSet),
    /// Compared with a string.
    Bytes(CompareOp, Box<[u8]>),
    /// In a set of strings.
    Strings(BytesSet),
    /// In a key set that is no list.
    Keys(Arc<KeySet>),
    /// LIKE.
    Like(Pattern),
}

/// The plan of a predicate that passed the check over `schema`.
pub(crate) fn plan(schema: &Schema, e: &Expr) -> Node {
    Planner { schema }.pred(e)
}

/// The value of an aggregate's argument that passed the check over `schema`; `None` if it is always NULL.
pub(crate) fn value(schema: &Schema, e: &Expr) -> Option<Val> {
    Planner { schema }.val(e)
}

struct Planner<'a> {
    schema: &'a Schema,
}

impl Planner<'_> {
    fn type_of(&self, e: &Expr) -> DataType {
        // The looser of the two checks. For an expression that passed the stricter one, the type is the same.
        check::type_of_argument(self.schema, e).expect("the expression was checked")
    }

    fn pred(&self, e: &Expr) -> Node {
        match e {
            Expr::Column(c) => Node { pred: Pred::Column(*c), columns: vec![*c], cost: 1 },
            Expr::Const(v, _) => constant(if let Value::Boolean(b) = v { Some(*b) } else { None }),
            Expr::Compare(op, a, b) => self.compare(*op, a, b),
            Expr::And(terms) => {
                let mut flat = Vec::new();
                for t in terms {
                    match self.pred(t) {
                        Node { pred: Pred::And(inner), .. } => flat.extend(inner),
                        node => flat.push(node),
                    }
                }
                conjunction(merge_ranges(flat))
            }
            Expr::Or(terms) => {
                let mut nodes: Vec<_> = terms.iter().map(|t| self.pred(t)).collect();
                nodes.sort_by_key(|n| n.cost);
                let (columns, cost) = (union(&nodes), total(&nodes));
                Node { pred: Pred::Or(nodes), columns, cost }
            }
            Expr::Not(a) => {
                let a = self.pred(a);
                Node { columns: a.columns.clone(), cost: a.cost, pred: Pred::Not(Box::new(a)) }
            }
            Expr::IsNull(a) if self.type_of(a) == DataType::Boolean => {
                let a = self.pred(a);
                Node { columns: a.columns.clone(), cost: a.cost, pred: Pred::IsUnknown(Box::new(a)) }
            }
            Expr::IsNull(a) => match self.val(a) {
                None => constant(Some(true)),
                Some(_) => {
                    let mut columns = Vec::new();
                    a.columns(&mut columns);
                    columns.sort_unstable();
                    columns.dedup();
                    Node { pred: Pred::IsNull, cost: columns.len() as u32, columns }
                }
            },
            Expr::In { value, list } => self.in_list(value, list),
            Expr::InKeys { value, keys } => self.in_keys(value, keys),
            Expr::Like { value, pattern, .. } => self.test(value, Test::Like(Pattern::new(pattern)), false),
            // The only other BOOLEAN expression that passes the check is a cast of a BOOLEAN to itself.
            Expr::Cast(a, _) => self.pred(a),
            Expr::Arith(..) => unreachable!("arithmetic is not BOOLEAN"),
        }
    }

    fn compare(&self, op: CompareOp, a: &Expr, b: &Expr) -> Node {
        let t = self.type_of(a);
        if t == DataType::Boolean {
            let (a, b) = (Box::new(self.pred(a)), Box::new(self.pred(b)));
            let columns = union([&*a, &*b]);
            return Node { columns, cost: 1 + a.cost + b.cost, pred: Pred::BoolCompare { op, a, b } };
        }
        if let (Expr::Const(..), false) = (a, matches!(b, Expr::Const(..))) {
            return self.compare(op.flipped(), b, a);
        }
        if let Expr::Const(v, _) = b {
            return match (v, order_of(t, v)) {
                (Value::Null, _) => constant(None),
                (Value::Bytes(bytes), _) => self.test(a, Test::Bytes(op, bytes.clone()), false),
                (_, order) => self.test(a, range(op, order.expect("constants were checked")), false),
            };
        }
        let (Some(x), Some(y)) = (self.val(a), self.val(b)) else { return constant(None) };
        let mut columns = Vec::new();
        a.columns(&mut columns);
        b.columns(&mut columns);
        columns.sort_unstable();
        columns.dedup();
        let cost = 2 * weight(t) + x.cost() + y.cost();
        Node { pred: Pred::Compare { op, a: x, b: y }, columns, cost }
    }

    fn in_list(&self, value: &Expr, list: &[Value]) -> Node {
        let t = self.type_of(value);
        let has_null = list.iter().any(Value::is_null);
        if t == DataType::Boolean {
            let value = Box::new(self.pred(value));
            let has = |b| list.contains(&Value::Boolean(b));
            let (columns, cost) = (value.columns.clone(), 1 + value.cost);
            let pred =
                Pred::BoolIn { value, has_true: has(true), has_false: has(false), miss_is_null: has_null };
            return Node { pred, columns, cost };
        }
        let test = if t.is_variable() {
            let strings = |v: &Value| if let Value::Bytes(b) = v { Some(b.clone()) } else { None };
            Test::Strings(BytesSet::new(list.iter().filter_map(strings).collect()))
        } else {
            Test::Ints(IntSet::new(list.iter().filter_map(|v| order_of(t, v)).collect()))
        };
        let test = match test {
            Test::Ints(s) if s.values().is_empty() => return constant(None),
            Test::Strings(s) if s.values().is_empty() => return constant(None),
            // Neighbouring values, or one: a range.
            Test::Ints(s) => match *s.values() {
                [low, .., high] if high.checked_sub(low) == Some(s.values().len() as i128 - 1) => {
                    Test::Range { low, high, outside: false }
                }
                [only] => Test::Range { low: only, high: only, outside: false },
                _ => Test::Ints(s),
            },
            test => test,
        };
        self.test(value, test, has_null)
    }

    fn in_keys(&self, value: &Expr, keys: &Arc<KeySet>) -> Node {
        // An empty set is no constant: the outcome is NULL where the value is.
        let test = match &**keys {
            KeySet::Numbers(NumberKeys::List(list)) => {
                Test::Ints(IntSet::new(list.iter().map(|&k| k.into()).collect()))
            }
            KeySet::Strings(StringKeys::List(list)) => Test::Strings(BytesSet::new(list.clone())),
            _ => Test::Keys(keys.clone()),
        };
        self.test(value, test, false)
    }

    fn test(&self, value: &Expr, test: Test, miss_is_null: bool) -> Node {
        let Some(val) = self.val(value) else { return constant(None) };
        let mut columns = Vec::new();
        value.columns(&mut columns);
        columns.sort_unstable();
        columns.dedup();
        let weight = weight(self.type_of(value));
        let cost = val.cost()
            + match &test {
                Test::Range { .. } => weight,
                Test::Ints(s) => weight + s.values().len().min(16) as u32,
                Test::Bytes(..) => weight,
                Test::Strings(s) => weight + s.values().len().max(1).ilog2(),
                Test::Keys(_) => weight + 8,
                Test::Like(Pattern::Exact(_) | Pattern::Prefix(_) | Pattern::Suffix(_)) => weight,
                Test::Like(Pattern::Contains(_)) => 4 * weight,
                Test::Like(_) => 8 * weight,
            };
        Node { pred: Pred::Test { value: val, test, miss_is_null }, columns, cost }
    }

    /// The value, or `None` if it is always NULL.
    fn val(&self, e: &Expr) -> Option<Val> {
        Some(match e {
            Expr::Column(c) => Val::Column(*c),
            Expr::Const(v, t) => Val::Const(Data::constant(*t, v)?),
            Expr::Arith(op, a, b) => {
                let (ta, tb) = (self.type_of(a), self.type_of(b));
                let (mut a, mut b) = (self.val(a)?, self.val(b)?);
                if let (DataType::Decimal { scale: sa, .. }, DataType::Decimal { scale: sb, .. }) = (ta, tb) {
                    let to = if *op == ArithOp::Mul { 0 } else { sa.max(sb) };
                    a = Val::ToDecimal(Box::new(a), power(to.saturating_sub(sa)));
                    b = Val::ToDecimal(Box::new(b), power(to.saturating_sub(sb)));
                }
                Val::Arith { op: *op, a: Box::new(a), b: Box::new(b) }
            }
            Expr::Cast(a, to) => {
                let from = self.type_of(a);
                let a = Box::new(self.val(a)?);
                let scale = |t| if let DataType::Decimal { scale, .. } = t { scale } else { 0 };
                match to {
                    _ if from == *to => *a,
                    DataType::Integer => Val::ToI32(a),
                    DataType::BigInt => Val::ToI64(a),
                    DataType::Double => Val::ToDouble(a),
                    _ => Val::ToDecimal(a, power(scale(*to) - scale(from))),
                }
            }
            _ => unreachable!("predicates are not values"),
        })
    }
}

impl Val {
    /// The cost of a row, beyond reading a column.
    fn cost(&self) -> u32 {
        match self {
            Self::Column(_) | Self::Const(_) => 0,
            Self::Arith { a, b, .. } => 4 + a.cost() + b.cost(),
            Self::ToI32(a) | Self::ToI64(a) | Self::ToDouble(a) | Self::ToDecimal(a, _) => 2 + a.cost(),
        }
    }
}

fn constant(b: Option<bool>) -> Node {
    Node { pred: Pred::Const(b), columns: Vec::new(), cost: 0 }
}

fn power(digits: u8) -> i128 {
    10i128.pow(digits.into())
}

/// The cost of comparing a value of the type.
fn weight(t: DataType) -> u32 {
    match t {
        DataType::Boolean | DataType::SmallInt | DataType::Integer | DataType::Date | DataType::Real => 1,
        DataType::BigInt | DataType::Double | DataType::Timestamp | DataType::Decimal { .. } => 2,
        DataType::Text | DataType::Bytea => 16,
    }
}

fn total(nodes: &[Node]) -> u32 {
    nodes.iter().fold(0, |sum: u32, n| sum.saturating_add(n.cost))
}

fn union<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<u16> {
    let mut columns: Vec<u16> = nodes.into_iter().flat_map(|n| n.columns.iter().copied()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn conjunction(mut nodes: Vec<Node>) -> Node {
    nodes.sort_by_key(|n| n.cost);
    if nodes.len() == 1 {
        return nodes.remove(0);
    }
    let (columns, cost) = (union(&nodes), total(&nodes));
    Node { pred: Pred::And(nodes), columns, cost }
}

/// `c >= 1 AND c < 5` becomes one range. Both terms are NULL exactly where c is.
fn merge_ranges(nodes: Vec<Node>) -> Vec<Node> {
    let mut merged: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let Some((column, l, h)) = node.range() else {
            merged.push(node);
            continue;
        };
        let same = merged.iter_mut().find(|m| m.range().is_some_and(|(c, ..)| c == column));
        match same.map(|m| &mut m.pred) {
            Some(Pred::Test { test: Test::Range { low, high, .. }, .. }) => {
                (*low, *high) = (l.max(*low), h.min(*high));
            }
            _ => merged.push(node),
        }
    }
    merged
}

impl Node {
    /// The column and the bounds, when this is a range over a column.
    fn range(&self) -> Option<(u16, i128, i128)> {
        match &self.pred {
            Pred::Test {
                value: Val::Column(c),
                test: Test::Range { low, high, outside: false },
                miss_is_null: false,
            } => Some((*c, *low, *high)),
            _ => None,
        }
    }
}

/// The range of places that compare with `order` in this way.
fn range(op: CompareOp, order: i128) -> Test {
    let (low, high, outside) = match op {
        CompareOp::Eq => (order, order, false),
        CompareOp::NotEq => (order, order, true),
        CompareOp::LtEq => (i128::MIN, order, false),
        CompareOp::GtEq => (order, i128::MAX, false),
        // Nothing is less than the least place: the range is empty.
        CompareOp::Lt => match order.checked_sub(1) {
            Some(high) => (i128::MIN, high, false),
            None => (1, 0, false),
        },
        CompareOp::Gt => match order.checked_add(1) {
            Some(low) => (low, i128::MAX, false),
            None => (1, 0, false),
        },
    };
    Test::Range { low, high, outside }
}
