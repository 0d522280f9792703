//! CH-benCHmark: 22 analytical queries on the tables of TPC-C, while its transactions run. Source: R. Cole et al., "The
//! mixed workload CH-benCHmark", DBTest 2011.
//!
//! ```text
//!   terminals ─► TPC-C's transactions, as they arrive
//!   one analyst: BEGIN ─► query 1 ... 22, in turn ─► one of conditions 1 to 4, in the same snapshot ─► COMMIT
//! ```
//!
//! Different from the publication: there is one analyst, who asks the queries in the order of their numbers. The upper
//! limits of dates lie in the far future, because rows are dated when they are loaded. Amounts are in cents, as all
//! money of [`super::tpcc`].

mod queries;
mod run;
mod tables;

pub use queries::{QUERIES, Query};
pub use run::{Asked, Clock, Plan, Report, alone, analyse, beside};
pub use tables::{drop_all, load};
