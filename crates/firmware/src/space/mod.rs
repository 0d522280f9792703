mod eblocks;
mod kept;
pub(crate) mod metadata;
mod plan;
mod summary;

pub(crate) use eblocks::Space;
pub(crate) use plan::{Item, Job, Plan, Provision, page_bytes_max};
pub(crate) use summary::{Descriptor, GC_CLASSES, SUMMARY_PIECE_EBLOCKS, State, Stream, Summary};
