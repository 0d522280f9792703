//! TPC-H: eight tables at a scale, 22 queries, and another engine's answers to compare with.
//!
//! ```text
//!   schema ─► CREATE TABLE ┐
//!   data   ─► batches ─────┴─► Session ─► run: queries ─► answers: compare
//!   refresh: RF1, RF2 ─► age: rounds of them, queries and sizes on the way
//! ```
//!
//! Source: TPC Benchmark H, revision 3.0.1; rows from the `tpchgen` crate, a port of the TPC's `dbgen`.

pub mod age;
pub mod answers;
pub mod compare_parquet;
pub mod data;
pub mod queries;
pub mod refresh;
pub mod run;
pub mod schema;

pub use queries::{QUERIES, Query};
pub use schema::{TABLES, Table};

use std::fmt;
use std::str::FromStr;

/// A scale factor: 1 is about 8.7 million rows, a gigabyte of text.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Scale(f64);

impl Scale {
    /// A scale with this factor. `None` unless the factor is above 0 and at most 1,000.
    pub fn new(factor: f64) -> Option<Self> {
        (factor > 0.0 && factor <= 1000.0).then_some(Self(factor))
    }

    /// The factor.
    pub fn factor(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let factor: f64 = s.parse().map_err(|_| "a scale is a number such as 0.01, 0.1 or 1".to_string())?;
        Self::new(factor).ok_or_else(|| "a scale is above 0 and at most 1000".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_numbers_above_zero() {
        assert_eq!("0.1".parse(), Ok(Scale(0.1)));
        for bad in ["0", "-1", "nan", "inf", "1001", "one", ""] {
            assert!(bad.parse::<Scale>().is_err(), "{bad}");
        }
    }
}
