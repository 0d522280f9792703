//! A host with one drive: it knows what is acknowledged, what else the next opening may find, and what each answer must be.
//!
//! ```text
//!   command ─► answered: now │ power was cut: Stop, in doubt │ failed: as before; or the drive is read-only: in doubt, reopened
//! ```
//!
//! What must hold: what is acknowledged is read, at all times; a command that fails took no effect, unless the drive
//! became read-only with it: then the next opening tells; what was shown once is shown from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::{ExtentId, Lpid, OwnerId, SessionId, ViewId, VirtualTime};
use lode_command::{
    Batch, Budget, Command, CommandError, Device, Outcome, Progress, Reply, SessionWrite, Until,
};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::{FaultKind, Faults, Medium};

use crate::common::*;

pub(crate) const PLAIN: u32 = 3;
pub(crate) const INDEXED: u32 = 9;

/// Steps for which the host's file system is full.
const FULL_STEPS: u32 = 4;
/// One step in so many reads all pages.
const READ_ALL: u64 = 16;

type Pages = BTreeMap<Lpid, Arc<[u8]>>;

/// What a drive holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) commit: u64,
    pub(crate) pages: Pages,
    pub(crate) extents: BTreeMap<ExtentId, u32>,
    /// The highest number that each applied.
    pub(crate) sessions: BTreeMap<SessionId, u64>,
}

impl State {
    fn after(&self, batch: &Batch) -> Self {
        let mut s = self.clone();
        s.commit += 1;
        batch.trims.iter().for_each(|l| drop(s.pages.remove(l)));
        for e in &batch.releases {
            s.extents.remove(e);
            s.pages.retain(|l, _| l.extent() != *e);
        }
        s.pages.extend(batch.writes.iter().map(|p| (p.lpid, Arc::from(&p.data[..]))));
        if let Some(w) = batch.session {
            s.sessions.insert(w.session, w.wsn);
        }
        s
    }
}

/// The power is gone, or there is no drive: nothing more is asked.
#[derive(Debug)]
pub(crate) struct Stop;

/// What is to happen: in which opening of the drive, and after how many operations that it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) opening: usize,
    pub(crate) kind: FaultKind,
    pub(crate) after: u64,
    pub(crate) seed: u64,
}

impl Fault {
    pub(crate) fn cut(opening: usize, after: u64) -> Self {
        Self { opening, kind: FaultKind::PowerCut, after, seed: 0 }
    }

    /// Whether the drive goes on as if nothing had happened.
    fn is_hidden(&self) -> bool {
        matches!(self.kind, FaultKind::ProgramFails | FaultKind::EraseFails)
    }
}

pub(crate) struct Host {
    drive: Option<Drive>,
    pub(crate) faults: Faults,
    options: DriveOptions,
    pub(crate) now: State,
    /// What else may be found at the next opening.
    in_doubt: Vec<State>,
    views: Vec<(ViewId, Pages)>,
    pub(crate) fault: Option<Fault>,
    /// Openings that were planned, before this one.
    pub(crate) opening: usize,
    /// Whether the fault struck in an opening before, and whether it may in this one.
    struck: bool,
    armed: bool,
    /// Program failures that the workload asked for in this opening.
    own_failures: u64,
    pub(crate) random: Random,
    /// Commands that failed, and those that there was no room for.
    pub(crate) failed: u64,
    pub(crate) refused: u64,
    /// Openings that nobody had planned, since the drive was read-only.
    pub(crate) reopened: u64,
    full_steps: u32,
    steps: u64,
}

impl Host {
    /// A host of a medium that holds nothing yet.
    pub(crate) fn new(faults: Faults, options: DriveOptions, fault: Option<Fault>) -> Self {
        Self {
            drive: None,
            faults,
            options,
            now: State::default(),
            in_doubt: Vec::new(),
            views: Vec::new(),
            fault,
            opening: 0,
            struck: false,
            armed: false,
            own_failures: 0,
            random: Random(11),
            failed: 0,
            refused: 0,
            reopened: 0,
            full_steps: 0,
            steps: 0,
        }
    }

