//! `lode bench micro`: the time of this machine per row, as the `[host]` table of a profile.

use lode_bench::micro::{Cost, Plan, machine, run as run_plan};

use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;

/// Measure this machine's time per row, operator by operator: the host of a profile
#[derive(clap::Args)]
#[command(
    long_about = "Measure this machine's time per row, operator by operator: the host of a profile.\n\n\
        Each operator of DataFusion runs over rows of TPC-H in memory, in one thread. Its bare source runs in turn with it, \
        and that time is subtracted. The median of 15 rounds counts. Scanning is measured over table pages as they come \
        from the drive, a command over a drive in memory, and nodes of trees and row pages by themselves. The rows are an operator's input rows. Other load \
        distorts the figures, so leave the machine alone meanwhile.",
    after_long_help = "EXAMPLES\n    lode bench micro\n    lode bench micro --quick --json\n\n\
        OUTPUT\n    The [host] table of a profile, each value with its source. Put it into a profile in place of \
        its own table.\n\n\
        JSON\n    One object: machine, optimised (false: not built with --release, and slow), scale, rounds; \
        command_ns, scan_ns, filter_ns, project_ns, aggregate_ns, join_ns, sort_ns, other_ns, \
        node_ns, entry_ns, place_ns; costs: of each key what was \
        measured, ns, ns_min and ns_max of the rounds, rows."
)]
pub(super) struct Args {
    /// Measure for seconds, less exactly: 60,000 rows and 5 rounds instead of 600,000 and 15
    #[arg(long)]
    quick: bool,

    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// The width of `key = value` before the comment.
const VALUE_WIDTH: usize = 26;
/// The decimal places of nanoseconds. A profile has picoseconds.
const PLACES: usize = 3;

pub(super) fn run(args: Args) -> CliResult {
    let plan = if args.quick { Plan::QUICK } else { Plan::FULL };
    // One thread, because the result is the time per row and not the throughput of many threads.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|e| CliError::Failed(format!("cannot start a runtime: {e}")))?;
    let costs = runtime.block_on(run_plan(&plan, &|| interrupt::signal().is_some()))?;
    let text = if args.json { json(&plan, &costs) } else { table(&costs) };
    println_quietly(text.trim_end())
}

/// Whether this build is optimised, so that measurements make sense.
const OPTIMISED: bool = !cfg!(debug_assertions);

fn table(costs: &[Cost]) -> String {
    let machine = machine();
    let mut out = String::new();
    for c in costs {
        let name = c.key.trim_end_matches("_ns");
        out +=
            &format!("# {name}: {} (rounds: {:.*} to {:.*})\n", c.what, PLACES, c.ns_min, PLACES, c.ns_max);
    }
    if !OPTIMISED {
        out += "# This build is not optimised (cargo build --release): its figures are too high.\n";
    }
    out += "\n[host]\n";
    for c in costs {
        let value = format!("{} = {:.*}", c.key, PLACES, c.ns);
        out += &format!("{value:VALUE_WIDTH$} # lode bench micro, {machine}\n");
    }
    out
}

fn json(plan: &Plan, costs: &[Cost]) -> String {
    let mut row = serde_json::json!({
        "workload": "micro", "machine": machine(), "optimised": OPTIMISED, "scale": plan.scale, "rounds": plan.rounds,
        "costs": costs,
    });
    for c in costs {
        row[c.key] = c.ns.into();
    }
    row.to_string()
}
