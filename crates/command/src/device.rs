//! `Device` and `Queue`: the host's interface to a drive, local or remote.
//!
//! A drive has no threads. A queue's commands run on the thread that calls [`Queue::complete`], so parallel
//! partitions use parallel queues. The application owns the thread that calls [`Device::work`]. A task makes its next
//! unit only after the host took the previous one; this is the back-pressure.

use std::sync::Arc;

use lode_base::{Geometry, VirtualTime};
use lode_program::Program;
use lode_program::matcher::Limits;

use crate::{Command, Completion, DeviceError};

/// A drive, or something that behaves like one.
pub trait Device: Send + Sync {
    /// Units, limits and features.
    fn identity(&self) -> &Identity;

    /// A queue that holds up to `depth` commands (1 or more) at a time.
    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError>;

    /// One bounded step of background work: checkpoint, reclaiming of EBLOCKs.
    fn work(&self, at: VirtualTime, budget: Budget) -> Progress;
}

/// A pair of submission and completion queues, for one thread at a time.
pub trait Queue: Send {
    /// Takes a command. If the queue is full, it gives the command back.
    fn submit(&mut self, at: VirtualTime, c: Command) -> Result<Tag, Refused>;

    /// Runs submitted commands as far as `until` asks, and appends completions to `out`. Returns at once if nothing
    /// is submitted.
    fn complete(
        &mut self,
        at: VirtualTime,
        until: Until,
        out: &mut Vec<Completion>,
    ) -> Result<(), DeviceError>;

    /// Replaces a running task's program from its next unit on, to add a run-time filter. The program may differ only
    /// in its filter; this is asserted. A tag without a running task is ignored, since the task may just have ended.
    fn narrow(&mut self, task: Tag, p: Arc<Program>);

    /// Ends a command as soon as possible; it still completes exactly once. Never blocks.
    fn cancel(&mut self, tag: Tag);
}

/// Names a command within its queue; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u64);

/// How long [`Queue::complete`] continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Only what is ready.
    Ready,
    /// At least one completion, if anything is submitted.
    One,
    /// All that is ready before this virtual time.
    Before(VirtualTime),
}

/// The queue was full; here is the command.
#[derive(Debug)]
pub struct Refused(pub Box<Command>);

/// The most background work to do in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// About how many bytes to write to the medium.
    pub write_bytes: u64,
}

/// The result of a step of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There was nothing to do.
    Idle,
    /// Something was done, and nothing is left.
    Done,
    /// Something was done, and more is left.
    More,
}

/// The properties of a drive.
#[derive(Clone, Debug)]
pub struct Identity {
    /// A name for messages.
    pub model: String,
    /// Units and capacity.
    pub geometry: Geometry,
    /// Longest page, in bytes.
    pub page_bytes_max: u32,
    /// Largest batch, in bytes of payload ([`crate::Batch::payload_bytes`]).
    pub batch_bytes_max: u64,
    /// Most pages (writes and trims) in a batch.
    pub batch_pages_max: u32,
    /// Deepest queue.
    pub queue_depth_max: u32,
    /// Most read views open at a time.
    pub views_max: u32,
    /// Most sessions open at a time.
    pub sessions_max: u32,
    /// Most batches that run at a time.
    pub in_flight_max: u32,
    /// Whether acknowledged batches survive a power cut (false on memory).
    pub durable: bool,
    /// The keys that hardware looks for in a page as it is read; `None` without such hardware. A task may have a matcher all the same.
    pub matcher: Option<Limits>,
}
