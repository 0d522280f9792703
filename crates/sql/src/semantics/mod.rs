//! The meaning of expressions: PostgreSQL's answer where DataFusion's differs.
//!
//! ```text
//!   statement's tree ─► prepare (types of literals, rows, casts to VARCHAR(n)) ─► plan
//!   plan ─► whole nodes: membership, set_operations ─► outer references with the types of their columns
//!        ─► BEFORE_COERCION ─► DataFusion's coercion of types
//!        ─► orders of intervals and floats ─► AFTER_COERCION: both sides of an operator have their type
//! ```
//!
//! [`expression`] does the same for an expression outside a plan (CHECK).
//!
//! Invariant: an expression that DataFusion would answer differently from PostgreSQL is either corrected or refused.

mod arithmetic;
mod cast;
mod checked_cast;
mod compare;
mod decimal;
mod existence;
mod float;
mod float_aggregate;
mod guarded;
mod in_list;
mod interval;
mod interval_times;
mod kernel;
mod membership;
mod moment;
mod numeric;
mod operands;
mod outer_references;
mod set_operations;
mod single_value;
mod sum;
mod text;
mod time;
pub(crate) mod timestamp_digits;
mod to_char;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{Analyzer, AnalyzerRule};

pub(crate) use cast::{sql_name, to_column_type};
pub(crate) use checked_cast::{cast_or_null, unfit};
pub(crate) use decimal::checked_operator;
pub(crate) use in_list::SAME;
pub(crate) use sum::CHECKED_SUM;
pub(crate) use text::as_copied;

use membership::UnknownMembership;

use crate::series::{self, LateralFunctions};

/// A rule that rewrites every expression of a plan.
struct ExpressionRule {
    name: &'static str,
    reach: Reach,
    /// The families of types that it concerns.
    of: u8,
    rewrite: fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
}

/// What a rule is applied to.
enum Reach {
    /// Each expression and each part of one, from the leaves up.
    Parts,
    /// Each expression as a whole.
    Whole,
}

impl std::fmt::Debug for ExpressionRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

static BEFORE_COERCION: [ExpressionRule; 9] = [
    ExpressionRule { name: "guarded_in_lists", reach: Reach::Whole, of: ANY, rewrite: in_list::rewrite },
    ExpressionRule { name: "comparable_types", reach: Reach::Parts, of: ANY, rewrite: compare::rewrite },
    ExpressionRule { name: "spelling", reach: Reach::Parts, of: ANY, rewrite: text::rewrite },
    ExpressionRule { name: "casts", reach: Reach::Parts, of: ANY, rewrite: cast::rewrite },
    ExpressionRule { name: "moments", reach: Reach::Parts, of: MOMENTS, rewrite: time::rewrite },
    ExpressionRule { name: "wide_floats", reach: Reach::Parts, of: FLOATS, rewrite: float::widen },
    ExpressionRule { name: "sums_of_bigint", reach: Reach::Parts, of: ANY, rewrite: sum::rewrite },
    ExpressionRule {
        name: "double_meets_decimal",
        reach: Reach::Parts,
        of: FLOATS,
        rewrite: numeric::rewrite,
    },
    ExpressionRule {
        name: "numerics_of_other_types",
        reach: Reach::Parts,
        of: NUMERICS,
        rewrite: decimal::before_coercion,
    },
];

static AFTER_COERCION: [ExpressionRule; 8] = [
    ExpressionRule { name: "columns_first", reach: Reach::Parts, of: ANY, rewrite: compare::column_first },
    ExpressionRule {
        name: "aggregates_of_floats",
        reach: Reach::Parts,
        of: FLOATS,
        rewrite: float_aggregate::rewrite,
    },
    ExpressionRule { name: "checked_floats", reach: Reach::Parts, of: FLOATS, rewrite: float::check },
    ExpressionRule { name: "checked_numerics", reach: Reach::Parts, of: NUMERICS, rewrite: decimal::rewrite },
    ExpressionRule { name: "intervals", reach: Reach::Parts, of: MOMENTS, rewrite: interval::rewrite },
    ExpressionRule { name: "checked_arithmetic", reach: Reach::Parts, of: ANY, rewrite: arithmetic::rewrite },
    ExpressionRule { name: "guarded_functions", reach: Reach::Parts, of: ANY, rewrite: guarded::rewrite },
    ExpressionRule { name: "checked_casts", reach: Reach::Parts, of: ANY, rewrite: checked_cast::rewrite },
];

/// Families of types, a bit each.
const FLOATS: u8 = 1;
const NUMERICS: u8 = 2;
const MOMENTS: u8 = 4;
/// For a rule that also concerns types of no family: it is applied to every expression.
const ANY: u8 = u8::MAX;

