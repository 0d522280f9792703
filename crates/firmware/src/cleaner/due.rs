//! When EBLOCKs are to be emptied.
//!
//! Source: ELEOS §IV-A1.

use crate::space::{Budget, State};

/// Share of free EBLOCKs below which GC begins, in percent.
const FREE_PERCENT: u64 = 10;

/// Whether EBLOCKs are to be emptied: few are free, or much is garbage, or one failed and holds something.
pub(crate) fn gc_due(budget: &Budget<'_>) -> bool {
    let (eblocks, g) = (budget.eblocks, budget.eblocks.geometry());
    let eblock = u64::from(g.eblock_bytes());
    // What only reads under way still need is free already.
    let free = u64::from(eblocks.free_eblocks() + eblocks.released());
    let reserve = budget.reserve_eblocks();
    let floor = free_eblocks_min(budget, reserve);
    let held = eblocks.live_bytes() + eblocks.pinned_bytes();
    let in_use = u64::from(g.eblock_count()).saturating_sub(free) * eblock;
    let open = eblock * u64::from(reserve + 8 * g.channels());
    let garbage = in_use.saturating_sub(open) > held / 100 * u64::from(budget.options.space_percent_max);
    let failed = eblocks.retired() > 0
        && eblocks.descriptors().any(|(_, d)| matches!(d.state, State::Failed { .. }) && d.live > 0);
    free < floor || garbage || failed
}

/// Free EBLOCKs below which GC is due, where batches leave `reserve` alone.
pub(super) fn free_eblocks_min(budget: &Budget<'_>, reserve: u32) -> u64 {
    let few = u64::from(budget.eblocks.geometry().eblock_count()) * FREE_PERCENT / 100;
    u64::from(reserve) + few.min(u64::from(budget.options.gc_free_eblocks_max))
}

#[cfg(test)]
mod tests {
    use lode_base::{EblockId, Geometry};
    use lode_flash::Medium;

    use super::*;
    use crate::DriveOptions;
    use crate::commit::CommitState;
    use crate::core::Core;
    use crate::stream::Stream;

    const EBLOCK_BYTES: u32 = 1 << 20;

    fn is_due(core: &Core, w: &CommitState) -> bool {
        gc_due(&w.budget(core.env(), core.pages()))
    }

    fn short_log() -> DriveOptions {
        DriveOptions { checkpoint_log_bytes: 1 << 20, ..DriveOptions::default() }
    }

    /// A drive that holds nothing yet.
    fn core_of(channels: u32, eblocks: u32, options: DriveOptions) -> Core {
        let g = Geometry::new(channels, 1, 1, 4096, 4096, EBLOCK_BYTES, eblocks).unwrap();
        crate::recovery::format(Medium::memory(g), options).unwrap()
    }

    /// Takes free EBLOCKs, of which so many bytes live.
    fn take(core: &Core, w: &mut CommitState, live: u32) -> EblockId {
        let (e, _) = w.eblocks_mut().take_for_log(core.env().medium()).unwrap().unwrap();
        w.eblocks_mut().pretend_used(e, live);
        e
    }

    #[test]
    fn gc_begins_when_little_is_free() {
        for (max, spare) in [(3, 3), (1000, 10)] {
            let options = DriveOptions { gc_free_eblocks_max: max, ..short_log() };
            let core = core_of(1, 100, options);
            let mut w = core.state();
            assert!(!is_due(&core, &w));
            while w.eblocks().free_eblocks() > 0 {
                let floor = w.budget(core.env(), core.pages()).reserve_eblocks() + spare;
                assert_eq!(is_due(&core, &w), w.eblocks().free_eblocks() < floor, "{max}");
                take(&core, &mut w, EBLOCK_BYTES);
            }
            assert!(is_due(&core, &w));
        }
    }

    #[test]
    fn gc_begins_when_much_is_garbage() {
        for (channels, percent) in [(1, 100), (1, 150), (2, 150)] {
            let options = DriveOptions { space_percent_max: percent, ..short_log() };
            let core = core_of(channels, 200, options);
            let mut w = core.state();
            let beyond = |w: &CommitState| {
                let open =
                    u64::from(w.budget(core.env(), core.pages()).reserve_eblocks()) + 8 * u64::from(channels);
                u64::from(200 - w.eblocks().free_eblocks()).saturating_sub(open)
            };
            let held = |w: &CommitState| w.eblocks().live_bytes();
            // 75 EBLOCKs beyond those that are open: 75 of them full, or 50, are just enough.
            let mut all = Vec::new();
            while beyond(&w) < 75 {
                assert!(!is_due(&core, &w), "{} EBLOCKs", all.len());
                all.push(take(&core, &mut w, EBLOCK_BYTES));
            }
            let enough = 7500 * u64::from(EBLOCK_BYTES) / u64::from(percent);
            for e in all {
                let too_much = held(&w).saturating_sub(enough).min(u64::from(EBLOCK_BYTES));
                w.eblocks_mut().sub_live(e, too_much as u32);
            }
            assert_eq!((held(&w), is_due(&core, &w)), (enough, false));
            let last = w.eblocks().descriptors().find(|(_, d)| d.live > 1000).unwrap().0;
            w.eblocks_mut().sub_live(last, 640);
            assert!(is_due(&core, &w));
        }
    }

    #[test]
    fn gc_begins_when_an_eblock_failed_that_holds_something() {
        let core = core_of(1, 100, short_log());
        let mut w = core.state();
        let [e, bad] = [64, 0].map(|live| take(&core, &mut w, live));
        assert!(!is_due(&core, &w));
        w.eblocks_mut().pretend(bad, State::Retired);
        assert!(!is_due(&core, &w), "another one is bad, and holds nothing");
        w.eblocks_mut().pretend(e, State::Failed { stream: Stream::UserHot });
        assert!(is_due(&core, &w));
        w.eblocks_mut().sub_live(e, 64);
        assert!(!is_due(&core, &w));
    }

    #[test]
    fn what_reads_still_hold_is_room_to_gc() {
        let core = core_of(1, 40, DriveOptions::default());
        let _reading = core.env().epochs().enter();
        let w = &mut *core.state();
        let mut taken = Vec::new();
        while !is_due(&core, w) {
            taken.extend(w.eblocks_mut().take_for_log(core.env().medium()).unwrap());
        }
        let (e, _) = taken.pop().unwrap();
        w.eblocks_mut().release(core.env().epochs(), e, 0);
        assert!(w.eblocks().released() == 1 && !is_due(&core, w));
    }
}
