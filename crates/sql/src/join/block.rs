//! A block of outer rows: the pairs that it makes with inner rows, and what the join answers of them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::{concat_batches, prep_null_mask_filter, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{Row, RowConverter, Rows, SortField};
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

/// The equal keys and the filter, for EXPLAIN.
impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on: Vec<String> = self.on.iter().map(|(a, b)| format!("({a}, {b})")).collect();
        write!(f, "on=[{}]", on.join(", "))?;
        match &self.filter {
            Some(filter) => write!(f, ", filter={}", filter.expression()),
            None => Ok(()),
        }
    }
}

/// Places of rows that meet: of the outer and of the inner side.
#[derive(Default)]
pub(super) struct Pairs {
    pub(super) outer: Vec<u32>,
    pub(super) inner: Vec<u32>,
}

impl Pairing {
    /// What makes bytes of keys, for outer rows of this schema.
    pub(super) fn converter(&self, outer: &SchemaRef) -> Result<RowConverter> {
        let fields = self.on.iter().map(|(key, _)| Ok(SortField::new(key.data_type(outer)?)));
        Ok(RowConverter::new(fields.collect::<Result<_>>()?)?)
    }

    /// The keys of a block of outer rows, a column for each pair of keys.
    pub(super) fn outer_keys(&self, block: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.on.iter().map(|(outer, _)| outer.evaluate(block)?.into_array(block.num_rows())).collect()
    }

    /// The keys of inner rows, a column for each pair of keys.
    pub(super) fn inner_keys(&self, inner: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.on.iter().map(|(_, key)| key.evaluate(inner)?.into_array(inner.num_rows())).collect()
    }

    /// The column of the outer side that a column of the answer is, if it is one.
    pub(super) fn outer_column(&self, place: usize) -> Option<usize> {
        let answered = &self.answered[place];
        (answered.side == self.outer).then_some(answered.index)
    }

    /// The next outer rows that are answered alone, as many as a batch has at most, once all inner rows have come. `from` is the row to
    /// go on at.
    pub(super) fn alone(&self, is_met: &[bool], from: &mut usize, batch_rows: usize) -> Vec<u32> {
        let wanted = match self.kind {
            Kind::Inner => return Vec::new(),
            Kind::Semi => true,
            Kind::Outer | Kind::Anti => false,
        };
        let mut alone = Vec::new();
        while *from < is_met.len() && alone.len() < batch_rows {
            if is_met[*from] == wanted {
                alone.push(*from as u32);
            }
            *from += 1;
        }
        alone
    }

