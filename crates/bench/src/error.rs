//! Why a workload stopped.

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use lode_base::ProfileError;
use lode_sql::SqlError;

use crate::drive_host::DriveError;
use crate::trace::replay::ReplayError;

/// Why a workload stopped.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The user asked to stop, by Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// Lode refused a statement or failed in it.
    #[error("{doing}: {source}")]
    Sql {
        /// What was being done, such as `Q7` or `loading lineitem`.
        doing: String,
        /// What was wrong.
        source: SqlError,
    },
    /// Plain DataFusion failed, in a comparison.
    #[error("{doing}: {source}")]
    DataFusion {
        /// What was being done.
        doing: String,
        /// What was wrong.
        source: DataFusionError,
    },
    /// A file could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        source: std::io::Error,
    },
    /// A workload on the drive itself failed.
    #[error(transparent)]
    Drive(DriveError),
    /// A trace is wrong, or its replay.
    #[error(transparent)]
    Replay(ReplayError),
    /// An answer is not what it must be.
    #[error("{0}")]
    Differs(#[from] crate::tpch::answers::Difference),
    /// A shipped answer is not in its own format.
    #[error("shipped answer {name}: {what}")]
    Reference {
        /// Scale and query.
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
    /// Two models of which neither should know the other agree to the last digit.
    #[error("{0}: equations and executed drive agree to the picosecond: one must be computed by the other")]
    ComparedWithItself(&'static str),
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
