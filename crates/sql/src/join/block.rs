//! A block of outer rows: the pairs that it makes with inner rows, and what the join answers of them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{concat_batches, prep_null_mask_filter, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};

/// Which rows a join answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pairs.
    Inner,
    /// Pairs, and outer rows that are in none.
    Outer,
    /// Outer rows that are in a pair.
    Semi,
    /// Outer rows that are in none.
    Anti,
}

impl Kind {
    /// The kind of a join whose outer side is `outer`; `None` if it needs to see all inner rows.
    pub(super) fn of(join_type: JoinType, outer: JoinSide) -> Option<Self> {
        Some(match (join_type, outer) {
            (JoinType::Inner, _) => Self::Inner,
            (JoinType::Left, JoinSide::Left) | (JoinType::Right, JoinSide::Right) => Self::Outer,
            (JoinType::LeftSemi, JoinSide::Left) | (JoinType::RightSemi, JoinSide::Right) => Self::Semi,
            (JoinType::LeftAnti, JoinSide::Left) | (JoinType::RightAnti, JoinSide::Right) => Self::Anti,
            _ => return None,
        })
    }
}

/// What the blocks of a join have in common.
#[derive(Clone, Debug)]
pub(super) struct Pairing {
    pub(super) kind: Kind,
    /// Which side of the join the outer side is.
    pub(super) outer: JoinSide,
    /// Keys that are equal, over the outer side and over the inner side. NULL equals nothing.
    pub(super) on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    pub(super) filter: Option<JoinFilter>,
    /// The columns of the answer.
    pub(super) answered: Vec<ColumnIndex>,
    pub(super) schema: SchemaRef,
}

/// Places of rows that meet: of the outer and of the inner side. Those of one outer row stand together.
#[derive(Default)]
struct Pairs {
    outer: Vec<u32>,
    inner: Vec<u32>,
}

impl Pairing {
    /// The keys of a side, a column for each pair of keys.
    pub(super) fn outer_keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.on.iter().map(|(outer, _)| outer.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }

    fn inner_keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.on.iter().map(|(_, inner)| inner.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }

    /// The answer for a block of outer rows, whose keys are `keys`, and all inner rows that may meet one of them.
    pub(super) fn answer(
        &self,
        block: &RecordBatch,
        keys: &[ArrayRef],
        inner: &RecordBatch,
        batch_rows: usize,
    ) -> Result<Vec<RecordBatch>> {
        let pairs = self.filtered(self.pairs(block, keys, inner)?, block, inner)?;
        let (outer, inner_rows): (Vec<u32>, Option<Vec<Option<u32>>>) = match self.kind {
            Kind::Inner => (pairs.outer, Some(pairs.inner.into_iter().map(Some).collect())),
            Kind::Outer => {
                let (outer, inner) = with_unmatched(block.num_rows(), &pairs);
                (outer, Some(inner))
            }
            Kind::Semi | Kind::Anti => {
                let mut is_met = vec![false; block.num_rows()];
                pairs.outer.iter().for_each(|&row| is_met[row as usize] = true);
                let wanted = self.kind == Kind::Semi;
                ((0..block.num_rows() as u32).filter(|&r| is_met[r as usize] == wanted).collect(), None)
            }
        };
        let mut batches = Vec::new();
        for first in (0..outer.len()).step_by(batch_rows.max(1)) {
            let rows = first..(first + batch_rows).min(outer.len());
            let of_outer = UInt32Array::from(outer[rows.clone()].to_vec());
            let of_inner = inner_rows.as_ref().map(|all| UInt32Array::from(all[rows.clone()].to_vec()));
            let column = |c: &ColumnIndex| match (c.side == self.outer, &of_inner) {
                (true, _) => Ok(take(block.column(c.index), &of_outer, None)?),
                (false, Some(of_inner)) => Ok(take(inner.column(c.index), of_inner, None)?),
                (false, None) => Ok(new_null_array(inner.column(c.index).data_type(), rows.len())),
            };
            let columns = self.answered.iter().map(column).collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            batches.push(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?);
        }
        Ok(batches)
    }

    fn pairs(&self, block: &RecordBatch, keys: &[ArrayRef], inner: &RecordBatch) -> Result<Pairs> {
        let mut pairs = Pairs::default();
        if inner.num_rows() == 0 {
            return Ok(pairs);
        }
        let inner_keys = self.inner_keys(inner)?;
        let fields = keys.iter().map(|k| SortField::new(k.data_type().clone())).collect();
        let converter = RowConverter::new(fields)?;
        let (outer_rows, inner_rows) =
            (converter.convert_columns(keys)?, converter.convert_columns(&inner_keys)?);
        let mut by_key: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for row in (0..inner.num_rows()).filter(|&row| !has_null(&inner_keys, row)) {
            by_key.entry(inner_rows.row(row).data()).or_default().push(row as u32);
        }
        for row in (0..block.num_rows()).filter(|&row| !has_null(keys, row)) {
            for &met in by_key.get(outer_rows.row(row).data()).into_iter().flatten() {
                pairs.outer.push(row as u32);
                pairs.inner.push(met);
            }
        }
        Ok(pairs)
    }

    /// The pairs that pass the filter of the join.
    fn filtered(&self, pairs: Pairs, block: &RecordBatch, inner: &RecordBatch) -> Result<Pairs> {
        let Some(filter) = self.filter.as_ref().filter(|_| !pairs.outer.is_empty()) else { return Ok(pairs) };
        let (of_outer, of_inner) =
            (UInt32Array::from(pairs.outer.clone()), UInt32Array::from(pairs.inner.clone()));
        let column = |c: &ColumnIndex| match c.side == self.outer {
            true => Ok(take(block.column(c.index), &of_outer, None)?),
            false => Ok(take(inner.column(c.index), &of_inner, None)?),
        };
        let columns = filter.column_indices().iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.outer.len()));
        let batch = RecordBatch::try_new_with_options(filter.schema().clone(), columns, &options)?;
        let passes = filter.expression().evaluate(&batch)?.into_array(batch.num_rows())?;
        let passes: BooleanArray = match passes.as_boolean() {
            passes if passes.null_count() > 0 => prep_null_mask_filter(passes),
            passes => passes.clone(),
        };
        let mut passed = Pairs::default();
        for at in passes.values().set_indices() {
            passed.outer.push(pairs.outer[at]);
            passed.inner.push(pairs.inner[at]);
        }
        Ok(passed)
    }
}

/// The pairs, and each outer row that is in none, in the order of the outer rows.
fn with_unmatched(rows: usize, pairs: &Pairs) -> (Vec<u32>, Vec<Option<u32>>) {
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    let mut at = 0;
    for row in 0..rows as u32 {
        let first = at;
        while pairs.outer.get(at) == Some(&row) {
            outer.push(row);
            inner.push(Some(pairs.inner[at]));
            at += 1;
        }
        if at == first {
            outer.push(row);
            inner.push(None);
        }
    }
    (outer, inner)
}

/// Whether one of the keys of a row is NULL.
pub(super) fn has_null(keys: &[ArrayRef], row: usize) -> bool {
    keys.iter().any(|k| k.is_null(row))
}

/// All rows of some batches as one.
pub(super) fn joined(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    match batches {
        [one] => Ok(one.clone()),
        all => Ok(concat_batches(schema, all)?),
    }
}
