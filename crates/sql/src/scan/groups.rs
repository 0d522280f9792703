//! Partial groups from the drive, converted to the columns that DataFusion's final aggregate expects.
//!
//! ```text
//!   keys | counts, sums, least, greatest ─► keys | states, as each aggregate function wants its own
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::{CastOptions, cast_with_options, nullif};
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::error::Result;
use lode_command::GroupRows;
use lode_program::Aggregation;

use crate::arrow_convert::to_arrow;

/// An aggregation in the drive, and the columns of its partial groups.
#[derive(Clone, Debug)]
pub(crate) struct GroupForm {
    pub(crate) aggregation: Aggregation,
    /// Keys and states, as a partial aggregate of DataFusion has them.
    pub(crate) schema: SchemaRef,
    /// The source of each column behind the keys.
    pub(crate) states: Vec<StateColumn>,
    /// For EXPLAIN.
    pub(crate) text: String,
}

/// The source of a state column: the result of one call of the aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateColumn {
    /// The result itself.
    Result(usize),
    /// A count, with NULL instead of 0: only then AVG treats the group as one without values.
    CountOrNull(usize),
}

impl GroupForm {
    /// Groups as arrays of these columns.
    ///
    /// # Errors
    /// When a sum has more digits than its type.
    pub(super) fn arrays(&self, groups: &GroupRows) -> Result<Vec<ArrayRef>> {
        let keys = self.aggregation.group_by.len();
        let mut arrays = groups.columns[..keys].iter().map(to_arrow).collect::<Result<Vec<_>, _>>()?;
        for s in &self.states {
            let (StateColumn::Result(i) | StateColumn::CountOrNull(i)) = *s;
            let result = to_arrow(&groups.columns[keys + i])?;
            arrays.push(match s {
                StateColumn::Result(_) => result,
                StateColumn::CountOrNull(_) => {
                    let counts = result.as_primitive::<Int64Type>();
                    let zero = counts.iter().map(|c| Some(c == Some(0))).collect();
                    Arc::new(Int64Array::from(nullif(counts, &zero)?.to_data()))
                }
            });
        }
        let exactly = CastOptions { safe: false, ..CastOptions::default() };
        for (array, field) in arrays.iter_mut().zip(self.schema.fields()) {
            if array.data_type() != field.data_type() {
                *array = cast_with_options(array, field.data_type(), &exactly)?;
            }
        }
        Ok(arrays)
    }
}

impl fmt::Display for GroupForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
