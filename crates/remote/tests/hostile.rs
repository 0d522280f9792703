//! Hostile clients: bytes that are not frames, invalid frames, and clients that are slow or dead. The server continues
//! within its bounds.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lode_base::checksum::crc32c;
use lode_base::wire::Writer;
use lode_base::{ExtentId, OwnerId, PageBuf, Profile, SessionId, VirtualTime};
use lode_command::wire::{Instead, put_command};
use lode_command::{
    Align, Batch, Budget, Command, CommandError, Completion, Device, DeviceError, Identity, Outcome,
    PageRange, PageWrite, Progress, Queue, ReadRequest, Refused, Reply, Tag, Until,
};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_remote::{RemoteDevice, Server, ServerOptions};
use support::*;

const HELLO: u8 = 0;
const SUBMIT: u8 = 1;
const CANCEL: u8 = 3;

/// A well-formed frame with arbitrary contents.
fn frame(kind: u8, number: u64, seen: u64, payload: &[u8]) -> Vec<u8> {
    let mut b = vec![b'L', b'W', lode_command::wire::VERSION as u8, kind];
    b.extend((payload.len() as u32).to_le_bytes());
    b.extend(number.to_le_bytes());
    b.extend(seen.to_le_bytes());
    b.extend(crc32c(payload).to_le_bytes());
    b.extend(crc32c(&b[..28]).to_le_bytes());
    b.extend(payload);
    b
}

fn message(put: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut b = Vec::new();
    put(&mut Writer::new(&mut b));
    b
}

