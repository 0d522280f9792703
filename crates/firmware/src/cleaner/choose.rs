//! Which EBLOCK is emptied next: asks the policy, and checks what it answers.
//!
//! ```text
//!   failed ─► weak ─► now and then the least worn, cold one (static wear levelling) ─► the policy's victim, checked
//! ```
//!
//! Invariant: when a batch waits for room, and the policy names no victim or one that would gain little, the EBLOCK that
//! gains most goes instead. So every step makes room while anything is available at all.
//!
//! Source: ELEOS §VI-A, §VII; static wear levelling as in the design.

use std::collections::{BTreeMap, BTreeSet};

use lode_base::{EblockId, Lpid};
use lode_flash::Generation;

use super::due::free_eblocks_min;
use super::tidy::Tidy;
use crate::append::MOVE_BYTES;
use crate::gc::{Candidate, Choice, GcPolicy, GcView, Policy, Urgency, Victim};
use crate::space::{Budget, Descriptor, Eblocks, State};

/// Erasures between the most and the least worn EBLOCK, from which on cold data is moved off the least worn.
const WEAR_SPREAD: u32 = 128;
/// One victim in so many is chosen by wear, while the wear is spread too far.
const WEAR_TURN: u64 = 16;
/// Bytes that a step moves, about, when nothing waits for it.
const STEP_BYTES: u64 = 512 << 10;
/// Bytes that may be moved for each that a batch wrote, before space is short.
const MOVES_PER_WRITE: u64 = 4;
/// Share of an EBLOCK, as a divisor, that is to be gained by moving the rest of it: below the over-provisioning, so that
/// a drive that is not full always has a victim.
pub(super) const GAIN_MIN: u32 = 16;

/// What an EBLOCK is emptied for. One that failed or is hard to read goes first, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// For nothing else.
    Refresh,
    /// For room: the policy is asked.
    Room(Urgency),
    /// For a short image: nothing else is to be done.
    Tidy,
}

/// The pages that a victim still held after a step, each once, and whether it is to be aligned. No other page can come to
/// be needed there.
pub(super) struct Rest {
    pub(super) victim: EblockId,
    pub(super) generation: Generation,
    pub(super) pages: Vec<(Lpid, bool)>,
}

/// What is remembered from one victim to the next.
pub(crate) struct Cleaner {
    policy: Box<dyn Policy>,
    /// What the policy may choose from: filled before each choice, and kept for its memory.
    candidates: Vec<Candidate>,
    victims: u64,
    /// The victim that is emptied in part.
    current: Option<Victim>,
    /// What is left of it: found once, and not again in each step.
    pub(super) rest: Option<Rest>,
    /// Bytes that may be moved for those that batches wrote.
    credit: u64,
    /// Bytes that the step under way moves, about, unless the policy said less of its victim.
    pub(super) step_bytes: u64,
    stuck: Stuck,
    /// Whether the victim is to be one of them.
    pub(super) is_stuck: bool,
    /// EBLOCKs whose pages were hard to read: to be moved while they can be.
    weak: BTreeSet<EblockId>,
    tidy: Tidy,
}

impl Cleaner {
    pub(crate) fn new(policy: &GcPolicy) -> Self {
        Self {
            policy: policy.make(),
            candidates: Vec::new(),
            victims: 0,
            current: None,
            rest: None,
            credit: 0,
            step_bytes: STEP_BYTES,
            stuck: BTreeMap::new(),
            is_stuck: false,
            weak: BTreeSet::new(),
            tidy: Tidy::default(),
        }
    }

    /// A batch wrote so many bytes: GC may move some for them.
    pub(crate) fn earn(&mut self, bytes: u64) {
        self.credit = (self.credit + bytes * MOVES_PER_WRITE).min(2 * MOVE_BYTES as u64);
    }

    /// Whether batches wrote enough for a step that moves pages: so a small batch does not wait for a whole EBLOCK. After
    /// a large one the step is longer, since each step forces the log.
    pub(crate) fn begin_step(&mut self) -> bool {
        self.step_bytes = STEP_BYTES.max(self.credit.min(MOVE_BYTES as u64));
        let earned = self.credit >= self.step_bytes;
        if earned {
            self.credit -= self.step_bytes;
        }
        earned
    }

    /// Whether no batch came since this was asked last; `commit` is the newest. If so, and `rest_steps` steps since found nothing
    /// to do, the drive is at rest.
    pub(crate) fn is_idle(&mut self, commit: u64, rest_steps: Option<u32>) -> bool {
        self.tidy.is_idle(commit, rest_steps)
    }

