//! The check of a tree: order, fences, levels, values, and that exactly the pages that it names are in use.

use std::collections::BTreeSet;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid};
use lode_command::CommandError;
use lode_page::NodeValue;

use super::page::allocation;
use super::page::body::Body;
use super::snapshot::Snapshot;
use super::tree::Tree;
use crate::EngineError;

/// Reports what is wrong with a tree of a snapshot, which must be the newest. `extents`: those of the tree.
pub(crate) fn check(
    snapshot: &Snapshot,
    tree: &Tree,
    extents: &BTreeSet<ExtentId>,
    problems: &mut Vec<String>,
) -> Result<(), EngineError> {
    let mut walk = Walk { snapshot, tree, extents, named: BTreeSet::new(), problems };
    walk.node(tree.root(), None, &[], None)?;
    let Walk { named, problems, .. } = walk;
    for &extent in extents {
        let lpid = allocation::page_of(extent);
        let frame = match snapshot.frame(lpid) {
            Ok(frame) => frame,
            // A commit took the extent and failed. Nothing was written there.
            Err(EngineError::Drive(CommandError::Unmapped(_)))
                if !named.iter().any(|l| l.extent() == extent) =>
            {
                continue;
            }
            Err(e) if e.is_of_drive() => return Err(e),
            Err(e) => {
                problems.push(format!("tree \"{}\": {e}", tree.name()));
                continue;
            }
        };
        let Body::Allocation(bitmap) = frame.body() else {
            problems.push(format!("tree \"{}\", page {lpid}: not an extent's bitmap", tree.name()));
            continue;
        };
        for page in 1..EXTENT_PAGES as u16 {
            let (used, needed) = (allocation::is_used(bitmap, page), named.contains(&extent.page(page)));
            if used != needed {
                let what = if used { "in use, but nothing names it" } else { "named, but said to be free" };
                problems.push(format!("tree \"{}\", page {}: {what}", tree.name(), extent.page(page)));
            }
        }
    }
    Ok(())
}

struct Walk<'a> {
    snapshot: &'a Snapshot,
    tree: &'a Tree,
    extents: &'a BTreeSet<ExtentId>,
    /// Pages that were reached.
    named: BTreeSet<Lpid>,
    problems: &'a mut Vec<String>,
}

impl Walk<'_> {
    fn bad(&mut self, lpid: Lpid, what: &str) {
        self.problems.push(format!("tree \"{}\", page {lpid}: {what}", self.tree.name()));
    }

    fn name(&mut self, lpid: Lpid) -> bool {
        if !self.extents.contains(&lpid.extent()) {
            self.bad(lpid, "in no extent of the tree");
            return false;
        }
        if !self.named.insert(lpid) {
            self.bad(lpid, "named twice");
            return false;
        }
        true
    }

    fn node(
        &mut self,
        lpid: Lpid,
        level: Option<u8>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<(), EngineError> {
        if !self.name(lpid) {
            return Ok(());
        }
        let frame = match self.snapshot.frame(lpid) {
            Ok(frame) => frame,
            Err(e) if e.is_of_drive() => return Err(e),
            Err(e) => {
                self.bad(lpid, &e.to_string());
                return Ok(());
            }
        };
        let Ok(node) = frame.node() else {
            self.bad(lpid, "not a node");
            return Ok(());
        };
        if level.is_some_and(|l| l != node.level()) {
            self.bad(lpid, "a node of another level than its siblings");
        }
        if node.low() != low || node.high() != high {
            self.bad(lpid, "its fences are not what its parent says");
        }
        if node.level() == 0 {
            for i in 0..node.entries() {
                let NodeValue::Page(page) = node.value(i) else { continue };
                if self.name(page)
                    && let Err(e) = self.snapshot.value_at(node, i)
                {
                    self.bad(page, &e.to_string());
                }
            }
            return Ok(());
        }
        let keys: Vec<Vec<u8>> = (0..node.entries())
            .map(|i| {
                let mut key = Vec::new();
                node.read_key(i, &mut key);
                key
            })
            .collect();
        for i in 0..node.entries() {
            let from = if i == 0 { low } else { &keys[i] };
            let to = keys.get(i + 1).map(|k| &k[..]).or(high);
            self.node(node.child(i), Some(node.level() - 1), from, to)?;
        }
        Ok(())
    }
}
