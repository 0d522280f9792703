//! `lode bench gc` without SQL around it, which builds in a minute: write amplification against theory.
//!
//! `cargo run --release -p lode-firmware --example gc -- MEGABYTES [POLICY]`
#![allow(dead_code, unreachable_pub, missing_docs)]

#[path = "../../bench/src/drive_host.rs"]
mod drive_host;
#[path = "../../bench/src/gc/mod.rs"]
mod gc;
#[path = "../../workload/src/random.rs"]
mod random;

use gc::run::Plan;
use gc::workload::Skew;
use lode_firmware::{GcPolicy, POLICIES};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let capacity_bytes = args.next().map_or(Ok(256), |s| s.parse::<u64>())? << 20;
    let only = args.next();
    let plan = Plan { capacity_bytes, ..Plan::default() };
    println!(
        "{:<18} {:<10} {:>6} {:>9} {:>6} {:>7} {:>6}",
        "policy", "skew", "space", "measured", "model", "theory", "ratio"
    );
    for skew in Skew::ALL {
        for policy in POLICIES.iter().filter(|p| only.as_ref().is_none_or(|o| *o == p.name)) {
            match gc::run::run(&plan, &GcPolicy::from(policy), skew, &|| false) {
                Ok(r) => {
                    let optional = |v: Option<f64>| v.map_or("-".into(), |v| format!("{v:.3}"));
                    let (theory, ratio) = (optional(r.theory.map(gc::run::Theory::value)), optional(r.ratio));
                    let (wa, model) = (r.write_amplification, optional(r.model));
                    println!(
                        "{:<18} {:<10} {:>6.3} {wa:>9.3} {model:>6} {theory:>7} {ratio:>6}",
                        r.policy, r.skew, r.space
                    );
                }
                Err(e) => println!("{:<18} {:<10} {e}", policy.name, skew.name()),
            }
        }
    }
    Ok(())
}