    /// A step of an idle drive found nothing to do. Answers whether the drive is at rest.
    pub(crate) fn found_nothing(&mut self) -> bool {
        self.tidy.found_nothing()
    }

    /// Whether the drive at rest tried no checkpoint since the last batch: now it does.
    pub(crate) fn begins_checkpoint_at_rest(&mut self) -> bool {
        self.tidy.begins_checkpoint()
    }

    /// The EBLOCK to be emptied next.
    pub(super) fn choose(&mut self, budget: &Budget<'_>, need: Need) -> Option<Victim> {
        let eblocks = budget.eblocks;
        let movable = |e: EblockId| is_movable(&self.stuck, eblocks, e);
        let left = |v: &Victim| {
            let state = eblocks.descriptor(v.eblock).state;
            movable(v.eblock) && matches!(state, State::Used { .. } | State::Failed { .. })
        };
        if let Some(current) = self.current.take().filter(left) {
            return Some(current);
        }
        let is_failed = |d: &Descriptor| matches!(d.state, State::Failed { .. });
        let failed = eblocks.descriptors().find(|(e, d)| is_failed(d) && movable(*e));
        if let Some((e, _)) = failed {
            return Some(Victim::new(e));
        }
        let is_used = |e| matches!(eblocks.descriptor(e).state, State::Used { .. });
        if let Some(e) = self.weak.iter().copied().find(|&e| movable(e) && is_used(e)) {
            return Some(Victim::new(e));
        }
        let urgency = match need {
            Need::Refresh => return None,
            Need::Tidy => return self.tidy.choose(budget, movable).map(Victim::new),
            Need::Room(urgency) => urgency,
        };
        if urgency != Urgency::Full && self.victims % WEAR_TURN == WEAR_TURN - 1 {
            let most_worn = eblocks.descriptors().map(|(_, d)| d.erase_count).max().unwrap_or(0);
            let least = used(&self.stuck, eblocks).min_by_key(|(_, d)| d.erase_count);
            if let Some((e, _)) = least.filter(|(_, d)| most_worn - d.erase_count > WEAR_SPREAD) {
                return Some(Victim::new(e));
            }
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut victim = None;
        for ends in [Ends::Lost, Ends::Available] {
            candidates.clear();
            let used = used(&self.stuck, eblocks);
            candidates.extend(used.filter_map(|(e, d)| candidate(eblocks, e, d, ends)));
            let view = self.view(budget, urgency, &candidates);
            victim = self.ask(&view);
            // Ends are gained only if smaller pages come to lie there: where a batch waits and there is nothing else.
            if victim.is_some() || urgency != Urgency::Full {
                break;
            }
        }
        self.candidates = candidates;
        victim
    }

    /// What the policy sees.
    fn view<'a>(&self, budget: &Budget<'_>, urgency: Urgency, candidates: &'a [Candidate]) -> GcView<'a> {
        let (eblocks, reserve) = (budget.eblocks, budget.reserve_eblocks());
        let g = eblocks.geometry();
        let classes = std::array::from_fn(|class| eblocks.gc_class_age(class as u8));
        GcView {
            urgency,
            candidates,
            eblock_count: g.eblock_count(),
            eblock_bytes: g.eblock_bytes(),
            free_eblocks: eblocks.free_eblocks(),
            free_eblocks_min: u32::try_from(free_eblocks_min(budget, reserve)).unwrap_or(u32::MAX),
            reserve_eblocks: reserve,
            gain_bytes_min: g.eblock_bytes() / GAIN_MIN,
            step_bytes: self.step_bytes,
            now: eblocks.clock(),
            classes,
        }
    }

    /// What the policy chooses, checked: where a batch waits for room, and the policy names nothing that gains enough, the
    /// EBLOCK that gains most.
    fn ask(&mut self, view: &GcView<'_>) -> Option<Victim> {
        let mut choice = self.policy.choose(view);
        let gains = |c: &Candidate| c.available_bytes >= view.eblock_bytes / 8;
        if view.urgency == Urgency::Full && !view.chosen(choice).is_some_and(gains) {
            choice = view.most_available();
        }
        // A little is no gain: metadata is written again where the pages go, and an end may be lost.
        let gains = |c: &Candidate| c.available_bytes > view.gain_bytes_min;
        match choice {
            Choice::Empty(victim) if view.chosen(choice).is_some_and(gains) => Some(victim),
            _ => None,
        }
    }

    /// A step of emptying a victim begins.
    pub(super) fn begins(&mut self, victim: &Victim) {
        self.policy.step_begins(victim.eblock);
        self.is_stuck = false;
    }

    /// Bytes that a step of emptying this victim moves, about.
    pub(super) fn step_bytes_of(&self, victim: &Victim) -> u64 {
        // One page at least, however little a policy says.
        victim.step_bytes_max.map_or(self.step_bytes, |most| self.step_bytes.min(most).max(1))
    }

    /// EBLOCKs were hard to read.
    pub(super) fn note_weak(&mut self, eblocks: Vec<EblockId>) {
        self.weak.extend(eblocks);
    }

    pub(super) fn is_weak(&self, e: EblockId) -> bool {
        self.weak.contains(&e)
    }

    /// The victim is emptied in part: it goes on first.
    pub(super) fn goes_on(&mut self, victim: Victim) {
        self.current = Some(victim);
    }

    /// The victim is empty.
    pub(super) fn emptied(&mut self, victim: &Victim) {
        self.victims += 1;
        self.weak.remove(&victim.eblock);
    }

    /// The victim cannot be emptied: it is left alone until less is needed of it. Answers how many such there are.
    pub(super) fn gives_up(&mut self, victim: &Victim, eblocks: &Eblocks) -> u32 {
        let now = |e| {
            let d = eblocks.descriptor(e);
            (d.generation, d.live + d.pinned)
        };
        self.stuck.insert(victim.eblock, now(victim.eblock));
        self.stuck.retain(|&e, then| now(e) == *then);
        self.weak.remove(&victim.eblock);
        self.stuck.len() as u32
    }
}

/// EBLOCKs with a page that cannot be read, since when they were last erased, and the bytes needed of them then.
type Stuck = BTreeMap<EblockId, (Generation, u32)>;

/// Whether pages of an EBLOCK may be moved now.
fn is_movable(stuck: &Stuck, eblocks: &Eblocks, e: EblockId) -> bool {
    let d = eblocks.descriptor(e);
    d.in_flight == 0 && stuck.get(&e) != Some(&(d.generation, d.live + d.pinned))
}

/// The closed EBLOCKs whose pages may be moved.
fn used<'a>(stuck: &'a Stuck, eblocks: &'a Eblocks) -> impl Iterator<Item = (EblockId, &'a Descriptor)> {
    let of = move |(e, d): &(EblockId, &Descriptor)| {
        matches!(d.state, State::Used { .. }) && is_movable(stuck, eblocks, *e)
    };
    eblocks.descriptors().filter(of)
}

