//! An evaluator by the definition, one row at a time, for comparison with the fast evaluator.

use lode_page::{DataType, Schema, Value};
use lode_program::keys::{NumberKeys, StringKeys};
use lode_program::{ArithOp, CompareOp, Expr, KeySet, type_of};

/// Whether the row passes.
pub(crate) fn passes(schema: &Schema, e: &Expr, get: &dyn Fn(u16) -> Value) -> bool {
    value(schema, e, get).0 == Value::Boolean(true)
}

/// The value and type of `e` in the row whose values `get` gives.
pub(crate) fn value(schema: &Schema, e: &Expr, get: &dyn Fn(u16) -> Value) -> (Value, DataType) {
    let t = type_of(schema, e).expect("checked");
    let sub = |e: &Expr| value(schema, e, get);
    let bool3 = |e: &Expr| match sub(e).0 {
        Value::Boolean(b) => Some(b),
        _ => None,
    };
    let lift = |b: Option<bool>| b.map_or(Value::Null, Value::Boolean);
    let v = match e {
        Expr::Column(c) => get(*c),
        Expr::Const(v, _) => v.clone(),
        Expr::Compare(op, a, b) => lift(sub(a).0.compare(&sub(b).0).map(|o| match op {
            CompareOp::Eq => o.is_eq(),
            CompareOp::NotEq => o.is_ne(),
            CompareOp::Lt => o.is_lt(),
            CompareOp::LtEq => o.is_le(),
            CompareOp::Gt => o.is_gt(),
            CompareOp::GtEq => o.is_ge(),
        })),
        Expr::And(terms) => decided(false, terms.iter().map(bool3).collect()),
        Expr::Or(terms) => decided(true, terms.iter().map(bool3).collect()),
        Expr::Not(a) => lift(bool3(a).map(|b| !b)),
        Expr::IsNull(a) => Value::Boolean(sub(a).0.is_null()),
        Expr::In { value, list } => {
            let v = sub(value).0;
            let hit = list.iter().any(|x| v.compare(x).is_some_and(|o| o.is_eq()));
            let unknown = v.is_null() || list.iter().any(Value::is_null);
            lift(if hit { Some(true) } else { (!unknown).then_some(false) })
        }
        Expr::InKeys { value, keys } => match (sub(value).0, &**keys) {
            (Value::Null, _) => Value::Null,
            (Value::Bytes(b), KeySet::Strings(StringKeys::List(l))) => Value::Boolean(l.contains(&b)),
            (Value::Int(v), KeySet::Numbers(n)) => Value::Boolean(has_number(n, v.into())),
            (Value::Decimal(v), KeySet::Numbers(n)) => Value::Boolean(has_number(n, v)),
            (v, keys) => panic!("{v:?} in {keys:?}"),
        },
        Expr::Like { value, pattern, .. } => match sub(value).0 {
            Value::Bytes(b) => {
                let text: Vec<char> = std::str::from_utf8(&b).expect("checked text").chars().collect();
                Value::Boolean(like(&text, &pattern.chars().collect::<Vec<_>>()))
            }
            _ => Value::Null,
        },
        Expr::Arith(op, a, b) => {
            let ((a, ta), (b, tb)) = (sub(a), sub(b));
            arith(*op, (a, ta), (b, tb), t)
        }
        Expr::Cast(a, to) => {
            let (v, from) = sub(a);
            let scale = |t| if let DataType::Decimal { scale, .. } = t { u32::from(scale) } else { 0 };
            match (v, to) {
                (Value::Int(i), DataType::Double) => Value::Double(i as f64),
                (Value::Int(i), DataType::Decimal { .. }) => {
                    Value::Decimal(i128::from(i).wrapping_mul(10i128.pow(scale(*to))))
                }
                (Value::Real(f), DataType::Double) => Value::Double(f.into()),
                (Value::Decimal(d), _) => {
                    Value::Decimal(d.wrapping_mul(10i128.pow(scale(*to) - scale(from))))
                }
                (v, _) => v,
            }
        }
    };
    (v, t)
}

/// One term decides; else one that is NULL makes it NULL.
fn decided(by: bool, terms: Vec<Option<bool>>) -> Value {
    match terms {
        t if t.contains(&Some(by)) => Value::Boolean(by),
        t if t.contains(&None) => Value::Null,
        _ => Value::Boolean(!by),
    }
}

fn arith(op: ArithOp, (a, ta): (Value, DataType), (b, tb): (Value, DataType), t: DataType) -> Value {
    let scale = |t| if let DataType::Decimal { scale, .. } = t { u32::from(scale) } else { 0 };
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            let exact = match op {
                ArithOp::Add => a.checked_add(b),
                ArithOp::Sub => a.checked_sub(b),
                ArithOp::Mul => a.checked_mul(b),
            };
            let exact = Value::Int(exact.expect("a result as wide as it takes"));
            assert!(exact.fits(t), "{op:?} of {ta} and {tb} is no {t}");
            exact
        }
        (Value::Decimal(a), Value::Decimal(b)) => {
            let s = scale(ta).max(scale(tb));
            let up = |v: i128, from| v.wrapping_mul(10i128.pow(s - scale(from)));
            Value::Decimal(match op {
                ArithOp::Add => up(a, ta).wrapping_add(up(b, tb)),
                ArithOp::Sub => up(a, ta).wrapping_sub(up(b, tb)),
                ArithOp::Mul => a.wrapping_mul(b),
            })
        }
        _ => Value::Null,
    }
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|n| like(&text[n..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest),
        ['\\', c, rest @ ..] | [c, rest @ ..] => text.first() == Some(c) && like(&text[1..], rest),
    }
}

/// Whether a number is in a set, of which each key is known.
fn has_number(keys: &NumberKeys, v: i128) -> bool {
    match keys {
        NumberKeys::List(l) => l.iter().any(|k| i128::from(*k) == v),
        NumberKeys::Bitmap { low, words } => {
            let at = v - i128::from(*low);
            (0..words.len() as i128 * 64).contains(&at) && words[(at / 64) as usize] & 1 << (at % 64) != 0
        }
        NumberKeys::Folded(bits) => bits >> v.rem_euclid(64) & 1 == 1,
        NumberKeys::Bloom { .. } => panic!("a Bloom filter does not say what is in it"),
    }
}
