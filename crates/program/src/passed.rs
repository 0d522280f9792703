//! The rows of one page that pass a program, and their answer. All places that evaluate a page share this code.
//!
//! ```text
//!   columns of a page ─► Passed::of ─► rows that pass ─┬─ rows ────► PageRows: projected columns, which row each was
//!                             │                        └─ groups ──► GroupTable
//!                             └─ hide: rows that do not come out although they pass
//! ```
//!
//! The drive reads the columns from the medium. The engine has them in memory, with a transaction's changes. The
//! host's scan reads them through the buffer pool. Each of these is a [`ColumnSource`].
//!
//! Invariant: rows that must be filtered exactly come from a `Passed` that evaluated each of them.

use lode_base::Lpid;
use lode_page::Column;

use crate::answer::PageRows;
use crate::{ColumnSource, EvalError, GroupTable, Meter, Program, RowMask, Selection, compact, select};

/// The rows of a page that pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Rows of the page.
    rows: usize,
    selection: Selection,
}

impl Passed {
    /// Evaluates the filter of `p` over the page.
    ///
    /// # Errors
    /// When the source fails, or gives a column of another type or length than the schema says.
    pub fn of<S: ColumnSource>(
        p: &Program,
        source: &mut S,
        meter: &mut Meter,
    ) -> Result<Self, EvalError<S::Error>> {
        let selection = select(p, source, meter)?;
        Ok(Self { rows: source.rows(), selection })
    }

    /// All rows of a page of `rows` rows: the caller filters them.
    pub fn unfiltered(rows: usize) -> Self {
        Self { rows, selection: Selection::All }
    }

    /// The number of rows that pass.
    pub fn count(&self) -> usize {
        self.selection.count(self.rows)
    }

    /// The first row that passes.
    pub fn first(&self) -> Option<usize> {
        match &self.selection {
            Selection::None => None,
            Selection::All => (self.rows > 0).then_some(0),
            Selection::Some(mask) => mask.iter().next(),
        }
    }

    /// The rows that pass.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Removes rows that must not come out although they pass.
    ///
    /// # Panics
    /// When `hidden` has another number of rows than the page.
    pub fn hide(&mut self, hidden: &RowMask) {
        assert_eq!(hidden.rows(), self.rows, "hidden rows of another page");
        let shown = hidden.words().iter().map(|w| !w);
        let words = match &self.selection {
            Selection::None => return,
            Selection::All => shown.collect(),
            Selection::Some(passed) => passed.words().iter().zip(shown).map(|(p, s)| p & s).collect(),
        };
        self.selection = Selection::from_mask(RowMask::new(words, self.rows));
    }

    /// The projected columns of the rows that pass. If all rows pass, the page's own columns are returned without a
    /// copy.
    ///
    /// # Errors
    /// When the source fails.
    pub fn rows_of<S: ColumnSource>(
        &self,
        p: &Program,
        lpid: Lpid,
        source: &mut S,
    ) -> Result<PageRows, S::Error> {
        source.announce(p.projection())?;
        // A program may name a column many times.
        let mut bytes = 0;
        let columns = p.projection().iter().map(|&c| {
            let column = compact(&source.column(c)?, &self.selection);
            bytes += column.link_bytes() as u64;
            source.answered(bytes).map(|()| column)
        });
        let columns = columns.collect::<Result<_, S::Error>>()?;
        let slots = match (&self.selection, source.slots()) {
            _ if !p.slots() => None,
            (Selection::All, of) => of.map(<[u32]>::to_vec),
            (s, None) => Some(s.slots(self.rows)),
            (s, Some(of)) => Some(s.slots(self.rows).into_iter().map(|row| of[row as usize]).collect()),
        };
        Ok(PageRows { lpid, rows: self.count() as u32, columns, slots })
    }

