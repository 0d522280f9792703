//! Bulk loads: one thread makes and casts batches while another encodes them. The commit publishes all rows together.
//!
//! ```text
//!   stream of batches ─► cast ─► columns ─► 2 waiting ─► WriteTxn::load ─► (commit publishes all)
//!                          └─► sorted, with cluster_by ─┘
//! ```

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::compute::{SortColumn, SortOptions, cast, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::prelude::ident;
use futures::{Stream, StreamExt};
use lode_engine::{ColumnDef, TableDef};
use lode_page::Column;
use tokio::sync::mpsc;

use super::checks::Checks;
use super::shared::Change;
use crate::arrow_convert::{ConvertError, arrow_type, from_arrow};
use crate::error::state;
use crate::one_stream::scan_once;
use crate::semantics::{cast_or_null, to_column_type, unfit};
use crate::session::start;
use crate::threads::blocking;
use crate::transaction::StatementTxn;
use crate::types::assignable;
use crate::{Session, SqlError};

/// Batches that wait for the loading thread.
const WAITING_BATCHES: usize = 2;

impl Session {
    /// Appends all batches to a table, in the open transaction or in one of its own. All rows appear together, or
    /// none. Rows go to column pages, unless the table's layout says otherwise. Columns are matched by name if the
    /// batches have all names of the table, else by position. Values are cast to the columns' types. Dropping the
    /// future undoes the load.
    ///
    /// The calling task takes and casts batches while another thread encodes earlier ones.
    /// `futures::stream::iter(batches.map(Ok))` makes a stream of an iterator.
    ///
    /// # Errors
    /// What the stream reports; values that do not fit; NULL in a NOT NULL column; duplicate keys; a full drive.
    pub async fn load_batches<S>(&self, table: &str, batches: S) -> Result<u64, SqlError>
    where
        S: Stream<Item = Result<RecordBatch, DataFusionError>> + Send,
    {
        let change = Change::begin(self, table).await?;
        let def = Arc::new(change.table.def().clone());
        let checks = Checks::of(&self.state(), &def)?;
        let (work, rows) = load(&self.state(), change.work, def, checks, batches).await?;
        blocking(move || work.finish()).await?;
        Ok(rows)
    }
}

/// Loads `batches` within `work`, which the caller finishes. They are sorted first if the table is clustered by columns.
pub(crate) async fn load<S>(
    state: &SessionState,
    work: StatementTxn,
    table: Arc<TableDef>,
    checks: Checks,
    batches: S,
) -> Result<(StatementTxn, u64), SqlError>
where
    S: Stream<Item = Result<RecordBatch, DataFusionError>> + Send,
{
    let name = table.name.clone();
    let put = move |(work, rows): &mut (StatementTxn, u64), columns| {
        *rows += work.txn.load(&name, columns)?;
        Ok(())
    };
    if table.options.cluster_by.is_empty() {
        return feed(batches, |batch| conform(batch, &table, &checks), (work, 0), put).await;
    }
    let builder = RecordBatchReceiverStreamBuilder::new(all_columns(&table), WAITING_BATCHES);
    let sender = builder.tx();
    let sorted = in_order(state, &table, builder.build()).await?;
    let (table, checks) = (&table, &checks);
    let fill = async move {
        let mut batches = pin!(batches);
        while let Some(batch) = batches.next().await {
            let arrays = batch.map_err(SqlError::from).and_then(|b| completed(&b, table, checks));
            let all = arrays.and_then(|arrays| batch_of(&all_columns(table), arrays.into_values()));
            let failed = all.is_err();
            let (sent, result) = match all {
                Ok(all) => (Ok(all), Ok(())),
                // The load must not take the rows before for all of them.
                Err(e) => (Err(DataFusionError::Execution(e.to_string())), Err(e)),
            };
            // The load ends early only with an error of its own.
            if sender.send(sent).await.is_err() || failed {
                return result;
            }
        }
        Ok(())
    };
    let of_batch = |batch: &RecordBatch| columns_of_batch(table, batch);
    let (filled, loaded) = tokio::join!(fill, feed(sorted, of_batch, (work, 0), put));
    filled.and(loaded)
}

/// Rows of all columns of a table, in the order of the columns that it is clustered by.
async fn in_order(
    state: &SessionState,
    table: &TableDef,
    rows: SendableRecordBatchStream,
) -> Result<SendableRecordBatchStream, SqlError> {
    let by = table.cluster_columns().iter().map(|c| ident(c.to_string()).sort(true, false));
    let plan = scan_once(rows)?.sort(by)?.build()?;
    Ok(start(state, &plan).await?.1)
}

/// The same of rows in memory.
pub(crate) fn clustered(
    table: &TableDef,
    arrays: &BTreeMap<u16, ArrayRef>,
) -> Result<BTreeMap<u16, ArrayRef>, SqlError> {
    let options = Some(SortOptions { descending: false, nulls_first: false });
    let by = |c| SortColumn { values: arrays[c].clone(), options };
    let by: Vec<SortColumn> = table.options.cluster_by.iter().map(by).collect();
    if by.is_empty() {
        return Ok(arrays.clone());
    }
    let order = lexsort_to_indices(&by, None)?;
    arrays.iter().map(|(&c, array)| Ok((c, take(array, &order, None)?))).collect()
}

/// All columns of a table, each by its number. Strings own their bytes: views share buffers, each of which a sort counts once for
/// each batch that it makes.
fn all_columns(table: &TableDef) -> SchemaRef {
    let field = |(i, c): (usize, &ColumnDef)| {
        let data_type = match arrow_type(c.ty.data_type) {
            ArrowType::Utf8View => ArrowType::LargeUtf8,
            ArrowType::BinaryView => ArrowType::LargeBinary,
            other => other,
        };
        Field::new(i.to_string(), data_type, true)
    };
    Arc::new(Schema::new(table.columns.iter().enumerate().map(field).collect::<Vec<_>>()))
}

/// A batch of these arrays, cast to the types of the schema.
fn batch_of(schema: &SchemaRef, arrays: impl Iterator<Item = ArrayRef>) -> Result<RecordBatch, SqlError> {
    let arrays = arrays.zip(schema.fields()).map(|(array, field)| cast(&array, field.data_type()));
    Ok(RecordBatch::try_new(schema.clone(), arrays.collect::<Result<_, _>>()?)?)
}

/// A batch of all columns of a table, as the engine has them.
pub(crate) fn columns_of_batch(table: &TableDef, batch: &RecordBatch) -> Result<Vec<Column>, SqlError> {
    let columns = (0u16..).zip(batch.columns());
    columns.map(|(i, array)| column_of(table, i, &cast_to(table, i, array)?)).collect()
}

/// Puts the columns of each batch that has rows into `sink`, on another thread, while the next batch is made. Answers the sink.
///
/// # Errors
/// Those of the batches, of `columns_of` and of `put`, the first one before all others.
pub(crate) async fn feed<S, T>(
    batches: S,
    columns_of: impl Fn(&RecordBatch) -> Result<Vec<Column>, SqlError>,
    mut sink: T,
    mut put: impl FnMut(&mut T, Vec<Column>) -> Result<(), SqlError> + Send + 'static,
) -> Result<T, SqlError>
where
    S: Stream<Item = Result<RecordBatch, DataFusionError>> + Send,
    T: Send + 'static,
{
    let (sender, mut receiver) = mpsc::channel::<Vec<Column>>(WAITING_BATCHES);
    let writer = tokio::spawn(blocking(move || {
        while let Some(columns) = receiver.blocking_recv() {
            put(&mut sink, columns)?;
        }
        Ok(sink)
    }));
    let mut batches = pin!(batches);
    let mut failure = None;
    while let Some(batch) = batches.next().await {
        let columns = match batch.map_err(SqlError::from) {
            Ok(batch) if batch.num_rows() == 0 => continue,
            batch => batch.and_then(|batch| columns_of(&batch)),
        };
        match columns {
            // The writer ends early only with an error of its own, which is returned below.
            Ok(columns) => {
                if sender.send(columns).await.is_err() {
                    break;
                }
            }
            Err(e) => {
                failure = Some(e);
                break;
            }
        }
    }
    drop(sender);
    let written = match writer.await {
        Ok(written) => written,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        Err(_) => Err(SqlError::shutting_down()),
    };
    match failure {
        None => written,
        Some(failure) => Err(failure),
    }
}

/// The columns of `batch` as the table's, cast to their types: matched by name if the batch has all names, else by
/// position.
///
/// # Errors
/// When columns are missing or left over; when a value does not fit (the message names the column); when a
/// CHECK is false.
pub(crate) fn conform(
    batch: &RecordBatch,
    table: &TableDef,
    checks: &Checks,
) -> Result<Vec<Column>, SqlError> {
    columns_of(table, &completed(batch, table, checks)?)
}

/// The same as arrays, by column.
///
/// # Errors
/// As [`conform`].
pub(crate) fn completed(
    batch: &RecordBatch,
    table: &TableDef,
    checks: &Checks,
) -> Result<BTreeMap<u16, ArrayRef>, SqlError> {
    let live: Vec<u16> = table.live_columns().collect();
    let names = || live.iter().map(|&c| table.columns[usize::from(c)].name.as_str());
    if batch.num_columns() != live.len() {
        let (expected, got) = (live.len(), batch.num_columns());
        let message = format!("table \"{}\" has {expected} columns, the data {got}", table.name);
        return Err(SqlError::failed(state::SYNTAX_ERROR, message));
    }
    let by_name: Option<Vec<&ArrayRef>> = names().map(|name| batch.column_by_name(name)).collect();
    let arrays = by_name.unwrap_or_else(|| batch.columns().iter().collect());
    let cast = arrays.into_iter().zip(&live).map(|(array, &i)| Ok((i, cast_to(table, i, array)?)));
    let mut arrays = cast.collect::<Result<BTreeMap<u16, ArrayRef>, SqlError>>()?;
    for (i, c) in (0u16..).zip(&table.columns).filter(|(_, c)| c.is_dropped || c.hidden.is_some()) {
        arrays.insert(i, new_null_array(&arrow_type(c.ty.data_type), batch.num_rows()));
    }
    checks.complete(&mut arrays, batch.num_rows())?;
    Ok(arrays)
}

/// All columns of some rows as columns of the engine.
pub(crate) fn columns_of(
    table: &TableDef,
    arrays: &BTreeMap<u16, ArrayRef>,
) -> Result<Vec<Column>, SqlError> {
    arrays.iter().map(|(&i, array)| column_of(table, i, array)).collect()
}

/// An array of the column's own type as a column of the engine.
pub(crate) fn column_of(table: &TableDef, column: u16, array: &ArrayRef) -> Result<Column, SqlError> {
    let data_type = table.columns[usize::from(column)].ty.data_type;
    let failed = |e: ConvertError| Unfit { row: 0, state: e.sqlstate(), message: e.to_string() };
    from_arrow(array, data_type).map_err(|e| failed(e).of(table, column))
}

/// The first value of an array that the type of its column cannot hold.
pub(crate) struct Unfit {
    /// Its row.
    pub(crate) row: usize,
    /// The SQLSTATE of what is wrong.
    pub(crate) state: &'static str,
    /// What is wrong.
    pub(crate) message: String,
}

impl Unfit {
    fn of(self, table: &TableDef, column: u16) -> SqlError {
        let column = table.columns[usize::from(column)].name.clone();
        SqlError::BadValue { state: self.state, column, message: self.message }
    }

    fn first(e: &SqlError) -> Self {
        Self { row: 0, state: e.sqlstate(), message: e.to_string() }
    }
}

/// `array`, cast to the type of column `column` of `table`; the message of an error names it.
pub(crate) fn cast_to(table: &TableDef, column: u16, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    to_array(table, column, array).map_err(|e| e.of(table, column))
}

/// `array` cast to the type of column `column` of `table`; or the first row that cannot be cast, and why.
pub(crate) fn to_array(table: &TableDef, column: u16, array: &ArrayRef) -> Result<ArrayRef, Unfit> {
    let def = &table.columns[usize::from(column)];
    let to = arrow_type(def.ty.data_type);
    if *array.data_type() == to {
        return Ok(array.clone());
    }
    if !assignable(array.data_type(), &to) {
        let from = array.data_type();
        let message = format!("values of type {from} are not of type {}", def.declared);
        return Err(Unfit { row: 0, state: state::DATATYPE_MISMATCH, message });
    }
    if let Some(rounded) = to_column_type(array, &to) {
        return rounded.map_err(|e| Unfit::first(&e));
    }
    let (values, first_unfit) = cast_or_null(array, &to).map_err(|e| Unfit::first(&e))?;
    let Some(row) = first_unfit else { return Ok(values) };
    let text = array_value_to_string(array, row).unwrap_or_default();
    let message = format!("'{}' is not of type {}", text.escape_debug(), def.declared);
    Err(Unfit { row, state: unfit(array, row, &to).sqlstate(), message })
}
