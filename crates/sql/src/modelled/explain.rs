//! The modelled time in EXPLAIN ANALYZE.
//!
//! ```text
//!   Plan with Metrics   (DataFusion's)
//!   Modelled time       isp-adms11: 4.210377 ms = media 1.020000 + bus .. + device .. + dram .. + link .. + host ..
//!                       host 0.900000 ms = commands .. + scan .. + filter .. + ..
//!                       energy 31.204 mJ = array reads .. + channels .. + ..
//! ```
//!
//! Invariant: the printed numbers of a line add up exactly to the sum before the `=`.

use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use lode_base::{Part, Profile, VirtualDuration};
use lode_engine::{HostWork, ModelledTime};

use crate::error::state;
use crate::explain_rows::explain_rows;
use crate::{Session, SqlError, StatementResult};

/// The rows of EXPLAIN ANALYZE, followed by one row with the modelled time of the statement.
pub(crate) fn explained(session: &Session, result: StatementResult) -> Result<StatementResult, SqlError> {
    let (StatementResult::Rows { schema, stream }, Some(host)) = (result, session.database().host().cloned())
    else {
        let message = "EXPLAIN ANALYZE of a modelled device without rows";
        return Err(SqlError::failed(state::INTERNAL_ERROR, message));
    };
    let (session, of) = (session.clone(), schema.clone());
    let last = stream::once(async move {
        let time = session.last_modelled().expect("the statement has begun");
        explain_rows(&of, &[("Modelled time", describe(&time, host.profile()))])
    });
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), stream.chain(last)));
    Ok(StatementResult::Rows { schema, stream })
}

fn describe(time: &ModelledTime, profile: &Profile) -> String {
    let parts = Part::ALL.map(|p| (p.name(), time.split.of(p)));
    let work = HostWork::ALL.map(|w| (w.name(), time.work(w)));
    let spent = |w: &(&str, VirtualDuration)| !w.1.is_zero();
    let work: Vec<_> = work.into_iter().filter(spent).collect();
    let mut text = format!("{}: {}", profile.name, sum(&parts));
    if !work.is_empty() {
        text += &format!("\nhost {}", sum(&work));
    }
    let energy = time.energy(profile);
    let used: Vec<_> = energy.parts().into_iter().filter(|p| p.1 > 0.0).collect();
    let millis: Vec<String> = used.iter().map(|(name, j)| format!("{name} {:.3}", j * 1e3)).collect();
    text += &format!("\nenergy {:.3} mJ = {}", energy.total() * 1e3, millis.join(" + "));
    text
}

/// Times in milliseconds with six digits, and their sum. The running sums are rounded, not the times, so that the
/// printed times add up.
fn sum(parts: &[(&str, VirtualDuration)]) -> String {
    let ms = |ns: u64| format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
    let (mut before, mut total) = (0, VirtualDuration::ZERO);
    let mut each = Vec::with_capacity(parts.len());
    for (name, time) in parts {
        total += *time;
        let now = total.as_ps() / 1000;
        each.push(format!("{name} {}", ms(now - before)));
        before = now;
    }
    format!("{} ms = {}", ms(before), each.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_as_they_are_printed() {
        let ps = VirtualDuration::from_ps;
        let parts = [("media", ps(1_600)), ("bus", ps(1_600)), ("host", ps(2_000_000_900))];
        assert_eq!(sum(&parts), "2.000004 ms = media 0.000001 + bus 0.000002 + host 2.000001");
    }
}