    /// Adds the rows that pass to the groups of the program's aggregation; see [`GroupTable::take`].
    ///
    /// # Errors
    /// Those of [`GroupTable::take`].
    pub fn group<S: ColumnSource>(
        &self,
        p: &Program,
        source: &mut S,
        table: &mut GroupTable,
        full: &mut impl FnMut(usize, Vec<Column>),
    ) -> Result<(), EvalError<S::Error>> {
        source.announce(p.aggregate_columns()).map_err(EvalError::Source)?;
        table.take(p, source, &self.selection, full)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use lode_base::{ExtentId, PageBuf};
    use lode_page::{ColumnType, DataType, Schema, Value, Values};

    use super::*;
    use crate::{CompareOp, Expr};

    /// A source of numbers from 0 on: a page of which only the rows `slots` are shown.
    struct Numbers {
        rows: usize,
        slots: Option<Vec<u32>>,
    }

    impl ColumnSource for Numbers {
        type Error = Infallible;

        fn rows(&self) -> usize {
            self.rows
        }

        fn column(&mut self, _: u16) -> Result<Column, Infallible> {
            let numbers: Vec<i32> = (0..self.rows as i32).collect();
            let values = Values::Fixed { width: 4, data: PageBuf::from_values(&numbers) };
            Ok(Column::new(DataType::Integer, self.rows, None, values).unwrap())
        }

        fn slots(&self) -> Option<&[u32]> {
            self.slots.as_deref()
        }
    }

    fn below(bound: i64) -> Program {
        let t = DataType::Integer;
        let schema = Schema {
            version: 1,
            columns: vec![ColumnType { data_type: t, nullable: false }],
            absent: Vec::new(),
        };
        let filter = Expr::compare(CompareOp::Lt, Expr::Column(0), Expr::Const(Value::Int(bound), t));
        Program::check(schema, Some(filter), vec![0], true).unwrap()
    }

    /// The numbers that come out, and their slots.
    fn answer(passed: &Passed, p: &Program, source: &mut Numbers) -> (Vec<i64>, Option<Vec<u32>>) {
        let lpid = ExtentId::new(3).unwrap().page(1);
        let Ok(rows) = passed.rows_of(p, lpid, source);
        let number = |v| if let Value::Int(v) = v { v } else { panic!("{v:?}") };
        assert_eq!(rows.rows as usize, rows.columns[0].rows());
        ((0..rows.rows as usize).map(|r| number(rows.columns[0].value(r))).collect(), rows.slots)
    }

    #[test]
    fn hidden_rows_come_off_whatever_passed() {
        let check = |bound: i64, hidden: &[usize], expected: &[i64]| {
            let (p, mut source) = (below(bound), Numbers { rows: 70, slots: None });
            let Ok(mut passed) = Passed::of(&p, &mut source, &mut Meter::default()) else { panic!() };
            let mut words = vec![0u64; 2];
            hidden.iter().for_each(|h| words[h / 64] |= 1 << (h % 64));
            passed.hide(&RowMask::new(words, 70));
            assert_eq!(passed.count(), expected.len());
            let (numbers, slots) = answer(&passed, &p, &mut source);
            assert_eq!(numbers, expected);
            let slots = slots.unwrap_or_else(|| (0..70).collect());
            assert!(slots.iter().map(|&s| i64::from(s)).eq(expected.iter().copied()));
        };
        check(3, &[], &[0, 1, 2]);
        check(3, &[1, 69], &[0, 2]);
        check(3, &[0, 1, 2], &[]);
        check(0, &[5], &[]);
        // Every row passes, but a hidden one does not come out.
        check(100, &[69], &(0..69).collect::<Vec<_>>());
        check(100, &[], &(0..70).collect::<Vec<_>>());
    }

    #[test]
    fn slots_are_those_of_the_page_where_the_source_shows_fewer_rows() {
        let check = |bound: i64, slots: Option<Vec<u32>>, expected: Option<Vec<u32>>| {
            let (p, mut source) = (below(bound), Numbers { rows: 4, slots });
            let Ok(passed) = Passed::of(&p, &mut source, &mut Meter::default()) else { panic!() };
            assert_eq!(answer(&passed, &p, &mut source).1, expected);
        };
        check(9, None, None);
        check(2, None, Some(vec![0, 1]));
        check(9, Some(vec![1, 4, 5, 9]), Some(vec![1, 4, 5, 9]));
        check(2, Some(vec![1, 4, 5, 9]), Some(vec![1, 4]));
    }
}
