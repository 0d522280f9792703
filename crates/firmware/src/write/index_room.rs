//! Room for the index pages that long entries need.
//!
//! An entry of 32 KB may be longer than its page. So before pages get long entries, the budget must hold with the index pages that they make:
//! then the drive can still write them, and everything else of its own. Short entries are a small part of the reserve, as they always were.

use lode_base::Lpid;
use lode_base::fast::FastMap;
use lode_command::CommandError;

use super::writer::Writer;
use crate::pages::{Pins, index_part, is_long};
use crate::space::{Budget, page_bytes_max};

/// Bytes by which index pages grow when these pages get entries of so many bytes, if those are long.
pub(super) fn index_growth(writes: impl Iterator<Item = (Lpid, Option<usize>)>, pins: &Pins) -> u64 {
    let mut parts: FastMap<u64, usize> = FastMap::default();
    for (lpid, entry_bytes) in writes {
        let Some(entry_bytes) = entry_bytes.filter(|n| is_long(*n)) else { continue };
        let index = pins.get(&lpid.extent()).and_then(|p| p.index(lpid, entry_bytes));
        let bytes = index.map_or(0, |index| index.growth(lpid.page(), entry_bytes));
        let most = parts.entry(index_part(lpid)).or_default();
        *most = bytes.max(*most);
    }
    parts.values().map(|&bytes| bytes as u64).sum()
}

impl Writer<'_> {
    /// Makes room for index pages to grow by so many bytes, beside `written` bytes of the pages.
    ///
    /// # Errors
    /// [`CommandError::OutOfSpace`] when there is none.
    pub(super) fn index_room(
        self,
        growth: u64,
        written: u64,
        record_bytes: usize,
    ) -> Result<(), CommandError> {
        let mut tries = self.room_tries();
        while let Err(full) = self.has_index_room(growth, written) {
            if tries == 0 || !self.upkeep().make_room(record_bytes)? {
                return Err(full);
            }
            tries -= 1;
        }
        Ok(())
    }

    /// How often room is made before there is none.
    pub(super) fn room_tries(self) -> u64 {
        4 * u64::from(self.env().geometry().eblock_count()) + 16
    }

    /// Whether index pages may grow by so many bytes, beside `written` bytes of pages.
    pub(super) fn has_index_room(self, growth: u64, written: u64) -> Result<(), CommandError> {
        if growth == 0 {
            return Ok(());
        }
        let state = self.state();
        let now = state.budget(self.env(), self.pages());
        // What is staged makes index pages grow when it is installed. Each page is in the budget twice, as others are.
        let homes_bytes = 2 * (growth + state.staged_bytes());
        let then = Budget { homes_bytes, ..now };
        let g = self.env().geometry();
        let root_is_full = 16 * (state.tables().part_pieces() as u64 + 1) > page_bytes_max(g) as u64 / 4;
        let held = then.held_bytes() + written > then.usable_bytes();
        let eblocks = u64::from(then.reserve_eblocks()) + written.div_ceil(u64::from(g.eblock_bytes()));
        if root_is_full || held || eblocks > u64::from(then.free_eblocks()) {
            return Err(then.out_of_space(growth + written));
        }
        Ok(())
    }
}
