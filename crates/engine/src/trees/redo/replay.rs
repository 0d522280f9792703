//! Replay: makes the pages as the commits left them, from the pages that the drive has and the redo.
//!
//! Each page is read once, and takes the records of the commits that are newer than it. A page that the drive does not have gets
//! its image from the redo, or was freed later. Anything else is damage.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use lode_base::{ExtentId, Lpid, PageBuf};
use lode_command::CommandError;
use lode_page::{Node, NodeMut};

use super::{Record, RedoPage};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::storage::view::View;
use crate::trees::frames::LpidMap;
use crate::trees::page::allocation::{self, Allocation};
use crate::trees::page::body::Body;
use crate::trees::tree::Csn;

/// A page that a record names.
struct Page {
    /// The commit that the drive's version is of.
    base: Csn,
    /// The newest record that was applied, and the first.
    newest: Csn,
    first: Option<Csn>,
    state: PageState,
}

enum PageState {
    /// The drive does not have it, and no record has made it yet.
    Missing,
    Node(NodeMut),
    Allocation(Allocation),
    /// The page of a value: no record changes it.
    Value,
    Freed,
}

/// A page that replay changed.
pub(crate) struct Replayed {
    pub(crate) lpid: Lpid,
    /// The first commit that the drive's version lacks, and the newest.
    pub(crate) first: Csn,
    pub(crate) newest: Csn,
    pub(crate) body: Body,
}

/// Applies the records of pages, which are in order, to what the drive has. Records of extents other than `extents` belong to trees
/// that were dropped.
pub(crate) fn replay(
    view: &View,
    pages: &[RedoPage],
    extents: &BTreeSet<ExtentId>,
) -> Result<Vec<Replayed>, EngineError> {
    let mut replay = Replay { view, pages: LpidMap::default() };
    let records = pages.iter().flat_map(|page| page.records().map(|(csn, record)| (page.lpid, csn, record)));
    for (redo, csn, record) in records.filter(|(.., r)| extents.contains(&r.lpid().extent())) {
        let is_covered = !replay.apply(redo, csn, &record)?;
        if planted::instead(Planted::ReplayStops, || false, || is_covered) {
            break;
        }
    }
    let mut done = Vec::new();
    for (lpid, page) in replay.pages {
        let Some(first) = page.first else { continue };
        let body = match page.state {
            PageState::Node(mut n) => {
                n.set_csn(page.newest.raw());
                Body::Node(n.finish())
            }
            PageState::Allocation(mut a) => {
                a.set_csn(page.newest);
                Body::Allocation(a.freeze())
            }
            PageState::Freed => Body::Freed,
            PageState::Missing | PageState::Value => return Err(bad(lpid, "its redo begins in the middle")),
        };
        done.push(Replayed { lpid, first, newest: page.newest, body });
    }
    done.sort_unstable_by_key(|r| r.lpid);
    Ok(done)
}

struct Replay<'a> {
    view: &'a View,
    pages: LpidMap<Page>,
}

impl Replay<'_> {
    /// Applies a record of the redo page `redo`. Answers whether a page that it names lacked it.
    fn apply(&mut self, redo: Lpid, csn: Csn, r: &Record<'_>) -> Result<bool, EngineError> {
        match *r {
            Record::Take { lpid } => self.mark(csn, lpid, true),
            Record::Free { lpid } => {
                let is_marked = self.mark(csn, lpid, false)?;
                let is_freed = self.change(csn, lpid, |p| {
                    p.state = PageState::Freed;
                    Ok(())
                })?;
                Ok(is_marked || is_freed)
            }
            Record::Image { lpid, bytes } => self.change(csn, lpid, |p| {
                let node = Node::decode(lpid, PageBuf::copy_from(bytes));
                p.state = PageState::Node(NodeMut::of(&node.map_err(|e| bad(redo, &e.to_string()))?));
                Ok(())
            }),
            Record::Put { lpid, key, value } => self.change_node(csn, lpid, |n| _ = n.put(key, value)),
            Record::Delete { lpid, key } => self.change_node(csn, lpid, |n| _ = n.delete(key)),
            Record::Truncate { lpid, separator } => self.change_node(csn, lpid, |n| n.truncate(separator)),
        }
    }

    /// A page became used or free.
    fn mark(&mut self, csn: Csn, lpid: Lpid, used: bool) -> Result<bool, EngineError> {
        let bitmap = allocation::page_of(lpid.extent());
        self.change(csn, bitmap, |p| match &mut p.state {
            PageState::Allocation(a) => {
                a.set(lpid.page(), used);
                Ok(())
            }
            _ => Err(bad(bitmap, "not an extent's bitmap")),
        })
    }

    fn change_node(
        &mut self,
        csn: Csn,
        lpid: Lpid,
        f: impl FnOnce(&mut NodeMut),
    ) -> Result<bool, EngineError> {
        self.change(csn, lpid, |p| match &mut p.state {
            PageState::Node(n) => {
                f(n);
                Ok(())
            }
            // The page was trimmed since then. A later record frees it.
            PageState::Missing => Ok(()),
            PageState::Allocation(_) | PageState::Value | PageState::Freed => Err(bad(lpid, "not a node")),
        })
    }

    /// Changes a page, unless the drive's version is as new as the change. Answers whether it did.
    fn change(
        &mut self,
        csn: Csn,
        lpid: Lpid,
        f: impl FnOnce(&mut Page) -> Result<(), EngineError>,
    ) -> Result<bool, EngineError> {
        let page = match self.pages.entry(lpid) {
            Entry::Occupied(o) => o.into_mut(),
            Entry::Vacant(v) => v.insert(read(self.view, lpid)?),
        };
        let is_newer = || csn > page.base;
        if !planted::instead(Planted::SameCommitSkipped, is_newer, || is_newer() && csn > page.newest) {
            return Ok(false);
        }
        page.first.get_or_insert(csn);
        page.newest = csn;
        f(page).map(|()| true)
    }
}

fn read(view: &View, lpid: Lpid) -> Result<Page, EngineError> {
    let page = |base, state| Page { base, newest: base, first: None, state };
    match view.read_page(lpid) {
        Ok(bytes) => {
            let (csn, body) = Body::decode(lpid, bytes)?;
            Ok(match body {
                Body::Node(n) => page(csn, PageState::Node(NodeMut::of(&n))),
                Body::Allocation(a) => page(csn, PageState::Allocation(Allocation::of(&a))),
                Body::Value(_) => page(csn, PageState::Value),
                Body::Freed => unreachable!("the drive has no page that is free"),
            })
        }
        Err(EngineError::Drive(CommandError::Unmapped(_))) => Ok(page(Csn::default(), PageState::Missing)),
        Err(e) => Err(e),
    }
}

fn bad(lpid: Lpid, what: &str) -> EngineError {
    EngineError::BadRedo { lpid, what: what.into() }
}
