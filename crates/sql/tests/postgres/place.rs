//! Where the scripts run: on a drive in memory, behind a connection, or on a modelled device.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lode_base::{Geometry, Profile};
use lode_command::Device;
use lode_engine::{Database, DatabaseOptions, HostClock};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_remote::{ClientOptions, RemoteDevice, Server, ServerOptions};

const DRIVE_BYTES: u64 = 256 << 20;

/// A kind of drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In memory.
    Memory,
    /// Behind a connection over the loopback.
    Tcp,
    /// On a modelled device, whose sessions run short statements generally.
    Modelled,
}

/// A database on a new drive. Its server, if it has one, ends behind it.
pub(crate) struct Opened {
    pub(crate) db: Database,
    _server: Option<Server>,
}

impl Place {
    pub(crate) fn open(self) -> Opened {
        let drive = || Arc::new(Drive::in_memory(DRIVE_BYTES));
        let open = |device: Arc<dyn Device>, host| {
            let options = DatabaseOptions { host, ..DatabaseOptions::default() };
            Database::open(device, options).expect("an empty drive opens")
        };
        match self {
            Self::Memory => Opened { db: open(drive(), None), _server: None },
            Self::Tcp => {
                let began = Instant::now();
                let options = ServerOptions::new(Arc::new(move || began.elapsed()));
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let server = Server::start(listener, drive(), 1, Vec::new(), options).expect("a server");
                let pause = Duration::from_micros(200);
                let options = ClientOptions { pause, ..ClientOptions::new(Arc::new(std::thread::sleep)) };
                let device =
                    RemoteDevice::connect(&server.addr().to_string(), options).expect("a connection");
                Opened { db: open(Arc::new(device), None), _server: Some(server) }
            }
            Self::Modelled => {
                let mut profile = Profile::find("isp-adms11").expect("a profile");
                let g = &profile.geometry;
                let (rblock, wblock) = (g.rblock_bytes(), g.wblock_bytes());
                profile.geometry =
                    Geometry::new(g.channels(), g.ways(), g.planes(), rblock, wblock, 1 << 20, 256)
                        .expect("a geometry");
                let model = Arc::new(Model::new(profile.clone()));
                let medium = Medium::memory(profile.geometry).with_model(model.clone());
                let options = DriveOptions { log_copies: 1, ..DriveOptions::default() };
                let drive = Drive::format(medium, options).expect("a drive");
                let meter = model.clone();
                let host = HostClock::new(profile, model.latest(), Box::new(move || meter.operations()));
                Opened { db: open(Arc::new(drive), Some(Arc::new(host))), _server: None }
            }
        }
    }
}
