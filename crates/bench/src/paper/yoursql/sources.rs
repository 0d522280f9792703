//! How far the counted ratios rest on parameters that nobody measured.
//!
//! ```text
//!   profile's text ─► each value marked [a], [h] or [K11], halved ─► Profile ─► a database on that device ─► ratios, beside those before
//! ```
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::Profile;
use lode_base::profile::SHIPPED;

use super::movers::{MOVERS, Q2, Q2_ENERGY, Q14, QUERY_1};
use super::query1::{MYSQL, YOURSQL, of_rig};
use super::rig::Rig;
use super::systems::{ENABLED, System};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales::AtScale;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "sources",
    about: "Assumed parameters: what halving each does to the counted ratios",
    claim: "The paper counts ratios, and says little of its device and nothing of what a row costs its host.",
    setup: "Each value of the profile that is assumed ([a]), an estimate of the host ([h]), or the cycles of another core ([K11]) is halved alone. Query 1, Q2 and Q14 run again on that device, at \
            scale 0.01; with --quick Query 1 alone.",
    expected: "Ratios rest on what a row and a look-up cost the host, which are estimates, and on what a command costs. Energy follows the times: \
               idle power is most of it on both sides.",
    differs: "Values that the device cannot have are named. Those that are not numbers are left.",
    sizes: &[],
    rows,
    plot: None,
};

/// Marks of values that nobody measured on this device.
const MARKS: [&str; 3] = ["[a]", "[h]", "[K11]"];

/// A change of a ratio below this is none.
const MOVED: f64 = 0.05;

/// A parameter of the profile that nobody measured.
#[derive(Clone, Debug)]
struct Assumed {
    /// Section and key.
    name: String,
    /// The profile with half of the value.
    text: String,
}

/// A counted ratio.
struct Ratio {
    of: &'static str,
    is: f64,
}

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let name = super::PAPER.profile;
    let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name).expect("the profile is shipped");
    let as_it_is = ratios(run, &Profile::find(name)?)?;
    let mut rows = Vec::new();
    let mut found: Vec<(&str, String)> = Vec::new();
    let mut refused = Vec::new();
    let all = assumed(text);
    for a in &all {
        let Ok(profile) = Profile::parse(&a.text, name) else {
            refused.push(a.name.as_str());
            continue;
        };
        for (before, after) in as_it_is.iter().zip(ratios(run, &profile)?) {
            let moved = after.is / before.is;
            if (moved - 1.0).abs() > MOVED {
                found.push((before.of, a.name.clone()));
                let note = format!("{:.3} instead of {:.3}", after.is, before.is);
                rows.push(row(before.of, &a.name, "ratio with half of it, times that before", moved, &note));
            }
        }
    }
    let note = match &refused[..] {
        [] => "all of them were halved".into(),
        some => format!("a device cannot have half of {}", some.join(", ")),
    };
    rows.push(row("all", "profile", "values that are assumed", all.len() as f64, &note));
    let of_run = |ratio: &str| as_it_is.iter().any(|r| r.of == ratio);
    let mut known: Vec<(&str, String)> = MOVERS
        .iter()
        .filter(|(ratio, _)| of_run(ratio))
        .flat_map(|(ratio, values)| values.iter().map(|v| (*ratio, (*v).to_owned())))
        .collect();
    known.sort_unstable();
    found.sort_unstable();
    let is_known = f64::from(u8::from(known == found));
    rows.push(row(
        "all",
        "profile",
        "rows name what moves them",
        is_known,
        "1: yes, as this figure found it",
    ));
    Ok(rows)
}

fn row(series: &str, x: &str, metric: &str, value: f64, note: &str) -> Row {
    Row::new(Method::Executed, series, X::Name(x.into()), metric, "", value, note)
}

/// The counted ratios on a device.
fn ratios(run: &mut Run<'_>, profile: &Profile) -> Result<Vec<Ratio>, BenchError> {
    run.go_on()?;
    let mut rig = Rig::at(profile, Rig::QUICK_SCALE)?;
    let [mysql, yoursql] = [of_rig(&mut rig, &MYSQL)?, of_rig(&mut rig, &YOURSQL)?];
    let mut ratios = vec![Ratio { of: QUERY_1, is: mysql.time.as_secs_f64() / yoursql.time.as_secs_f64() }];
    if run.quick() {
        return Ok(ratios);
    }
    for (number, of) in [(2, Q2), (14, Q14)] {
        run.go_on()?;
        let query = ENABLED.iter().find(|q| q.number == number).expect("it is filtered early");
        let [mysql, yoursql] = [System::MySql.run(&mut rig, query)?, System::YourSql.run(&mut rig, query)?];
        ratios.push(Ratio { of, is: mysql.time.as_secs_f64() / yoursql.time.as_secs_f64() });
        if number == 2 {
            ratios.push(Ratio { of: Q2_ENERGY, is: mysql.energy.total() / yoursql.energy.total() });
        }
    }
    Ok(ratios)
}

/// The values of a profile that are marked as assumed, but those that cannot be halved: names, switches, and ones.
fn assumed(text: &str) -> Vec<Assumed> {
    let mut section = "";
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let Some((key, rest)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let Some((value, source)) = rest.split_once('#') else { continue };
        let is_assumed = MARKS.iter().any(|mark| source.contains(mark));
        let Some(value) = value.trim().parse::<u64>().ok().filter(|v| is_assumed && *v > 1) else { continue };
        let halved = format!("{key}= {}", value / 2);
        let lines = text.lines().enumerate().map(|(i, l)| if i == at { halved.as_str() } else { l });
        all.push(Assumed {
            name: format!("{section}.{}", key.trim()),
            text: lines.collect::<Vec<_>>().join("\n"),
        });
    }
    all
}
