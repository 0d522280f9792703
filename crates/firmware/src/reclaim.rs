//! Reclaiming: EBLOCKs with nothing in them that is needed are erased and used again from the start.
//!
//! ```text
//!   nothing live, nothing pinned ─► retire ─► reads under way have ended ─► free ─► erased when it is opened
//! ```
//!
//! What EBLOCKs hold that is partly needed stays where it is.
//! Source: ELEOS §VI, without its mover.

use crate::FirmwareError;
use crate::core::{Core, Writer};
use crate::summary::State;

impl Core {
    /// Retires what nobody needs, and frees what nobody reads. Answers whether anything was freed or retired.
    pub(crate) fn reclaim(&self, w: &mut Writer) -> Result<bool, FirmwareError> {
        let g = self.geometry();
        for e in self.versions.take_freed() {
            w.space.summary.unpin(g.locate(e.ppa(g)).0, e.cells_bytes());
        }
        let before = w.space.free_eblocks();
        let mut retired = false;
        for e in std::mem::take(&mut w.space.summary.empty) {
            let d = w.space.summary.get(e);
            if matches!(d.state, State::Used { .. }) && d.live == 0 && d.pinned == 0 {
                w.space.retire(&self.epochs, e);
                retired = true;
            }
        }
        w.space.free_retired(&self.medium, &self.epochs, self.options.erased_kept)?;
        Ok(retired || w.space.free_eblocks() > before)
    }
}
