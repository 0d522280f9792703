//! Recovery: the state after a power cut, and the time until it is available.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use std::collections::HashMap;

use super::pages::{Page, pool};
use super::rig::{Rig, Setup, System};
use super::shared::row;
use super::table2::SEEDS;
use super::workload::Writes;
use crate::BenchError;
use crate::drive_host::DriveError;
use crate::paper::figure::Figure;
use crate::paper::row::{Row, X};
use crate::paper::run::Run;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "recovery",
    about: "Section VIII: the state after a power cut, and the time of recovery",
    claim: "After a power cut, every acknowledged buffer is intact, byte for byte, and the buffer that was under way is \
            stored as a whole or not at all. The paper describes recovery and publishes no figure.",
    setup: "The platform in modelled time. Buffers of TPC-C pages are written after a checkpoint of everything, then the power \
            is cut within a buffer. The time counts until the host can continue: the drive's own two passes, and above \
            blocks the store's replay.",
    expected: "Nothing is lost and nothing is torn. With batches the time grows with the log. Above blocks the drive has many \
               more commits to replay, and the store reads everything that it wrote since its checkpoint.",
    differs: "",
    sizes: &[],
    rows,
    plot: None,
};

const SYSTEMS: [System; 4] =
    [System::BatchVariable, System::BatchFixed, System::BlockPipelined, System::Block];
const PAGES: u64 = 8192;
const BUFFER: usize = 1 << 20;
/// The numbers of buffers between the checkpoint and the cut.
const BUFFERS: [u64; 3] = [8, 32, 96];
const BUFFERS_QUICK: [u64; 1] = [4];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let pool: Vec<Page> = pool(SEEDS.0);
    let mut rows = Vec::new();
    let buffers: &[u64] = if run.quick() { &BUFFERS_QUICK } else { &BUFFERS };
    for system in SYSTEMS {
        for &n in buffers {
            run.go_on()?;
            rows.extend(one(run, &pool, system, n)?);
        }
    }
    Ok(rows)
}

fn one(run: &Run<'_>, pool: &[Page], system: System, buffers: u64) -> Result<Vec<Row>, DriveError> {
    let setup = Setup {
        profile: run.profile().clone(),
        modelled: true,
        eblock_count: 128,
        eblock_bytes: run.profile().geometry.eblock_bytes(),
        pages: PAGES,
        segment_blocks: 1020,
        // The only checkpoint is the one before the buffers.
        store_cleans: false,
        power: true,
        loopback: false,
    };
    let whole = system.whole_pages();
    let mut rig = Rig::new(system, &setup)?;
    let mut writes = Writes::new(pool, PAGES, SEEDS.1);
    let mut there: HashMap<u64, &Page> = HashMap::new();
    for n in 0..4 + buffers {
        if n == 4 {
            rig.checkpoint()?;
        }
        let buffer = writes.buffer(BUFFER, whole);
        rig.write(&buffer)?;
        there.extend(buffer);
    }
    // The cut comes within the next buffer.
    rig.cut_after(3 + buffers % 7);
    let last = writes.buffer(BUFFER, whole);
    // The host does not get an answer after the power cut.
    let acknowledged = rig.write(&last).is_ok() && !rig.is_cut();
    let found = rig.recover(buffers)?;
    // The last buffer must be stored as a whole or not at all.
    let same = |rig: &mut Rig, n: u64, p: &Page| -> Result<bool, DriveError> {
        let expected = if whole { &p.whole } else { &p.packed };
        match rig.read(n) {
            Ok(page) => Ok(page[..] == expected[..]),
            Err(DriveError::Command(lode_command::CommandError::Unmapped(_))) => Ok(false),
            Err(e) => Err(e),
        }
    };
    let mut of_last = 0;
    for (n, p) in &last {
        of_last += u64::from(same(&mut rig, *n, p)?);
    }
    let applied = of_last == last.len() as u64;
    if applied {
        there.extend(last.iter().copied());
    }
    let (mut lost, mut torn) = (0u64, 0u64);
    for (n, p) in &there {
        lost += u64::from(!same(&mut rig, *n, p)?);
    }
    if !applied {
        // Pages whose content did not change do not count.
        let new = |(n, p): &&(u64, &Page)| there.get(n).is_none_or(|old| !std::ptr::eq(*old, *p));
        for (n, p) in last.iter().filter(new) {
            torn += u64::from(same(&mut rig, *n, p)?);
        }
        lost += if acknowledged { last.len() as u64 } else { 0 };
    }
    let at = X::Number(buffers as f64);
    let note = format!(
        "{} records of the drive's log, {} units of the store's; {} KB read from the medium",
        found.log_records,
        found.units,
        found.media_bytes_read >> 10
    );
    let ms = |d: lode_base::VirtualDuration| d.as_secs_f64() * 1e3;
    let row = |metric: &str, unit, ours| row(system.name(), at.clone(), metric, unit, ours, &note);
    Ok(vec![
        row("pages lost that were acknowledged", "pages", lost as f64),
        row("pages of a torn buffer", "pages", torn as f64),
        row("until the drive is there", "ms", ms(found.drive)),
        row("until the host can go on", "ms", ms(found.drive + found.store)),
    ])
}
