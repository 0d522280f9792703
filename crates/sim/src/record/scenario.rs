//! The record format of a drive's scenario and steps.

use lode_firmware::{DriveOptions, GcPolicy, ScanPlacement};

use crate::scenario::{Mix, Scenario};
use crate::step::{AlignPlan, BatchPlan, Cut, INDEXED_COLUMNS, RulePlan, SessionPlan, Spread, Step};
use crate::words::{Line, Words, Writer, unknown, words_of_enum, words_of_options, words_of_struct};

words_of_struct!(Scenario {
    seed,
    geometry,
    protected_bytes,
    options,
    mix,
    steps,
    extents_max,
    slots,
    page_bytes,
    faults,
    fault_every,
    forced_every,
});

words_of_options!(DriveOptions {
    map_cache_bytes,
    index_cache_bytes,
    tag_cache_bytes,
    checkpoint_log_bytes,
    batch_bytes_max,
    batch_pages_max,
    page_bytes_max,
    views_max,
    view_commits_max,
    queue_depth_max,
    erased_kept,
    rest_steps,
    in_flight_max,
    sessions_max,
    inline_bytes_max,
    inline_buffer_bytes,
    log_copies,
    rules_bytes_max,
    registered_bytes_max,
    gc_policy,
    over_provision_percent,
    gc_free_eblocks_max,
    space_percent_max,
    spare_eblocks,
    scan_placement,
} but {});

impl Words for GcPolicy {
    fn put(&self, w: &mut Writer) {
        w.word(self.name());
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        let word = line.next()?;
        Self::named(word).map_or_else(|| unknown(word), Ok)
    }
}

words_of_enum!(ScanPlacement { ScanUnit, Core });
words_of_enum!(Mix { All, Commits, Bulk, Tables, Full, Views, Cuts });

words_of_enum!(Step {
    Allocate { rows, count },
    Write { batches, reads },
    Refused { seed },
    Read { seed, pages },
    OpenView,
    CloseView { which },
    Scan { seed },
    BuildIndex,
    ReadIndex { seed },
    Checkpoint,
    Flush,
    Work { times, bytes },
    Fill { seed, percent, unforced },
    Overwrite { seed, batches, hot, unforced },
    Check,
    Close { cut },
    Crash(cut),
    CutAfter { operations, cut },
    NoSpaceAfter { programs },
    Arm { kind, after, seed },
    Flip { kind, seed },
    Scrub,
    OpenSession,
    CloseSession { which },
    ResumeSession { which },
    Disarm,
    CloseDamaged { kind, seed, cut },
});

words_of_struct!(Cut { seed, again, fault });
words_of_struct!(BatchPlan {
    seed,
    writes,
    bytes,
    trims,
    releases,
    spread,
    align,
    rule,
    pin,
    session,
    unforced,
});
words_of_struct!(SessionPlan { which, ahead });
words_of_enum!(Spread { Uniform, Hot, New });
words_of_enum!(AlignPlan { Cells, Units, Mixed });

impl Words for RulePlan {
    fn put(&self, w: &mut Writer) {
        match self {
            Self::Drop => w.word("Drop"),
            Self::Register(columns) => {
                w.word("Register");
                columns.to_vec().put(w);
            }
            Self::RegisterLong(columns) => {
                w.word("RegisterLong");
                columns.to_vec().put(w);
            }
        }
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        match line.next()? {
            "Drop" => Ok(Self::Drop),
            "Register" => indexed_columns(line).map(Self::Register),
            "RegisterLong" => indexed_columns(line).map(Self::RegisterLong),
            word => unknown(word),
        }
    }
}

fn indexed_columns(line: &mut Line<'_>) -> Result<&'static [u16], String> {
    let columns = Vec::<u16>::take(line)?;
    let known = INDEXED_COLUMNS.iter().find(|c| **c == columns);
    known.copied().ok_or_else(|| format!("columns {columns:?} are not indexed"))
}
