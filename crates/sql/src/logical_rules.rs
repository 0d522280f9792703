//! The logical rules of a session, in their order: DataFusion's, one of them limited, with the functional dependencies corrected before each rule
//! that reads them, and frames of windows by rows last.

use std::sync::Arc;

use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::optimizer::Optimizer;

use crate::cross_joins;
use crate::functional_dependencies::{Corrected, Dependencies};
use crate::window_frames::FramesOfRows;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rule of DataFusion that makes groups of a DISTINCT, from the leaves upwards.
const MAKES_GROUPS: &str = "replace_distinct_aggregate";
/// The rules of DataFusion that read functional dependencies.
const READERS: [&str; 4] =
    [MAKES_GROUPS, "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

/// The rules.
pub(crate) fn logical_rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in Optimizer::new().rules {
        if READERS.contains(&rule.name()) {
            rules.push(Arc::new(Dependencies));
        }
        let rule = cross_joins::limited(rule);
        rules.push(if rule.name() == MAKES_GROUPS { Arc::new(Corrected(rule)) } else { rule });
    }
    rules.push(Arc::new(Dependencies));
    rules.push(Arc::new(FramesOfRows));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_of_dependencies_is_one_of_datafusions_rules() {
        for reader in READERS {
            assert!(Optimizer::new().rules.iter().any(|r| r.name() == reader), "{reader}");
        }
    }
}
