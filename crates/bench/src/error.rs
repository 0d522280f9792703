//! Errors of workloads.

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use lode_base::ProfileError;
use lode_sql::SqlError;

use crate::drive_host::DriveError;
use crate::trace::replay::ReplayError;

/// Why a workload stopped.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The user asked to stop by Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// Lode refused a statement, or failed while it ran.
    #[error("{doing}: {source}")]
    Sql {
        /// The step that failed, such as `Q7` or `loading lineitem`.
        doing: String,
        /// What is wrong.
        source: Box<SqlError>,
    },
    /// Plain DataFusion failed, in a comparison.
    #[error("{doing}: {source}")]
    DataFusion {
        /// The step that failed.
        doing: String,
        /// What is wrong.
        source: DataFusionError,
    },
    /// A file could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
    /// A workload on the drive failed.
    #[error(transparent)]
    Drive(DriveError),
    /// A trace or its replay failed.
    #[error(transparent)]
    Replay(ReplayError),
    /// An answer is wrong.
    #[error("{0}")]
    Differs(#[from] crate::tpch::answers::Difference),
    /// Two orders of a join have different answers.
    #[error("{0}")]
    Orders(String),
    /// Refresh functions did not leave the rows that they must.
    #[error("{0}")]
    Refresh(String),
    /// A shipped answer does not have its format.
    #[error("shipped answer {name}: {what}")]
    Reference {
        /// The scale and the query.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// There is no such profile, or it is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A plot could not be drawn.
    #[error("plot: {0}")]
    Plot(String),
    /// Two models that should be independent agree to the last digit.
    #[error("{0}: equations and executed drive agree to the picosecond, so they are not independent")]
    ComparedWithItself(&'static str),
}

impl BenchError {
    /// A statement, or what ran some, failed.
    pub(crate) fn sql(doing: impl Into<String>, source: SqlError) -> Self {
        Self::Sql { doing: doing.into(), source: Box::new(source) }
    }
}

impl From<DriveError> for BenchError {
    fn from(e: DriveError) -> Self {
        match e {
            DriveError::Stopped => Self::Interrupted,
            e => Self::Drive(e),
        }
    }
}

impl From<ReplayError> for BenchError {
    fn from(e: ReplayError) -> Self {
        match e {
            ReplayError::Stopped => Self::Interrupted,
            e => Self::Replay(e),
        }
    }
}
