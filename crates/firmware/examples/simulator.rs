//! The simulator's part of `lode bench raw` without SQL around it, which builds in a minute: how fast a modelled drive
//! is simulated.
//!
//! `cargo run --release -p lode-firmware --example simulator -- MEGABYTES REQUESTS MEGABYTES`: of the device, and of the
//! one that is filled for its memory.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]

#[path = "../../bench/src/drive_host.rs"]
mod drive_host;
#[path = "../../workload/src/random.rs"]
mod random;
#[path = "../../bench/src/raw/simulator.rs"]
mod simulator;
#[path = "../../bench/src/trace/mod.rs"]
mod trace;
#[path = "../../workload/src/zipf.rs"]
mod zipf;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = |default: u64| args.next().map_or(Ok(default), |s| s.parse());
    let full = simulator::Size::FULL;
    let size = simulator::Size {
        device_bytes: next(full.device_bytes >> 20)? << 20,
        requests: next(full.requests)?,
        filled_bytes: next(full.filled_bytes >> 20)? << 20,
    };
    simulator::run(size, &|| false, |r| {
        println!("{r:#?}");
        Ok(())
    })?;
    Ok(())
}
