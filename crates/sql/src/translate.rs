//! Translates DataFusion's expressions to the drive's programs. Filters translate exactly or not at all; run-time
//! filters may be weakened.
//!
//! ```text
//!   logical filter ─► physical expression ─► exact ─► Expr that is NULL, true and false on the same rows
//!   run-time filter ─► current expression ─► weak ─► Expr that is true wherever the filter is
//! ```
//!
//! DataFusion's own planner lowers a logical filter first, so the translation starts from the expression that
//! DataFusion would run. If a program cannot express it exactly, the filter stays in the plan. Run-time filters may
//! be weakened: of an AND, to the parts that translate; of a CASE over partitions, to the union of its branches. A
//! lookup into a hash table is left to the join.
//!
//! Invariant: each result has passed the program's own type check.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType as ArrowType, Schema as ArrowSchema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column as NamedColumn, DFSchema, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr as LogicalExpr, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr,
    LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, create_physical_expr};
use lode_page::{DataType, Schema, Value};
use lode_program::{ArithOp, CompareOp, Expr, type_of, type_of_argument};

use crate::semantics::{SAME, checked_operator};

mod weak;

/// The deepest expression that is translated. The limit of programs is lower.
const DEPTH_MAX: usize = 256;

/// Translates expressions over the columns of one scan.
#[derive(Debug)]
pub struct Translator<'a> {
    schema: &'a Schema,
    /// The table's column for each column of the input; `None` for a column that no page stores.
    columns: &'a [Option<u16>],
    /// Expressions whose values a column has.
    stored: &'a [(Arc<dyn PhysicalExpr>, u16)],
}

/// Translates a filter over a whole table, of whose fields the first ones are the columns `stored`. `values`: expressions whose values a
/// column has. `None` if a program cannot express it exactly.
pub fn translate_filter(
    schema: &Schema,
    stored: &[u16],
    fields: usize,
    filter: &Arc<dyn PhysicalExpr>,
    values: &[(Arc<dyn PhysicalExpr>, u16)],
) -> Option<Expr> {
    let columns: Vec<Option<u16>> = (0..fields).map(|i| stored.get(i).copied()).collect();
    Translator { stored: values, ..Translator::new(schema, &columns) }.exact(filter)
}

/// The physical expression that DataFusion would evaluate for `filter` over the fields of `arrow`; `None` if it needs more than the row.
pub fn lower(arrow: &ArrowSchema, filter: &LogicalExpr) -> Option<Arc<dyn PhysicalExpr>> {
    let unqualified = filter
        .clone()
        .transform(|e| {
            Ok(match e {
                LogicalExpr::Column(c) => {
                    Transformed::yes(LogicalExpr::Column(NamedColumn::new_unqualified(c.name)))
                }
                e => Transformed::no(e),
            })
        })
        .data()
        .ok()?;
    let schema = DFSchema::try_from(arrow.clone()).ok()?;
    let context = PhysicalPlanningContext::default();
    create_physical_expr(&unqualified, &schema, &ExecutionProps::new(), &context).ok()
}

impl<'a> Translator<'a> {
    /// A translator of expressions whose column `i` is column `columns[i]` of a table with this schema.
    pub fn new(schema: &'a Schema, columns: &'a [Option<u16>]) -> Self {
        Self { schema, columns, stored: &[] }
    }

    /// The expression that has the same value (true, false or NULL) on every row, or `None`.
    pub fn exact(&self, e: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
        let translated = self.boolean(e)?;
        (type_of(self.schema, &translated).ok()? == DataType::Boolean).then_some(translated)
    }

    /// The argument of an aggregate: an expression with the same type and the same value on every row, or `None`.
    pub fn argument(&self, e: &Arc<dyn PhysicalExpr>, of: &ArrowType) -> Option<Expr> {
        let translated = self.walk(e, 0)?;
        (type_of_argument(self.schema, &translated).ok()? == column_type(of)?).then_some(translated)
    }

    /// An expression that is true on every row on which `e` is true, as tight as possible; `None` if nothing
    /// translates. Run-time filters and subqueries in `e` are taken with their current values.
    pub fn weak(&self, e: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
        weak::translate(self, e)
    }

    fn boolean(&self, e: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
        self.walk(e, 0)
    }

