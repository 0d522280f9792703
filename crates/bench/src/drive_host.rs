//! A host that uses a drive directly, for workloads below SQL.
//!
//! ```text
//!   workload ─► Host: one queue, one thread ─► Drive
//! ```

use std::path::{Path, PathBuf};

use lode_base::{ExtentId, GeometryError, Lpid, OwnerId, PageBuf, VirtualTime};
use lode_command::{
    Batch, Command, CommandError, Completion, Device, DeviceError, Outcome, Queue, ReadRequest, Reply, Until,
};
use lode_firmware::{Drive, FirmwareError};
use lode_flash::timing::Model;
use lode_page::PageError;

/// Why a workload on a drive stopped.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The drive could not be made or opened.
    #[error(transparent)]
    Firmware(#[from] FirmwareError),
    /// The drive cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A plain file could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
    /// A page does not hold what was written to it.
    #[error("page {0} does not hold what was written")]
    Wrong(Lpid),
    /// A page does not have its format.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The geometry is not valid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A scan answers other records than it should.
    #[error("{got} records match, and {expected} should")]
    Differs {
        /// The number of records in the answer.
        got: u64,
        /// The number of records that match.
        expected: u64,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl DriveError {
    /// Wraps an I/O error of the file at `path`.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::File { path: path.into(), source }
    }
}

/// One queue of a drive.
pub struct Host {
    queue: Box<dyn Queue>,
    depth: u32,
    out: Vec<Completion>,
}

impl Host {
    /// Opens a queue for `depth` commands at a time.
    ///
    /// # Errors
    /// If the drive refuses this depth.
    pub fn new(drive: &Drive, depth: u32) -> Result<Self, DriveError> {
        Ok(Self { queue: drive.open_queue(depth)?, depth, out: Vec::new() })
    }

    /// Runs commands until all have ended. There may be as many commands as the queue is deep. Returns the replies in
    /// the order of the commands.
    ///
    /// # Errors
    /// The first error of a command, once all have ended.
    pub fn run_all(&mut self, commands: Vec<Command>) -> Result<Vec<Reply>, DriveError> {
        assert!(commands.len() <= self.depth as usize, "more commands than the queue takes");
        let count = commands.len();
        for c in commands {
            self.queue.submit(VirtualTime::ZERO, c).expect("the queue has room");
        }
        self.out.clear();
        while self.out.len() < count {
            self.queue.complete(VirtualTime::ZERO, Until::One, &mut self.out)?;
        }
        self.out.sort_unstable_by_key(|c| c.tag);
        self.out.drain(..).map(reply_of).collect()
    }

    /// Runs one command.
    ///
    /// # Errors
    /// Its error.
    pub fn run(&mut self, c: Command) -> Result<Reply, DriveError> {
        self.queue.submit(VirtualTime::ZERO, c).expect("the queue has room");
        self.out.clear();
        loop {
            self.queue.complete(VirtualTime::ZERO, Until::One, &mut self.out)?;
            if let Some(done) = self.out.pop() {
                return reply_of(done);
            }
        }
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// Its error.
    pub fn write(&mut self, batch: Batch) -> Result<(), DriveError> {
        self.run(Command::Write(batch)).map(|_| ())
    }

    /// Reads a page whole.
    ///
    /// # Errors
    /// If the page is missing or damaged.
    pub fn read(&mut self, lpid: Lpid) -> Result<PageBuf, DriveError> {
        match self.run(Command::Read { view: None, pages: vec![ReadRequest { lpid, range: None }] })? {
            Reply::Pages(mut pages) if pages.len() == 1 => Ok(pages.remove(0)),
            other => unreachable!("{other:?} answers no read"),
        }
    }

    /// Allocates extents for `pages` pages.
    ///
    /// # Errors
    /// If the drive refuses.
    pub fn extents_for(&mut self, pages: u64) -> Result<Vec<ExtentId>, DriveError> {
        let count = pages.div_ceil(lode_base::EXTENT_PAGES as u64) as u32;
        match self.run(Command::AllocateExtents { owner: OwnerId::new(1), count })? {
            Reply::Extents(extents) => Ok(extents),
            other => unreachable!("{other:?} answers no allocation"),
        }
    }
}

/// The reply of a completed command that is not a scan task.
pub(crate) fn reply_of(c: Completion) -> Result<Reply, DriveError> {
    match c.outcome {
        Outcome::Done(reply) => Ok(reply?),
        Outcome::Unit(_) => unreachable!("no task was submitted"),
    }
}

/// Runs one command alone, once the modelled device is idle.
pub(crate) fn alone(drive: &Drive, model: &Model, c: Command) -> Result<Reply, DriveError> {
    let (mut queue, mut out) = (drive.open_queue(1)?, Vec::new());
    queue.submit(model.latest(), c).expect("the queue has room");
    queue.complete(model.latest(), Until::One, &mut out)?;
    reply_of(out.pop().expect("a command is under way"))
}

/// The LPID of page `n` of these extents.
pub fn nth(extents: &[ExtentId], n: u64) -> Lpid {
    let each = lode_base::EXTENT_PAGES as u64;
    extents[(n / each) as usize].page((n % each) as u16)
}
