//! `lode drive serve`: serves a drive to a host over TCP.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lode::drive::SCHEME;
use lode::{Upkeep, Worker};
use lode_base::VirtualTime;
use lode_command::{Budget, Device, Progress};
use lode_firmware::Drive;
use lode_remote::{Server, ServerOptions};

use crate::drive_file::{self, Modelled};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;

/// How often the command checks for a signal.
const INTERVAL: Duration = Duration::from_millis(20);

/// Serve the drive in an image over TCP, until it is interrupted
#[derive(clap::Args)]
#[command(
    long_about = "Serve the drive in an image over TCP, until it is interrupted.\n\n\
        Wherever a command takes a drive, tcp://HOST:PORT names this one. It has one client at a time. A client \
        whose connection breaks reconnects by itself and continues, even if this server was killed and started \
        again. All acknowledged writes are there, and none is executed twice.\n\n\
        There is no encryption and no password: anyone who can reach the address can use the drive.",
    after_long_help = "EXAMPLES\n    lode drive serve my.lode --listen 127.0.0.1:4780\n    \
        lode sql tcp://127.0.0.1:4780 -c 'SHOW TABLES'"
)]
pub(crate) struct Args {
    /// The image
    file: PathBuf,

    /// Where to listen; with port 0 the system chooses one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4780")]
    listen: String,

    #[command(flatten)]
    modelled: Modelled,
}

pub(super) fn run(args: &Args) -> CliResult {
    let path = &args.file;
    let of_address = |e| CliError::Failed(format!("{}: {e}", args.listen));
    let profile = args.modelled.profile()?;
    let drive = match &profile {
        Some(profile) => drive_file::open_modelled(path, profile)?.0,
        None => drive_file::open_drive(path)?,
    };
    let listener = TcpListener::bind(&args.listen).map_err(of_address)?;
    let began = Instant::now();
    let options = ServerOptions::new(Arc::new(move || began.elapsed()));
    let (opening, sessions) = (drive.info().open_epoch.into(), drive.sessions());
    let server =
        Server::start(listener, Arc::new(drive.clone()), opening, sessions, options).map_err(of_address)?;
    // A modelled device does its background work between commands, as it does without a connection.
    let worker = match profile {
        Some(_) => None,
        None => Some(Worker::start(Served(drive.clone())).map_err(|e| CliError::file(path, e))?),
    };
    let told = println_quietly(&format!("{}: served at {SCHEME}{}", path.display(), server.addr()));
    while told.is_ok() && interrupt::signal().is_none() {
        std::thread::sleep(INTERVAL);
    }
    server.stop();
    if let Some(worker) = worker {
        worker.finish().map_err(|e| CliError::database(path, e))?;
    }
    match drive.info().read_only {
        Some(_) => Ok(()),
        None => drive.close().map_err(CliError::drive(path)),
    }
}

/// A drive whose background work this process does. The client opens the database on it.
struct Served(Drive);

impl Upkeep for Served {
    fn work(&self, write_bytes: u64) -> Progress {
        self.0.work(VirtualTime::ZERO, Budget { write_bytes })
    }
}
