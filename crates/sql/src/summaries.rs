//! What the page index keeps of each column: `CREATE INDEX ON t USING page_index (a, b bloom, c prefix) WITH (bytes = 32)`.
//!
//! ```text
//!   a            the least and the greatest value             a = 5, a < 5, a LIKE 'ab%'
//!   a prefix     the same of longer beginnings of strings     the same
//!   a bloom      a Bloom filter of the values                 a = 5, a IN (...)
//!   a bitmap     which values of a domain occur               the same; WITH (domain = 'AIR, MAIL'), else those that the table has
//!   a trigram    a Bloom filter of all three letters          a LIKE '%abc%', a = 'abc'
//!   a composite  what the filters of late would gain most by  one of those above for each column that pays, in `bytes` together
//! ```

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::compute::concat;
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{BinaryOperator, CreateIndex, Expr, IndexColumn, Value as SqlValue};
use futures::TryStreamExt;
use lode_engine::{IndexDef, Snapshot, Summary, Table, TableDef};
use lode_page::Constant;
use lode_program::index::SHORT_ENTRY_BYTES_MAX;
use lode_program::index::bitmap::DOMAIN_MAX;

use crate::SqlError;
use crate::dml::{cast_to, column_of};
use crate::error::state;
use crate::names::{fold, qualified, quoted, shown, split as split_name};
use crate::scan::draw;
use crate::session::{plan, start};
use crate::statement::Statement;
use crate::summary_text::{BLOOM_BYTES, PREFIX_BYTES, TRIGRAM_BYTES, split};
use crate::threads::blocking;

/// The kind that a statement names for a column of a composite.
const COMPOSITE: &str = "composite";
/// Bytes that a composite has for each 16 KB of a page, if the statement does not say how many: those of a short entry at most.
const COMPOSITE_BYTES: usize = 128;
/// Pages by which its kinds are chosen.
const COMPOSITE_PAGES: u64 = 32;

/// What the page index is to keep of the columns of `index`, which the statement declares on the table `def`.
pub(crate) async fn declared(
    state: &SessionState,
    create: &CreateIndex,
    def: &TableDef,
    index: &IndexDef,
) -> Result<Vec<Summary>, SqlError> {
    let mut options = Options::of(&create.with, create.columns.len())?;
    let mut summaries = Vec::with_capacity(create.columns.len());
    for (declared, &column) in create.columns.iter().zip(&index.columns) {
        let kind = kind_of(declared);
        summaries.push(match kind.as_str() {
            "" | "range" => Summary::Range,
            "prefix" => Summary::Prefix { bytes: options.bytes(PREFIX_BYTES)? },
            "bloom" => Summary::Bloom { bytes: options.bytes(BLOOM_BYTES)? },
            "trigram" => Summary::Trigram { bytes: options.bytes(TRIGRAM_BYTES)? },
            "bitmap" => {
                let values = match options.domain()? {
                    Some(texts) => domain_values(def, column, texts)?,
                    None => distinct(state, def, index, column).await?,
                };
                Summary::Bitmap { values }
            }
            _ => {
                let message = format!(
                    "the page index keeps no \"{kind}\" of a column: expected range, prefix, bitmap, bloom, trigram or composite"
                );
                return Err(SqlError::failed(state::UNDEFINED_OBJECT, message));
            }
        });
    }
    options.check_used()?;
    match summaries.iter().all(|s| *s == Summary::Range) {
        true => Ok(Vec::new()),
        false => Ok(summaries),
    }
}

/// The kind that a statement names for an element; empty if none.
fn kind_of(element: &IndexColumn) -> String {
    let class = element.operator_class.as_ref().and_then(|class| class.0.last()?.as_ident());
    class.map(fold).unwrap_or_default()
}

