//! Reads the drive's own tables, as they were written last.

use lode_base::EblockId;
use lode_flash::Generation;

use super::context::{Recovery, damaged};
use super::pass_1::Found;
use crate::FirmwareError;
use crate::checkpoint::CheckpointRecord;
use crate::entry::Entry;
use crate::own::{OwnKind, TABLE_PIECE_ENTRIES, Tables, read_page};
use crate::pages::{Rules, index_extent};
use crate::session::Sessions;
use crate::space::decode_unwritten;

/// Extents are handed out densely: a page of one that is so far beyond the others never was.
const NUMBERS_AHEAD_MAX: u64 = 1 << 24;

impl Recovery<'_> {
    /// The root that a checkpoint record names: where the tables lie, and the generations of the EBLOCKs there.
    pub(super) fn read_root(
        self,
        record: &CheckpointRecord,
    ) -> Result<(Tables, Vec<(EblockId, Generation)>), FirmwareError> {
        let (m, g) = (self.medium(), self.geometry());
        m.set_generation(g.locate(record.root.ppa(g)).0, record.root_generation);
        let bytes = read_page(m, OwnKind::Root, 0, record.root)?;
        Tables::decode(&bytes, record.root, g).map_err(|e| damaged(m.path(), "checkpoint root", &e))
    }

    /// Reads the tables.
    pub(super) fn load_tables(self, found: &Found) -> Result<(), FirmwareError> {
        let (g, m, pages) = (*self.geometry(), self.medium(), self.pages());
        let path = m.path();
        let tables = self.state().tables().clone();
        let words = |kind: OwnKind| {
            tables.pieces(kind).map(move |(piece, home)| {
                let bytes = read_page(m, kind, piece as u64, home)?;
                let (words, _) = bytes.as_chunks::<8>();
                let words: Vec<u64> = words.iter().map(|w| u64::from_le_bytes(*w)).collect();
                if words.len() > TABLE_PIECE_ENTRIES {
                    return Err(FirmwareError::damaged(path, format!("{kind} {piece}: too many entries")));
                }
                match words.iter().find_map(|&w| Entry::check(w, &g).err()) {
                    Some(what) => Err(FirmwareError::damaged(path, format!("{kind} {piece}: {what}"))),
                    None => Ok((piece, words)),
                }
            })
        };
        for piece in words(OwnKind::MapHomes) {
            let (piece, words) = piece?;
            pages.map().restore_piece(piece, &words);
        }
        for piece in words(OwnKind::IndexHomes) {
            let (piece, words) = piece?;
            pages.index().restore_piece(piece, &words);
        }
        for &(kind, number, home) in &found.moved {
            // Mapping pages have no parts.
            let extent = if kind == OwnKind::Index { index_extent(number) } else { number };
            if extent >= pages.map().numbers().max(pages.index().numbers()) + NUMBERS_AHEAD_MAX {
                return Err(FirmwareError::damaged(path, format!("the log names {kind} {number}")));
            }
            match kind {
                OwnKind::Map => pages.map().set_home(number, home),
                _ => pages.index().set_home(number, home),
            }
        }
        for (piece, home) in tables.pieces(OwnKind::Owners) {
            let bytes = read_page(m, OwnKind::Owners, piece as u64, home)?;
            let (owners, _) = bytes.as_chunks::<4>();
            let owners: Vec<u32> = owners.iter().map(|o| u32::from_le_bytes(*o)).collect();
            pages.extents_mut().restore_piece(piece, &owners);
        }
        let whole = |kind: OwnKind| {
            let mut bytes = Vec::new();
            for (piece, home) in tables.pieces(kind) {
                bytes.extend(read_page(m, kind, piece as u64, home)?);
            }
            Ok::<_, FirmwareError>(Some(bytes).filter(|b| !b.is_empty()))
        };
        if let Some(bytes) = whole(OwnKind::Rules)? {
            let rules = Rules::decode(&bytes).map_err(|e| damaged(path, "index rules", &e))?;
            pages.rules().restore(rules.into());
        }
        let mut state = self.state();
        if let Some(bytes) = whole(OwnKind::Sessions)? {
            let sessions = Sessions::decode(&bytes).map_err(|e| damaged(path, "session table", &e))?;
            state.restore_sessions(sessions);
        }
        if let Some(bytes) = whole(OwnKind::Open)? {
            let words = decode_unwritten(&bytes, &g);
            let words = words.map_err(|e| damaged(path, "metadata of open EBLOCKs", &e))?;
            state.eblocks_mut().restore_unwritten(words);
        }
        for (piece, home) in tables.pieces(OwnKind::Summary) {
            let bytes = read_page(m, OwnKind::Summary, piece as u64, home)?;
            let restored = state.eblocks_mut().restore_piece(piece, &bytes);
            restored.map_err(|e| damaged(path, &format!("EBLOCK summary, piece {piece}"), &e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lode_base::Geometry;
    use lode_flash::Medium;

    use super::*;
    use crate::DriveOptions;
    use crate::own::PARTS_FROM;

    /// Index pages alone have parts: a mapping page with the number of one never was.
    #[test]
    fn a_log_that_names_mapping_pages_of_parts_is_damaged() {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 40).unwrap();
        let core = crate::recovery::format(Medium::memory(g), DriveOptions::default()).unwrap();
        let home = Entry::new(g.ppa(EblockId::new(5), 0).unwrap(), 6400, false);
        let load = |kind, number, home| {
            let found = Found { moved: vec![(kind, number, home)], ..Found::default() };
            Recovery::new(&core).load_tables(&found).map_err(|e| e.to_string())
        };
        for home in [None, Some(home)] {
            for (kind, number) in [(OwnKind::Map, PARTS_FROM), (OwnKind::Index, PARTS_FROM - 1)] {
                let e = load(kind, number, home).unwrap_err();
                assert!(e.contains(&format!("the log names {kind} {number}")), "{e}");
            }
        }
        load(OwnKind::Index, PARTS_FROM, Some(home)).unwrap();
        assert_eq!(core.pages().index().home(PARTS_FROM), Some(home));
    }
}