/// The families of an expression's leaves. Rules ask for types at every level, and each question walks everything
/// below. So a rule is skipped if no leaf concerns it.
fn families(expr: &Expr, schema: &DFSchema) -> u8 {
    let of = |t: &DataType| match t {
        t if t.is_floating() => FLOATS,
        t if t.is_decimal() => NUMERICS,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Interval(_) => MOMENTS,
        DataType::Boolean => 0,
        t if t.is_integer() => 0,
        t if text::is_text(t) => 0,
        _ => FLOATS | NUMERICS | MOMENTS,
    };
    let mut all = 0;
    let _ = expr.apply(|e| {
        all |= match e {
            Expr::Column(c) => ExprSchema::field_from_column(schema, c)
                .map_or(FLOATS | NUMERICS | MOMENTS, |f| of(f.data_type())),
            Expr::Literal(value, _) => of(&value.data_type()),
            Expr::Cast(cast) => of(cast.field.data_type()),
            Expr::BinaryExpr(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::Case(_)
            | Expr::Alias(_)
            | Expr::Negative(_)
            | Expr::Like(_) => 0,
            _ => FLOATS | NUMERICS | MOMENTS,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    all
}

/// Several rules that share one walk of the plan, from its leaves up, since computing a node's schema costs more than
/// rewriting its expressions. All rules are applied to an expression, one after the other.
#[derive(Debug)]
struct ExpressionRules {
    name: &'static str,
    rules: &'static [ExpressionRule],
    /// Whether the inputs of a UNION get one type before what is above it is rewritten. DataFusion gives a UNION the types of its first input
    /// until then, and a rule would cast NUMERICs of the second to integers.
    types_unions: bool,
}

impl AnalyzerRule for ExpressionRules {
    fn name(&self) -> &str {
        self.name
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|node| self.analyze_node(node))?.data)
    }
}

impl ExpressionRules {
    fn analyze_node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let plan = match plan {
            LogicalPlan::Union(union) if self.types_unions => {
                return TypeCoercionRewriter::coerce_union(union).map(Transformed::yes);
            }
            other => other,
        };
        let merged;
        let schema: &DFSchema = match (&plan, plan.inputs().as_slice()) {
            (LogicalPlan::TableScan(scan), _) if scan.filters.is_empty() => return Ok(Transformed::no(plan)),
            (LogicalPlan::TableScan(scan), _) => {
                merged = Arc::new(DFSchema::try_from_qualified_schema(
                    scan.table_name.clone(),
                    &scan.source.schema(),
                )?);
                &merged
            }
            (_, [input]) => {
                merged = input.schema().clone();
                &merged
            }
            (_, inputs) => {
                merged = Arc::new(merge_schema(inputs));
                &merged
            }
        };
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let mut rewritten = Transformed::no(expr);
            for rule in self.rules {
                rewritten = rewritten.transform_data(|e| rule.apply(e, schema))?;
            }
            Ok(rewritten.update_data(|e| name.restore(e)))
        })?
        .map_data(|plan| plan.recompute_schema())
    }
}

impl ExpressionRule {
    /// Rewrites one expression, if the rule concerns one of its leaves.
    fn apply(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        if self.of != ANY && families(&expr, schema) & self.of == 0 {
            return Ok(Transformed::no(expr));
        }
        match self.reach {
            Reach::Parts => expr.transform_up(|e| (self.rewrite)(e, schema)),
            Reach::Whole => (self.rewrite)(expr, schema),
        }
    }
}

/// Lode's rules with DataFusion's between them.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(LateralFunctions),
        Arc::new(UnknownMembership),
        Arc::new(existence::CountedExistence),
        Arc::new(set_operations::CountedSetOperations),
        Arc::new(set_operations::TypedUnions),
        Arc::new(single_value::SingleRows),
        // Rules before this one make references, too.
        Arc::new(outer_references::OuterReferences),
    ];
    rules.push(Arc::new(ExpressionRules {
        name: "before_coercion",
        rules: &BEFORE_COERCION,
        types_unions: true,
    }));
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(interval::OrderOfIntervals));
    rules.push(Arc::new(float::OrderOfFloats));
    rules.push(Arc::new(ExpressionRules {
        name: "after_coercion",
        rules: &AFTER_COERCION,
        types_unions: false,
    }));
    rules.push(Arc::new(outer_references::CheckedOuterReferences));
    rules
}

/// Rewrites and types an expression outside a plan, over the columns of `schema`.
///
/// # Errors
/// When types do not match.
pub(crate) fn expression(mut expr: Expr, schema: &DFSchema) -> Result<Expr> {
    for rule in &BEFORE_COERCION {
        expr = rule.apply(expr, schema)?.data;
    }
    let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
    let simplifier = ExprSimplifier::new(context);
    expr = simplifier.coerce(expr, schema)?;
    for rule in &AFTER_COERCION {
        expr = rule.apply(expr, schema)?.data;
    }
    // Some functions, as COALESCE, are there only until expressions are simplified.
    simplifier.simplify(expr)
}

/// Replaces DataFusion's functions by PostgreSQL's of the same name, and adds the check of operands to the planner.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    use datafusion::execution::FunctionRegistry;
    state.register_udf(Arc::new(to_char::ToChar::default().into()))?;
    state.register_udf(Arc::new(timestamp_digits::TimestampDigits::default().into()))?;
    state.register_expr_planner(Arc::new(operands::Operands))?;
    series::register(state)?;
    Ok(())
}
