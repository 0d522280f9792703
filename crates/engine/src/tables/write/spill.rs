//! New values of an UPDATE go to pages once the transaction holds many.
//!
//! ```text
//!   values of updates, as they came ─► rows, end to end ─► pages of about 1 MB ─► each update knows its rows
//! ```

use lode_command::PageWrite;
use lode_page::{Column, DataType};

use super::WriteTxn;
use super::cutter::{Cutter, Shape};
use super::stream::Io;
use crate::EngineError;
use crate::tables::own::{Leaving, RowsOfPage};

impl WriteTxn {
    /// Writes the new values that are in memory to pages, if they are many.
    ///
    /// # Errors
    /// When a value is longer than a page, or the drive is full or fails.
    pub(super) fn spill_values(&mut self) -> Result<(), EngineError> {
        if self.values.held_bytes() <= self.limits.change_bytes {
            return Ok(());
        }
        let mut leaving = self.values.leaving().into_iter().peekable();
        while let Some(first) = leaving.next() {
            let types = types(&first);
            let mut run = vec![first];
            while let Some(next) = leaving.next_if(|l| self::types(l) == types) {
                run.push(next);
            }
            self.spill_run(types, run)?;
        }
        Ok(())
    }

    /// Writes values of the same types.
    fn spill_run(&mut self, types: Vec<DataType>, run: Vec<Leaving>) -> Result<(), EngineError> {
        let identity = self.trees.committer().storage().store().identity();
        let page_bytes_max = u64::from(identity.page_bytes_max).min(identity.batch_bytes_max / 2) as usize;
        let mut cutter = Cutter::new(Shape::of_values(types, page_bytes_max));
        let mut written: Vec<RowsOfPage> = Vec::new();
        let rows: Vec<usize> = run.iter().map(|l| l.columns[0].rows()).collect();
        for leaving in &run {
            cutter.push(leaving.columns.clone());
            while cutter.has_full() {
                written.push(self.spill_page(&mut cutter)?);
            }
        }
        while cutter.rows() > 0 {
            written.push(self.spill_page(&mut cutter)?);
        }
        let mut pages = written.into_iter();
        let mut page = None;
        for (leaving, mut missing) in run.into_iter().zip(rows) {
            let mut at = Vec::new();
            while missing > 0 {
                let mut left: RowsOfPage = match page.take() {
                    Some(left) => left,
                    None => pages.next().expect("every row was written"),
                };
                let rows = left.rows.min(missing);
                at.push(RowsOfPage { rows, ..left });
                missing -= rows;
                (left.first, left.rows) = (left.first + rows, left.rows - rows);
                page = Some(left).filter(|l| l.rows > 0);
            }
            leaving.written_to(at);
        }
        Ok(())
    }

    /// Writes the next page to an extent whose owner is in no catalog.
    fn spill_page(&mut self, cutter: &mut Cutter) -> Result<RowsOfPage, EngineError> {
        let storage = self.trees.committer().storage();
        let mut io = Io::new(storage, &mut self.fresh);
        let lpid = self.spilled.next(&mut io, || storage.extents().new_owner().into())?;
        let cut = cutter.cut(lpid)?;
        io.write_aside(PageWrite { lpid, data: cut.data, align: cutter.shape.align() })?;
        Ok(RowsOfPage { lpid, first: 0, rows: cut.rows })
    }
}

fn types(l: &Leaving) -> Vec<DataType> {
    l.columns.iter().map(Column::data_type).collect()
}
