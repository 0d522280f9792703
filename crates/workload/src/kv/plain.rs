//! A plain file to which batches are appended. It has no index and no atomic writes, so its rate is the limit that
//! the file system and the disk set.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use super::contest::{Contestant, Done};
use super::pages::{BATCH_PAGES, Order, PageBatches, SOURCE_BYTES, noise};
use super::race::Entry;
use super::{Case, Sizes};
use crate::measure::Causes;
use crate::store::{StoreError, StoreResult};

struct Plain {
    file: File,
    at: u64,
    /// The end of the file, once it was loaded. A batch that would pass it is written at the beginning instead.
    end: Option<u64>,
    source: Vec<u8>,
    pages: PageBatches,
    sizes: Sizes,
}

/// The plain file, for the cases that write pages.
pub fn plain(sizes: Sizes, seed: u64) -> Entry {
    let make = move |dir: &Path| {
        let options = File::options().read(true).write(true).create_new(true).open(dir.join("plain"));
        let file = options.map_err(StoreError::failed)?;
        let (source, pages) = (noise(SOURCE_BYTES, seed), PageBatches::new(sizes.pages, seed));
        Ok(Box::new(Plain { file, at: 0, end: None, source, pages, sizes }) as Box<dyn Contestant>)
    };
    Entry {
        name: "plain file".into(),
        settings: "batches appended; once the file has its full length, they overwrite it; fdatasync".into(),
        make: Box::new(make),
    }
}

impl Plain {
    fn batch(&mut self, done: &mut Done) -> StoreResult {
        let begun = Instant::now();
        let batch = self.pages.next(Order::InTurn);
        let bytes: usize = batch.iter().map(|(_, at)| at.len()).sum();
        done.amount += batch.len() as u64;
        if self.end.is_some_and(|end| self.at + bytes as u64 > end) {
            self.at = 0;
        }
        self.file.write_all_at(&self.source[..bytes], self.at).map_err(StoreError::failed)?;
        self.file.sync_data().map_err(StoreError::failed)?;
        self.at += bytes as u64;
        done.bytes += bytes as u64;
        done.latencies.record(begun.elapsed());
        Ok(())
    }
}

impl Contestant for Plain {
    fn takes(&self, case: Case) -> bool {
        case == Case::PagesInTurn
    }

    fn load(&mut self, _: Case) -> StoreResult {
        let mut done = Done::default();
        (0..self.sizes.pages.div_ceil(BATCH_PAGES)).try_for_each(|_| self.batch(&mut done))?;
        self.end = Some(self.at);
        Ok(())
    }

    fn slice(&mut self, _: Case, end: Instant, done: &mut Done) -> StoreResult {
        while Instant::now() < end {
            self.batch(done)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> StoreResult {
        Ok(())
    }

    fn causes(&self) -> Option<Causes> {
        None
    }
}
