//! The columns that rows of joined inputs carry to what is above.
//!
//! ```text
//!   SELECT a.s FROM a, b, c WHERE a.x = b.x AND b.y = c.y
//!     a, b together carry a.s and b.y; b and c carry b.x
//! ```

use datafusion::arrow::datatypes::{DataType, Schema};

use super::inputs::Inputs;
use super::region::{InputColumn, Predicate, Region, Term};

/// Bytes of a string in a batch: its view. Its text is copied nowhere.
const VIEW_BYTES: usize = 16;

/// Columns of rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowWidth {
    pub(super) columns: f64,
    pub(super) bytes: f64,
}

impl RowWidth {
    pub(super) fn of(schema: &Schema) -> Self {
        schema.fields().iter().fold(Self::default(), |all, f| all.and(f.data_type()))
    }

    fn and(self, data_type: &DataType) -> Self {
        let bytes = match data_type {
            DataType::Boolean => 1,
            other => other.primitive_width().unwrap_or(VIEW_BYTES),
        };
        Self { columns: self.columns + 1.0, bytes: self.bytes + bytes as f64 }
    }
}

/// A column that something above its input reads.
struct ReadColumn {
    input: usize,
    column: usize,
    data_type: DataType,
    /// Whether the region answers it.
    is_output: bool,
    /// The inputs of each equality and predicate that reads it.
    read_for: Vec<Inputs>,
}

impl ReadColumn {
    fn is_read_above(&self, set: Inputs) -> bool {
        self.is_output || self.read_for.iter().any(|of| !set.covers(*of))
    }
}

/// What is read of a region's inputs.
pub(super) struct Carried(Vec<ReadColumn>);

impl Carried {
    pub(super) fn of(region: &Region) -> Self {
        let mut all = Vec::new();
        region.outputs.iter().for_each(|c| read(&mut all, region, *c).is_output = true);
        for class in &region.classes {
            let of: Inputs = class.iter().map(|t| t.input).collect();
            let columns = class.iter().flat_map(Term::columns);
            columns.for_each(|c| read(&mut all, region, c).read_for.push(of));
        }
        for predicate in &region.predicates {
            let of = Predicate::inputs(predicate);
            predicate.columns.iter().for_each(|c| read(&mut all, region, *c).read_for.push(of));
        }
        Self(all)
    }

    /// The columns of `inputs` that are read above the joined `set`.
    pub(super) fn width(&self, inputs: Inputs, set: Inputs) -> RowWidth {
        let carried = self.0.iter().filter(|c| inputs.has(c.input) && c.is_read_above(set));
        carried.fold(RowWidth::default(), |all, c| all.and(&c.data_type))
    }
}

/// The entry of a column; a new one if nothing read it yet.
fn read<'a>(all: &'a mut Vec<ReadColumn>, region: &Region, column: InputColumn) -> &'a mut ReadColumn {
    let known = all.iter().position(|c| (c.input, c.column) == (column.input, column.column));
    let at = known.unwrap_or_else(|| {
        let data_type = region.inputs[column.input].schema().field(column.column).data_type().clone();
        let (is_output, read_for) = (false, Vec::new());
        all.push(ReadColumn { input: column.input, column: column.column, data_type, is_output, read_for });
        all.len() - 1
    });
    &mut all[at]
}
