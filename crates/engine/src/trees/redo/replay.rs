//! Replay: the pages as the commits left them, out of what the drive has and the redo.
//!
//! Each page is read once, and takes the records of commits that are newer than it. A page that the drive does not have
//! gets its image from the redo, or was freed later; anything else is damage.

use std::collections::BTreeSet;

use lode_base::{ExtentId, Lpid, PageBuf};
use lode_command::CommandError;
use lode_page::{Node, NodeMut};

use super::{Record, RedoPage};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::trees::frames::{Body, LpidMap};
use crate::trees::page::allocation::{self, Allocation};
use crate::trees::snapshot::Snapshot;
use crate::trees::{Csn, body_of};

/// A page that replay met.
struct Page {
    /// The commit that the drive's version is of.
    base: Csn,
    /// The newest record that was applied, and the first.
    newest: Csn,
    first: Option<Csn>,
    state: State,
}

enum State {
    /// The drive has it not, and no record made it yet.
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

/// Applies the records of pages, which are in order, to what the drive has. Records of extents other than `extents` are of
/// trees that are no more.
pub(crate) fn replay(
    snapshot: &Snapshot,
    pages: &[RedoPage],
    extents: &BTreeSet<ExtentId>,
) -> Result<Vec<Replayed>, EngineError> {
    let mut replay = Replay { snapshot, pages: LpidMap::default(), stopped: false };
    for page in pages {
        for (csn, record) in page.records() {
            if extents.contains(&record.lpid().extent()) {
                replay.apply(page.lpid, csn, &record)?;
            }
        }
    }
    let mut done = Vec::new();
    for (lpid, page) in replay.pages {
        let Some(first) = page.first else { continue };
        let body = match page.state {
            State::Node(mut n) => {
                n.set_csn(page.newest.raw());
                Body::Node(n.finish())
            }
            State::Allocation(mut a) => {
                a.set_csn(page.newest);
                Body::Allocation(a.freeze())
            }
            State::Freed => Body::Freed,
            State::Missing | State::Value => return Err(bad(lpid, "its redo begins in the middle")),
        };
        done.push(Replayed { lpid, first, newest: page.newest, body });
    }
    done.sort_unstable_by_key(|r| r.lpid);
    Ok(done)
}

struct Replay<'a> {
    snapshot: &'a Snapshot,
    pages: LpidMap<Page>,
    /// A planted fault ended it.
    stopped: bool,
}

impl Replay<'_> {
    fn apply(&mut self, redo: Lpid, csn: Csn, r: &Record<'_>) -> Result<(), EngineError> {
        match *r {
            Record::Take { lpid } => self.mark(csn, lpid, true),
            Record::Free { lpid } => {
                self.mark(csn, lpid, false)?;
                self.change(csn, lpid, |p| {
                    p.state = State::Freed;
                    Ok(())
                })
            }
            Record::Image { lpid, bytes } => self.change(csn, lpid, |p| {
                let node = Node::decode(lpid, PageBuf::copy_from(bytes));
                p.state = State::Node(NodeMut::of(&node.map_err(|e| bad(redo, &e.to_string()))?));
                Ok(())
            }),
            Record::Put { lpid, key, value } => self.change_node(csn, lpid, |n| _ = n.put(key, value)),
            Record::Delete { lpid, key } => self.change_node(csn, lpid, |n| _ = n.delete(key)),
            Record::Truncate { lpid, separator } => self.change_node(csn, lpid, |n| n.truncate(separator)),
        }
    }

    /// A page became used or free.
    fn mark(&mut self, csn: Csn, lpid: Lpid, used: bool) -> Result<(), EngineError> {
        let bitmap = allocation::page_of(lpid.extent());
        self.change(csn, bitmap, |p| match &mut p.state {
            State::Allocation(a) => {
                a.set(lpid.page(), used);
                Ok(())
            }
            _ => Err(bad(bitmap, "not an extent's bitmap")),
        })
    }

    fn change_node(&mut self, csn: Csn, lpid: Lpid, f: impl FnOnce(&mut NodeMut)) -> Result<(), EngineError> {
        self.change(csn, lpid, |p| match &mut p.state {
            State::Node(n) => {
                f(n);
                Ok(())
            }
            // What was trimmed since is freed by a later record.
            State::Missing => Ok(()),
            State::Allocation(_) | State::Value | State::Freed => Err(bad(lpid, "not a node")),
        })
    }

    /// Changes a page, unless the drive's version is as new as the change.
    fn change(
        &mut self,
        csn: Csn,
        lpid: Lpid,
        f: impl FnOnce(&mut Page) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let page = match self.pages.entry(lpid) {
            std::collections::hash_map::Entry::Occupied(o) => o.into_mut(),
            std::collections::hash_map::Entry::Vacant(v) => v.insert(read(self.snapshot, lpid)?),
        };
        if csn <= page.base {
            self.stopped |= planted::is(Planted::ReplayStops);
            return Ok(());
        }
        if self.stopped || planted::is(Planted::SameCommitSkipped) && page.newest == csn {
            return Ok(());
        }
        page.first.get_or_insert(csn);
        page.newest = csn;
        f(page)
    }
}

fn read(snapshot: &Snapshot, lpid: Lpid) -> Result<Page, EngineError> {
    let page = |base, state| Page { base, newest: base, first: None, state };
    match snapshot.store().read_page(Some(snapshot.view_id()), lpid) {
        Ok(bytes) => {
            let (csn, body) = body_of(lpid, bytes)?;
            Ok(match body {
                Body::Node(n) => page(csn, State::Node(NodeMut::of(&n))),
                Body::Allocation(a) => page(csn, State::Allocation(Allocation::of(&a))),
                Body::Value(_) => page(csn, State::Value),
                Body::Freed => unreachable!("the drive has no page that is free"),
            })
        }
        Err(EngineError::Drive(CommandError::Unmapped(_))) => Ok(page(Csn::default(), State::Missing)),
        Err(e) => Err(e),
    }
}

fn bad(lpid: Lpid, what: &str) -> EngineError {
    EngineError::BadRedo { lpid, what: what.into() }
}
