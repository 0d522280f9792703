//! Makes the index entries that pages lack: those written before their owner's rule was registered.
//!
//! ```text
//!   an extent: [epoch] pages without an entry ─► read ─► entry ─► [stage], where the page is the same ─► install
//! ```
//!
//! Invariant: the epoch lasts from the reading of a page to the installation of its entry, so that the same
//! address means the same version.

use lode_base::{EXTENT_PAGES, ExtentId, OwnerId};
use lode_command::{CommandError, Reply};

use super::index_room::index_growth;
use super::writer::Writer;
use crate::commit::Action;
use crate::pages::{Rule, is_long};
use crate::read::Reader;
use crate::record::{LoggedWrite, Record};
use crate::space::log_bytes_max;

/// Bytes of long entries in one record.
const RECORD_BYTES: usize = 1 << 20;

impl Writer<'_> {
    /// Makes the missing entries of an owner's pages.
    pub(crate) fn build_index(self, owner: OwnerId) -> Result<Reply, CommandError> {
        self.env().check_content()?;
        let owned: Vec<ExtentId> =
            self.pages().extents().all().filter(|(_, o)| *o == owner).map(|(e, _)| e).collect();
        let mut pages = 0;
        self.rule_of(owner)?;
        let mut tries = self.room_tries();
        for extent in owned {
            // A rule that is replaced meanwhile makes its entries worthless: then they are made again.
            loop {
                let rule = self.rule_of(owner)?;
                let built = match self.build_extent(owner, extent, &rule) {
                    // No epoch is held here, so room can be made.
                    Err(CommandError::OutOfSpace { .. }) if tries > 0 && self.upkeep().make_room(0)? => {
                        tries -= 1;
                        continue;
                    }
                    built => built?,
                };
                let Some((n, again)) = built else { continue };
                pages += n;
                if !again {
                    break;
                }
            }
        }
        Ok(Reply::Indexed { pages })
    }

    fn rule_of(self, owner: OwnerId) -> Result<Rule, CommandError> {
        self.pages().rules().get().get(owner).cloned().ok_or(CommandError::NoIndexRule(owner))
    }

    /// Entries that are made at a time: all of an extent, or of long ones as many as one record should have.
    fn entries_at_once(self, rule: &Rule) -> usize {
        let entry_bytes = rule.rule.entry_bytes();
        let most = RECORD_BYTES.min(log_bytes_max(self.env().options(), self.env().geometry()) as usize / 8);
        if is_long(entry_bytes) { (most / entry_bytes).max(1) } else { EXTENT_PAGES }
    }

    /// The pages of an extent that got an entry, and whether some are to be looked at again; `None` when the rule was
    /// replaced meanwhile.
    fn build_extent(
        self,
        owner: OwnerId,
        extent: ExtentId,
        rule: &Rule,
    ) -> Result<Option<(u64, bool)>, CommandError> {
        let env = self.env();
        env.check_writable()?;
        let reader = Reader::new(env, self.pages());
        let mut pages = Vec::new();
        let _epoch = env.epochs().enter();
        let Some(map) = self.pages().map_page(env, extent)? else { return Ok(Some((0, false))) };
        let index = |page| self.pages().index_page(env, extent.page(page), rule);
        let has = |page| index(page).map(|i| i.is_some_and(|i| i.has(rule.number, page)));
        let mut left = self.entries_at_once(rule);
        for (page, entry) in map.mapped() {
            if !entry.redo() && has(page)? {
                continue;
            }
            if left == 0 {
                break;
            }
            left -= 1;
            let lpid = extent.page(page);
            let bytes = reader.read_range(lpid, entry, 0..entry.len_bytes() as u32)?;
            let index = (rule.number, self.make_entry(&rule.rule, lpid, &bytes)?.into_bytes());
            pages.push(LoggedWrite { lpid, entry, index: Some(index) });
        }
        if pages.is_empty() {
            return Ok(Some((0, false)));
        }
        // 32: LPID, mapping entry, rule number, length.
        let record_bytes =
            pages.iter().map(|p| 32 + p.index.as_ref().map_or(0, |i| i.1.len())).sum::<usize>() + 64;
        self.upkeep().log_room(record_bytes)?;
        let entry_bytes = rule.rule.entry_bytes();
        let writes = pages.iter().map(|p| (p.lpid, Some(entry_bytes)));
        let pins = self.pages().pin(env, writes.clone(), std::iter::empty(), std::iter::empty())?;
        if let Err(full) = self.has_index_room(index_growth(writes, &pins), 0) {
            self.pages().unpin(&pins);
            return Err(full);
        }
        let mut state = self.state();
        let current = state.staged_rules().get(owner).map(|r| r.number) == Some(rule.number);
        if !current || !env.is_writable() {
            drop(state);
            self.pages().unpin(&pins);
            env.check_writable()?;
            return Ok(None);
        }
        // Pages that were written meanwhile, or moved, keep what they have: a page that was moved is met again.
        let mut moved = left == 0;
        pages.retain_mut(|p| {
            let now = state.staged_entry(p.lpid, pins[&p.lpid.extent()].map());
            moved |= now.is_some_and(|now| !now.same_place(p.entry));
            let same = now.is_some_and(|now| now.same_place(p.entry));
            p.entry = p.entry.without_redo();
            same
        });
        pages.iter().for_each(|p| state.stage_entry(p.lpid, Some(p.entry)));
        state.begin_action();
        let action = Action::new(Record::Indexed { pages }).pinned(pins);
        let installed = self.committer().carry_out(state, action)?;
        self.upkeep().maintain(0);
        Ok(Some((installed.pages, moved)))
    }
}
