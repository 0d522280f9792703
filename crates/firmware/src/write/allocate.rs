//! Extents are handed out, where the tables have room for them.
//!
//! What an allocation takes: pieces of the table of owners, pieces of the tables of homes of its mapping and index pages,
//! the log that tells of it, and a reserve for all that. It is logged with the next log group.

use lode_base::{ExtentId, OwnerId};
use lode_command::{CommandError, Reply};

use super::writer::Writer;
use crate::commit::CommitState;
use crate::log::LogWriter;
use crate::own::TABLE_PIECE_ENTRIES;
use crate::space::{Budget, log_bytes_max, page_bytes_max};

/// Bytes that the record of an allocation takes in the log.
pub(super) const ALLOCATED_BYTES: usize = 17;
/// Most extents that are handed out at once.
const EXTENTS_MAX: u32 = 1 << 20;

/// Whether the tables have room for more extents.
enum TablesRoom {
    Fits,
    /// Once there are more free EBLOCKs: bytes that the tables grow by.
    Later(u64),
    /// Not beside what the drive holds.
    Never(u64),
}

impl Writer<'_> {
    /// Hands out extents.
    ///
    /// # Errors
    /// [`CommandError::OutOfSpace`] when there is no room for them: then nothing changed.
    pub(crate) fn allocate(self, owner: OwnerId, count: u32) -> Result<Reply, CommandError> {
        let (env, pages) = (self.env(), self.pages());
        env.check_writable()?;
        if count == 0 || count > EXTENTS_MAX || owner.raw() == u32::MAX {
            return Err(CommandError::Invalid(format!("{count} extents for {owner:?}")));
        }
        self.make_log_room(count)?;
        let mut tries = 0;
        loop {
            let state = self.state();
            // The newest commit is asked for first: what is released after that rests, whatever views open meanwhile.
            let newest = pages.versions().newest().raw();
            let shown = pages.versions().oldest().map_or(newest, |oldest| oldest.min(newest));
            let Some(chosen) = pages.extents_mut().choose(count, shown) else {
                return Err(CommandError::Invalid(format!("{count} extents beyond those that rest")));
            };
            let needed_bytes = match self.tables_room(&state, &chosen) {
                TablesRoom::Fits => {
                    pages.extents_mut().hand_out(owner, &chosen);
                    return Ok(Reply::Extents(chosen));
                }
                TablesRoom::Never(needed) => {
                    tries = u64::MAX;
                    needed
                }
                TablesRoom::Later(needed) => needed,
            };
            let free_bytes = state.budget(env, pages).free_bytes().min(needed_bytes.saturating_sub(1));
            drop(state);
            let full = CommandError::OutOfSpace { free_bytes, needed_bytes };
            if tries > self.room_tries() || !self.upkeep().make_room(0)? {
                return Err(full);
            }
            tries += 1;
        }
    }

    /// Whether the tables, and what is kept for them, have room for extents that have no owner yet.
    fn tables_room(self, state: &CommitState, chosen: &[ExtentId]) -> TablesRoom {
        let pages = self.pages();
        let (owners_bytes, pieces) = pages.extents().media_bytes_with(chosen);
        // A page in the last of them makes both tables of homes that long.
        let numbers = chosen.last().map_or(0, |e| e.raw() + 1);
        let entries = numbers.saturating_sub(pages.map().table_entries())
            + numbers.saturating_sub(pages.index().table_entries());
        let now = state.budget(self.env(), pages);
        let then = Budget { owners_bytes, homes_bytes: 2 * 8 * entries, ..now };
        let needed = then.own_bytes().saturating_sub(now.own_bytes()).max(1);
        // The root names every piece of every table.
        let root_bytes = 8 * (pieces + 2 * numbers.div_ceil(TABLE_PIECE_ENTRIES as u64));
        if root_bytes > page_bytes_max(self.env().geometry()) as u64 / 4 {
            return TablesRoom::Never(needed);
        }
        let (usable, reserve) = (then.usable_bytes(), then.reserve_eblocks());
        // A few more extents mostly take no EBLOCK more: a drive that is full has them, too.
        if usable == now.usable_bytes() && reserve == now.reserve_eblocks() {
            return TablesRoom::Fits;
        }
        if usable < now.held_bytes() || usable == 0 {
            return TablesRoom::Never(needed);
        }
        if reserve > state.eblocks().free_eblocks() { TablesRoom::Later(needed) } else { TablesRoom::Fits }
    }

    /// Makes room in the next log group for the allocations that wait for it, and `count` more.
    fn make_log_room(self, count: u32) -> Result<(), CommandError> {
        let (options, g) = (self.env().options(), self.env().geometry());
        let bytes = |count: usize| 256 + ALLOCATED_BYTES * count;
        let most = log_bytes_max(options, g) / 4;
        let group = |count| LogWriter::group_bytes(g, options.log_copies, bytes(count));
        let mut waiting = self.pages().extents().unlogged_count();
        if waiting > 0 && group(waiting + count as usize) > most {
            self.upkeep().log_room(bytes(waiting))?;
            let state = self.state();
            self.env().check_writable()?;
            self.committer().log_nothing(state)?;
            waiting = self.pages().extents().unlogged_count();
        }
        let needed_bytes = group(waiting + count as usize);
        if needed_bytes > most {
            return Err(CommandError::OutOfSpace { free_bytes: most, needed_bytes });
        }
        // A few go with whatever comes next.
        if bytes(waiting + count as usize) <= g.wblock_bytes() as usize {
            return Ok(());
        }
        self.upkeep().log_room(bytes(waiting + count as usize))
    }
}
