//! Cells that are to be merged.

use super::ids::RowId;

/// Bytes of a delta that one step merges, about, and cells.
const STEP_BYTES: u64 = 1 << 20;
const STEP_CELLS: usize = 4;

/// A cell that is to be merged, and the bytes that the delta has of it.
#[derive(Clone, Debug)]
pub(in crate::tables) struct DueCell {
    pub(in crate::tables) from: RowId,
    pub(in crate::tables) end: Option<RowId>,
    /// Whether they are the ids of a page.
    pub(in crate::tables) is_page: bool,
    pub(in crate::tables) bytes: u64,
    /// The first id of the small pages before it that are merged with it.
    pub(in crate::tables) with: Option<RowId>,
}

/// The first of these cells that one step merges.
pub(in crate::tables) fn step_of(due: &mut Vec<DueCell>) -> Vec<DueCell> {
    let (mut count, mut bytes) = (0, 0);
    while count < due.len().min(STEP_CELLS) && (count == 0 || bytes + due[count].bytes <= STEP_BYTES) {
        bytes += due[count].bytes;
        count += 1;
    }
    due.drain(..count).collect()
}