    /// A host that knows the same, before it opens what this one left.
    pub(crate) fn branch(&self, fault: Option<Fault>) -> Self {
        let mut h = Self::new(self.faults.clone(), self.options.clone(), fault);
        (h.now, h.in_doubt) = (self.now.clone(), self.in_doubt.clone());
        h
    }

    pub(crate) fn drive(&self) -> &Drive {
        self.drive.as_ref().expect("it is open")
    }

    pub(crate) fn is_open(&self) -> bool {
        self.drive.is_some()
    }

    /// Makes the drive.
    pub(crate) fn format(&mut self, medium: Medium) -> Result<(), Stop> {
        self.arm();
        match Drive::format(medium, self.options.clone()) {
            Ok(d) => self.drive = Some(d),
            Err(e) => {
                self.may_fail(&e.to_string());
                self.failed += 1;
                return Err(Stop);
            }
        }
        self.powered()
    }

    fn arm(&mut self) {
        self.armed = self.fault.is_some_and(|f| f.opening == self.opening && !self.struck);
        if let Some(f) = self.fault.filter(|_| self.armed) {
            self.faults.arm(f.kind, f.after, f.seed);
        }
    }

    /// Whether the planned fault struck.
    pub(crate) fn has_struck(&self) -> bool {
        self.struck || self.has_struck_here()
    }

    /// Whether it did since the drive was opened.
    fn has_struck_here(&self) -> bool {
        let Some(fault) = self.fault else { return false };
        let own = if fault.kind == FaultKind::ProgramFails { self.own_failures } else { 0 };
        let fired = self.faults.fired();
        let here = fired.iter().filter(|(k, _)| *k == fault.kind).map(|(_, n)| n).sum::<u64>();
        self.armed && here > own
    }

    fn may_fail(&self, what: &str) {
        assert!(!what.contains('\n'), "{what}");
        let may = self.fault.is_some_and(|f| !f.is_hidden()) && self.has_struck_here();
        assert!(may || self.faults.is_cut(), "{what}");
    }

    fn powered(&self) -> Result<(), Stop> {
        if self.faults.is_cut() { Err(Stop) } else { Ok(()) }
    }

    /// Opens the drive as it is found, in an opening that was planned.
    pub(crate) fn open_next(&mut self, seed: u64) -> Result<(), Stop> {
        self.struck |= self.has_struck();
        self.opening += 1;
        self.open(seed)
    }

    /// Opens the drive as it is found after a power cut.
    pub(crate) fn open(&mut self, seed: u64) -> Result<(), Stop> {
        self.struck |= self.has_struck();
        (self.drive, self.own_failures, self.full_steps) = (None, 0, 0);
        let (mut medium, faults) = self.faults.restored(seed).expect("the image opens");
        self.faults = faults;
        self.arm();
        loop {
            match Unrecovered::new(medium, self.options.clone()).recover() {
                Ok(d) => self.drive = Some(d),
                Err(e) => {
                    self.may_fail(&e.to_string());
                    self.failed += 1;
                }
            }
            self.powered()?;
            if self.drive.is_some() {
                self.found();
                if self.drive().info().read_only.is_none() {
                    return Ok(());
                }
                self.may_fail(self.drive().info().read_only.as_deref().expect("just seen"));
            }
            self.struck |= self.has_struck();
            self.drive = None;
            self.reopened += 1;
            (medium, self.faults) = self.faults.restored(seed).expect("the image opens");
        }
    }

