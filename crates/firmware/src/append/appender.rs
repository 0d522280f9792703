//! Appends pages: provisions them and programs them.

use lode_base::EblockId;
use lode_flash::Medium;
use parking_lot::MutexGuard;

use super::turns::{ProgramError, Turns};
use crate::FirmwareError;
use crate::commit::{CommitState, Committer};
use crate::env::{Count, Env};
use crate::pages::Pages;
use crate::planted::at;
use crate::space::{Item, Job, Plan, Provision, Purpose};
use crate::stream::Stream;

/// Programs of one action that may fail, each in another EBLOCK.
const RETRIES: u32 = 8;
/// How often whoever is not a batch waits for EBLOCKs.
const WAITS: u32 = 8;

/// What makes room for pages: answers whether something was gained.
pub(crate) type MakeRoom<'a> = &'a mut dyn FnMut() -> Result<bool, FirmwareError>;

/// Gives pages their places, and programs them.
#[derive(Clone, Copy)]
pub(crate) struct Appender<'a> {
    committer: Committer<'a>,
    turns: &'a Turns,
}

impl<'a> Appender<'a> {
    #[inline]
    pub(crate) fn new(committer: Committer<'a>, turns: &'a Turns) -> Self {
        Self { committer, turns }
    }

    #[inline]
    pub(crate) fn committer(self) -> Committer<'a> {
        self.committer
    }

    #[inline]
    pub(crate) fn env(self) -> &'a Env {
        self.committer.env()
    }

    #[inline]
    pub(crate) fn pages(self) -> &'a Pages {
        self.committer.pages()
    }

    #[inline]
    pub(crate) fn medium(self) -> &'a Medium {
        self.committer.medium()
    }

    /// Takes the commit lock.
    #[inline]
    pub(crate) fn state(self) -> MutexGuard<'a, CommitState> {
        self.committer.state()
    }

    /// Appends the pages of something that is not a batch. The EBLOCKs of the answer count the caller's action as under way.
    pub(crate) fn append(
        self,
        stream: Stream,
        items: &[Item],
        data: &[&[u8]],
        purpose: Purpose,
    ) -> Result<Provision, FirmwareError> {
        // Failed or finished actions may have left EBLOCKs empty, and reads under way may hold the only others.
        let c = self.committer;
        self.append_in(stream, items, data, purpose, 0, &mut || Ok(c.reclaim()? || c.wait_for_reads(false)?))
    }

    /// Appends pages. Without room, or for a batch without room in the log for its record of about `record_bytes`,
    /// `make_room` is asked to make some. The EBLOCKs of the answer count the caller's action as under way.
    ///
    /// # Errors
    /// Where no room can be made: for a batch [`lode_command::CommandError::OutOfSpace`], else [`FirmwareError::Full`].
    pub(crate) fn append_in(
        self,
        stream: Stream,
        items: &[Item],
        data: &[&[u8]],
        purpose: Purpose,
        record_bytes: usize,
        make_room: MakeRoom<'_>,
    ) -> Result<Provision, FirmwareError> {
        let mut failures = 0;
        let mut gave_up = false;
        loop {
            let p = self.provision(stream, items, purpose, record_bytes, make_room)?;
            let failed = at!(
                FailureIgnored => self.program(&p, data).filter(|(_, e)| !e.is_program_failure()),
                self.program(&p, data)
            );
            let Some((at, e)) = failed else { return Ok(p) };
            let mut state = self.state();
            let eblock = p.jobs[at].eblock();
            state.eblocks_mut().give_back(self.medium(), p);
            match e {
                ProgramError::Ended => {}
                ProgramError::Flash(e) if e.is_no_space() => {
                    if gave_up || !state.eblocks_mut().give_up_open(self.medium(), stream) {
                        drop(state);
                        self.turns.moved();
                        return Err(e.into());
                    }
                    gave_up = true;
                }
                ProgramError::Flash(e) if e.is_program_failure() && failures < RETRIES => {
                    failures += 1;
                    self.env().count(Count::ProgramFailures, 1);
                    state.eblocks_mut().fail(eblock);
                    state.check_spares(self.env());
                }
                ProgramError::Flash(e) => {
                    let e = FirmwareError::from(e);
                    self.env().fatal(&e);
                    drop(state);
                    self.turns.moved();
                    return Err(e);
                }
            }
            drop(state);
            self.turns.moved();
            self.env().check_writable()?;
        }
    }

    /// Provisions pages, once there is room.
    fn provision(
        self,
        stream: Stream,
        items: &[Item],
        purpose: Purpose,
        record_bytes: usize,
        make_room: MakeRoom<'_>,
    ) -> Result<Provision, FirmwareError> {
        let (env, of_batch) = (self.env(), matches!(purpose, Purpose::Batch { .. }));
        let tries_max = if of_batch { 4 * env.geometry().eblock_count() + 16 } else { WAITS };
        let mut tries = 0;
        loop {
            let mut state = self.state();
            let plan = Plan::new(state.eblocks(), stream, items);
            let fits = state.budget(env, self.pages()).fits(&plan, purpose);
            if fits && (!of_batch || state.log_fits(env, record_bytes)) {
                let provisioned = plan.provision(state.eblocks_mut(), self.medium(), items);
                // EBLOCKs that could not be erased were retired.
                state.check_spares(env);
                return provisioned.inspect_err(|e| {
                    if !e.is_no_space() {
                        env.fatal(e);
                    }
                });
            }
            let out_of_space = state.budget(env, self.pages()).out_of_space(plan.bytes);
            drop(state);
            tries += 1;
            if tries > tries_max || !make_room()? {
                let what = match purpose {
                    Purpose::Batch { .. } => return Err(FirmwareError::Refused(out_of_space)),
                    Purpose::Gc => "GC",
                    Purpose::Inlined => "inlined pages",
                    Purpose::Own | Purpose::Unlogged => "the drive's own pages",
                };
                return Err(FirmwareError::Full { path: self.medium().path().into(), what });
            }
        }
    }

    /// Programs what was provisioned; answers the first job that failed.
    fn program(self, p: &Provision, data: &[&[u8]]) -> Option<(usize, ProgramError)> {
        for (at, job) in p.jobs.iter().enumerate() {
            match self.turns.program(self.medium(), job, data) {
                Ok(()) => {
                    if let Job::Metadata { eblock, bytes, .. } = job {
                        let wblocks = bytes.len() as u32 / self.env().geometry().wblock_bytes();
                        self.state().eblocks_mut().closed(*eblock, wblocks);
                    }
                }
                // Its metadata stays in memory, and with the drive's own pages.
                Err(ProgramError::Ended) if matches!(job, Job::Metadata { .. }) => {}
                Err(e) => return Some((at, e)),
            }
        }
        None
    }

    /// An action that appended to these EBLOCKs is given up before it was staged.
    pub(crate) fn leave(self, eblocks: Vec<EblockId>) {
        let mut state = self.state();
        eblocks.into_iter().for_each(|e| state.eblocks_mut().leave(e));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use lode_base::Geometry;
    use lode_command::Align;

    use super::*;
    use crate::DriveOptions;
    use crate::core::Core;
    use crate::own::OwnKind;
    use crate::space::PageName;

    /// A drive that holds nothing yet.
    fn core() -> Core {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 40).unwrap();
        crate::recovery::format(Medium::memory(g), DriveOptions::default()).unwrap()
    }

    /// Checkpoints and GC failed where EBLOCKs were about to be free, because a reader had not had its turn.
    #[test]
    fn pages_of_the_drive_wait_for_reads_under_way() {
        let core = core();
        let word = PageName::Own(OwnKind::Map, 0).word();
        let page = vec![7; 700_000];
        let item = || Item { len: 700_000, align: Align::Cell, word };
        let own = || core.appender().append(Stream::Drive, &[item(), item()], &[&page, &page], Purpose::Own);
        let mut reading = Some(core.env().epochs().enter());
        let released = {
            let w = &mut *core.state();
            let mut taken = Vec::new();
            while u64::from(w.eblocks().free_eblocks()) > w.budget(core.env(), core.pages()).log_eblocks() {
                taken.extend(w.eblocks_mut().take_for_log(core.env().medium()).unwrap());
            }
            taken.truncate(4);
            taken.iter().for_each(|&(e, _)| w.eblocks_mut().release(core.env().epochs(), e, 0));
            taken.len() as u32
        };
        assert!(released == 4 && matches!(own(), Err(FirmwareError::Full { .. })));
        let running = Barrier::new(2);
        std::thread::scope(|s| {
            let (reading, running) = (reading.take(), &running);
            s.spawn(move || {
                running.wait();
                (0..100).for_each(|_| std::thread::yield_now());
                drop(reading);
            });
            running.wait();
            let p = own().unwrap();
            assert!(!p.jobs.is_empty());
        });
    }
}
