//! The physical rules of a session, in their order.
//!
//! ```text
//!   DataFusion's, up to its choice of join sides ─► order of joins ─► joins by index ─► the rest of DataFusion's,
//!     with inputs of grouping sets before its rule for orders, and missing sorts before its check of the plan
//!     ─► key sets ─► orders of indexes ─► aggregates into the drive ─► compact text ─► charges of a modelled host
//! ```

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;

use crate::aggregate::AggregateInDrive;
use crate::compact_text::CompactText;
use crate::filter_names;
use crate::grouping_sets::GroupingSets;
use crate::index_order::OrderByIndex;
use crate::join::NestedLoops;
use crate::key_sets::SendKeys;
use crate::missing_sorts::MissingSorts;
use crate::planner::OrderJoins;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rules. `charges` comes last: with a modelled device, what charges its host.
pub(crate) fn physical_rules(charges: Option<Rule>) -> Vec<Rule> {
    let mut rules = filter_names::physical_rules();
    let sides = rules.iter().position(|r| r.name() == JoinSelection::new().name());
    let behind = sides.expect("DataFusion chooses the sides of joins") + 1;
    let own: [Rule; 2] = [Arc::new(OrderJoins), Arc::new(NestedLoops)];
    rules.splice(behind..behind, own);
    let orders = rules.iter().position(|r| r.name() == EnsureRequirements::new().name());
    rules.insert(orders.expect("DataFusion sorts what must be sorted"), Arc::new(GroupingSets));
    let check = rules.iter().position(|r| r.name() == SanityCheckPlan::new().name());
    rules.insert(check.expect("DataFusion checks the plan"), Arc::new(MissingSorts));
    rules.push(Arc::new(SendKeys));
    rules.push(Arc::new(OrderByIndex));
    rules.push(Arc::new(AggregateInDrive));
    rules.push(Arc::new(CompactText));
    rules.extend(charges);
    rules
}
