//! The trees as a crash or a clean end left them: extents are found, and redo is replayed.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ExtentId};
use lode_command::{CommandError, ExtentInfo};

use super::dirty::Dirty;
use super::spaces::{Space, Spaces, TreeExtent};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::storage::view::View;
use crate::trees::catalog::Catalog;
use crate::trees::frames::{Frame, Frames};
use crate::trees::page::allocation;
use crate::trees::redo::replay::replay;
use crate::trees::redo::{REDO_OWNER, RedoLog, RedoPage};
use crate::trees::snapshot::Snapshot;
use crate::trees::tree::Csn;

/// What a recovery found.
pub(crate) struct Recovered {
    /// The newest state.
    pub(crate) snapshot: Snapshot,
    pub(super) spaces: Spaces,
    pub(super) redo: RedoLog,
    pub(super) dirty: Dirty,
}

impl Recovered {
    /// Recovers the trees of a catalog at a view. `listed`: the extents of the drive.
    pub(crate) fn at(
        view: View,
        catalog: Catalog,
        listed: &[ExtentInfo],
        frames: &Arc<Frames>,
    ) -> Result<Self, EngineError> {
        let mut redo = Vec::new();
        for e in listed.iter().filter(|e| e.owner == REDO_OWNER && e.pages_mapped != Some(0)) {
            read_redo(&view, e.extent, &mut redo)?;
        }
        redo.sort_unstable_by_key(|p| p.number);
        if let Some(gap) = redo.windows(2).find(|p| p[0].number + 1 != p[1].number) {
            let what = format!("page {} of the redo does not follow {}", gap[1].number, gap[0].number);
            return Err(EngineError::BadRedo { lpid: gap[1].lpid, what });
        }
        let mut spaces = Spaces::default();
        let mut known = BTreeSet::new();
        for tree in catalog.trees() {
            let own = listed.iter().filter(|e| e.owner == tree.owner());
            let space = Space { extents: own.map(|e| found(&view, e)).collect::<Result<_, _>>()? };
            known.extend(space.extents.iter().filter(|e| e.begun).map(|e| e.id));
            spaces.insert(tree.owner(), space);
        }
        let replayed = replay(&view, &redo, &known)?;
        let newest = redo.iter().map(|p| p.newest).max().unwrap_or_default();
        let before = || Csn::new(newest.raw().saturating_sub(1));
        let csn = planted::instead(Planted::NumberReused, || newest, before);
        let of_redo = listed.iter().filter(|e| e.owner == REDO_OWNER).map(|e| e.extent).collect();
        let redo = RedoLog::found(&redo, of_redo);
        let snapshot = Snapshot::new(frames.clone(), view, csn, catalog);
        let made: Vec<Arc<Frame>> =
            replayed.iter().map(|r| frames.made(r.lpid, r.newest, r.body.clone())).collect();
        let mut dirty = Dirty::default();
        for (r, frame) in replayed.iter().zip(&made) {
            dirty.add(r.first, frame.clone());
        }
        frames.publish(&made);
        Ok(Self { snapshot, spaces, redo, dirty })
    }
}

/// An extent of a tree.
fn found(view: &View, e: &ExtentInfo) -> Result<TreeExtent, EngineError> {
    match view.read_page(allocation::page_of(e.extent)) {
        Ok(_) => Ok(TreeExtent::new(e.extent, true)),
        Err(EngineError::Drive(CommandError::Unmapped(_))) => Ok(TreeExtent::new(e.extent, false)),
        Err(e) => Err(e),
    }
}

fn read_redo(view: &View, extent: ExtentId, out: &mut Vec<RedoPage>) -> Result<(), EngineError> {
    for page in 0..EXTENT_PAGES as u16 {
        let lpid = extent.page(page);
        match view.read_page(lpid) {
            Ok(bytes) => out.push(RedoPage::decode(lpid, bytes)?),
            Err(EngineError::Drive(CommandError::Unmapped(_))) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
