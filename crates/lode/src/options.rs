//! How a database is opened.

use lode_base::Profile;
use lode_engine::Durability;

use crate::file::CAPACITY_BYTES;
use crate::memory::Division;

/// Whether an image is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// The image must be there.
    Never,
    /// Where no file is, an image is made.
    IfMissing,
    /// An image is made; a file that is there is an error.
    Always,
}

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limit of memory for the whole database, in bytes, divided as `division` says. From
    /// [`Memory::BYTES_MIN`](crate::Memory::BYTES_MIN) on, at most a fifth more is resident, beside what the process needs for
    /// itself.
    pub memory_bytes: u64,
    /// What the memory is for.
    pub division: Division,
    /// Whether an image is made.
    pub create: Create,
    /// Capacity of an image that is made, in bytes. The file grows as it is filled. A profile has its own.
    pub capacity_bytes: u64,
    /// The device that is modelled; `None` for the machine itself. The work of a modelled device is done as commands come, in one
    /// thread.
    pub profile: Option<Profile>,
    /// When commits are durable.
    pub durability: Durability,
    /// With [`Durability::Group`]: milliseconds after which a commit is durable at the latest.
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
            durability: Durability::Commit,
            group_ms: 10,
        }
    }
}
