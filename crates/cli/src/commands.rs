//! The commands, one file each: its command line, and what it does.

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod drive;
pub(crate) mod load;
mod load_files;
pub(crate) mod paper;
pub(crate) mod sim;
pub(crate) mod sql;
