//! How a database is opened.

use lode_base::{Profile, VirtualDuration};
use lode_engine::Durability;

use crate::file::CAPACITY_BYTES;
use crate::memory::Division;

/// Whether to create an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// The image must exist.
    Never,
    /// Create an image if no file exists.
    IfMissing,
    /// Create an image. An existing file is an error.
    Always,
}

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The limit of memory for the whole database, in bytes, divided as `division` says. From
    /// [`Memory::BYTES_MIN`](crate::Memory::BYTES_MIN) on, at most a fifth more is resident, not counting the process
    /// itself.
    pub memory_bytes: u64,
    /// What the memory is mainly for.
    pub division: Division,
    /// Whether to create an image.
    pub create: Create,
    /// The capacity of a newly created image, in bytes. The file grows as it is filled. A profile has its own
    /// capacity.
    pub capacity_bytes: u64,
    /// The profile of the device to model, or `None` to run at the machine's own speed. A modelled device does its
    /// background work between commands, in one thread.
    pub profile: Option<Profile>,
    /// With several agents on a modelled device: how long before the latest command of one the command of another may begin. It
    /// should be as long as what an agent does in one turn.
    pub lag: VirtualDuration,
    /// When commits are durable.
    pub durability: Durability,
    /// With [`Durability::Group`], the milliseconds after which a commit is durable at the latest.
    pub group_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            division: Division::Trees,
            create: Create::IfMissing,
            capacity_bytes: CAPACITY_BYTES,
            profile: None,
            lag: VirtualDuration::ZERO,
            durability: Durability::Commit,
            group_ms: 10,
        }
    }
}
