//! Reads what is kept beside pages: index entries, and the owners of extents.

use lode_base::{EXTENT_PAGES, ExtentId, OwnerId, ViewId};
use lode_command::{CommandError, ExtentInfo, IndexedPage, PageRange, Reply, check_answer};

use super::reader::Reader;
use super::unit::UnitAccess;
use crate::compute::PageAccess;

/// The least that the bytes of an index entry take in memory: one column's range, as an allocator rounds it up.
const ENTRY_BLOCK_BYTES_MIN: u64 = 32;

/// Pages of one extent.
fn checked(range: &PageRange) -> Result<PageRange, CommandError> {
    match usize::from(range.first) + usize::from(range.count) > EXTENT_PAGES {
        true => {
            let (count, first) = (range.count, range.first);
            Err(CommandError::Invalid(format!("{count} pages from {first} of an extent")))
        }
        false => Ok(*range),
    }
}

impl Reader<'_> {
    /// All extents with an owner, and how many pages each has.
    pub(crate) fn list_extents(self) -> Result<Reply, CommandError> {
        let all: Vec<_> = {
            let extents = self.pages().extents();
            check_answer(extents.owned() * size_of::<ExtentInfo>() as u64)?;
            extents.all().collect()
        };
        let info = |(extent, owner): (ExtentId, OwnerId)| {
            let pages_mapped = match self.pages().map_page(self.env(), extent) {
                Ok(map) => Some(map.map_or(0, |m| m.mapped().count() as u32)),
                // Whoever reads its pages is told; the other extents are listed all the same.
                Err(e) if e.is_damage() => None,
                Err(e) => return Err(e.into()),
            };
            Ok(ExtentInfo { extent, owner, pages_mapped })
        };
        all.into_iter().map(info).collect::<Result<_, CommandError>>().map(Reply::ExtentList)
    }

    /// The pages of these ranges at a view, each with its index entry if it has one.
    pub(crate) fn read_index(self, view: ViewId, pages: &[PageRange]) -> Result<Reply, CommandError> {
        self.env().check_content()?;
        let access = || UnitAccess::new(self, view, self.env().options().scan_placement);
        // As they lie in memory, which is more than they take on the link: an entry is a block of its own there.
        let entry_bytes = size_of::<IndexedPage>() as u64 + ENTRY_BLOCK_BYTES_MIN;
        let pages_max: u64 = pages.iter().map(|r| u64::from(r.count)).sum();
        if check_answer(pages_max * entry_bytes).is_err() {
            let mut mapped = 0;
            for range in pages {
                mapped += access().mapped(view, checked(range)?)?.len() as u64;
                check_answer(mapped * entry_bytes)?;
            }
        }
        let mut entries = Vec::new();
        let mut bytes = 0;
        let rules = self.pages().rules().get();
        for range in pages {
            let range = checked(range)?;
            let access = access();
            // A version that a view shows may have an entry of a rule that is no more, or of one that the host does not know at this view: it
            // would take it for one of the rule that it knows.
            let commit = self.view_commit(view)?;
            let mapped = access.mapped(view, range)?;
            bytes += mapped.len() as u64 * entry_bytes;
            check_answer(bytes)?;
            for at in mapped {
                let entry = access.index_entry(&at)?.filter(|(r, _)| rules.stands_since(r, commit));
                bytes += entry.as_ref().map_or(0, |(_, e)| e.encoded_bytes() as u64);
                check_answer(bytes)?;
                let entry = entry.map(|(_, e)| e);
                entries.push(IndexedPage { lpid: at.lpid, len_bytes: at.len_bytes(), entry });
            }
        }
        Ok(Reply::IndexEntries(entries))
    }
}
