//! For tests, with the feature `testing`: a host that sends one command at a time, and panics at an answer to another
//! command.

use lode_base::{CommitNo, ExtentId, Lpid, OwnerId, PageBuf, ViewId, VirtualTime};

use crate::{Align, Batch, Command, CommandError, Device, Outcome, PageWrite, ReadRequest, Reply, Until};

/// Runs one command to its end.
///
/// # Errors
/// The error that the device answers.
pub fn run(d: &dyn Device, c: Command) -> Result<Reply, CommandError> {
    let mut q = d.open_queue(1).unwrap();
    q.submit(VirtualTime::ZERO, c).unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    match out.pop().unwrap().outcome {
        Outcome::Done(r) => r,
        Outcome::Unit(_) => panic!("a unit of no scan"),
    }
}

/// Sends a batch.
///
/// # Errors
/// The error that the device answers.
pub fn write(d: &dyn Device, batch: Batch) -> Result<(CommitNo, Option<ViewId>), CommandError> {
    match run(d, Command::Write(batch))? {
        Reply::Committed { commit, view, .. } => Ok((commit, view)),
        r => panic!("{r:?}"),
    }
}

/// A page of a batch.
pub fn page(lpid: Lpid, data: &[u8]) -> PageWrite {
    PageWrite { lpid, data: PageBuf::copy_from(data), align: Align::Cell }
}

/// Writes one page.
///
/// # Errors
/// The error that the device answers.
pub fn put(d: &dyn Device, lpid: Lpid, data: &[u8]) -> Result<CommitNo, CommandError> {
    write(d, Batch { writes: vec![page(lpid, data)], ..Batch::default() }).map(|c| c.0)
}

/// Reads one page.
///
/// # Errors
/// The error that the device answers.
pub fn read(d: &dyn Device, view: Option<ViewId>, lpid: Lpid) -> Result<PageBuf, CommandError> {
    match run(d, Command::Read { view, pages: vec![ReadRequest { lpid, range: None }] })? {
        Reply::Pages(mut p) => Ok(p.remove(0)),
        r => panic!("{r:?}"),
    }
}

/// The page, or `None` when it is not mapped.
pub fn get(d: &dyn Device, view: Option<ViewId>, lpid: Lpid) -> Option<Vec<u8>> {
    match read(d, view, lpid) {
        Ok(b) => Some(b.to_vec()),
        Err(CommandError::Unmapped(_)) => None,
        Err(e) => panic!("{e}"),
    }
}

/// Opens a view.
pub fn open_view(d: &dyn Device) -> (ViewId, CommitNo) {
    match run(d, Command::OpenView) {
        Ok(Reply::View { view, commit }) => (view, commit),
        r => panic!("{r:?}"),
    }
}

/// Closes a view.
pub fn close_view(d: &dyn Device, view: ViewId) {
    run(d, Command::CloseView(view)).unwrap();
}

/// Takes extents.
pub fn allocate(d: &dyn Device, owner: u32, count: u32) -> Vec<ExtentId> {
    match run(d, Command::AllocateExtents { owner: OwnerId::new(owner), count }) {
        Ok(Reply::Extents(e)) => e,
        r => panic!("{r:?}"),
    }
}
