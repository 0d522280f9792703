//! Page writes as TPC-C's running phase makes them, a write buffer at a time.
//!
//! ```text
//!   pages at random, none twice in a buffer ─► buffer of a given size ─► system
//! ```
//!
//! The size of a buffer counts pages as the system stores them: 1 MB holds 256 pages of 4 KB, or some 530 compressed
//! ones.

use super::pages::{PAGE_BYTES, Page};
use super::rig::Rig;
use crate::drive_host::DriveError;
use crate::random::Random;

/// An endless sequence of writes.
pub struct Writes<'a> {
    pool: &'a [Page],
    random: Random,
    pages: u64,
    /// The last buffer that held each page, so that no buffer holds a page twice.
    last: Vec<u32>,
    buffer: u32,
}

impl<'a> Writes<'a> {
    /// Writes of pages 0 to `pages` - 1.
    pub fn new(pool: &'a [Page], pages: u64, seed: u64) -> Self {
        Self { pool, random: Random(seed), pages, last: vec![0; pages as usize], buffer: 0 }
    }

    /// The next buffer of `bytes`. With `whole`, its pages have 4 KB, otherwise their own sizes.
    pub fn buffer(&mut self, bytes: usize, whole: bool) -> Vec<(u64, &'a Page)> {
        self.buffer += 1;
        let (mut pages, mut taken) = (Vec::new(), 0);
        loop {
            let n = self.random.below(self.pages);
            let page = &self.pool[self.random.below(self.pool.len() as u64) as usize];
            let size = if whole { PAGE_BYTES } else { page.packed.len().next_multiple_of(64) };
            if taken + size > bytes && !pages.is_empty() {
                return pages;
            }
            if self.last[n as usize] == self.buffer {
                continue;
            }
            self.last[n as usize] = self.buffer;
            taken += size;
            pages.push((n, page));
        }
    }
}

/// Writes `pages` pages or a few more, in buffers of `bytes`. Returns their number and the sum of their own sizes.
///
/// # Errors
/// When the drive fails.
pub fn write(
    rig: &mut Rig,
    writes: &mut Writes<'_>,
    bytes: usize,
    whole: bool,
    pages: u64,
) -> Result<(u64, u64), DriveError> {
    let (mut done, mut stored) = (0, 0);
    while done < pages {
        let buffer = writes.buffer(bytes, whole);
        rig.write(&buffer)?;
        done += buffer.len() as u64;
        let size = |p: &Page| if whole { PAGE_BYTES } else { p.packed.len() };
        stored += buffer.iter().map(|(_, p)| size(p) as u64).sum::<u64>();
    }
    Ok((done, stored))
}