fn quick(drive: &Drive, connections_max: u32) -> Server {
    let options = ServerOptions {
        connections_max,
        patience: Duration::from_millis(300),
        lease: Duration::from_millis(500),
        ..server_options()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(listener, Arc::new(drive.clone()), 1, Vec::new(), options).unwrap()
}

fn wait_until(what: &str, f: impl Fn() -> bool) {
    for _ in 0..600 {
        if f() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the condition was not met in time: {what}");
}

/// Checks that a correct client is served.
fn works(addr: SocketAddr) {
    let device = connect(addr);
    let mut q = device.open_queue(2).unwrap();
    ask(&mut *q, Command::OpenView).unwrap();
}

/// The payload of the frame that arrives next.
fn next_payload(socket: &mut TcpStream) -> Vec<u8> {
    let mut header = [0; 32];
    socket.read_exact(&mut header).unwrap();
    let mut payload = vec![0; u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize];
    socket.read_exact(&mut payload).unwrap();
    payload
}

/// A client of the raw protocol: its control connection and a channel of this depth. The server has accepted both, so
/// [`Server::connections`] counts them.
fn raw(addr: SocketAddr, depth: u32) -> (TcpStream, TcpStream) {
    let mut control = TcpStream::connect(addr).unwrap();
    control.write_all(&frame(HELLO, 0, 0, &[0, 0])).unwrap();
    let welcome = next_payload(&mut control);
    let client = u64::from_le_bytes(welcome[8..16].try_into().unwrap());
    let mut channel = TcpStream::connect(addr).unwrap();
    let hello = message(|w| {
        w.u8(1);
        w.u64(client);
        w.u32(depth);
    });
    channel.write_all(&frame(HELLO, 0, 0, &hello)).unwrap();
    next_payload(&mut channel);
    (control, channel)
}

#[test]
fn bytes_that_are_no_frames_close_their_connection_alone() {
    let drive = Drive::in_memory(1 << 28);
    let server = quick(&drive, 64);
    let mut random = Random::of_seed(number("LODE_SEED", 1));
    for round in 0..300 {
        let mut s = TcpStream::connect(server.addr()).unwrap();
        let valid = frame(HELLO, 0, 0, &[0, 1, 9, 9, 9, 9, 9, 9, 9, 9]);
        let bytes = match round % 3 {
            0 => (0..random.below(200)).map(|_| random.below(256) as u8).collect(),
            1 => {
                let mut b = valid;
                let at = random.below(b.len() as u64) as usize;
                b[at] ^= 1 << random.below(8);
                b
            }
            // The checksums are right, the payload is not.
            _ => {
                let said: Vec<u8> = (0..random.below(40)).map(|_| random.below(256) as u8).collect();
                frame(random.below(14) as u8, random.below(3), random.below(3), &said)
            }
        };
        // The server may close the connection before all is written.
        let _ = s.write_all(&bytes);
    }
    wait_until("they are all closed", || server.connections() == 0);
    wait_until("nothing is left", || drive.info().views == 0 && drive.info().sessions == 0);
    works(server.addr());
}

#[test]
fn commands_of_a_hostile_client_do_the_drive_no_harm() {
    let drive = Drive::in_memory(1 << 28);
    let server = serve(Arc::new(drive.clone()), 1, Vec::new());
    let mut random = Random::of_seed(number("LODE_SEED", 3));
    let e = |n| ExtentId::new(n).unwrap();
    let page = |n: u64, len: usize| PageWrite {
        lpid: e(n).page((n % 1024) as u16),
        data: PageBuf::copy_from(&vec![1; len]),
        align: Align::Cell,
    };
    for _ in 0..40 {
        let (_control, mut channel) = raw(server.addr(), 1 + random.below(100) as u32);
        for number in 1..30 {
            let n = random.below(4);
            let command = match random.below(9) {
                0 => Command::AllocateExtents {
                    owner: OwnerId::new(n as u32),
                    count: random.below(1 << 21) as u32 % 50,
                },
                1 => Command::Write(Batch {
                    writes: vec![page(n, random.below(5000) as usize)],
                    trims: vec![e(random.below(1 << 30)).page(3)],
                    pin: n == 0,
                    ..Batch::default()
                }),
                2 => Command::Write(Batch { releases: vec![e(n), e(n)], ..Batch::default() }),
                3 => Command::CloseView(lode_base::ViewId::new(random.below(1 << 20))),
                4 => Command::Read {
                    view: None,
                    pages: vec![ReadRequest { lpid: e(n).page(n as u16), range: Some(0..u32::MAX) }],
                },
                5 => Command::ReadIndex {
                    view: lode_base::ViewId::new(random.below(1 << 18)),
                    pages: vec![PageRange { extent: e(1 << 37), first: 0, count: 1024 }],
                },
                6 => Command::CloseSession(SessionId::new(random.below(10))),
                7 => Command::OpenSession,
                _ => Command::OpenView,
            };
            let mut bytes = message(|w| {
                w.u64(random.below(10));
                w.u64(number % 25);
                put_command(w, &command, Instead::default());
            });
            if random.below(10) == 0 {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
            let kind = if random.below(12) == 0 { CANCEL } else { SUBMIT };
            let number = if random.below(40) == 0 { number + 1 } else { number };
            if channel.write_all(&frame(kind, number, random.below(9), &bytes)).is_err() {
                break;
            }
        }
        drop((_control, channel));
        wait_until("its connections are closed", || server.connections() == 0);
    }
    drive.check_invariants();
    let report = drive.check();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    works(server.addr());
}

#[test]
fn silent_and_slow_connections_are_closed_in_time() {
    let drive = Drive::in_memory(1 << 28);
    let server = quick(&drive, 16);
    let silent: Vec<_> = (0..4).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    // A frame that arrives byte by byte and never ends.
    let mut slow = TcpStream::connect(server.addr()).unwrap();
    let hello = frame(HELLO, 0, 0, &[0, 0]);
    for b in &hello[..20] {
        std::thread::sleep(Duration::from_millis(30));
        if slow.write_all(&[*b]).is_err() {
            break;
        }
    }
    wait_until("silent ones are closed", || server.connections() == 0);
    drop((silent, slow));
    // The number of connections is bounded.
    let many: Vec<_> = (0..40).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(50));
    assert!(server.connections() <= 16);
    drop(many);
    wait_until("they are closed", || server.connections() == 0);
    works(server.addr());
}

#[test]
fn a_client_that_takes_nothing_holds_little() {
    let drive = Drive::in_memory(1 << 29);
    let server = quick(&drive, 16);
    let extent = {
        let device = connect(server.addr());
        let mut q = device.open_queue(1).unwrap();
        let Ok(Reply::Extents(x)) =
            ask(&mut *q, Command::AllocateExtents { owner: OwnerId::new(1), count: 1 })
        else {
            panic!()
        };
        let data = PageBuf::copy_from(&vec![7; 1 << 20]);
        let writes = vec![PageWrite { lpid: x[0].page(0), data, align: Align::Cell }];
        ask(&mut *q, Command::Write(Batch { writes, ..Batch::default() })).unwrap();
        x[0]
    };
    // It asks for 16 GB, 16 MB at a time, and reads nothing.
    let (control, mut channel) = raw(server.addr(), 1000);
    let one = ReadRequest { lpid: extent.page(0), range: None };
    let read = Command::Read { view: None, pages: vec![one; 16] };
    let before = memory();
    for number in 1..=1000 {
        let bytes = message(|w| {
            w.u64(0);
            w.u64(number);
            put_command(w, &read, Instead::default());
        });
        channel.write_all(&frame(SUBMIT, number, 0, &bytes)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    let grown = memory().saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes for a client that reads nothing");
    // The server does not wait for a client that reads nothing. It closes the connection and then forgets the client,
    // although the client still holds its sockets.
    wait_until("it is closed", || server.connections() == 1);
    drop(control);
    wait_until("it is forgotten", || drive.info().sessions == 0);
    drop(channel);
    works(server.addr());
}

/// The memory that this process uses.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_host_that_is_slow_loses_nothing() {
    let drive = Drive::in_memory(1 << 29);
    let server = quick(&drive, 16);
    let device = connect(server.addr());
    let mut q = device.open_queue(10).unwrap();
    let Ok(Reply::Extents(x)) = ask(&mut *q, Command::AllocateExtents { owner: OwnerId::new(1), count: 1 })
    else {
        panic!()
    };
    let data = PageBuf::copy_from(&vec![7; 1 << 20]);
    let writes = vec![PageWrite { lpid: x[0].page(0), data, align: Align::Cell }];
    ask(&mut *q, Command::Write(Batch { writes, ..Batch::default() })).unwrap();
    let one = ReadRequest { lpid: x[0].page(0), range: None };
    let read = Command::Read { view: None, pages: vec![one; 16] };
    for _ in 0..10 {
        q.submit(VirtualTime::ZERO, read.clone()).unwrap();
    }
    // The client reads nothing for longer than the server's patience. The server closes its connection; the client
    // reconnects and gets what it missed.
    let (mut out, mut ended) = (Vec::new(), 0);
    q.complete(VirtualTime::ZERO, Until::Ready, &mut out).unwrap();
    wait_until("it is closed", || server.connections() == 1);
    std::thread::sleep(Duration::from_millis(600));
    while ended + out.len() < 10 {
        ended += out.drain(..).len();
        q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    }
}

#[test]
fn a_server_that_talks_nonsense_is_told_from_a_drive() {
    for answer in [b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), frame(8, 0, 0, &[1, 2, 3]), Vec::new()] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for s in listener.incoming().take(20).map_while(Result::ok) {
                let _ = (&s).write_all(&answer);
                let _ = (&s).read(&mut [0; 64]);
            }
        });
        let error = RemoteDevice::connect(&addr.to_string(), client_options()).unwrap_err().to_string();
        assert!(error.contains(&addr.to_string()) && !error.contains('\n'), "{error}");
    }
}

