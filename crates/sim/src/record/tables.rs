//! The record format of the scenario and the steps of a database of tables.

use crate::tables::{TablesMix, TablesScenario, TablesStep, TablesWork, What};
use crate::words::{words_of_enum, words_of_struct};

words_of_struct!(TablesScenario {
    seed,
    geometry,
    protected_bytes,
    drive,
    database,
    rows_by_id_max,
    mix,
    steps,
    keys,
    text_bytes,
    durability,
    faults,
    fault_every,
});

words_of_enum!(TablesMix { All, Merges, Old, Relaxed, Definitions, Cuts });

words_of_enum!(TablesStep {
    Statement { slot, work },
    Read { slot, seed },
    Savepoint { slot },
    RollbackTo { slot, which },
    Commit { slot },
    Rollback { slot },
    Whole { works },
    Churn { seed, times },
    Merge { table },
    Hold,
    Look { which, seed },
    LetGo { which },
    Sync,
    Flush,
    Work { times, bytes, drive },
    ClearPool,
    SetDurability { mode },
    CreateTable { table, seed, rows },
    DropTable { table },
    Index { table, column },
    Check,
    Close { cut },
    Crash(cut),
    CutAfter { operations, cut },
    Arm { kind, after, seed },
    Disarm,
});

words_of_struct!(TablesWork { seed, what, rows });
words_of_enum!(What { Insert, Load, Update, Rekey, Delete, Alter });