    /// The drive holds what is acknowledged, and what was in doubt whole or not.
    fn found(&mut self) {
        self.views.clear();
        let d = self.drive();
        let commit = d.info().commit.raw();
        let allowed = std::iter::once(&self.now).chain(&self.in_doubt);
        let known: Vec<SessionId> = allowed.clone().flat_map(|s| s.sessions.keys().copied()).collect();
        let mut sessions = BTreeMap::new();
        for id in known {
            match run(d, Command::ResumeSession(id)) {
                Ok(Reply::Session { highest, .. }) => drop(sessions.insert(id, highest)),
                Err(CommandError::NoSuchSession(_)) => {}
                r => panic!("{r:?}"),
            }
        }
        let fits = |s: &&State| s.commit == commit && s.sessions == sessions;
        let Some(found) = allowed.clone().find(fits) else {
            let allowed: Vec<_> = allowed.map(|s| (s.commit, &s.sessions)).collect();
            panic!("commit {commit} and {sessions:?} are found, and allowed are {allowed:?}");
        };
        let mut found = found.clone();
        readable(d, None, &found.pages);
        let Ok(Reply::ExtentList(list)) = run(d, Command::ListExtents) else { panic!("no list of extents") };
        let mut mapped: BTreeMap<ExtentId, u32> = BTreeMap::new();
        found.pages.keys().for_each(|l| *mapped.entry(l.extent()).or_default() += 1);
        let mut extents = BTreeMap::new();
        for i in list {
            assert_eq!(i.pages_mapped, Some(mapped.remove(&i.extent).unwrap_or(0)), "pages of {}", i.extent);
            // One that was handed out and never written to may be forgotten, but none comes from nowhere.
            assert_eq!(found.extents.get(&i.extent), Some(&i.owner.raw()), "owner of {}", i.extent);
            extents.insert(i.extent, i.owner.raw());
        }
        assert!(mapped.is_empty(), "extents with pages are gone: {mapped:?}");
        found.extents = extents;
        sound(d);
        d.check_invariants();
        self.now = found;
        self.in_doubt.clear();
    }

    /// All that is acknowledged is read, at every view.
    pub(crate) fn verify(&self) {
        let d = self.drive();
        readable(d, None, &self.now.pages);
        self.views.iter().for_each(|(view, pages)| readable(d, Some(*view), pages));
        sound(d);
        d.check_invariants();
    }

    fn step_over(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(READ_ALL) {
            readable(self.drive(), None, &self.now.pages);
        }
        if self.full_steps > 0 {
            self.full_steps -= 1;
            if self.full_steps == 0 {
                self.faults.disarm_all();
            }
        }
    }

    /// What a command came to; `None` when it failed, or there was no room.
    fn outcome(
        &mut self,
        r: Result<Reply, CommandError>,
        after: Option<State>,
    ) -> Result<Option<Reply>, Stop> {
        let reply = match r {
            _ if self.faults.is_cut() => {
                self.in_doubt.extend(after);
                return Err(Stop);
            }
            Ok(reply) => {
                self.now = after.unwrap_or_else(|| self.now.clone());
                Some(reply)
            }
            Err(CommandError::OutOfSpace { .. }) => {
                self.refused += 1;
                None
            }
            Err(e) => {
                self.in_doubt.extend(after);
                self.trouble(&e.to_string())?;
                None
            }
        };
        self.step_over();
        Ok(reply)
    }