/// A drive on a modelled device.
fn modelled() -> (Drive, Arc<Model>) {
    let model = Arc::new(Model::new(Profile::find("isp-adms11").unwrap()));
    let medium = Medium::memory(model.profile().geometry).with_model(model.clone());
    (Drive::format(medium, DriveOptions::default()).unwrap(), model)
}

/// Runs one command and returns its outcome.
fn ask_at(q: &mut dyn Queue, at: u64, c: Command) -> Result<Reply, CommandError> {
    q.submit(VirtualTime::from_ps(at), c).unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::from_ps(at), Until::One, &mut out).unwrap();
    match out.pop().map(|c| c.outcome) {
        Some(Outcome::Done(r)) => r,
        o => panic!("{o:?}"),
    }
}

/// Regression: a command at the latest possible time panicked in the model, and the panic ended the server.
#[test]
fn a_time_that_no_clock_holds_is_refused_and_nothing_else_is() {
    let (drive, _) = modelled();
    let server = quick(&drive, 16);
    {
        let device = connect(server.addr());
        let mut q = device.open_queue(4).unwrap();
        let max = VirtualTime::BEGIN_MAX;
        for at in [u64::MAX, u64::MAX - 1, u64::MAX / 2 + 2, (1 << 63) + 1] {
            for c in [Command::OpenView, Command::Flush, Command::Write(Batch::default())] {
                let refused = CommandError::TimeOutOfRange { at: VirtualTime::from_ps(at), max };
                assert_eq!(ask_at(&mut *q, at, c).unwrap_err(), refused, "{at}");
            }
            assert!(refused_text(at).contains("the latest time"));
            ask_at(&mut *q, 0, Command::OpenView).unwrap();
            assert_eq!(
                device.work(VirtualTime::from_ps(at), Budget { write_bytes: 1 << 20 }),
                Progress::Idle
            );
        }
        // Times that go back, on this queue and on another.
        ask_at(&mut *q, 1 << 40, Command::OpenView).unwrap();
        ask_at(&mut *q, 3, Command::OpenView).unwrap();
        ask_at(&mut *device.open_queue(1).unwrap(), 0, Command::OpenView).unwrap();
        device.work(VirtualTime::ZERO, Budget { write_bytes: 1 << 20 });
    }
    wait_until("what it had is closed", || drive.info().views == 0 && drive.info().sessions == 0);
    works(server.addr());
}

