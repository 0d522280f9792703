//! A database on a modelled device.

use std::sync::Arc;

use lode_base::Profile;
use lode_engine::{Database, DatabaseOptions, HostClock};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_sql::{Queries, Session, SessionOptions};
use tokio::runtime::{Builder, Runtime};

use crate::BenchError;
use crate::drive_host::DriveError;

/// Memory of the queries, in bytes.
const QUERY_BYTES: usize = 1 << 30;

/// A drive on the modelled device of a profile, and the clock of the host beside it.
pub(crate) struct ModelledDrive {
    profile: Profile,
    drive: Arc<Drive>,
    host: Arc<HostClock>,
}

impl ModelledDrive {
    /// An empty drive, in memory.
    pub(crate) fn new(profile: &Profile) -> Result<Self, BenchError> {
        Self::with(profile, DriveOptions::default())
    }

    /// The same, of a drive with these options. It keeps one copy of its log.
    pub(crate) fn with(profile: &Profile, options: DriveOptions) -> Result<Self, BenchError> {
        let model = Arc::new(Model::new(profile.clone()));
        let medium = Medium::memory(profile.geometry).with_model(model.clone());
        let options = DriveOptions { log_copies: 1, ..options };
        let drive = Arc::new(Drive::format(medium, options).map_err(DriveError::from)?);
        let meter = model.clone();
        let host = HostClock::new(profile.clone(), model.latest(), Box::new(move || meter.operations()));
        Ok(Self { profile: profile.clone(), drive, host: Arc::new(host) })
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The clock of the host beside it.
    pub(crate) fn host(&self) -> &HostClock {
        &self.host
    }

    /// Opens its database with these options and the host's clock.
    pub(crate) fn open(&self, options: DatabaseOptions) -> Result<(Database, Session), BenchError> {
        let options = DatabaseOptions { host: Some(self.host.clone()), ..options };
        let failed = |source| BenchError::sql("the drive", source);
        let database = Database::open(self.drive.clone(), options).map_err(|e| failed(e.into()))?;
        let queries = Queries::new(database.clone(), QUERY_BYTES).map_err(failed)?;
        let session = queries.session(&SessionOptions::default()).map_err(failed)?;
        Ok((database, session))
    }
}

/// One thread, so that all that runs has an order.
pub(crate) fn one_thread() -> Result<Runtime, BenchError> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(|source| BenchError::File { path: "a thread".into(), source })
}
