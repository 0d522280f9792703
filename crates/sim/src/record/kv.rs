//! The record format of the scenario and the steps of a database of trees.

use lode_engine::DatabaseOptions;

use crate::kv::{KeysAt, KvMix, KvScenario, KvStep, Work};
use crate::words::{words_of_enum, words_of_options, words_of_struct};

words_of_struct!(KvScenario {
    seed,
    geometry,
    protected_bytes,
    drive,
    database,
    mix,
    steps,
    keys,
    keys_written_max,
    value_bytes,
    durability,
    faults,
    fault_every,
});

// A simulation has no clock and no modelled host.
words_of_options!(DatabaseOptions {
    pool_bytes,
    key_check_bytes,
    frame_bytes,
    node_bytes,
    value_page_bytes_min,
    write_back_bytes,
    redo_bytes_max,
    redo_pages_max,
    recent_bytes,
} but { change_bytes, host, merges, now, rows_by_id_max });

words_of_enum!(KvMix { All, Growth, Contention, Values, Pinned, Relaxed, Trees, Full, Cuts });

words_of_enum!(KvStep {
    Begin { slot },
    Read { slot, seed, keys },
    Write { slot, work },
    Scan { slot, seed },
    Savepoint { slot },
    RollbackTo { slot, which },
    Commit { slot },
    Rollback { slot },
    Whole { work },
    Together { works },
    Refused { seed },
    Sync,
    Flush,
    Work { times, bytes, drive },
    SetDurability { mode },
    CreateTree { tree },
    Load { tree, seed, keys, value_bytes_max },
    DropTree { which },
    Check,
    Close { cut },
    Crash(cut),
    CutAfter { operations, cut },
    Arm { kind, after, seed },
    Disarm,
});

words_of_struct!(Work { seed, keys, deletes_percent, reads_percent, value_bytes_max, keys_at });
words_of_enum!(KeysAt { Anywhere, Hot, InARow });
