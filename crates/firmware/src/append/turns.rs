//! Programs jobs, one at a time in each EBLOCK, in the order in which they were provisioned.
//!
//! ```text
//!   job: pages at offsets ─► buffer of 512 KB, about ─► program ─► the next part      while the disk takes the one before
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use lode_base::prefetch::prefetch_bytes;
use lode_base::{EblockId, PageBufMut};
use lode_flash::{FlashError, Medium};
use parking_lot::{Condvar, Mutex};

use crate::space::Job;

/// Bytes that are programmed at a time, about: while the next are put together, a host's disk takes these. Not many
/// fewer, and parted where a host's page cache parts them anyway: what is written at once, it holds in large pieces, which
/// reach the disk sooner and are found sooner.
const PROGRAM_BYTES: u32 = 512 << 10;
/// Most bytes that are programmed at a time, and a WBLOCK where those do not end where the page cache parts them.
const PART_BYTES_MAX: u32 = PROGRAM_BYTES + PROGRAM_BYTES / 2;

/// Bytes of a page that the CPU is asked for while the page before it is copied.
const PREFETCH_BYTES: usize = 4096;

/// Whose turn it is to program an EBLOCK: each job waits until what was provisioned before it is programmed, to its end. The
/// first program of a group of tags writes the whole group: tags that another job wrote beside it would be lost.
#[derive(Default)]
pub(crate) struct Turns {
    /// EBLOCKs that are being programmed.
    programming: Mutex<BTreeSet<EblockId>>,
    moved: Condvar,
}

/// The turn to program an EBLOCK, until it is dropped.
struct Turn<'a>(&'a Turns, EblockId);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.programming.lock().remove(&self.1);
        self.0.moved.notify_all();
    }
}

/// Why something was not programmed.
pub(crate) enum ProgramError {
    /// An earlier failure ended the EBLOCK.
    Ended,
    Flash(FlashError),
}

impl ProgramError {
    /// Whether the medium failed to program.
    pub(super) fn is_program_failure(&self) -> bool {
        matches!(self, Self::Flash(e) if e.is_program_failure())
    }
}

impl Turns {
    /// Waits until WBLOCK `first` of an EBLOCK is next; `None` when it never will be.
    fn wait(&self, medium: &Medium, e: EblockId, first: u32) -> Option<Turn<'_>> {
        let mut programming = self.programming.lock();
        loop {
            match medium.next_wblock(e).cmp(&first) {
                // A WBLOCK counts as programmed from when that begins.
                std::cmp::Ordering::Equal if programming.insert(e) => return Some(Turn(self, e)),
                std::cmp::Ordering::Less | std::cmp::Ordering::Equal => self.moved.wait(&mut programming),
                std::cmp::Ordering::Greater => return None,
            }
        }
    }

    /// An EBLOCK was programmed, or ended.
    pub(crate) fn moved(&self) {
        drop(self.programming.lock());
        self.moved.notify_all();
    }

    /// Programs a job when its turn comes.
    pub(crate) fn program(&self, medium: &Medium, job: &Job, items: &[&[u8]]) -> Result<(), ProgramError> {
        let (e, first) = (job.eblock(), job.first());
        let Some(turn) = self.wait(medium, e, first) else { return Err(ProgramError::Ended) };
        let programmed = match job {
            Job::Metadata { bytes, .. } => medium.program(e, first, bytes),
            Job::Data { end, users: true, .. } if !medium.keeps_user_data() => parts(medium, e, first..*end)
                .try_for_each(|part| medium.program_users(e, part.start, part.end - part.start)),
            Job::Data { end, items: range, offsets, .. } => {
                program_pages(medium, e, first..*end, &items[range.clone()], offsets)
            }
        };
        drop(turn);
        programmed.map_err(ProgramError::Flash)
    }
}

