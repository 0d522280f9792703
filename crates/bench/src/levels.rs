//! What the choice of an offload level costs: the 22 queries of TPC-H at each level, on modelled devices.
//!
//! ```text
//!   profile ─► a database on that device, TPC-H ─► each query at each level, from an empty pool ─► modelled times
//!                                                   └─ at auto: its time to the least of the others, less 1: the regret
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;

use lode_base::{Profile, VirtualDuration};
use lode_engine::DatabaseOptions;
use lode_sql::Offload;

use crate::BenchError;
use crate::drive_host::DriveError;
use crate::modelled::{ModelledDrive, one_thread};
use crate::tpch::data::load;
use crate::tpch::run::run;
use crate::tpch::schema::Layout;
use crate::tpch::{QUERIES, Scale};

/// The times of a query on a device.
#[derive(Clone, Debug)]
pub struct Levels {
    /// The device.
    pub profile: String,
    /// The query's number.
    pub query: usize,
    /// Each level with its time, in the order of [`Offload::ALL`].
    pub times: Vec<(Offload, VirtualDuration)>,
}

impl Levels {
    /// The level that takes the least time, but for `auto`.
    pub fn best(&self) -> (Offload, VirtualDuration) {
        let fixed = self.times.iter().filter(|(level, _)| *level != Offload::Auto);
        *fixed.min_by_key(|(_, time)| *time).expect("there are levels")
    }

    /// How much longer `auto` takes than the best level, as a part of that. Below 0 where scans of a query gain by different levels.
    pub fn regret(&self) -> f64 {
        let auto = self.times.iter().find(|(level, _)| *level == Offload::Auto).expect("auto is a level").1;
        auto.as_secs_f64() / self.best().1.as_secs_f64() - 1.0
    }
}

/// Runs the queries at each level on a device.
///
/// # Errors
/// When the data does not fit the device, when a query fails, and when `stop` says so.
pub fn of_profile(
    profile: &Profile,
    scale: Scale,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Levels>, BenchError> {
    let (database, session) = ModelledDrive::new(profile)?.open(DatabaseOptions::default())?;
    let runtime = one_thread()?;
    let go_on = Arc::new(|_| ControlFlow::Continue(()));
    runtime.block_on(async {
        load(&session, scale, Layout::Column, go_on).await?;
        let mut all = Vec::new();
        for query in &QUERIES {
            let mut times = Vec::new();
            for level in Offload::ALL {
                if stop() {
                    return Err(DriveError::Stopped.into());
                }
                database.clear_pool();
                let took = run(&session, query, scale, level).await?;
                times.push((level, took.modelled.expect("the device is modelled").total));
            }
            all.push(Levels { profile: profile.name.clone(), query: query.number, times });
        }
        Ok(all)
    })
}
