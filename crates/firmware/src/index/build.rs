//! Makes the index entries that pages lack: those written before their owner's rule was registered.
//!
//! ```text
//!   an extent: [epoch] pages without an entry ─► read ─► entry ─► [lock] ─► log ─► install, where the page is the same
//! ```
//!
//! Invariant: the epoch lasts from the reading of a page to the installation of its entry, so that the same
//! address means the same version.

use lode_base::{ExtentId, OwnerId};
use lode_command::{CommandError, Reply};

use crate::compute::entry_of;
use crate::core::Core;
use crate::index::Rule;
use crate::log::{Indexed, LoggedWrite, Record};

impl Core {
    /// Makes the missing entries of an owner's pages.
    pub(crate) fn build_index(&self, owner: OwnerId) -> Result<Reply, CommandError> {
        let owned: Vec<ExtentId> =
            self.extents.read().all().filter(|(_, o)| *o == owner).map(|(e, _)| e).collect();
        let mut pages = 0;
        self.rule_of(owner)?;
        for extent in owned {
            // A rule that is replaced meanwhile makes its entries worthless: then they are made again.
            loop {
                let rule = self.rule_of(owner)?;
                if let Some(n) = self.build_extent(owner, extent, &rule)? {
                    pages += n;
                    break;
                }
            }
        }
        Ok(Reply::Indexed { pages })
    }

    fn rule_of(&self, owner: OwnerId) -> Result<Rule, CommandError> {
        self.rules.read().get(owner).cloned().ok_or(CommandError::NoIndexRule(owner))
    }

    /// The pages of an extent that got an entry; `None` when the rule was replaced meanwhile.
    fn build_extent(
        &self,
        owner: OwnerId,
        extent: ExtentId,
        rule: &Rule,
    ) -> Result<Option<u64>, CommandError> {
        self.check_writable()?;
        let _epoch = self.epochs.enter();
        let n = extent.raw();
        let Some(map) = self.map.get(&self.medium, &self.epochs, n)? else { return Ok(Some(0)) };
        let index = self.index.get(&self.medium, &self.epochs, n)?;
        let has = |page| index.as_ref().is_some_and(|i| i.get(rule.number, page).is_some());
        let mut pages = Vec::new();
        for (page, entry) in map.mapped().filter(|(p, e)| e.redo() || !has(*p)) {
            let lpid = extent.page(page);
            let bytes = self.read_range(lpid, entry.ppa(self.geometry()), 0..entry.len_bytes() as u32)?;
            let index = entry_of(&rule.rule, lpid, &bytes)?.encode().into();
            pages.push(LoggedWrite { lpid, entry, index: Some(index) });
        }
        if pages.is_empty() {
            return Ok(Some(0));
        }
        let mut w = self.writer.lock();
        self.check_writable()?;
        if self.rules.read().get(owner).map(|r| r.number) != Some(rule.number) {
            return Ok(None);
        }
        let record_bytes =
            pages.iter().map(|p| 18 + p.index.as_ref().map_or(0, |i| i.len())).sum::<usize>() + 64;
        self.make_room(&mut w, &[], record_bytes)?;
        let touched = self.touch(pages.iter().map(|p| (p.lpid, true)), &[], &[])?;
        let record = Record::Indexed(Indexed { owner, pages });
        self.force(&mut w, &record)?;
        let Record::Indexed(i) = &record else { unreachable!("it was just made") };
        let installed = self.install_indexed(i, &touched);
        if let Err(e) = self.write_back(&mut w) {
            self.failed(e);
        }
        Ok(Some(installed))
    }
}