    fn walk(&self, e: &Arc<dyn PhysicalExpr>, depth: usize) -> Option<Expr> {
        if depth > DEPTH_MAX {
            return None;
        }
        if let Some((_, column)) = self.stored.iter().find(|(stored, _)| stored == e) {
            return Some(Expr::Column(*column));
        }
        let down = |e| self.walk(e, depth + 1);
        if let Some(c) = e.downcast_ref::<Column>() {
            return Some(Expr::Column((*self.columns.get(c.index())?)?));
        }
        if let Some(l) = e.downcast_ref::<Literal>() {
            return constant(l.value());
        }
        if let Some(b) = e.downcast_ref::<BinaryExpr>() {
            return self.binary(b.op(), down(b.left())?, down(b.right())?);
        }
        if let Some(n) = e.downcast_ref::<NotExpr>() {
            return Some(Expr::Not(Box::new(down(n.arg())?)));
        }
        if let Some(n) = e.downcast_ref::<IsNullExpr>() {
            return Some(Expr::IsNull(Box::new(down(n.arg())?)));
        }
        if let Some(n) = e.downcast_ref::<IsNotNullExpr>() {
            return Some(Expr::Not(Box::new(Expr::IsNull(Box::new(down(n.arg())?)))));
        }
        if let Some(l) = e.downcast_ref::<InListExpr>() {
            let found = self.in_list(down(l.expr())?, l)?;
            return Some(if l.negated() { Expr::Not(Box::new(found)) } else { found });
        }
        if let Some(l) = e.downcast_ref::<LikeExpr>() {
            let pattern = l.pattern().downcast_ref::<Literal>()?.value().try_as_str()??.to_owned();
            if l.case_insensitive() {
                return None;
            }
            let like = Expr::Like { value: Box::new(down(l.expr())?), pattern, case_insensitive: false };
            return Some(if l.negated() { Expr::Not(Box::new(like)) } else { like });
        }
        if let Some(c) = e.downcast_ref::<CastExpr>() {
            return cast(down(c.expr())?, c.cast_type(), |e| type_of_argument(self.schema, e).ok());
        }
        if let Some(f) = e.downcast_ref::<ScalarFunctionExpr>() {
            return match (f.name(), f.args()) {
                (SAME, [of]) => down(of),
                (name, [a, b]) => self.binary(&checked_operator(name)?, down(a)?, down(b)?),
                _ => None,
            };
        }
        if e.downcast_ref::<ScalarSubqueryExpr>().is_some() {
            return constant(&value_now(e)?);
        }
        None
    }

    fn in_list(&self, value: Expr, l: &InListExpr) -> Option<Expr> {
        let t = type_of(self.schema, &value).ok()?;
        // Floats: equality in the list's hash table differs from equality in the order of comparisons.
        if t.is_float() {
            return None;
        }
        let list = l.list().iter().map(|item| match constant(item.downcast_ref::<Literal>()?.value())? {
            Expr::Const(v, u) if same_values(t, u) => Some(v),
            _ => None,
        });
        Some(Expr::In { value: Box::new(value), list: list.collect::<Option<_>>()? })
    }

    fn binary(&self, op: &Operator, a: Expr, b: Expr) -> Option<Expr> {
        let arith = |op, a, b| Some(Expr::Arith(op, Box::new(a), Box::new(b)));
        match op {
            Operator::Eq => self.compare(CompareOp::Eq, a, b),
            Operator::NotEq => self.compare(CompareOp::NotEq, a, b),
            Operator::Lt => self.compare(CompareOp::Lt, a, b),
            Operator::LtEq => self.compare(CompareOp::LtEq, a, b),
            Operator::Gt => self.compare(CompareOp::Gt, a, b),
            Operator::GtEq => self.compare(CompareOp::GtEq, a, b),
            Operator::Plus => arith(ArithOp::Add, a, b),
            Operator::Minus => arith(ArithOp::Sub, a, b),
            Operator::Multiply => arith(ArithOp::Mul, a, b),
            Operator::And => Some(Expr::And(joined(a, b, |e| match e {
                Expr::And(terms) => Ok(terms),
                e => Err(e),
            }))),
            Operator::Or => Some(Expr::Or(joined(a, b, |e| match e {
                Expr::Or(terms) => Ok(terms),
                e => Err(e),
            }))),
            Operator::IsNotDistinctFrom => self.not_distinct(a, b),
            Operator::IsDistinctFrom => Some(Expr::Not(Box::new(self.not_distinct(a, b)?))),
            _ => None,
        }
    }

