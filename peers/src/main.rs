//! `lode-peers` does the same work through Lode and other embedded stores, in turn, in one run.
//!
//! ```text
//!   kv:   races of key-value stores      tpcc: TPC-C on Lode and on SQLite
//! ```
//!
//! `lode bench kv --peers` and `lode bench tpcc --peers` run it.

mod kv;
mod stores;
mod tpcc;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The same work through Lode and other embedded stores
#[derive(Parser)]
#[command(name = "lode-peers")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Races of key-value stores
    Kv(kv::Args),
    /// TPC-C on Lode and on SQLite
    Tpcc(tpcc::Args),
}

type Failure = Box<dyn std::error::Error>;

fn main() {
    let cli = Cli::parse();
    if let Err(e) = run(&cli) {
        eprintln!("lode-peers: {e}");
        std::process::exit(1);
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stopped.clone())?;
        signal_hook::flag::register(signal, stopped.clone())?;
    }
    let stop = || stopped.load(Ordering::Relaxed);
    match &cli.command {
        Command::Kv(args) => kv::run(args, &stop),
        Command::Tpcc(args) => tpcc::run(args, &stop),
    }
}

/// Bytes: a number of megabytes.
pub(crate) const MB: u64 = 1 << 20;
