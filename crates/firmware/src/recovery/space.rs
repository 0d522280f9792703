//! Brings the EBLOCK summary up to date, and finds up to where open EBLOCKs were programmed.

use lode_flash::WblockState;

use super::context::Recovery;
use super::pass_1::{Change, Found};
use crate::FirmwareError;
use crate::checkpoint::CheckpointRecord;
use crate::commit::CommitState;
use crate::log::LogEnd;
use crate::own::OwnKind;
use crate::planted::at;
use crate::record::Record;
use crate::space::{SUMMARY_PIECE_EBLOCKS, State};
use crate::stream::Stream;

impl Recovery<'_> {
    /// Applies what happened to EBLOCKs to the summary, and to the metadata that is not on the medium.
    pub(super) fn load_space(
        self,
        record: &CheckpointRecord,
        found: &Found,
        end: &LogEnd,
        clean: bool,
    ) -> Result<(), FirmwareError> {
        let medium = self.medium();
        let bad = |what: &str| FirmwareError::damaged(medium.path(), format!("the log: {what}"));
        let mut state = self.state();
        let eblocks = state.eblocks_mut();
        eblocks.set_clock(record.clock + found.cells);
        let mut unwritten = eblocks.unwritten().clone();
        for (lsn, change) in &found.changes {
            let (Change::State(
                Record::Opened { eblock, .. } | Record::Closed { eblock, .. } | Record::Retired { eblock },
            )
            | Change::Live { eblock, .. }) = change
            else {
                unreachable!("only these were found")
            };
            let piece = u64::from(eblock.raw()) / SUMMARY_PIECE_EBLOCKS as u64;
            if found.lacks(OwnKind::Open, 0, *lsn) {
                match change {
                    Change::State(Record::Opened { stream, .. }) if *stream != Stream::Log => {
                        unwritten.insert(*eblock, Vec::new());
                    }
                    Change::State(_) => drop(unwritten.remove(eblock)),
                    Change::Live { .. } => {}
                }
            }
            if !found.lacks(OwnKind::Summary, piece, *lsn) {
                continue;
            }
            match change {
                Change::State(r) => eblocks.replay(r).map_err(bad)?,
                Change::Live { eblock, added, freed, data_end } => {
                    eblocks.replay_live(*eblock, *added, *freed, *data_end).map_err(|what| bad(&what))?;
                }
            }
        }
        if let Some(e) = eblocks.miscounted() {
            return Err(bad(&format!("the summary of {e:?} counts less than is mapped there")));
        }
        eblocks.restore_unwritten(unwritten);
        for (e, d) in eblocks.descriptors() {
            medium.set_generation(e, d.generation);
        }
        // Nothing was written to the spares that the last page names: they are free again, under another generation.
        let spares = &end.position.candidates[1..];
        let is_spare = |e| !clean && spares.iter().any(|c| c.eblock == e && c.wblock == 0);
        for &e in end.eblocks.iter().filter(|e| !is_spare(**e)) {
            eblocks.replay_log(e).map_err(|what| bad(&what))?;
        }
        for old in state.tables().superseded().to_vec() {
            state.eblocks_mut().pin(old);
        }
        self.find_ends(&mut state, found, clean)?;
        state.eblocks_mut().restored(medium, clean);
        Ok(())
    }

    /// Finds up to where open EBLOCKs were programmed, by actions that never were acknowledged too: what is written next
    /// comes after. An EBLOCK that a rejected group names ends: were anything else written where its data should be, a
    /// recovery that comes before the next checkpoint would take that for the data.
    fn find_ends(self, state: &mut CommitState, found: &Found, clean: bool) -> Result<(), FirmwareError> {
        let eblocks = state.eblocks_mut();
        let all = eblocks.descriptors().filter(|(_, d)| matches!(d.state, State::Open { .. }));
        let open: Vec<_> = all.map(|(e, d)| (e, d.data_end)).collect();
        let wblocks = self.geometry().wblocks_per_eblock();
        for (e, data_end) in open {
            let mut end = data_end;
            if at!(EndNotProbed => false, !clean) {
                for wblock in data_end..wblocks {
                    if self.medium().probe(e, wblock)? != WblockState::Empty {
                        end = wblock + 1;
                    }
                }
            }
            if found.rejected.contains(&e) {
                end = wblocks;
            }
            self.medium().set_next_wblock(e, end);
            eblocks.restore_end(e, end);
        }
        Ok(())
    }
}
