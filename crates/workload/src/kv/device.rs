//! Writes page batches directly to a drive, without an engine and keys. A page's number is its LPID.

use std::sync::Arc;
use std::time::Instant;

use lode_base::{EXTENT_PAGES, ExtentId, OwnerId, PageBuf, VirtualTime};
use lode_command::{Align, Batch, Command, Device, Outcome, PageWrite, Queue, Reply, Until};

use super::contest::{Contestant, Done};
use super::pages::{BATCH_PAGES, Order, PageBatches, SOURCE_BYTES, noise};
use super::{Case, Sizes};
use crate::measure::Causes;
use crate::store::{StoreError, StoreResult};
use crate::upkeep::Upkeep;

/// A drive in the cases that write pages.
pub struct DeviceContest<U> {
    queue: Box<dyn Queue>,
    upkeep: U,
    sizes: Sizes,
    source: PageBuf,
    pages: PageBatches,
    extents: Vec<ExtentId>,
}

impl<U: Upkeep> DeviceContest<U> {
    /// A contest with an empty drive.
    ///
    /// # Errors
    /// If the drive cannot be used.
    pub fn new(device: &Arc<dyn Device>, upkeep: U, sizes: Sizes, seed: u64) -> StoreResult<Self> {
        let queue = device.open_queue(1).map_err(StoreError::failed)?;
        let pages = PageBatches::new(sizes.pages, seed);
        let source = PageBuf::copy_from(&noise(SOURCE_BYTES, seed));
        Ok(Self { queue, upkeep, sizes, source, pages, extents: Vec::new() })
    }

    fn run(&mut self, c: Command) -> StoreResult<Reply> {
        self.queue.submit(VirtualTime::ZERO, c).expect("nothing else is under way");
        let mut out = Vec::new();
        while out.is_empty() {
            self.queue.complete(VirtualTime::ZERO, Until::One, &mut out).map_err(StoreError::failed)?;
        }
        match out.remove(0).outcome {
            Outcome::Done(reply) => reply.map_err(StoreError::failed),
            Outcome::Unit(_) => unreachable!("no task was submitted"),
        }
    }

    /// Allocates the extents for all pages, once.
    fn allocate(&mut self) -> StoreResult {
        let count = self.sizes.pages.div_ceil(EXTENT_PAGES as u64) as u32;
        match self.run(Command::AllocateExtents { owner: OwnerId::new(1), count })? {
            Reply::Extents(extents) => self.extents = extents,
            other => unreachable!("{other:?} answers no allocation"),
        }
        Ok(())
    }

    fn page_batch(&mut self, order: Order, done: &mut Done) -> StoreResult {
        if self.extents.is_empty() {
            self.allocate()?;
        }
        let begun = Instant::now();
        let mut writes = Vec::with_capacity(BATCH_PAGES as usize);
        let each = EXTENT_PAGES as u64;
        for (page, at) in self.pages.next(order) {
            let lpid = self.extents[(page / each) as usize].page((page % each) as u16);
            done.bytes += 8 + at.len() as u64;
            writes.push(PageWrite { lpid, data: self.source.slice(at.clone()), align: Align::Cell });
        }
        done.amount += writes.len() as u64;
        self.run(Command::Write(Batch { writes, ..Batch::default() }))?;
        done.latencies.record(begun.elapsed());
        Ok(())
    }
}

impl<U: Upkeep> Contestant for DeviceContest<U> {
    fn takes(&self, case: Case) -> bool {
        case.letter() == 'A'
    }

    fn load(&mut self, _: Case) -> StoreResult {
        if !self.extents.is_empty() {
            return Ok(());
        }
        let mut done = Done::default();
        (0..self.sizes.pages.div_ceil(BATCH_PAGES))
            .try_for_each(|_| self.page_batch(Order::InTurn, &mut done))?;
        self.upkeep.settle()
    }

    fn slice(&mut self, case: Case, end: Instant, done: &mut Done) -> StoreResult {
        let order = if case == Case::PagesRandom { Order::Random } else { Order::InTurn };
        while Instant::now() < end {
            self.page_batch(order, done)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> StoreResult {
        self.upkeep.settle()
    }

    fn causes(&self) -> Option<Causes> {
        self.upkeep.causes()
    }
}