    /// A comparison as DataFusion evaluates it. Floats are in total order, except that -0 equals +0.
    fn compare(&self, op: CompareOp, a: Expr, b: Expr) -> Option<Expr> {
        let t = type_of(self.schema, &a).ok()?;
        if !t.is_float() {
            return Some(Expr::compare(op, a, b));
        }
        let (op, value, constant) = match (&a, &b) {
            (Expr::Const(..), Expr::Const(..)) => return None,
            (_, Expr::Const(v, _)) => (op, a, v.clone()),
            (Expr::Const(v, _), _) => (op.flipped(), b, v.clone()),
            // It is not known whether a column holds a zero.
            _ => return None,
        };
        let (minus, plus) = match constant {
            Value::Real(0.0) => (Value::Real(-0.0), Value::Real(0.0)),
            Value::Double(0.0) => (Value::Double(-0.0), Value::Double(0.0)),
            v => return Some(Expr::compare(op, value, Expr::Const(v, t))),
        };
        let (minus, plus) = (Expr::Const(minus, t), Expr::Const(plus, t));
        Some(match op {
            CompareOp::Eq => Expr::between(value, minus, plus),
            CompareOp::NotEq => Expr::Not(Box::new(Expr::between(value, minus, plus))),
            CompareOp::Lt | CompareOp::GtEq => Expr::compare(op, value, minus),
            CompareOp::LtEq | CompareOp::Gt => Expr::compare(op, value, plus),
        })
    }

    /// IS NOT DISTINCT FROM: both NULL, or neither NULL and equal. The result is never NULL: where `a = b` is NULL,
    /// the other term of the AND is false.
    fn not_distinct(&self, a: Expr, b: Expr) -> Option<Expr> {
        let null = |e: &Expr| Expr::IsNull(Box::new(e.clone()));
        let known = |e: &Expr| Expr::Not(Box::new(null(e)));
        let both_null = Expr::And(vec![null(&a), null(&b)]);
        let equal = Expr::And(vec![known(&a), known(&b), self.compare(CompareOp::Eq, a, b)?]);
        Some(Expr::Or(vec![both_null, equal]))
    }
}

/// Whether values of both types compare without a cast: types are equal, or decimals of one scale.
fn same_values(a: DataType, b: DataType) -> bool {
    match (a, b) {
        (DataType::Decimal { scale: a, .. }, DataType::Decimal { scale: b, .. }) => a == b,
        _ => a == b,
    }
}

/// The current value of an expression without columns, such as a subquery that has run.
fn value_now(e: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::new(ArrowSchema::empty()), vec![], &one_row).ok()?;
    match e.evaluate(&batch).ok()? {
        ColumnarValue::Scalar(v) => Some(v),
        ColumnarValue::Array(a) => ScalarValue::try_from_array(&a, 0).ok(),
    }
}

/// The terms of both sides. A nested operator of the same kind is flattened.
fn joined(a: Expr, b: Expr, terms: impl Fn(Expr) -> Result<Vec<Expr>, Expr>) -> Vec<Expr> {
    let mut all = terms(a).unwrap_or_else(|e| vec![e]);
    all.extend(terms(b).unwrap_or_else(|e| vec![e]));
    all
}

/// A cast that cannot fail. A cast from text to another layout of text is dropped. The check of programs refuses all
/// others.
fn cast(e: Expr, to: &ArrowType, type_of: impl Fn(&Expr) -> Option<DataType>) -> Option<Expr> {
    let from = type_of(&e)?;
    let to = column_type(to)?;
    Some(if from == to { e } else { Expr::Cast(Box::new(e), to) })
}

/// The type of a page's column that holds the values of this Arrow type, strings of any layout.
fn column_type(t: &ArrowType) -> Option<DataType> {
    match t {
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => Some(DataType::Text),
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => Some(DataType::Bytea),
        other => data_type(other),
    }
}

