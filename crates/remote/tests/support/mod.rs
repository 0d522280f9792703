//! Helpers of the tests: a served drive, a clock, and a network whose failures a seed determines.

#![allow(dead_code, unreachable_pub)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

pub use lode_base::random::Random;
use lode_base::{SessionId, VirtualTime};
use lode_command::{
    Budget, Command, CommandError, Completion, Device, DeviceError, Identity, Outcome, Progress, Queue,
    Reply, Until,
};
use lode_remote::{ClientOptions, RemoteDevice, Server, ServerOptions};

/// Where changes of the engine's tables go: to pages.
pub fn changes(_: lode_engine::Layout) -> lode_engine::Changes {
    lode_engine::Changes::Pages
}

pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

pub fn server_options() -> ServerOptions {
    let began = Instant::now();
    ServerOptions::new(Arc::new(move || began.elapsed()))
}

pub fn client_options() -> ClientOptions {
    let pause = Duration::from_micros(200);
    ClientOptions { pause, ..ClientOptions::new(Arc::new(std::thread::sleep)) }
}

pub fn serve(device: Arc<dyn Device>, opening: u64, sessions: Vec<SessionId>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(listener, device, opening, sessions, server_options()).unwrap()
}

pub fn connect(addr: SocketAddr) -> RemoteDevice {
    RemoteDevice::connect(&addr.to_string(), client_options()).unwrap()
}

/// A device behind a connection, together with its server.
struct Carried {
    device: Option<RemoteDevice>,
    _server: Server,
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.device = None;
    }
}

impl Device for Carried {
    fn identity(&self) -> &Identity {
        self.device.as_ref().unwrap().identity()
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        self.device.as_ref().unwrap().open_queue(depth)
    }

    fn work(&self, at: VirtualTime, budget: Budget) -> Progress {
        self.device.as_ref().unwrap().work(at, budget)
    }
}

/// Serves a device over the loopback and connects to it.
pub fn carry(device: Arc<dyn Device>) -> Arc<dyn Device> {
    let server = serve(device, 1, Vec::new());
    let device = Some(connect(server.addr()));
    Arc::new(Carried { device, _server: server })
}

/// Runs one command to its end. Returns its parts and its outcome.
pub fn run(q: &mut dyn Queue, c: Command) -> (Vec<Completion>, Result<Reply, CommandError>) {
    let tag = q.submit(VirtualTime::ZERO, c).unwrap();
    let (mut parts, mut out) = (Vec::new(), Vec::new());
    loop {
        q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
        for c in out.drain(..) {
            assert_eq!(c.tag, tag);
            match c.outcome {
                Outcome::Done(r) => return (parts, r),
                Outcome::Unit(_) => parts.push(c),
            }
        }
    }
}

pub fn ask(q: &mut dyn Queue, c: Command) -> Result<Reply, CommandError> {
    run(q, c).1
}

/// A network between clients and a server. It cuts each connection after a random number of bytes in either
/// direction.
pub struct Network {
    pub addr: SocketAddr,
    target: Arc<AtomicU64>,
    /// About how many bytes a connection lives. 0 means forever.
    pub bytes: Arc<AtomicU64>,
    pub cuts: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    sockets: Arc<Mutex<Vec<Weak<TcpStream>>>>,
    /// The bytes that servers send are lost.
    mute: Arc<AtomicBool>,
}

impl Network {
    pub fn new(seed: u64, to: SocketAddr, bytes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let network = Self {
            addr: listener.local_addr().unwrap(),
            target: Arc::new(AtomicU64::new(to.port().into())),
            bytes: Arc::new(AtomicU64::new(bytes)),
            cuts: Arc::default(),
            stop: Arc::default(),
            sockets: Arc::default(),
            mute: Arc::default(),
        };
        let mute = network.mute.clone();
        let sockets = network.sockets.clone();
        let (target, bytes) = (network.target.clone(), network.bytes.clone());
        let (cuts, stop) = (network.cuts.clone(), network.stop.clone());
        std::thread::spawn(move || {
            let mut random = Random::of_seed(seed);
            for client in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let to = ("127.0.0.1", target.load(Ordering::SeqCst) as u16);
                // No server is there: the client's connection is closed.
                let Ok(server) = TcpStream::connect(to) else { continue };
                let [client, server] = [client, server].map(Arc::new);
                for s in [&client, &server] {
                    s.set_nodelay(true).unwrap();
                }
                // The last check whether the network is still up. From now on, `cut` cuts this connection, too.
                {
                    let mut sockets = sockets.lock().unwrap();
                    if u64::from(to.1) != target.load(Ordering::SeqCst) {
                        continue;
                    }
                    sockets.retain(|s| s.strong_count() > 0);
                    sockets.extend([&client, &server].map(Arc::downgrade));
                }
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.clone(), to.clone());
                    let left = match bytes.load(Ordering::SeqCst) {
                        0 => u64::MAX,
                        n => random.below(2 * n) + 100,
                    };
                    let cuts = cuts.clone();
                    let mute = if Arc::ptr_eq(&from, &server) { mute.clone() } else { Arc::default() };
                    std::thread::spawn(move || forward(&from, &to, left, &cuts, &mute));
                }
            }
        });
        network
    }

    /// Drops all bytes that servers send until the network is cut, so no client learns what the servers did.
    pub fn mute(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }

    /// Cuts all connections and refuses new ones.
    pub fn cut(&self) {
        let mut sockets = self.sockets.lock().unwrap();
        self.target.store(1, Ordering::SeqCst);
        for s in sockets.drain(..).filter_map(|s| s.upgrade()) {
            let _ = s.shutdown(Shutdown::Both);
        }
    }

    /// Leads later connections to this server.
    pub fn lead_to(&self, to: SocketAddr) {
        self.mute.store(false, Ordering::SeqCst);
        self.target.store(to.port().into(), Ordering::SeqCst);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
    }
}

fn forward(mut from: &TcpStream, mut to: &TcpStream, mut left: u64, cuts: &AtomicU64, mute: &AtomicBool) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(n) = from.read(&mut buffer) {
        let n = (n as u64).min(left) as usize;
        if n > 0 && mute.load(Ordering::SeqCst) {
            continue;
        }
        if n == 0 || to.write_all(&buffer[..n]).is_err() {
            break;
        }
        left -= n as u64;
        if left == 0 {
            cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
    }
    for s in [from, to] {
        let _ = s.shutdown(Shutdown::Both);
    }
}
