//! Shared by the tests: random columns and programs, and an evaluator that follows the definition literally.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod naive;
pub(crate) mod random;

use lode_page::{Column, Schema};
use lode_program::ColumnSource;

/// The columns of a page in memory; counts how often each was asked for.
pub(crate) struct Memory {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Column>,
    pub(crate) asked: Vec<usize>,
}

impl Memory {
    pub(crate) fn new(rows: usize, columns: Vec<Column>) -> Self {
        let asked = vec![0; columns.len()];
        Self { rows, columns, asked }
    }
}

impl ColumnSource for Memory {
    type Error = String;

    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&mut self, column: u16) -> Result<Column, String> {
        self.asked[usize::from(column)] += 1;
        Ok(self.columns[usize::from(column)].clone())
    }
}

pub(crate) fn schema(types: &[lode_page::DataType]) -> Schema {
    let columns =
        types.iter().map(|&data_type| lode_page::ColumnType { data_type, nullable: true }).collect();
    Schema { version: 1, columns, absent: Vec::new() }
}
