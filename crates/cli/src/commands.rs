//! The commands. Each has one file with its command line and its work.

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod drive;
pub(crate) mod load;
mod load_files;
pub(crate) mod paper;
pub(crate) mod sim;
pub(crate) mod sql;