/// What the ends of EBLOCKs are, which no page fitted. Example: an EBLOCK of 2 MB has two pages of 0.9 MB, and an end of 0.2 MB. If they move
/// to another EBLOCK, that has such an end, and nothing was gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// They are lost again where the pages go.
    Lost,
    /// They are available.
    Available,
}

/// A closed EBLOCK as policies see it, if anything of it is available. An end of more than half of it was left by no page, and is always
/// available.
fn candidate(eblocks: &Eblocks, eblock: EblockId, d: &Descriptor, ends: Ends) -> Option<Candidate> {
    let g = eblocks.geometry();
    let held = d.live + d.pinned;
    let data = d.data_end.saturating_mul(g.wblock_bytes()).min(g.eblock_bytes());
    let has_lost_end = ends == Ends::Lost && held > 0 && data > g.eblock_bytes() / 2;
    let available_bytes = (if has_lost_end { data } else { g.eblock_bytes() }).saturating_sub(held);
    (available_bytes > 0).then(|| Candidate {
        eblock,
        channel: g.channel_of(eblock),
        available_bytes,
        eblock_bytes: g.eblock_bytes(),
        erase_count: d.erase_count,
        age: eblocks.clock().saturating_sub(d.closed) + 1,
        pages_age: eblocks.clock().saturating_sub(d.age) + 1,
    })
}

#[cfg(test)]
mod tests {
    use lode_base::Geometry;
    use lode_flash::Medium;

    use super::*;
    use crate::DriveOptions;
    use crate::commit::CommitState;
    use crate::core::Core;
    use crate::gc::StreamClass;
    use crate::stream::Stream;

    const EBLOCK_BYTES: u32 = 1 << 20;
    const DUE: Need = Need::Room(Urgency::Background);
    const PAID: Need = Need::Room(Urgency::Paid);
    const FULL: Need = Need::Room(Urgency::Full);

