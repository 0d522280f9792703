//! `lode-peers` does the same work through Lode and other embedded stores, in turn, in one run.
//!
//! ```text
//!   kv:   races of key-value stores      tpcc: TPC-C on Lode's embedded API and on SQLite
//!   oltp: statements by key, TPC-B and TPC-C through SQL on Lode and on SQLite
//! ```
//!
//! `lode bench kv --peers`, `lode bench tpcc --peers` and `lode bench oltp --peers` run it.

// Without the key-value stores, what only they use has no caller.
#![cfg_attr(not(feature = "stores"), allow(dead_code))]

#[cfg(feature = "stores")]
mod kv;
mod oltp;
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
    #[cfg(feature = "stores")]
    Kv(kv::Args),
    /// TPC-C on Lode and on SQLite
    Tpcc(tpcc::Args),
    /// Statements by key, TPC-B and TPC-C through SQL on Lode and on SQLite
    Oltp(oltp::Args),
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
        #[cfg(feature = "stores")]
        Command::Kv(args) => kv::run(args, &stop),
        Command::Tpcc(args) => tpcc::run(args, &stop),
        Command::Oltp(args) => oltp::run(args, &stop),
    }
}

/// Bytes: a number of megabytes.
pub(crate) const MB: u64 = 1 << 20;
