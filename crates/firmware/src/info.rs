//! What a drive says of itself.

use crate::DriveInfo;
use crate::core::Core;
use crate::env::Count;
use crate::space::spare_eblocks;

/// What the drive holds and did.
pub(crate) fn info(core: &Core) -> DriveInfo {
    let (env, pages, state) = (core.env(), core.pages(), core.state());
    let (medium, eblocks) = (env.medium(), state.eblocks());
    let (usage, budget) = (eblocks.usage(), state.budget(env, pages));
    let spares = spare_eblocks(env.options(), env.geometry());
    DriveInfo {
        geometry: *env.geometry(),
        uuid: medium.uuid(),
        open_epoch: medium.open_epoch(),
        commit: pages.versions().newest(),
        extents: pages.extents().owned(),
        live_bytes: eblocks.live_bytes(),
        pinned_bytes: eblocks.pinned_bytes(),
        inlined_bytes: pages.inlined().bytes(),
        free_bytes: budget.free_bytes(),
        usable_bytes: budget.usable_bytes(),
        eblocks_used: usage.used,
        eblocks_free: eblocks.free_eblocks(),
        eblocks_retired: eblocks.retired(),
        spares: spares.saturating_sub(eblocks.retired()),
        erase_counts: usage.erase_counts,
        log_bytes: state.log_bytes(),
        map_bytes: pages.map().bytes(),
        image_bytes: medium.image_bytes(),
        media_bytes_read: medium.media_bytes_read(),
        media_bytes_written: medium.media_bytes_written(),
        data_bytes: usage.data_bytes,
        user_bytes_written: env.counted(Count::UserBytes),
        gc_bytes_moved: env.counted(Count::MovedBytes),
        gc_victims: env.counted(Count::Victims),
        program_failures: env.counted(Count::ProgramFailures),
        log_groups: env.counted(Count::Groups),
        log_actions: env.counted(Count::Actions),
        checkpoints: env.counted(Count::Checkpoints),
        views: pages.versions().open_count(),
        sessions: state.sessions().count(),
        read_only: env.why_read_only().map(str::to_owned),
        recovery: core.recovery(),
    }
}