    impl Cleaner {
        /// The EBLOCK to be emptied next.
        fn next(&mut self, core: &Core, w: &CommitState, need: Need) -> Option<EblockId> {
            self.choose(&w.budget(core.env(), core.pages()), need).map(|v| v.eblock)
        }
    }

    /// A drive that holds nothing yet, with a short log.
    fn core(eblocks: u32, options: DriveOptions) -> Core {
        let g = Geometry::new(1, 1, 1, 4096, 4096, EBLOCK_BYTES, eblocks).unwrap();
        let options = DriveOptions { checkpoint_log_bytes: 1 << 20, ..options };
        crate::recovery::format(Medium::memory(g), options).unwrap()
    }

    fn cleaner(policy: &str) -> Cleaner {
        Cleaner::new(&GcPolicy::named(policy).unwrap())
    }

    /// A closed EBLOCK of which so much is available.
    fn used(w: &mut CommitState, e: u32, available: u32) -> EblockId {
        let e = EblockId::new(e);
        w.eblocks_mut().pretend_used(e, EBLOCK_BYTES - available);
        e
    }

    #[test]
    fn victims_come_in_order_of_need() {
        let core = core(40, DriveOptions::default());
        let mut w = core.state();
        let mut c = cleaner("greedy");
        let free = EblockId::new(30);
        assert_eq!(w.eblocks().descriptor(free).state, State::Free);
        let [some, more] = [(20, 300_000), (21, 600_000)].map(|(e, available)| used(&mut w, e, available));
        let (none, due) = (Need::Refresh, DUE);
        assert_eq!((c.next(&core, &w, none), c.next(&core, &w, due)), (None, Some(more)));
        c.weak.extend([free, some]);
        assert_eq!((c.next(&core, &w, none), c.next(&core, &w, due)), (Some(some), Some(some)));
        let failed = used(&mut w, 22, 1000);
        w.eblocks_mut().pretend(failed, State::Failed { stream: Stream::UserHot });
        assert_eq!((c.next(&core, &w, none), c.next(&core, &w, due)), (Some(failed), Some(failed)));
        c.current = Some(Victim::new(more));
        assert_eq!(
            (c.next(&core, &w, none), c.next(&core, &w, none)),
            (Some(more), Some(failed)),
            "what was begun comes first"
        );
        c.current = Some(Victim::new(free));
        assert_eq!(c.next(&core, &w, none), Some(failed), "it was let go meanwhile");
        // Where a batch is under way, or pages cannot be read, nothing is chosen until that is over.
        w.eblocks_mut().enter(failed);
        assert_eq!(c.next(&core, &w, none), Some(some));
        let d = w.eblocks().descriptor(some);
        c.stuck.insert(some, (d.generation, d.live));
        assert_eq!((c.next(&core, &w, none), c.next(&core, &w, due)), (None, Some(more)));
        w.eblocks_mut().sub_live(some, 64);
        assert_eq!(c.next(&core, &w, none), Some(some));
        w.eblocks_mut().leave(failed);
        assert_eq!(c.next(&core, &w, none), Some(failed));
    }

    #[test]
    fn now_and_then_the_least_worn_goes() {
        let core = core(40, DriveOptions::default());
        let mut w = core.state();
        let mut c = cleaner("greedy");
        let [worn, fresh] = [(20, 600_000), (21, 300_000)].map(|(e, available)| used(&mut w, e, available));
        w.eblocks_mut().pretend_of(worn, |d| d.erase_count = 300);
        for spread in [WEAR_SPREAD, WEAR_SPREAD + 1] {
            w.eblocks_mut().pretend_of(fresh, |d| d.erase_count = 300 - spread);
            for victims in [0, 1, 14, 15, 16, 17, 30, 31, 32] {
                c.victims = victims;
                let turn = victims % 16 == 15 && spread > WEAR_SPREAD;
                let expected = if turn { fresh } else { worn };
                assert_eq!(c.next(&core, &w, DUE), Some(expected), "{spread}, after {victims}");
                assert_eq!(c.next(&core, &w, FULL), Some(worn), "space is short");
            }
        }
    }