/// The type of a page's column that holds the values of this Arrow type in the same unit.
fn data_type(t: &ArrowType) -> Option<DataType> {
    use datafusion::arrow::datatypes::TimeUnit::Microsecond;
    Some(match t {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int16 => DataType::SmallInt,
        ArrowType::Int32 => DataType::Integer,
        ArrowType::Int64 => DataType::BigInt,
        ArrowType::Float32 => DataType::Real,
        ArrowType::Float64 => DataType::Double,
        ArrowType::Decimal128(precision, scale) if *scale >= 0 => {
            DataType::Decimal { precision: *precision, scale: *scale as u8 }
        }
        ArrowType::Date32 => DataType::Date,
        ArrowType::Timestamp(Microsecond, None) => DataType::Timestamp,
        _ => return None,
    })
}

/// A literal as the program's constant, if its type is one of ours.
fn constant(v: &ScalarValue) -> Option<Expr> {
    let int = |v: Option<i64>, t| Some(Expr::Const(v.map_or(Value::Null, Value::Int), t));
    let bytes = |v: Option<&[u8]>, t| Some(Expr::Const(v.map_or(Value::Null, |b| Value::Bytes(b.into())), t));
    let constant = |v: Option<Value>, t| Some(Expr::Const(v.unwrap_or(Value::Null), t));
    match v {
        ScalarValue::Boolean(v) => constant(v.map(Value::Boolean), DataType::Boolean),
        ScalarValue::Int16(v) => int(v.map(i64::from), DataType::SmallInt),
        ScalarValue::Int32(v) => int(v.map(i64::from), DataType::Integer),
        ScalarValue::Int64(v) => int(*v, DataType::BigInt),
        ScalarValue::Date32(v) => int(v.map(i64::from), DataType::Date),
        ScalarValue::TimestampMicrosecond(v, None) => int(*v, DataType::Timestamp),
        ScalarValue::Float32(v) => constant(v.map(Value::Real), DataType::Real),
        ScalarValue::Float64(v) => constant(v.map(Value::Double), DataType::Double),
        ScalarValue::Decimal128(v, precision, scale) if *scale >= 0 => {
            let t = DataType::Decimal { precision: *precision, scale: *scale as u8 };
            constant(v.map(Value::Decimal), t)
        }
        ScalarValue::Utf8(v) | ScalarValue::LargeUtf8(v) | ScalarValue::Utf8View(v) => {
            bytes(v.as_ref().map(|s| s.as_bytes()), DataType::Text)
        }
        ScalarValue::Binary(v) | ScalarValue::LargeBinary(v) | ScalarValue::BinaryView(v) => {
            bytes(v.as_deref(), DataType::Bytea)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;
    use datafusion::common::DFSchema;
    use datafusion::functions::expr_fn::random;
    use datafusion::logical_expr::{Expr as L, cast as cast_to, col, lit};
    use lode_page::ColumnType;

    use super::*;

    fn table() -> (Schema, ArrowSchema) {
        let types = [
            ("b", DataType::Boolean),
            ("i", DataType::Integer),
            ("l", DataType::BigInt),
            ("r", DataType::Double),
            ("d", DataType::Decimal { precision: 15, scale: 2 }),
            ("s", DataType::Text),
            ("t", DataType::Date),
        ];
        let columns = types.iter().map(|&(_, data_type)| ColumnType { data_type, nullable: true }).collect();
        let fields: Vec<Field> =
            types.iter().map(|&(n, t)| Field::new(n, crate::arrow_convert::arrow_type(t), true)).collect();
        (Schema { version: 1, columns, absent: Vec::new() }, ArrowSchema::new(fields))
    }

    fn translated(e: L) -> Option<Expr> {
        let (schema, arrow) = table();
        let stored: Vec<u16> = (0..schema.columns.len() as u16).collect();
        translate_filter(&schema, &stored, stored.len(), &lower(&arrow, &e)?, &[])
    }

    fn c(i: u16) -> Expr {
        Expr::Column(i)
    }

    fn int(v: i64, t: DataType) -> Expr {
        Expr::Const(Value::Int(v), t)
    }

    #[test]
    fn what_a_program_can_say_is_said() {
        let check = |e: L, expected: Expr| assert_eq!(translated(e.clone()), Some(expected), "{e}");
        check(col("i").lt(lit(5i32)), Expr::compare(CompareOp::Lt, c(1), int(5, DataType::Integer)));
        check(col("b"), c(0));
        check(!col("b"), Expr::Not(Box::new(c(0))));
        check(col("s").is_null(), Expr::IsNull(Box::new(c(5))));
        check(
            col("i").between(lit(1i32), lit(2i32)),
            Expr::between(c(1), int(1, DataType::Integer), int(2, DataType::Integer)),
        );
        let d = DataType::Decimal { precision: 15, scale: 2 };
        check(
            col("d").gt_eq(lit(ScalarValue::Decimal128(Some(5), 15, 2))),
            Expr::compare(CompareOp::GtEq, c(4), Expr::Const(Value::Decimal(5), d)),
        );
        check(
            col("s").not_like(lit(ScalarValue::Utf8View(Some("a%_\\%".into())))),
            Expr::Not(Box::new(Expr::Like {
                value: Box::new(c(5)),
                pattern: "a%_\\%".into(),
                case_insensitive: false,
            })),
        );
        let list: Vec<L> = ["x", "y", "z", "w"].map(|s| lit(ScalarValue::Utf8View(Some(s.into())))).into();
        check(
            col("s").in_list(list, true),
            Expr::Not(Box::new(Expr::In {
                value: Box::new(c(5)),
                list: ["x", "y", "z", "w"].map(Value::text).into(),
            })),
        );
        check(
            cast_to(col("i"), ArrowType::Int64).eq(col("l")),
            Expr::compare(CompareOp::Eq, Expr::Cast(Box::new(c(1)), DataType::BigInt), c(2)),
        );
        check(
            col("b").or(col("i").eq(lit(1i32))).or(col("s").is_null()),
            Expr::Or(vec![
                c(0),
                Expr::compare(CompareOp::Eq, c(1), int(1, DataType::Integer)),
                Expr::IsNull(Box::new(c(5))),
            ]),
        );
    }

    #[test]
    fn both_zeros_of_floats_are_one_value() {
        let zero = |v: f64| Expr::Const(Value::Double(v), DataType::Double);
        let cmp = |op, v| Expr::compare(op, c(3), zero(v));
        let check = |e: L, expected: Expr| {
            // The texts are compared, since 0.0 == -0.0 for PartialEq.
            assert_eq!(format!("{:?}", translated(e.clone())), format!("{:?}", Some(expected)), "{e}");
        };
        for literal in [0.0, -0.0] {
            check(col("r").eq(lit(literal)), Expr::between(c(3), zero(-0.0), zero(0.0)));
            check(col("r").lt(lit(literal)), cmp(CompareOp::Lt, -0.0));
            check(col("r").lt_eq(lit(literal)), cmp(CompareOp::LtEq, 0.0));
            check(lit(literal).lt(col("r")), cmp(CompareOp::Gt, 0.0));
            check(col("r").gt_eq(lit(literal)), cmp(CompareOp::GtEq, -0.0));
        }
        check(col("r").lt(lit(1.5)), cmp(CompareOp::Lt, 1.5));
        assert_eq!(translated(col("r").eq(col("r"))), None);
    }

    #[test]
    fn what_a_program_can_not_say_stays_above() {
        for e in [
            col("i").lt(col("l")),
            (col("l") / lit(2i64)).eq(lit(1i64)),
            (col("l") % lit(2i64)).eq(lit(1i64)),
            cast_to(col("l"), ArrowType::Int32).eq(lit(1i32)),
            cast_to(col("s"), ArrowType::Int64).eq(lit(1i64)),
            cast_to(col("l"), ArrowType::Float64).eq(lit(1f64)),
            col("s").ilike(lit(ScalarValue::Utf8View(Some("a%".into())))),
            col("s").like(col("s")),
            col("r").in_list(vec![lit(1f64), lit(2f64), lit(3f64), lit(4f64)], false),
            random().lt(lit(0.5f64)),
            col("nothing").eq(lit(1i32)),
            col("i"),
        ] {
            assert_eq!(translated(e.clone()), None, "{e}");
        }
    }

    #[test]
    fn a_column_that_no_page_stores_declines() {
        let (schema, arrow) = table();
        let df = DFSchema::try_from(arrow.clone()).unwrap();
        let context = PhysicalPlanningContext::default();
        let e = create_physical_expr(&col("b"), &df, &ExecutionProps::new(), &context).unwrap();
        assert_eq!(Translator::new(&schema, &[None]).exact(&e), None);
    }
}