/// Whether the statement leaves it to filters of late what the page index keeps of its columns.
///
/// # Errors
/// When it leaves it to them for some of its columns only.
pub(crate) fn is_composite(create: &CreateIndex) -> Result<bool, SqlError> {
    let composite = create.columns.iter().filter(|c| kind_of(c) == COMPOSITE).count();
    if composite > 0 && composite < create.columns.len() {
        return Err(invalid("an index is a composite of all of its columns or of none".into()));
    }
    Ok(composite > 0)
}

/// The columns of a composite and what the page index is to keep of each: what filters of late would gain most by, of those that the
/// statement names.
pub(crate) async fn chosen(
    snapshot: Snapshot,
    table: Arc<Table>,
    create: &CreateIndex,
    columns: Vec<u16>,
) -> Result<(Vec<u16>, Vec<Summary>), SqlError> {
    let mut options = Options::of(&create.with, 1)?;
    let page_bytes = (table.bytes() / table.pages().max(1)) as usize;
    let usual = (COMPOSITE_BYTES * page_bytes.div_ceil(16 << 10).max(1)).min(SHORT_ENTRY_BYTES_MAX);
    let bytes = options.bytes(usual as u16)?;
    options.check_used()?;
    if !(1..=31_900).contains(&bytes) {
        return Err(no_size(bytes));
    }
    if columns.iter().any(|c| table.def().columns.get(usize::from(*c)).is_none_or(|c| c.hidden.is_some())) {
        return Err(SqlError::Unsupported("a composite of expressions".into()));
    }
    let name = shown(split_name(table.name()).1).to_string();
    let found = blocking(move || {
        let drawn = draw(&snapshot.page_ranges(&table), COMPOSITE_PAGES, u64::from(table.id().raw()));
        let pages: Vec<_> = drawn.iter().map(|r| r.extent.page(r.first)).collect();
        Ok(snapshot.composite(&table, &pages, &columns, bytes.into())?)
    })
    .await?;
    let Some(found) = found else {
        return Err(invalid(format!(
            "no query has filtered these columns of {name} of late: run those that the index is for, or name the kinds"
        )));
    };
    if found.columns.is_empty() {
        return Err(invalid(match found.unneeded {
            0 => format!(
                "filters of late read no page of {name} in vain, of {COMPOSITE_PAGES} pages at most that were tried"
            ),
            n => format!(
                "no kind leaves out any of the {n} pages of {name} that filters of late read in vain, in {bytes} bytes"
            ),
        }));
    }
    Ok(found.columns.into_iter().unzip())
}

/// The element of an index without what the page index keeps of it.
pub(crate) fn without_kind(column: &IndexColumn) -> IndexColumn {
    IndexColumn { operator_class: None, ..column.clone() }
}

/// `WITH (bytes = n, domain = 'a, b')`.
/// The sizes are one for all columns, or a list with one for each column that takes one.
#[derive(Default)]
struct Options {
    bytes: Vec<u16>,
    domain: Option<Vec<String>>,
    bytes_used: usize,
    domain_used: bool,
    is_list: bool,
}

impl Options {
    /// Those of an index of so many columns.
    fn of(with: &[Expr], columns: usize) -> Result<Self, SqlError> {
        let mut options = Self::default();
        let size = |n: &str| n.parse().map_err(|_| no_size(n));
        for option in with {
            let expected =
                || invalid(format!("expected bytes = a number or domain = 'a, b', found {option}"));
            let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = option else {
                return Err(expected());
            };
            let (Expr::Identifier(name), Expr::Value(value)) = (&**left, &**right) else {
                return Err(expected());
            };
            match (fold(name).as_str(), &value.value) {
                ("bytes", SqlValue::Number(n, _)) if options.bytes.is_empty() => {
                    options.bytes = vec![size(n)?; columns];
                }
                ("bytes", SqlValue::SingleQuotedString(list)) if options.bytes.is_empty() => {
                    options.bytes = split(list).iter().map(|n| size(n)).collect::<Result<_, _>>()?;
                    options.is_list = true;
                }
                ("domain", SqlValue::SingleQuotedString(list)) if options.domain.is_none() => {
                    options.domain = Some(split(list));
                }
                ("bytes" | "domain", _) => return Err(expected()),
                (name, _) => {
                    let message = format!("unrecognized parameter \"{name}\": expected bytes or domain");
                    return Err(invalid(message));
                }
            }
        }
        Ok(options)
    }

