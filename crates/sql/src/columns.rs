//! The columns of physical expressions.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

/// The place of the column that an expression is; `None` if it is anything else.
pub(crate) fn place_of(e: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    e.downcast_ref::<Column>().map(Column::index)
}

/// The places of the columns that an expression reads, ascending.
pub(crate) fn places_read(e: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut places: Vec<usize> = collect_columns(e).iter().map(Column::index).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// The column at a place, by its name there.
pub(crate) fn column_at(schema: &Schema, place: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema.field(place).name(), place))
}

/// The expression with each column replaced by what `by` has for its place.
pub(crate) fn replaced(
    e: &Arc<dyn PhysicalExpr>,
    by: impl Fn(usize) -> Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replace = |e: Arc<dyn PhysicalExpr>| {
        Ok(match place_of(&e) {
            Some(place) => Transformed::yes(by(place)),
            None => Transformed::no(e),
        })
    };
    e.clone().transform_up(replace).data()
}
