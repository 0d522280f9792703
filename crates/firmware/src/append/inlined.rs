//! Inlined pages move to EBLOCKs, the way GC moves pages.

use std::collections::BTreeSet;

use lode_base::PageBuf;
use lode_command::Align;

use super::appender::Appender;
use super::relocate::{MOVE_BYTES, ValidPage};
use crate::FirmwareError;
use crate::space::Purpose;
use crate::stream::Stream;

impl Appender<'_> {
    /// Moves all inlined pages that there are now to EBLOCKs. The caller has the background.
    pub(crate) fn move_inlined(self) -> Result<(), FirmwareError> {
        let (inlined, epochs) = (self.pages().inlined(), self.env().epochs());
        self.committer().reclaim()?;
        inlined.purge(epochs);
        let page = |(lpid, entry, data)| (ValidPage { lpid, entry, align: Align::Cell }, data);
        let all: Vec<_> = inlined.all().into_iter().map(page).collect();
        let mut left = &all[..];
        while !left.is_empty() {
            let mut bytes = 0;
            let fits = |p: &&(ValidPage, PageBuf)| {
                bytes += p.1.len();
                bytes <= MOVE_BYTES
            };
            let (step, rest) = left.split_at(left.iter().take_while(fits).count().max(1));
            left = rest;
            match self.relocate(Stream::UserHot, Purpose::Inlined, step, |_| {}) {
                Err(e) if e.is_damage() => self.move_mapped(step)?,
                moved => moved?,
            }
        }
        inlined.purge(epochs);
        Ok(())
    }

    /// Moves inlined pages, but for those whose mapping page is lost: nobody can name them any more.
    fn move_mapped(self, pages: &[(ValidPage, PageBuf)]) -> Result<(), FirmwareError> {
        let mut lost = BTreeSet::new();
        for extent in pages.iter().map(|(v, _)| v.lpid.extent()).collect::<BTreeSet<_>>() {
            match self.pages().pin_maps(self.env(), std::iter::once(extent)) {
                Ok(pins) => self.pages().unpin(&pins),
                Err(e) if e.is_damage() => drop(lost.insert(extent)),
                Err(e) => return Err(e),
            }
        }
        // Together: a log group for each would be more log than the checkpoint lets go.
        let mapped: Vec<_> =
            pages.iter().filter(|(v, _)| !lost.contains(&v.lpid.extent())).cloned().collect();
        if mapped.is_empty() {
            return Ok(());
        }
        self.relocate(Stream::UserHot, Purpose::Inlined, &mapped, |_| {})
    }
}
