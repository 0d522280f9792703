//! Evaluation of a program over the columns of one page: 64 rows at a time, in three-valued logic.
//!
//! ```text
//!   conjunct by conjunct, cheap ones first; each looks only at rows that are left
//!     column ─► typed slice ─► test, comparison ─► bits (truth, known) ─► AND, OR, NOT ─► rows left
//!     dictionary ─► evaluated once a distinct value ─► mapped through the codes
//!     packed numbers ─► once a run, or the constant less a block's least number ─► compared with packed offsets
//!     codes of symbols ─► a search looks at codes, and expands only strings that may match
//! ```
//!
//! A column is fetched when the first predicate needs it. Once no row is left, no more columns are fetched.
//! Invariant: a column from a source is checked against the schema before it is used.

mod dictionary;
mod encoded;
mod kernel;
pub(crate) mod predicate;
mod symbols;
pub(crate) mod value;

use std::convert::Infallible;

use lode_page::{Column, Schema};

use crate::plan::Pred;
use crate::{EvalError, Program, RowMask, Selection, bits};

/// A source of a page's columns. Each column is fetched when it is needed, at most once.
pub trait ColumnSource {
    /// Why a column cannot be read.
    type Error;

    /// Rows of the page.
    fn rows(&self) -> usize;

    /// The column of that number in the schema.
    ///
    /// # Errors
    /// When it cannot be read.
    fn column(&mut self, column: u16) -> Result<Column, Self::Error>;

    /// These columns are fetched next. A source may read them together.
    ///
    /// # Errors
    /// When they cannot be read.
    fn announce(&mut self, columns: &[u16]) -> Result<(), Self::Error> {
        let _ = columns;
        Ok(())
    }

    /// Reports bytes of an answer's columns. A source with bounded answers may refuse.
    ///
    /// # Errors
    /// When that is too much.
    fn answered(&self, bytes: u64) -> Result<(), Self::Error> {
        let _ = bytes;
        Ok(())
    }

    /// The slots of the source's rows, if it shows fewer rows than the page has.
    fn slots(&self) -> Option<&[u32]> {
        None
    }
}

/// Counts of an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Rows met.
    pub rows: u64,
    /// Values read: a value counts once for each predicate that reads it.
    pub values_compared: u64,
}

/// The rows of the page that pass the filter of `p`.
///
/// # Errors
/// When the source fails, or gives a column of another type or length than the schema says.
pub fn select<S: ColumnSource>(
    p: &Program,
    source: &mut S,
    meter: &mut Meter,
) -> Result<Selection, EvalError<S::Error>> {
    let rows = source.rows();
    meter.rows += rows as u64;
    let Some(plan) = p.plan() else { return Ok(Selection::All) };
    let conjuncts = match &plan.pred {
        Pred::And(terms) => &terms[..],
        _ => std::slice::from_ref(plan),
    };
    let got = vec![None; plan.columns.len()];
    let page = Page { schema: p.schema(), source, columns: &plan.columns, got };
    let mut run = predicate::Run { columns: page, rows, meter };
    let mut left = bits::all(rows);
    for conjunct in conjuncts {
        let outcome = run.evaluate(conjunct, &left)?;
        bits::and_into(&mut left, &outcome.truth);
        if left.iter().all(|&w| w == 0) {
            return Ok(Selection::None);
        }
    }
    Ok(Selection::from_mask(RowMask::new(left, rows)))
}

/// A checked column of the page.
pub(crate) fn fetch<S: ColumnSource>(
    schema: &Schema,
    source: &mut S,
    column: u16,
) -> Result<Column, EvalError<S::Error>> {
    let data_type = schema.columns[usize::from(column)].data_type;
    let rows = source.rows();
    let c = source.column(column).map_err(EvalError::Source)?;
    if c.data_type() != data_type || c.rows() != rows {
        return Err(EvalError::Mismatch { column, got: c.data_type(), got_rows: c.rows(), data_type, rows });
    }
    Ok(c)
}

/// The columns that an evaluation reads.
trait Columns {
    type Error;
    fn get(&mut self, column: u16) -> Result<Column, Self::Error>;
}

/// The columns of a page. Each is fetched once and kept.
struct Page<'a, S> {
    schema: &'a Schema,
    source: &'a mut S,
    /// The columns that may be read, ascending.
    columns: &'a [u16],
    got: Vec<Option<Column>>,
}

impl<S: ColumnSource> Columns for Page<'_, S> {
    type Error = EvalError<S::Error>;

    fn get(&mut self, column: u16) -> Result<Column, Self::Error> {
        let at = self.columns.binary_search(&column).expect("the plan names its columns");
        match &mut self.got[at] {
            Some(c) => Ok(c.clone()),
            empty => Ok(empty.insert(fetch(self.schema, self.source, column)?).clone()),
        }
    }
}

/// A column that replaces the only column that is read.
struct SingleColumn<'a>(&'a Column);

impl Columns for SingleColumn<'_> {
    type Error = Infallible;

    fn get(&mut self, _: u16) -> Result<Column, Infallible> {
        Ok(self.0.clone())
    }
}