fn refused_text(at: u64) -> String {
    CommandError::TimeOutOfRange { at: VirtualTime::from_ps(at), max: VirtualTime::BEGIN_MAX }.to_string()
}

/// Regression: a command moved the clock to the latest possible time, so the next command overflowed the clock.
#[test]
fn a_clock_that_has_run_out_refuses_what_comes_next() {
    let (drive, model) = modelled();
    let server = quick(&drive, 16);
    {
        let device = connect(server.addr());
        let mut q = device.open_queue(4).unwrap();
        ask_at(&mut *q, 1 << 62, Command::OpenView).unwrap();
        ask_at(&mut *q, 1 << 63, Command::OpenView).unwrap();
        for at in [0, 1 << 62, 1 << 63, u64::MAX] {
            let e = ask_at(&mut *q, at, Command::OpenView).unwrap_err();
            assert!(matches!(e, CommandError::TimeOutOfRange { .. }), "{e}");
        }
        device.work(VirtualTime::ZERO, Budget { write_bytes: 1 << 20 });
    }
    assert!(model.latest() > VirtualTime::BEGIN_MAX);
    // The server still serves connections.
    wait_until("its connections are closed", || server.connections() == 0);
    let device = connect(server.addr());
    let e = ask_at(&mut *device.open_queue(1).unwrap(), 0, Command::OpenView).unwrap_err();
    assert!(matches!(e, CommandError::TimeOutOfRange { .. }), "{e}");
    drive.check_invariants();
}