    #[test]
    fn a_full_drive_takes_what_gains_most_where_the_policy_gains_little() {
        let core = core(40, DriveOptions::default());
        let mut w = core.state();
        w.eblocks_mut().set_clock(5000);
        let mut c = cleaner("oldest");
        let (eighth, sixteenth) = (EBLOCK_BYTES / 8, EBLOCK_BYTES / 16);
        let empty = used(&mut w, 21, 600_000);
        w.eblocks_mut().pretend_of(empty, |d| d.closed = 3000);
        for (available, full) in [(eighth - 64, 21), (eighth, 20)] {
            let old = used(&mut w, 20, available);
            assert_eq!(c.next(&core, &w, DUE), Some(old));
            assert_eq!(c.next(&core, &w, FULL), Some(EblockId::new(full)));
        }
        used(&mut w, 21, 0);
        for need in [DUE, PAID, FULL] {
            let old = used(&mut w, 20, sixteenth);
            assert_eq!(c.next(&core, &w, need), None, "ends that no page fits are no gain");
            used(&mut w, 20, sixteenth + 64);
            assert_eq!(c.next(&core, &w, need), Some(old));
        }
    }

    /// Found by `lode bench endure`: a drive of 256 MB with pages of 0.9 MB moved 27 MB for each commit, from one lost end to the next.
    #[test]
    fn ends_that_no_page_fits_go_last() {
        let core = core(40, DriveOptions::default());
        let mut w = core.state();
        let mut c = cleaner("min-cost-decline");
        let eighth = EBLOCK_BYTES / 8;
        let of = |w: &mut CommitState, e: u32, available: u32, end: u32| {
            let eblock = used(w, e, available);
            let data = (EBLOCK_BYTES - end) / w.eblocks().geometry().wblock_bytes();
            w.eblocks_mut().pretend_of(eblock, |d| d.data_end = data);
            eblock
        };
        let ends = of(&mut w, 20, 3 * eighth, 3 * eighth);
        for need in [DUE, PAID] {
            assert_eq!(c.next(&core, &w, need), None, "the end is lost again");
        }
        assert_eq!(c.next(&core, &w, FULL), Some(ends), "there is nothing else");
        let garbage = of(&mut w, 21, 2 * eighth, eighth);
        for need in [DUE, PAID, FULL] {
            assert_eq!(c.next(&core, &w, need), Some(garbage));
        }
        // What was closed early has an end that pages fit, and of what nobody needs all is gained.
        for (available, end) in [(5 * eighth, 5 * eighth), (EBLOCK_BYTES, 3 * eighth)] {
            let early = of(&mut w, 22, available, end);
            assert_eq!(c.next(&core, &w, DUE), Some(early));
        }
    }

    /// Answers what it is told to.
    struct Says(Choice);

    impl Policy for Says {
        fn choose(&mut self, _: &GcView<'_>) -> Choice {
            self.0
        }
    }

    fn cleaner_that_says(choice: Choice) -> Cleaner {
        Cleaner::new(&GcPolicy::custom("says", move || Says(choice)))
    }

    #[test]
    fn a_drive_goes_on_whatever_its_policy_says() {
        let core = core(40, DriveOptions::default());
        let mut w = core.state();
        let [some, most] = [(20, 300_000), (21, 600_000)].map(|(e, available)| used(&mut w, e, available));
        let [poor, needed, entered] = [(22, 70_000), (23, 0), (24, 900_000)].map(|(e, a)| used(&mut w, e, a));
        w.eblocks_mut().enter(entered);
        let (free, beyond) = (EblockId::new(30), EblockId::new(u32::MAX));
        assert_eq!(cleaner_that_says(Choice::empty(some)).next(&core, &w, FULL), Some(some));
        assert_eq!(cleaner_that_says(Choice::empty(poor)).next(&core, &w, PAID), Some(poor));
        assert_eq!(cleaner_that_says(Choice::empty(poor)).next(&core, &w, FULL), Some(most));
        let odd = [needed, entered, free, beyond].map(Choice::empty);
        for choice in odd.into_iter().chain([Choice::Decline]) {
            let mut c = cleaner_that_says(choice);
            for (need, expected) in [(DUE, None), (PAID, None), (FULL, Some(most))] {
                assert_eq!(c.next(&core, &w, need), expected, "{choice:?} {need:?}");
            }
        }
        // Where nothing gains enough, nothing goes.
        for e in [some, most, poor] {
            used(&mut w, e.raw(), EBLOCK_BYTES / 16);
        }
        assert_eq!(cleaner_that_says(Choice::Decline).next(&core, &w, FULL), None);
        assert_eq!(cleaner_that_says(Choice::empty(some)).next(&core, &w, PAID), None);
    }

