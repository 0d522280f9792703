//! A drive that a test is told of as it is used.

use std::sync::Arc;

use lode_base::VirtualTime;
use lode_command::{
    Budget, Command, Completion, Device, DeviceError, Identity, Progress, Queue, Refused, Tag, Until,
};
use lode_program::Program;

/// What a test does beside what the drive does.
pub trait Hooks: Send + Sync + 'static {
    /// Before a command is handed in.
    fn submit(&self, _: &Command) {}
    /// Before the drive is asked for answers.
    fn before(&self) {}
    /// When it has answered, and the host does not know yet.
    fn after(&self) {}
}

pub struct Hooked<H> {
    drive: Arc<dyn Device>,
    hooks: Arc<H>,
}

impl<H: Hooks> Hooked<H> {
    pub fn new(drive: impl Device + 'static, hooks: Arc<H>) -> Self {
        Self { drive: Arc::new(drive), hooks }
    }
}

struct HookedQueue<H> {
    queue: Box<dyn Queue>,
    hooks: Arc<H>,
}

impl<H: Hooks> Device for Hooked<H> {
    fn identity(&self) -> &Identity {
        self.drive.identity()
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        Ok(Box::new(HookedQueue { queue: self.drive.open_queue(depth)?, hooks: self.hooks.clone() }))
    }

    fn work(&self, at: VirtualTime, budget: Budget) -> Progress {
        self.drive.work(at, budget)
    }
}

impl<H: Hooks> Queue for HookedQueue<H> {
    fn submit(&mut self, at: VirtualTime, c: Command) -> Result<Tag, Refused> {
        self.hooks.submit(&c);
        self.queue.submit(at, c)
    }

    fn complete(
        &mut self,
        at: VirtualTime,
        until: Until,
        out: &mut Vec<Completion>,
    ) -> Result<(), DeviceError> {
        self.hooks.before();
        let done = self.queue.complete(at, until, out);
        self.hooks.after();
        done
    }

    fn narrow(&mut self, task: Tag, p: Arc<Program>) {
        self.queue.narrow(task, p);
    }

    fn cancel(&mut self, tag: Tag) {
        self.queue.cancel(tag);
    }
}
