//! `lode bench levels`: what the choice of an offload level costs on modelled devices.

use lode_base::Profile;
use lode_base::profile::SHIPPED;
use lode_bench::levels::{Levels, of_profile};
use lode_bench::tpch::Scale;
use lode_sql::Offload;

use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::TextTable;

/// Run the 22 queries of TPC-H at each offload level, on modelled devices
#[derive(clap::Args)]
#[command(
    long_about = "Run the 22 queries of TPC-H at each offload level, on modelled devices.\n\n\
        Times are modelled, each from an empty buffer pool. The regret is how much longer auto takes than the best of the \
        other levels. It is below 0 where scans of one query gain by different levels.",
    after_long_help = "EXAMPLES\n    lode bench levels\n    lode bench levels --profile yoursql-pm1725 --scale 0.1\n    \
        lode bench levels --json > levels.jsonl\n\nJSON ROWS\n    One object per line for each profile and query: \
        the milliseconds of each level, best, regret."
)]
pub(super) struct Args {
    /// How much data: 1 is 8.7 million rows
    #[arg(long, value_name = "S", default_value = "0.02", allow_negative_numbers = true)]
    scale: Scale,

    /// One device only: a shipped profile, or a file; by default all that are shipped
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> CliResult {
    let names: Vec<&str> = match &args.profile {
        Some(one) => vec![one],
        None => SHIPPED.iter().map(|(name, _)| *name).collect(),
    };
    let mut columns = vec!["profile".to_owned(), "query".into()];
    columns.extend(Offload::ALL.iter().map(|level| format!(">{level}")));
    columns.extend(["best".into(), ">regret".into()]);
    let mut table = TextTable::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let mut regrets: Vec<f64> = Vec::new();
    for name in names {
        let profile = Profile::find(name).map_err(|e| CliError::Usage(e.to_string()))?;
        for levels in of_profile(&profile, args.scale, &|| interrupt::signal().is_some())? {
            regrets.push(levels.regret());
            if args.json {
                println_quietly(&json(&levels))?;
            } else {
                table.row(cells(&levels));
            }
        }
    }
    if args.json {
        return Ok(());
    }
    println_quietly(table.render().trim_end())?;
    let within = regrets.iter().filter(|r| **r <= 0.05).count();
    let worst = regrets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    println_quietly(&format!(
        "\nTimes in milliseconds. auto takes at most 5 % longer than the best level in {within} of {}, and at most {:.1} % longer.",
        regrets.len(),
        worst * 100.0
    ))
}

fn cells(of: &Levels) -> Vec<String> {
    let mut cells = vec![of.profile.clone(), format!("Q{}", of.query)];
    cells.extend(of.times.iter().map(|(_, time)| format!("{:.3}", time.as_secs_f64() * 1e3)));
    cells.extend([of.best().0.to_string(), format!("{:+.1} %", of.regret() * 100.0)]);
    cells
}

fn json(of: &Levels) -> String {
    let mut row = serde_json::json!({
        "workload": "levels", "profile": of.profile, "query": of.query, "best": of.best().0.to_string(),
        "regret": of.regret(),
    });
    for (level, time) in &of.times {
        row[format!("{level}_ms")] = (time.as_secs_f64() * 1e3).into();
    }
    row.to_string()
}