    #[test]
    fn a_policy_sees_what_may_go_and_what_there_is() {
        /// Compares what it sees.
        struct Sees(Vec<(u32, u32, u64, u64)>, u64);
        impl Policy for Sees {
            fn choose(&mut self, view: &GcView<'_>) -> Choice {
                let seen = |c: &Candidate| (c.eblock.raw(), c.available_bytes, c.age, c.pages_age);
                assert_eq!(view.candidates.iter().map(seen).collect::<Vec<_>>(), self.0);
                assert_eq!((view.eblock_count, view.eblock_bytes), (40, EBLOCK_BYTES));
                assert!(view.reserve_eblocks < view.free_eblocks_min && view.free_eblocks_min < 40);
                assert_eq!(view.gain_bytes_min, EBLOCK_BYTES / 16);
                assert_eq!((view.urgency, view.now, view.step_bytes), (Urgency::Paid, 5000, self.1));
                assert_eq!(view.classes, [None; StreamClass::COUNT]);
                Choice::Decline
            }
        }
        let core = core(40, DriveOptions::default());
        let mut w = core.state();
        w.eblocks_mut().set_clock(5000);
        for (e, available, closed, age) in [(20, 64, 4000, 100), (21, 0, 1, 1), (22, 900, 5000, 5000)] {
            let e = used(&mut w, e, available);
            w.eblocks_mut().pretend_of(e, |d| (d.closed, d.age) = (closed, age));
        }
        let seen = vec![(20, 64, 1001, 4901), (22, 900, 1, 1)];
        let mut c = Cleaner::new(&GcPolicy::custom("sees", move || Sees(seen.clone(), STEP_BYTES)));
        assert_eq!(c.next(&core, &w, PAID), None);
        // What the policy sees is its own: what is under way is in none of it.
        let seen = vec![(22, 900, 1, 1)];
        let mut c = Cleaner::new(&GcPolicy::custom("sees", move || Sees(seen.clone(), 1 << 20)));
        w.eblocks_mut().enter(EblockId::new(20));
        c.step_bytes = 1 << 20;
        assert_eq!(c.next(&core, &w, PAID), None);
    }

    #[test]
    fn a_policy_may_shorten_steps_and_never_to_nothing() {
        let mut c = cleaner("greedy");
        c.step_bytes = 1 << 20;
        for (most, expected) in [(None, 1 << 20), (Some(4096), 4096), (Some(0), 1), (Some(u64::MAX), 1 << 20)]
        {
            let victim = Victim { step_bytes_max: most, ..Victim::new(EblockId::new(1)) };
            assert_eq!(c.step_bytes_of(&victim), expected, "{most:?}");
        }
    }

    #[test]
    fn batches_earn_steps() {
        let mut c = cleaner("greedy");
        let steps = |c: &mut Cleaner| {
            let steps = std::iter::from_fn(|| c.begin_step().then_some(c.step_bytes));
            steps.take(9).collect::<Vec<_>>()
        };
        assert_eq!(steps(&mut c), []);
        c.earn(STEP_BYTES / 4 - 1);
        assert_eq!(steps(&mut c), []);
        c.earn(1);
        assert_eq!(steps(&mut c), [STEP_BYTES]);
        c.earn(768 << 10);
        assert_eq!(steps(&mut c), [2 << 20, 1 << 20]);
        c.earn(1 << 30);
        assert_eq!(steps(&mut c), [2 << 20, 2 << 20], "more is not saved up");
    }

    /// One that holds what nobody knows of is left alone, until less of it is needed.
    #[test]
    fn what_cannot_be_emptied_is_not_tried_again_and_again() {
        let core = core(40, DriveOptions::default());
        for (n, e) in [20, 21].into_iter().enumerate() {
            used(&mut core.state(), e, EBLOCK_BYTES);
            assert!(core.upkeep().collect(Urgency::Full).unwrap());
            assert_eq!(core.upkeep().lock().victims, n as u64 + 1);
        }
        let e = used(&mut core.state(), 22, EBLOCK_BYTES - 640);
        for live in [640, 576] {
            assert!(!core.upkeep().collect(Urgency::Full).unwrap());
            let d = core.state().eblocks().descriptor(e);
            assert_eq!(core.upkeep().lock().stuck.get(&e), Some(&(d.generation, live)));
            assert!(!core.upkeep().collect(Urgency::Full).unwrap(), "it is known");
            core.state().eblocks_mut().sub_live(e, 64);
        }
        assert_eq!((core.upkeep().lock().victims, core.state().eblocks().stuck()), (2, 1));
    }
}
