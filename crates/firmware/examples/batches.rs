//! The drive as a library: an atomic batch, a read view that keeps what it saw, and the same image opened again.
//!
//! ```text
//!   Command ─► queue of the drive ─► Reply
//!   Write: all pages of a batch, or none      OpenView: reads through it show one state      close, open_file: nothing is lost
//! ```
//!
//! `cargo run -p lode-firmware --example batches -- [FILE]`

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lode_base::{ExtentId, Geometry, Lpid, OwnerId, PageBuf, ViewId, VirtualTime};
use lode_command::{Align, Batch, Command, Device, Outcome, PageWrite, Queue, ReadRequest, Reply, Until};
use lode_firmware::{Drive, DriveOptions};

/// A host of the drive: one queue, one command at a time.
struct Host(Box<dyn Queue>);

impl Host {
    fn new(drive: &Drive) -> Result<Self, Box<dyn Error>> {
        Ok(Self(drive.open_queue(1)?))
    }

    fn run(&mut self, command: Command) -> Result<Reply, Box<dyn Error>> {
        // Time is that of a modelled device. Where nothing is modelled, any time will do.
        let (now, mut answers) = (VirtualTime::ZERO, Vec::new());
        self.0.submit(now, command).expect("the queue has room");
        self.0.complete(now, Until::One, &mut answers)?;
        match answers.pop().expect("a command was submitted").outcome {
            Outcome::Done(reply) => Ok(reply?),
            Outcome::Unit(_) => unreachable!("only scan tasks have units"),
        }
    }

    /// Writes pages of any size, all of them or none. They are durable when this returns.
    fn write(&mut self, pages: &[(Lpid, &str)]) -> Result<(), Box<dyn Error>> {
        let page = |(lpid, text): &(Lpid, &str)| PageWrite {
            lpid: *lpid,
            // A page has at least 64 bytes.
            data: PageBuf::copy_from(format!("{text:<64}").as_bytes()),
            align: Align::Cell,
        };
        let writes = pages.iter().map(page).collect();
        self.run(Command::Write(Batch { writes, ..Batch::default() })).map(drop)
    }

    /// Reads a page as a view shows it, or its newest version.
    fn read(&mut self, view: Option<ViewId>, lpid: Lpid) -> Result<String, Box<dyn Error>> {
        match self.run(Command::Read { view, pages: vec![ReadRequest { lpid, range: None }] })? {
            Reply::Pages(pages) => Ok(String::from_utf8_lossy(&pages[0]).trim_end().to_string()),
            other => unreachable!("{other:?} answers no read"),
        }
    }
}

pub(crate) fn run(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // A new image of up to 256 MB; the file grows as it is filled. Its UUID is drawn from the seed, so give each image its own.
    let seed = 7;
    let drive = Drive::create_file(path, Geometry::file(256 << 20)?, DriveOptions::default(), seed)?;
    let mut host = Host::new(&drive)?;

    // Pages lie in extents of 1,024. The drive hands them out; a host remembers its own.
    let allocate = Command::AllocateExtents { owner: OwnerId::new(7), count: 1 };
    let Reply::Extents(extents) = host.run(allocate)? else { unreachable!("extents were asked for") };
    let extent: ExtentId = extents[0];
    let (from, to) = (extent.page(0), extent.page(1));

    // Two accounts. Both pages change, or neither does, whenever the power goes.
    host.write(&[(from, "from: 100"), (to, "to: 0")])?;
    let Reply::View { view, .. } = host.run(Command::OpenView)? else { unreachable!("a view was asked for") };
    host.write(&[(from, "from: 60"), (to, "to: 40")])?;

    // The view keeps the old version of both pages until it is closed.
    writeln!(out, "newest   {}, {}", host.read(None, from)?, host.read(None, to)?)?;
    writeln!(out, "view     {}, {}", host.read(Some(view), from)?, host.read(Some(view), to)?)?;
    host.run(Command::CloseView(view))?;

    // Closing writes a checkpoint, so that the next opening has nothing to recover. Without it, recovery finds the same pages.
    drop(host);
    drive.close()?;
    let drive = Drive::open_file(path, DriveOptions::default())?;
    let mut host = Host::new(&drive)?;
    writeln!(out, "reopened {}, {}", host.read(None, from)?, host.read(None, to)?)?;
    Ok(())
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("batches.lode"), PathBuf::from);
    run(&path, &mut io::stdout())
}
