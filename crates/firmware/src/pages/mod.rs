//! The page index: one entry a page, made when the page is written, kept beside the mapping.
//!
//! ```text
//!   batch ─► owner's rule ─► entry of the page ─► commit record ─► index page of the extent
//!   scan  ─► mapping entry, redo bit clear ─► index page ─► entry      (an old version's entry travels with it)
//! ```
//!
//! Invariants: a page without an entry, or with one of an older rule, is never skipped; an entry answered for
//! a version was made of that version.
//!
//! Source: FLIXR (index in the drive, made on write). Kinds of index are those of `lode_program::index::KINDS`; here an
//! entry is bytes of the length that its rule says.

mod extents;
mod index;
mod inlined;
mod map;
mod rules;
mod versions;

pub(crate) use extents::Extents;
pub(crate) use index::{IndexPage, page_bytes};
pub(crate) use inlined::{Inlined, pages_bytes};
pub(crate) use map::MapPage;
pub(crate) use rules::{Rule, Rules};
pub(crate) use versions::{Install, OldIndex, Versions};
