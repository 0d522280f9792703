//! `SET lode.join_order`: the tables that a query joins first, in their order. Those that it does not join are left out.

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::inputs::Inputs;
use super::region::Region;
use crate::names::listed;
use crate::scan::LodeScanExec;

/// Names of tables. One that a query reads several times may be named several times.
#[derive(Debug, Default)]
pub(super) struct ForcedOrder(Vec<String>);

impl ForcedOrder {
    /// The order that these names say, separated by commas.
    pub(super) fn of(names: &str) -> Self {
        Self(listed(names).map(str::to_owned).collect())
    }

    /// The inputs of a region that are named, in their order. Of several of one table, the next is one that an equality connects
    /// with those before it.
    pub(super) fn inputs_of(&self, region: &Region) -> Vec<usize> {
        let mut inputs: Vec<usize> = Vec::new();
        for name in &self.0 {
            let before: Inputs = inputs.iter().copied().collect();
            let is_named = |i: &usize| !before.has(*i) && table_of(&region.inputs[*i]) == Some(name);
            let named: Vec<usize> = (0..region.inputs.len()).filter(is_named).collect();
            let is_connected = |i: &&usize| !region.columns_met(**i, before).is_empty();
            inputs.extend(named.iter().find(is_connected).or(named.first()));
        }
        inputs
    }

    pub(super) fn needs_cross_join(&self, region: &Region, input: usize) -> DataFusionError {
        let table = table_of(&region.inputs[input]).unwrap_or("a table");
        let message =
            format!("lode.join_order needs a cross join: nothing equates {table} with the tables before it");
        DataFusionError::Configuration(message)
    }
}

/// The table that an input reads, filtered and projected at most.
fn table_of(input: &Arc<dyn ExecutionPlan>) -> Option<&str> {
    if let Some(scan) = input.downcast_ref::<LodeScanExec>() {
        return Some(scan.spec().table.name());
    }
    let passes_on = input.is::<FilterExec>() || input.is::<ProjectionExec>();
    passes_on.then(|| table_of(input.children()[0])).flatten()
}
