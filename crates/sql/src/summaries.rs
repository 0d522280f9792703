//! What the page index keeps of each column: `CREATE INDEX ON t USING page_index (a, b bloom, c prefix) WITH (bytes = 32)`.
//!
//! ```text
//!   a            the least and the greatest value             a = 5, a < 5, a LIKE 'ab%'
//!   a prefix     the same of longer beginnings of strings     the same
//!   a bloom      a Bloom filter of the values                 a = 5, a IN (...)
//!   a bitmap     which values of a domain occur               the same; WITH (domain = 'AIR, MAIL'), else those that the table has
//!   a trigram    a Bloom filter of all three letters          a LIKE '%abc%', a = 'abc'
//! ```

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::compute::concat;
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{BinaryOperator, CreateIndex, Expr, IndexColumn, Value as SqlValue};
use futures::TryStreamExt;
use lode_engine::{IndexDef, Summary, TableDef};
use lode_page::Constant;
use lode_program::index::bitmap::DOMAIN_MAX;

use crate::SqlError;
use crate::dml::{cast_to, column_of};
use crate::error::state;
use crate::names::{fold, qualified, quoted, shown};
use crate::session::{plan, start};
use crate::statement::Statement;
use crate::summary_text::{BLOOM_BYTES, PREFIX_BYTES, TRIGRAM_BYTES, split};

/// What the page index is to keep of the columns of `index`, which the statement declares on the table `def`.
pub(crate) async fn declared(
    state: &SessionState,
    create: &CreateIndex,
    def: &TableDef,
    index: &IndexDef,
) -> Result<Vec<Summary>, SqlError> {
    let mut options = Options::of(&create.with)?;
    let mut summaries = Vec::with_capacity(create.columns.len());
    for (declared, &column) in create.columns.iter().zip(&index.columns) {
        let class = declared.operator_class.as_ref().and_then(|class| class.0.last()?.as_ident());
        let kind = class.map(fold).unwrap_or_default();
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
                    "the page index keeps no \"{kind}\" of a column: expected range, prefix, bitmap, bloom or trigram"
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

/// The element of an index without what the page index keeps of it.
pub(crate) fn without_kind(column: &IndexColumn) -> IndexColumn {
    IndexColumn { operator_class: None, ..column.clone() }
}

/// `WITH (bytes = n, domain = 'a, b')`.
#[derive(Default)]
struct Options {
    bytes: Option<u16>,
    domain: Option<Vec<String>>,
    bytes_used: bool,
    domain_used: bool,
}

impl Options {
    fn of(with: &[Expr]) -> Result<Self, SqlError> {
        let mut options = Self::default();
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
                ("bytes", SqlValue::Number(n, _)) if options.bytes.is_none() => {
                    let what = |_| invalid(format!("bytes = {n}: expected a number from 1 to 31900"));
                    let bytes = n.parse().map_err(what)?;
                    options.bytes = Some(bytes);
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
        self.bytes_used = true;
        let out_of_range = |n| invalid(format!("bytes = {n} is out of range"));
        self.bytes.map_or(Ok(usual), |n| T::try_from(n).map_err(|_| out_of_range(n)))
    }

    /// The domain, for one column only.
    fn domain(&mut self) -> Result<Option<Vec<String>>, SqlError> {
        if std::mem::replace(&mut self.domain_used, true) {
            return Err(invalid("an index has a bitmap of one column at most".into()));
        }
        Ok(self.domain.take())
    }

    fn check_used(&self) -> Result<(), SqlError> {
        if self.bytes.is_some() && !self.bytes_used {
            return Err(invalid("bytes are of prefix, bloom and trigram".into()));
        }
        match self.domain.is_some() {
            true => Err(invalid("a domain is of a bitmap".into())),
            false => Ok(()),
        }
    }
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
