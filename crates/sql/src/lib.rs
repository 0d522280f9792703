//! Lode's SQL: DataFusion over a drive that filters, projects and skips.
//!
//! ```text
//!   SQL ─► plan ─► LodeScanExec ─► program ─► drive ─► columns ─► Arrow ─► DataFusion's operators ─► rows
//!     └─► change ─► query for its rows ─► write transaction ─► commit
//! ```

mod aggregate;
mod alter;
mod alter_type;
pub mod arrow_convert;
mod catalog;
mod columns;
mod comments;
mod compact_text;
pub mod config;
mod constraints;
mod copy;
mod copy_stream;
pub mod counts;
mod create_like;
mod cross_joins;
mod cursor;
mod cursors;
mod ddl;
mod deferral;
mod dml;
mod drop;
pub mod error;
mod exchanges;
mod execute;
mod explain;
mod explain_rows;
mod filter_names;
mod functional_dependencies;
mod grouping_sets;
mod hidden_columns;
mod index_elements;
mod index_order;
mod indexes;
mod join;
mod kept;
mod key_sets;
mod logical_rules;
mod memory;
mod missing_sorts;
mod modelled;
mod modifying_with;
mod names;
mod namespaces;
mod note_shape;
mod numbers;
pub mod offload;
mod one_stream;
pub mod options;
mod physical_rules;
mod planner;
mod prepared;
pub mod provider;
mod queries;
mod query_shape;
pub mod scan;
mod schemas;
mod semantics;
mod sequences;
mod series;
pub mod session;
mod session_functions;
mod settings;
mod short;
mod show;
pub mod statement;
mod summaries;
mod summary_text;
mod threads;
mod transaction;
mod transaction_settings;
pub mod translate;
mod types;
mod upkeep;
mod view_readers;
mod views;
mod window_frames;

/// Arrow, in the version in which rows come.
pub use datafusion::arrow;
/// A value of a parameter.
pub use datafusion::common::ScalarValue;

pub use copy_stream::{CopyIn, CopyOut};
pub use counts::{QueryCounts, StatementCounts, TableReads};
pub use error::{ErrorFields, SqlError};
pub use hidden_columns::DeclaredIndex;
pub use lode_engine::ModelledTime;
pub use names::shown_name;
pub use offload::Offload;
pub use options::{CommitDurability, EarlyFilter, EarlyScores, JoinBy, LodeOptions, Planner};
pub use prepared::Prepared;
pub use queries::Queries;
pub use session::{Session, SessionOptions};
pub use statement::{Statement, StatementResult};
pub use transaction::TransactionStatus;
