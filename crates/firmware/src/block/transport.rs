//! How block commands reach the drive: one command, one answer, on a queue of its own for as long as it runs.
//!
//! ```text
//!   command ─► a queue that is free, or a new one ─► submit, complete ─► answer; the queue is free again
//! ```

use lode_base::{Lpid, PageBuf, ViewId, VirtualTime};
use lode_command::{
    Batch, Command, CommandError, Device, DeviceError, ExtentInfo, Outcome, PageRange, Queue, ReadRequest,
    Reply, Until,
};
use parking_lot::Mutex;

use super::{BlockError, OWNER};
use crate::Drive;

pub(super) struct Transport {
    drive: Drive,
    free: Mutex<Vec<Box<dyn Queue>>>,
}

impl Transport {
    pub(super) fn new(drive: Drive) -> Self {
        Self { drive, free: Mutex::default() }
    }

    pub(super) fn drive(&self) -> &Drive {
        &self.drive
    }

    pub(super) fn into_drive(self) -> Drive {
        self.drive
    }

    fn run(&self, command: Command) -> Result<Reply, BlockError> {
        let free = self.free.lock().pop();
        let mut queue = match free {
            Some(q) => q,
            None => self.drive.open_queue(1)?,
        };
        queue.submit(VirtualTime::ZERO, command).expect("the queue is empty");
        let mut out = Vec::with_capacity(1);
        queue.complete(VirtualTime::ZERO, Until::One, &mut out)?;
        self.free.lock().push(queue);
        match out.pop().map(|c| c.outcome) {
            Some(Outcome::Done(reply)) => Ok(reply?),
            _ => Err(DeviceError::Gone("it answered nothing".into()).into()),
        }
    }

    pub(super) fn write(&self, batch: Batch) -> Result<(), BlockError> {
        match self.run(Command::Write(batch))? {
            Reply::Committed { .. } => Ok(()),
            other => Err(strange(&other)),
        }
    }

    /// The pages, in the order of `lpids`.
    pub(super) fn read(&self, view: Option<ViewId>, lpids: Vec<Lpid>) -> Result<Vec<PageBuf>, BlockError> {
        let pages = lpids.into_iter().map(|lpid| ReadRequest { lpid, range: None }).collect();
        match self.run(Command::Read { view, pages })? {
            Reply::Pages(pages) => Ok(pages),
            other => Err(strange(&other)),
        }
    }

    /// Those pages of `ranges` that exist at `view`.
    pub(super) fn mapped(&self, view: ViewId, ranges: Vec<PageRange>) -> Result<Vec<Lpid>, BlockError> {
        match self.run(Command::ReadIndex { view, pages: ranges })? {
            Reply::IndexEntries(entries) => Ok(entries.into_iter().map(|e| e.lpid).collect()),
            other => Err(strange(&other)),
        }
    }

    pub(super) fn open_view(&self) -> Result<ViewId, BlockError> {
        match self.run(Command::OpenView)? {
            Reply::View { view, .. } => Ok(view),
            other => Err(strange(&other)),
        }
    }

    /// Lets a view go, which may have been closed before.
    pub(super) fn close_view(&self, view: ViewId) -> Result<(), BlockError> {
        match self.run(Command::CloseView(view)) {
            Ok(_) | Err(BlockError::Command(CommandError::ViewClosed(_))) => Ok(()),
            Err(e) => Err(e),
        }
    }

    pub(super) fn extents(&self) -> Result<Vec<ExtentInfo>, BlockError> {
        match self.run(Command::ListExtents)? {
            Reply::ExtentList(extents) => Ok(extents),
            other => Err(strange(&other)),
        }
    }

    /// Has `count` extents handed out, which must be those from `first` on.
    pub(super) fn allocate(&self, first: u64, count: u64) -> Result<(), BlockError> {
        /// As many as a drive hands out at once.
        const STEP: u64 = 1 << 16;
        let mut next = first;
        while next < first + count {
            let count = (first + count - next).min(STEP) as u32;
            match self.run(Command::AllocateExtents { owner: OWNER, count })? {
                Reply::Extents(extents) => {
                    for e in extents {
                        if e.raw() != next {
                            let what =
                                format!("extent {e} was handed out, expected {next}: others use the drive");
                            return Err(BlockError::Damaged { what });
                        }
                        next += 1;
                    }
                }
                other => return Err(strange(&other)),
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.drive.fmt(f)
    }
}

fn strange(reply: &Reply) -> BlockError {
    DeviceError::Gone(format!("it answered {reply:?} to another command")).into()
}