/// Regression: two queues of one client, each with its own time, interleaved their steps on one device.
#[test]
fn queues_of_a_modelled_device_take_turns() {
    let (drive, _) = modelled();
    let server = quick(&drive, 16);
    let device = connect(server.addr());
    std::thread::scope(|s| {
        for n in 0..4 {
            let device = &device;
            s.spawn(move || {
                let mut q = device.open_queue(4).unwrap();
                for i in 0..200 {
                    let Ok(Reply::View { view, .. }) = ask_at(&mut *q, (i * 7 + n) << 30, Command::OpenView)
                    else {
                        panic!("no view")
                    };
                    ask_at(&mut *q, i << 30, Command::CloseView(view)).unwrap();
                }
            });
        }
    });
}

/// A drive that panics when an index is built and when the first view that it opened is closed.
struct Panics(Drive, Arc<AtomicU64>);

struct PanicsQueue {
    inner: Box<dyn Queue>,
    first_view: Arc<AtomicU64>,
    panics: bool,
}

impl Device for Panics {
    fn identity(&self) -> &Identity {
        self.0.identity()
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        let inner = self.0.open_queue(depth)?;
        Ok(Box::new(PanicsQueue { inner, first_view: self.1.clone(), panics: false }))
    }

    fn work(&self, at: VirtualTime, budget: Budget) -> Progress {
        assert!(budget.write_bytes != 13, "asked to panic");
        self.0.work(at, budget)
    }
}

impl Queue for PanicsQueue {
    fn submit(&mut self, at: VirtualTime, c: Command) -> Result<Tag, Refused> {
        self.panics |= match &c {
            Command::BuildIndex(_) => true,
            Command::CloseView(view) => view.raw() == self.first_view.load(Ordering::SeqCst),
            _ => false,
        };
        self.inner.submit(at, c)
    }

    fn complete(
        &mut self,
        at: VirtualTime,
        until: Until,
        out: &mut Vec<Completion>,
    ) -> Result<(), DeviceError> {
        assert!(!self.panics, "asked to panic");
        self.inner.complete(at, until, out)?;
        if let Some(Outcome::Done(Ok(Reply::View { view, .. }))) = out.last().map(|c| &c.outcome) {
            let _ = self.first_view.compare_exchange(0, view.raw(), Ordering::SeqCst, Ordering::SeqCst);
        }
        Ok(())
    }

    fn narrow(&mut self, task: Tag, p: Arc<lode_program::Program>) {
        self.inner.narrow(task, p);
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }
}

/// Regression: a panic in a channel ended the listener as soon as it checked whether the client was away.
#[test]
fn a_panic_ends_its_channel_and_nothing_else() {
    let drive = Drive::in_memory(1 << 28);
    let options = ServerOptions {
        patience: Duration::from_millis(300),
        lease: Duration::from_millis(500),
        ..server_options()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let device = Arc::new(Panics(drive.clone(), Arc::default()));
    let server = Server::start(listener, device, 1, Vec::new(), options).unwrap();
    for round in 0..3 {
        let device = connect(server.addr());
        let (mut q, mut other) = (device.open_queue(2).unwrap(), device.open_queue(2).unwrap());
        // In the first round, this opens the view whose closing panics.
        ask(&mut *other, Command::OpenView).unwrap();
        q.submit(VirtualTime::ZERO, Command::BuildIndex(OwnerId::new(1))).unwrap();
        let mut out = Vec::new();
        let e = q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap_err().to_string();
        assert!(e.contains("the server failed in this queue: asked to panic"), "{e}");
        ask(&mut *other, Command::OpenView).unwrap();
        ask(&mut *device.open_queue(1).unwrap(), Command::OpenView).unwrap();
        assert_eq!(device.work(VirtualTime::ZERO, Budget { write_bytes: 13 }), Progress::Idle);
        ask(&mut *other, Command::OpenView).unwrap();
        match round {
            0 => drop((q, other, device)),
            // The client goes without a goodbye, and the listener forgets it.
            _ => std::mem::forget((q, other, device)),
        }
        server.drop_connections();
        wait_until("it is forgotten", || drive.info().sessions == 0);
        assert_eq!(drive.info().views, 1, "the first view stays open, because closing it panics");
    }
    server.stop();
}
