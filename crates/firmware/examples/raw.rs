//! `lode bench raw` without SQL around it, which builds in a minute: the drive beside plain file I/O.
//!
//! `cargo run --release -p lode-firmware --example raw -- DIRECTORY SECONDS`
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]

#[path = "../../workload/src/disk.rs"]
mod disk;
#[path = "../../bench/src/drive_host.rs"]
mod drive_host;
#[path = "../../workload/src/random.rs"]
mod random;
#[path = "../../bench/src/raw/mod.rs"]
mod raw;
#[path = "../../bench/src/trace/mod.rs"]
mod trace;
#[path = "../../workload/src/zipf.rs"]
mod zipf;

use std::time::Duration;

use raw::{Measure, Plan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = tempfile::tempdir_in(args.next().ok_or("which directory?")?)?;
    let time = Duration::from_secs_f64(args.next().map_or(Ok(60.0), |s| s.parse())?);
    let measure = |m: &Measure| {
        let wa = m.write_amplification.map_or("-".into(), |w| format!("{w:.2}"));
        format!("{:>9.0} {:>7.3} {:>7.3} {wa:>7}", m.rate, m.p50_ms, m.p99_ms)
    };
    println!("{:>45} {:>23} {:>9} {:>23}", "plain: median", "p50, p99 ms, ampl.", "Lode:", "");
    let plan = Plan { dir: dir.path().into(), time };
    raw::run(&plan, &|| false, |r| {
        let lode = r.lode.as_ref().map_or_else(String::clone, measure);
        let ratio = r.ratio.map_or("-".into(), |r| format!("{r:.2}"));
        let case = format!("{}, {} x {}, {}", r.case, r.threads, r.depth, r.unit);
        println!("{case:<34} {} {lode} {ratio:>6}", measure(&r.plain));
        Ok(())
    })?;
    Ok(())
}