    /// Something failed that may: the drive goes on as it was, or the next opening tells.
    fn trouble(&mut self, what: &str) -> Result<(), Stop> {
        self.powered()?;
        self.may_fail(what);
        self.failed += 1;
        let d = self.drive();
        readable(d, None, &self.now.pages);
        self.views.iter().for_each(|(view, pages)| readable(d, Some(*view), pages));
        if d.info().read_only.is_some() {
            self.reopened += 1;
            self.open(self.steps)?;
            // Extents that nothing durable was written to are handed out anew.
            for owner in [PLAIN, INDEXED] {
                if !self.now.extents.values().any(|o| *o == owner) {
                    self.allocate(owner)?;
                }
            }
            return Ok(());
        }
        d.check_invariants();
        self.in_doubt.clear();
        if self.full_steps == 0 {
            self.full_steps = FULL_STEPS;
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, batch: Batch) -> Result<bool, Stop> {
        let after = self.now.after(&batch);
        let (commit, pages) = (after.commit, after.pages.clone());
        let r = run(self.drive(), Command::Write(batch));
        let Some(Reply::Committed { commit: got, view, .. }) = self.outcome(r, Some(after))? else {
            return Ok(false);
        };
        assert_eq!(got.raw(), commit);
        self.views.extend(view.map(|v| (v, pages)));
        Ok(true)
    }

    /// Batches that are under way together.
    pub(crate) fn write_together(&mut self, batches: Vec<Batch>) -> Result<(), Stop> {
        let mut q = self.drive().open_queue(batches.len() as u32).unwrap();
        for b in &batches {
            q.submit(VirtualTime::ZERO, Command::Write(b.clone())).unwrap();
        }
        let mut out = Vec::new();
        while out.len() < batches.len() {
            q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
        }
        if self.faults.is_cut() {
            self.in_doubt = self.states(&batches);
            return Err(Stop);
        }
        let (mut failed, mut now) = (Vec::new(), self.now.clone());
        for (c, batch) in out.into_iter().zip(&batches) {
            let after = now.after(batch);
            match c.outcome {
                Outcome::Done(Ok(Reply::Committed { commit, .. })) => {
                    assert_eq!(commit.raw(), after.commit, "batches that fail take no number");
                    now = after;
                }
                Outcome::Done(Err(CommandError::OutOfSpace { .. })) => self.refused += 1,
                Outcome::Done(Err(e)) => failed.push((e, batch.clone())),
                o => panic!("{o:?}"),
            }
        }
        self.now = now;
        if !failed.is_empty() {
            // Those that failed together may be found together.
            let (errors, batches): (Vec<_>, Vec<_>) = failed.into_iter().unzip();
            self.in_doubt = self.states(&batches);
            self.trouble(&errors[0].to_string())?;
        }
        self.step_over();
        Ok(())
    }

    /// What batches make of what there is, one after the other.
    fn states(&self, batches: &[Batch]) -> Vec<State> {
        let mut now = self.now.clone();
        let after = |b: &Batch| {
            now = now.after(b);
            now.clone()
        };
        batches.iter().map(after).collect()
    }

    pub(crate) fn allocate(&mut self, owner: u32) -> Result<Option<ExtentId>, Stop> {
        let r = run(self.drive(), Command::AllocateExtents { owner: OwnerId::new(owner), count: 1 });
        let Some(Reply::Extents(e)) = self.outcome(r, None)? else { return Ok(None) };
        assert!(self.now.extents.insert(e[0], owner).is_none(), "{} is handed out twice", e[0]);
        Ok(Some(e[0]))
    }

    /// Any other command that changes nothing that is read.
    pub(crate) fn ask(&mut self, c: Command) -> Result<Option<Reply>, Stop> {
        let r = run(self.drive(), c);
        self.outcome(r, None)
    }

    pub(crate) fn open_view(&mut self) -> Result<(), Stop> {
        let Some(Reply::View { view, commit }) = self.ask(Command::OpenView)? else { panic!("no view") };
        assert_eq!(commit.raw(), self.now.commit);
        self.views.push((view, self.now.pages.clone()));
        Ok(())
    }

    /// Whether a further view closes none.
    pub(crate) fn views_left(&self) -> bool {
        self.views.len() < self.options.views_max.min(3) as usize
    }

    pub(crate) fn close_views(&mut self) -> Result<(), Stop> {
        let d = self.drive();
        self.views.iter().for_each(|(view, pages)| readable(d, Some(*view), pages));
        while let Some((view, _)) = self.views.pop() {
            self.ask(Command::CloseView(view))?;
        }
        Ok(())
    }

    pub(crate) fn open_session(&mut self) -> Result<(), Stop> {
        if let Some(Reply::Session { session, highest }) = self.ask(Command::OpenSession)? {
            assert_eq!(highest, 0);
            assert!(self.now.sessions.insert(session, 0).is_none(), "{session} is open");
        }
        Ok(())
    }

    pub(crate) fn close_session(&mut self) -> Result<(), Stop> {
        let Some(&id) = self.now.sessions.keys().next() else { return Ok(()) };
        let mut after = self.now.clone();
        after.sessions.remove(&id);
        let r = run(self.drive(), Command::CloseSession(id));
        self.outcome(r, Some(after)).map(drop)
    }

    /// The next write of a session, if one is open.
    pub(crate) fn next_of_session(&self) -> Option<SessionWrite> {
        let (&session, highest) = self.now.sessions.iter().next()?;
        Some(SessionWrite { session, wsn: highest + 1 })
    }

    /// Background work, up to so many steps.
    pub(crate) fn work(&mut self, steps: u32) -> Result<(), Stop> {
        for _ in 0..steps {
            let progress = self.drive().work(VirtualTime::ZERO, Budget { write_bytes: 1 << 20 });
            self.powered()?;
            self.step_over();
            if progress == Progress::Idle {
                break;
            }
        }
        Ok(())
    }

    /// The next program fails.
    pub(crate) fn fail_a_program(&mut self) {
        self.own_failures += 1;
        self.faults.arm(FaultKind::ProgramFails, 0, 5);
    }

    pub(crate) fn close(&mut self) -> Result<(), Stop> {
        let closed = self.drive().clone().close();
        self.views.clear();
        self.powered()?;
        if let Err(e) = closed {
            self.trouble(&e.to_string())?;
        }
        Ok(())
    }

    /// Writes a little more, is opened again, and has all of it.
    pub(crate) fn goes_on(&mut self, seed: u64) {
        self.random = Random(seed);
        let go_on = |h: &mut Self| {
            if !h.now.extents.values().any(|o| *o == PLAIN) {
                h.allocate(PLAIN)?;
            }
            for _ in 0..3 {
                let batch = h.batch(3, 5000);
                if !h.write(batch)? {
                    let trims: Vec<Lpid> = h.now.pages.keys().copied().step_by(3).collect();
                    assert!(h.write(Batch { trims, ..Batch::default() })?, "trims go on when it is full");
                }
            }
            h.work(2)
        };
        go_on(self).expect("the power stays on");
        self.verify();
        self.open(seed).expect("the power stays on");
    }

    /// Pages of this owner that may be written.
    pub(crate) fn lpid(&mut self, owner: u32) -> Lpid {
        let of: Vec<_> = self.now.extents.iter().filter(|(_, o)| **o == owner).map(|(e, _)| *e).collect();
        let at = self.random.below(of.len() as u64) as usize;
        of[at].page(self.random.below(64) as u16)
    }

    /// Up to so many pages, each of up to so many bytes, and now and then a trim.
    pub(crate) fn batch(&mut self, pages: u64, bytes_max: u64) -> Batch {
        let mut b = Batch::default();
        for _ in 0..1 + self.random.below(pages) {
            let lpid = self.lpid(PLAIN);
            if b.trims.contains(&lpid) || b.writes.iter().any(|p| p.lpid == lpid) {
                continue;
            }
            if self.random.below(8) == 0 {
                b.trims.push(lpid);
                continue;
            }
            let len = 64 + self.random.below(bytes_max) as usize;
            b.writes.push(page(lpid, &self.random.bytes(len)));
        }
        b
    }
}

fn readable(d: &Drive, view: Option<ViewId>, pages: &Pages) {
    for (lpid, data) in pages {
        match read(d, view, *lpid) {
            Ok(b) => assert!(b[..] == data[..], "page {lpid} is another one"),
            Err(e) => panic!("page {lpid} at {view:?}: {e}"),
        }
    }
}