/// WBLOCKs of an EBLOCK in the parts in which they are programmed.
fn parts(medium: &Medium, e: EblockId, wblocks: Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let wblock = medium.geometry().wblock_bytes();
    let (mut to, end) = (wblocks.start * wblock, wblocks.end * wblock);
    std::iter::from_fn(move || {
        let from = to;
        // A small rest is no program of its own.
        to = match end - from <= PART_BYTES_MAX {
            true => end,
            false => medium.part_from(e, from + PROGRAM_BYTES / 2).next_multiple_of(wblock).min(end),
        };
        (from < end).then_some(from / wblock..to / wblock)
    })
}

fn program_pages(
    medium: &Medium,
    e: EblockId,
    wblocks: Range<u32>,
    items: &[&[u8]],
    offsets: &[u32],
) -> Result<(), FlashError> {
    let wblock = medium.geometry().wblock_bytes();
    let bytes = (wblocks.end - wblocks.start) * wblock;
    // One buffer for all parts, and of one length for all that have parts: it serves again.
    let mut buf = PageBufMut::scratch(bytes.min(PART_BYTES_MAX + wblock) as usize);
    let mut first = 0;
    for part in parts(medium, e, wblocks) {
        let (from, to) = (part.start * wblock, part.end * wblock);
        let out = &mut buf[..(to - from) as usize];
        let mut filled = 0;
        for (i, (&at, data)) in offsets.iter().zip(items).enumerate().skip(first) {
            let data_end = at + data.len() as u32;
            let (a, b) = (at.max(from), data_end.min(to));
            if a < b {
                let (a, b) = ((a - from) as usize, (b - from) as usize);
                out[filled..a].fill(0);
                let skipped = (from.max(at) - at) as usize;
                if let Some(next) = items.get(i + 1) {
                    prefetch_bytes(&next[..next.len().min(PREFETCH_BYTES)]);
                }
                out[a..b].copy_from_slice(&data[skipped..][..b - a]);
                filled = b;
            }
            if data_end > to {
                break;
            }
            first = i + 1;
        }
        out[filled..].fill(0);
        medium.program(e, part.start, out)?;
    }
    // For the next program on this thread.
    drop(buf.freeze());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use lode_base::{Geometry, PageBuf};

    use super::*;

    #[test]
    fn what_a_thread_programs_behind_the_first_of_a_group_keeps_its_tags() {
        // Found by the test of broken connections, once in some hundred runs: a page that was acknowledged could not be read. Two
        // threads programmed the first WBLOCKs of a group at once, and the tags of the second were overwritten with none.
        const ROUNDS: u32 = 300;
        // The first takes long.
        const WBLOCKS: [u32; 2] = [200, 1];
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 8).unwrap();
        let (m, turns, barrier) = (Medium::memory(g), Turns::default(), Barrier::new(2));
        let e = EblockId::new(1);
        std::thread::scope(|s| {
            for (thread, first) in [0, WBLOCKS[0]].into_iter().enumerate() {
                let (m, turns, barrier) = (&m, &turns, &barrier);
                s.spawn(move || {
                    let data = PageBuf::copy_from(&vec![thread as u8 + 1; WBLOCKS[thread] as usize * 4096]);
                    let mut lost = 0;
                    for round in 0..ROUNDS {
                        if first == 0 {
                            m.erase(e).unwrap();
                        }
                        barrier.wait();
                        let job = Job::Metadata { eblock: e, first, bytes: data.clone() };
                        // The second comes at all moments of the first.
                        (0..thread as u32 * 10 * round).for_each(|_| std::hint::spin_loop());
                        let done = turns.program(m, &job, &[]);
                        barrier.wait();
                        let there = |at: u32| {
                            let at = g.ppa(e, (first + at) * 4096).unwrap();
                            m.read(at, 4096).is_ok_and(|b| b[..] == data[..4096])
                        };
                        lost += u32::from(done.is_err() || !(0..WBLOCKS[thread]).all(there));
                        barrier.wait();
                    }
                    assert_eq!(lost, 0, "of {ROUNDS} from WBLOCK {first} on");
                });
            }
        });
    }
}
