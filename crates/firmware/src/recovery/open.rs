//! Makes a new drive on a fresh medium, and finds the drive on any other.

use lode_base::{EblockId, Geometry};
use lode_flash::Medium;

use super::context::{Recovery, damaged};
use crate::checkpoint::{BadRecord, CheckpointRecord, LastCheckpoint, VERSION};
use crate::core::Core;
use crate::log::{Candidate, LogPosition};
use crate::space::{EBLOCK_BYTES_MIN, EBLOCKS_MIN, State};
use crate::{DriveOptions, FirmwareError, RecoveryReport};

/// A fresh image is at most this long when its making was cut short, in bytes.
const UNFINISHED_IMAGE_BYTES: u64 = 4 << 20;

/// Refuses a medium that is too small for a drive.
pub(crate) fn check_geometry(g: &Geometry) -> Result<(), FirmwareError> {
    if g.eblock_count() < EBLOCKS_MIN || g.eblock_bytes() < EBLOCK_BYTES_MIN {
        return Err(FirmwareError::TooSmall {
            got: g.eblock_count(),
            needed: EBLOCKS_MIN,
            got_bytes: g.eblock_bytes(),
            needed_bytes: EBLOCK_BYTES_MIN,
        });
    }
    Ok(())
}

/// A new drive on a fresh medium.
///
/// # Panics
/// When the medium is not fresh.
pub(crate) fn format(medium: Medium, options: DriveOptions) -> Result<Core, FirmwareError> {
    check_geometry(medium.geometry())?;
    assert!(medium.is_fresh(), "only a fresh medium is formatted");
    let eblock = EblockId::new(0);
    let (generation, wblock) = (medium.generation(eblock), medium.geometry().wblocks_per_eblock());
    let nowhere = Candidate { eblock, generation, wblock };
    let core = Core::new(medium, options, LogPosition { lsn: 1, epoch: 0, candidates: [nowhere; 3] });
    Recovery::new(&core).begin_log()?;
    core.upkeep().checkpoint(false)?;
    core.state().recovered();
    Ok(core)
}

/// The drive on a medium that was opened. One that was not closed gets a checkpoint; if there is no space for it, the drive
/// is read-only.
pub(crate) fn recover(medium: Medium, options: DriveOptions) -> Result<Core, FirmwareError> {
    let Some((_, bytes)) = medium.newest_checkpoint_record()? else {
        // Nothing was ever acknowledged on a drive whose making was cut short.
        if medium.is_fresh() && medium.image_bytes() <= UNFINISHED_IMAGE_BYTES {
            return format(medium, options);
        }
        return Err(FirmwareError::NoCheckpoint { path: medium.path().into() });
    };
    check_geometry(medium.geometry())?;
    let record = CheckpointRecord::decode(&bytes, medium.geometry()).map_err(|e| match e {
        BadRecord::Newer(version) => FirmwareError::NewerVersion {
            path: medium.path().into(),
            structure: "the checkpoint record",
            version,
            known: VERSION,
        },
        BadRecord::Malformed(m) => damaged(medium.path(), "checkpoint record", &m),
    })?;
    let _span = tracing::info_span!("recovery", image = %medium.path().display()).entered();
    let core = from_record(medium, options, &record)?;
    tracing::info!(report = ?core.recovery());
    Ok(core)
}

/// The drive that a checkpoint record leads to.
pub(super) fn from_record(
    medium: Medium,
    options: DriveOptions,
    record: &CheckpointRecord,
) -> Result<Core, FirmwareError> {
    let mut core = Core::new(medium, options, record.log);
    let report = Recovery::new(&core).run(record)?;
    core.recovered(report);
    Ok(core)
}

impl Recovery<'_> {
    fn run(self, record: &CheckpointRecord) -> Result<RecoveryReport, FirmwareError> {
        let (tables, generations) = self.read_root(record)?;
        generations.into_iter().for_each(|(e, generation)| self.medium().set_generation(e, generation));
        {
            let mut state = self.state();
            state.restore(tables, record.commit);
            state.eblocks_mut().set_clock(record.clock);
        }
        let (found, end) = self.pass_1(record)?;
        // What the power-protected buffer has and the log should have is put into a log anew.
        let clean = record.clean
            && self.medium().open_epoch() == record.epoch + 1
            && end.lsn == record.end
            && found.pending.is_none();
        self.load_tables(&found)?;
        self.load_space(record, &found, &end, clean)?;
        let pages = self.pass_2(record, &found, &end)?;
        let report = RecoveryReport {
            clean,
            log_pages: end.pages,
            log_groups: found.groups,
            log_records: found.records,
            pages,
            repaired: end.repaired,
            log_groups_rejected: u64::from(!found.rejected.is_empty()),
            last_kinds: found.last_kinds,
        };
        let commit = {
            let mut state = self.state();
            state.replayed(self.pages().rules().get(), end.lsn);
            state.commit()
        };
        self.pages().versions().restore(commit);
        self.pages().extents_mut().restored();
        if clean {
            let (log, commit, clock) = (record.log, record.commit, record.clock);
            self.core().checkpointer().checkpoints().set_last(LastCheckpoint { log, commit, clock });
            for c in end.position.candidates {
                self.medium().set_generation(c.eblock, c.generation);
                self.medium().set_next_wblock(c.eblock, c.wblock);
            }
            self.committer().resume_log(&end);
            let mut state = self.state();
            state.recovered();
            state.check_spares(self.env());
            return Ok(report);
        }
        self.committer().reclaim()?;
        match self.begin_anew() {
            Err(e) if e.is_no_space() || !self.env().is_writable() => self.env().fatal(&e),
            begun => begun?,
        }
        Ok(report)
    }

    /// Begins a new log, and writes a checkpoint from which the next recovery begins.
    fn begin_anew(self) -> Result<(), FirmwareError> {
        let old_log: Vec<EblockId> = {
            let state = self.state();
            state.eblocks().descriptors().filter(|(_, d)| d.state == State::Log).map(|(e, _)| e).collect()
        };
        let made = self.begin_log().and_then(|()| self.log_changes());
        let made = made.and_then(|()| self.core().upkeep().checkpoint(false));
        self.state().recovered();
        made?;
        // The EBLOCKs of the log before are not needed once the checkpoint is durable.
        let mut state = self.state();
        old_log.iter().for_each(|&e| state.eblocks_mut().release(self.env().epochs(), e, 0));
        drop(state);
        self.committer().reclaim().map(drop)
    }

    /// Begins a log in EBLOCKs of its own, behind all that is installed.
    fn begin_log(self) -> Result<(), FirmwareError> {
        let full = || FirmwareError::Full { path: self.medium().path().into(), what: "the log" };
        let mut state = self.state();
        let mut take = || state.eblocks_mut().take_for_log(self.medium())?.ok_or_else(full);
        let eblocks = [take()?, take()?, take()?];
        let position = LogPosition::start(state.installed_lsn() + 1, eblocks);
        drop(state);
        self.committer().begin_log(position);
        Ok(())
    }

    /// Logs what recovery did to EBLOCKs, before any table that has it is written.
    fn log_changes(self) -> Result<(), FirmwareError> {
        self.committer().log_nothing(self.state())
    }
}