    /// Rows of the answer: rows of `block`, each with a row of `inner` or alone.
    pub(super) fn batch(
        &self,
        block: &RecordBatch,
        outer: Vec<u32>,
        inner: &RecordBatch,
        of_inner: Option<&UInt32Array>,
    ) -> Result<RecordBatch> {
        let (rows, of_outer) = (outer.len(), UInt32Array::from(outer));
        let column = |c: &ColumnIndex| match (c.side == self.outer, of_inner) {
            (true, _) => taken(block.column(c.index), &of_outer),
            (false, Some(of_inner)) => taken(inner.column(c.index), of_inner),
            (false, None) => Ok(new_null_array(inner.column(c.index).data_type(), rows)),
        };
        let columns = self.answered.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// The pairs that pass the filter of the join.
    pub(super) fn filtered(&self, pairs: Pairs, block: &RecordBatch, inner: &RecordBatch) -> Result<Pairs> {
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

/// The places of rows by the bytes of their keys, without rows of which a key is NULL. A row with a NULL finds none: its bytes are those
/// of no key without.
pub(super) struct RowsByKey(HashMap<Box<[u8]>, Vec<u32>>);

impl RowsByKey {
    /// Bytes of an entry beside its key: two heap blocks and a place in the map, if each key comes once.
    const ROW_BYTES: usize = 112;

    /// The rows with these keys, in bytes `in_bytes`.
    pub(super) fn of(keys: &[ArrayRef], in_bytes: &Rows) -> Self {
        let mut by_key: HashMap<Box<[u8]>, Vec<u32>> = HashMap::new();
        for row in (0..in_bytes.num_rows()).filter(|&row| !has_null(keys, row)) {
            by_key.entry(in_bytes.row(row).data().into()).or_default().push(row as u32);
        }
        Self(by_key)
    }

    /// The most bytes that so many rows take, with keys as long as these.
    pub(super) fn bytes_max(rows: usize, keys: &Rows) -> usize {
        rows * (Self::ROW_BYTES + keys.size() / keys.num_rows().max(1))
    }

    /// The rows with the key of a row.
    pub(super) fn equal(&self, key: Row<'_>) -> &[u32] {
        self.0.get(key.data()).map_or(&[], |rows| rows)
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// What a join answers for a block, batch by batch: its pairs may be far more than its rows.
pub(super) struct BlockAnswer {
    pairing: Arc<Pairing>,
    block: RecordBatch,
    inner: RecordBatch,
    /// The keys of the outer rows, in bytes.
    outer_rows: Rows,
    by_key: RowsByKey,
    batch_rows: usize,
    /// The outer row whose pairs come next, and how many of them came.
    at: (usize, usize),
    /// Which outer rows are in a pair.
    is_met: Vec<bool>,
    /// The outer row from which on those come that are answered alone.
    alone_from: usize,
}

impl BlockAnswer {
    /// The answer for a block of outer rows, whose keys are `outer_rows`, and all inner rows that may meet one of them.
    pub(super) fn new(
        pairing: Arc<Pairing>,
        block: RecordBatch,
        (converter, outer_rows): (&RowConverter, Rows),
        inner: RecordBatch,
        batch_rows: usize,
    ) -> Result<Self> {
        let inner_keys = pairing.inner_keys(&inner)?;
        let by_key = RowsByKey::of(&inner_keys, &converter.convert_columns(&inner_keys)?);
        let is_met = vec![false; block.num_rows()];
        let batch_rows = batch_rows.max(1);
        Ok(Self { pairing, block, inner, outer_rows, by_key, batch_rows, at: (0, 0), is_met, alone_from: 0 })
    }

    /// The next batch; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.at.0 < self.block.num_rows() {
            let pairs = self.next_pairs();
            let pairs = self.pairing.filtered(pairs, &self.block, &self.inner)?;
            pairs.outer.iter().for_each(|&row| self.is_met[row as usize] = true);
            if matches!(self.pairing.kind, Kind::Inner | Kind::Outer) && !pairs.outer.is_empty() {
                let inner = UInt32Array::from(pairs.inner);
                return self.batch(pairs.outer, Some(&inner)).map(Some);
            }
        }
        let alone = self.pairing.alone(&self.is_met, &mut self.alone_from, self.batch_rows);
        if alone.is_empty() { Ok(None) } else { self.batch(alone, None).map(Some) }
    }

    /// The next pairs of equal keys, as many as a batch has at most.
    fn next_pairs(&mut self) -> Pairs {
        let mut pairs = Pairs::default();
        while self.at.0 < self.block.num_rows() && pairs.outer.len() < self.batch_rows {
            let (row, came) = self.at;
            let left = &self.by_key.equal(self.outer_rows.row(row))[came..];
            let taken = left.len().min(self.batch_rows - pairs.outer.len());
            pairs.outer.extend(std::iter::repeat_n(row as u32, taken));
            pairs.inner.extend(&left[..taken]);
            self.at = if taken == left.len() { (row + 1, 0) } else { (row, came + taken) };
        }
        pairs
    }

    fn batch(&self, outer: Vec<u32>, of_inner: Option<&UInt32Array>) -> Result<RecordBatch> {
        self.pairing.batch(&self.block, outer, &self.inner, of_inner)
    }
}

/// The values at some places. Views of strings do not keep buffers of which they need little.
fn taken(array: &ArrayRef, places: &UInt32Array) -> Result<ArrayRef> {
    let taken = take(array, places, None)?;
    let is_sparse = |used: usize, buffers: usize| buffers > 2 * used + SPARE_BYTES;
    if let Some(views) = taken.as_string_view_opt() {
        let used = view_bytes(views.views());
        if is_sparse(used, views.data_buffers().iter().map(Buffer::len).sum()) {
            return Ok(Arc::new(views.gc()));
        }
    } else if let Some(views) = taken.as_binary_view_opt() {
        let used = view_bytes(views.views());
        if is_sparse(used, views.data_buffers().iter().map(Buffer::len).sum()) {
            return Ok(Arc::new(views.gc()));
        }
    }
    Ok(taken)
}

/// Bytes of buffers that views may keep in vain.
const SPARE_BYTES: usize = 4096;
/// Strings up to this length are within their views.
const WITHIN_A_VIEW: u32 = 12;

/// Bytes in buffers that views refer to.
fn view_bytes(views: &[u128]) -> usize {
    let length = |view: &u128| *view as u32;
    views.iter().map(length).filter(|&n| n > WITHIN_A_VIEW).map(|n| n as usize).sum()
}

/// Bytes of the rows of a batch, which may be a slice of larger arrays.
pub(super) fn bytes_of(batch: &RecordBatch) -> usize {
    let of = |array: &ArrayRef| {
        let views = array.as_string_view_opt().map(|a| a.views());
        match views.or_else(|| array.as_binary_view_opt().map(|a| a.views())) {
            Some(views) => view_bytes(views) + 16 * views.len(),
            None => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
        }
    };
    batch.columns().iter().map(of).sum()
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