    fn bytes<T: TryFrom<u16>>(&mut self, usual: T) -> Result<T, SqlError> {
        let bytes = self.bytes.get(self.bytes_used).copied();
        self.bytes_used += 1;
        let out_of_range = |n| invalid(format!("bytes = {n} is out of range"));
        bytes.map_or(Ok(usual), |n| T::try_from(n).map_err(|_| out_of_range(n)))
    }

    /// The domain, for one column only.
    fn domain(&mut self) -> Result<Option<Vec<String>>, SqlError> {
        if std::mem::replace(&mut self.domain_used, true) {
            return Err(invalid("an index has a bitmap of one column at most".into()));
        }
        Ok(self.domain.take())
    }

    fn check_used(&self) -> Result<(), SqlError> {
        if !self.bytes.is_empty() && self.bytes_used == 0 {
            return Err(invalid("bytes are of prefix, bloom and trigram".into()));
        }
        if self.is_list && self.bytes.len() != self.bytes_used {
            let (named, used) = (self.bytes.len(), self.bytes_used);
            return Err(invalid(format!("bytes are a list of {named} numbers, but of {used} columns")));
        }
        match self.domain.is_some() {
            true => Err(invalid("a domain is of a bitmap".into())),
            false => Ok(()),
        }
    }
}

fn no_size(n: impl std::fmt::Display) -> SqlError {
    invalid(format!("bytes = {n}: expected a number from 1 to 31900"))
}

fn invalid(message: String) -> SqlError {
    SqlError::failed(state::INVALID_PARAMETER_VALUE, message)
}

/// Texts as values of a column.
pub(crate) fn domain_values(
    def: &TableDef,
    column: u16,
    texts: Vec<String>,
) -> Result<Vec<Constant>, SqlError> {
    of_array(def, column, &(Arc::new(StringArray::from(texts)) as ArrayRef))
}

fn of_array(def: &TableDef, column: u16, array: &ArrayRef) -> Result<Vec<Constant>, SqlError> {
    let values = column_of(def, column, &cast_to(def, column, array)?)?;
    if values.rows() > DOMAIN_MAX {
        return Err(invalid(format!("the domain of a bitmap has at most {DOMAIN_MAX} values")));
    }
    Ok((0..values.rows()).map(|row| Constant::from(values.value(row))).collect())
}

/// The different values that a column has.
async fn distinct(
    state: &SessionState,
    def: &TableDef,
    index: &IndexDef,
    column: u16,
) -> Result<Vec<Constant>, SqlError> {
    let column_def = &def.columns[usize::from(column)];
    let none = |what: &str| {
        invalid(format!(
            "column {} {what}: give the domain of its bitmap, WITH (domain = 'a, b')",
            shown(&column_def.name)
        ))
    };
    if column_def.hidden.is_some() {
        return Err(none("is computed from others"));
    }
    let name = quoted(&column_def.name);
    let table = qualified(&index.table);
    let query = format!(
        "SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT {}",
        DOMAIN_MAX + 1
    );
    let parsed = Statement::parse(&query)?.pop();
    let sql = parsed.as_ref().and_then(|s| s.sql()).expect("a query");
    let plan = plan(state, Parsed::Statement(Box::new(sql.clone()))).await?;
    let (_, stream) = start(state, &plan).await?;
    let batches: Vec<_> = stream.try_collect().await?;
    let arrays: Vec<&dyn datafusion::arrow::array::Array> = batches.iter().map(|b| &**b.column(0)).collect();
    if batches.iter().all(|b| b.num_rows() == 0) {
        return Err(none("has no value yet"));
    }
    of_array(def, column, &concat(&arrays)?)
}
