//! What every policy of the table keeps to, whatever it goes by.

use lode_base::EblockId;
use proptest::prelude::*;

use super::*;

const EBLOCK_BYTES: u32 = 1 << 20;
const EBLOCKS: u32 = 64;
const URGENCIES: [Urgency; 3] = [Urgency::Background, Urgency::Paid, Urgency::Full];

fn candidate(eblock: u32, available_bytes: u32, age: u64) -> Candidate {
    Candidate {
        eblock: EblockId::new(eblock),
        channel: 0,
        available_bytes,
        eblock_bytes: EBLOCK_BYTES,
        erase_count: 0,
        age,
        pages_age: age,
    }
}

fn view(candidates: &[Candidate]) -> GcView<'_> {
    GcView {
        urgency: Urgency::Background,
        candidates,
        eblock_count: EBLOCKS,
        eblock_bytes: EBLOCK_BYTES,
        free_eblocks: 12,
        free_eblocks_min: 13,
        reserve_eblocks: 7,
        gain_bytes_min: EBLOCK_BYTES / 16,
        step_bytes: 512 << 10,
        now: 1_000_000,
        classes: [Some(999_000), None, None],
    }
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let available = prop_oneof![Just(1), Just(EBLOCK_BYTES - 1), Just(EBLOCK_BYTES), 1..=EBLOCK_BYTES];
    let age = prop_oneof![Just(1), Just(u64::MAX), 1..1_000_000u64];
    let parts = proptest::collection::vec((available, age, 0..3u32, any::<bool>()), 1..EBLOCKS as usize);
    parts.prop_map(|parts| {
        let of = |(i, (available, age, erase_count, there))| {
            let c = Candidate { erase_count, ..candidate(i as u32, available, age) };
            Some(c).filter(|_| there)
        };
        parts.into_iter().enumerate().filter_map(of).collect()
    })
}

fn make(name: &str) -> Box<dyn Policy> {
    GcPolicy::named(name).unwrap().make()
}

/// The EBLOCK that a new policy of this name chooses.
fn chosen(name: &str, of: &[Candidate]) -> Option<EblockId> {
    let view = view(of);
    view.chosen(make(name).choose(&view)).map(|c| c.eblock)
}

proptest! {
    #[test]
    fn a_policy_chooses_what_is_offered(all in candidates(), last in 0..EBLOCKS) {
        for p in POLICIES {
            for urgency in URGENCIES {
                let mut policy = (p.make)();
                policy.step_begins(EblockId::new(last));
                let view = GcView { urgency, ..view(&all) };
                match policy.choose(&view) {
                    Choice::Empty(victim) => prop_assert!(view.candidate(victim.eblock).is_some(), "{p:?}: {victim:?}"),
                    // One may wait for more; where a batch waits the drive then goes by what is available.
                    Choice::Decline => {}
                }
            }
        }
    }

    /// Two of a kind that see the same choose the same, all along.
    #[test]
    fn a_policy_is_deterministic(rounds in proptest::collection::vec(candidates(), 1..8)) {
        for p in POLICIES {
            let mut twins = [(p.make)(), (p.make)()];
            for all in &rounds {
                let [a, b] = twins.each_mut().map(|t| {
                    let choice = t.choose(&view(all));
                    if let Choice::Empty(victim) = choice {
                        t.step_begins(victim.eblock);
                    }
                    choice
                });
                prop_assert_eq!(a, b, "{:?}", p);
            }
        }
    }

    /// Those of the table that weigh what moving costs; `oldest` and `round-robin` do not look at it.
    #[test]
    fn an_eblock_without_live_pages_goes_first(all in candidates()) {
        prop_assume!(all.iter().any(|c| c.available_bytes == EBLOCK_BYTES));
        for name in ["min-cost-decline", "greedy", "cost-benefit"] {
            let victim = chosen(name, &all).unwrap();
            prop_assert_eq!(view(&all).candidate(victim).unwrap().available_bytes, EBLOCK_BYTES, "{}", name);
        }
    }

    /// Of two that differ in age alone, or in available bytes alone, no policy of ours takes the worse one because of that.
    #[test]
    fn older_and_emptier_is_never_worse(a in 1..=EBLOCK_BYTES, more in 0..EBLOCK_BYTES, age in 1..1000u64) {
        let better = [
            candidate(5, a.saturating_add(more).min(EBLOCK_BYTES), age),
            candidate(5, a, age + 7),
        ];
        for name in ["min-cost-decline", "greedy", "oldest", "cost-benefit"] {
            for better in better {
                // A tie goes to the one that was erased less often.
                let worse = Candidate { eblock: EblockId::new(4), erase_count: 1, ..candidate(4, a, age) };
                prop_assert_eq!(chosen(name, &[worse, better]), Some(better.eblock), "{}", name);
            }
        }
    }
}

#[test]
fn a_policy_declines_where_there_is_nothing_to_choose() {
    for p in POLICIES {
        let mut policy = (p.make)();
        for urgency in URGENCIES {
            for eblock_count in [0, 1, EBLOCKS] {
                let view = GcView { urgency, eblock_count, ..view(&[]) };
                assert_eq!(policy.choose(&view), Choice::Decline, "{p:?}");
            }
            policy.step_begins(EblockId::new(EBLOCKS - 1));
        }
    }
}

#[test]
fn equal_scores_go_to_the_less_worn_then_to_the_first() {
    let worn = Candidate { erase_count: 9, ..candidate(1, 4096, 5) };
    let [fresh, later] = [2, 3].map(|e| Candidate { erase_count: 2, ..candidate(e, 4096, 5) });
    assert_eq!(view(&[worn, fresh, later]).most_available(), Choice::empty(fresh.eblock));
}

#[test]
fn an_infinite_score_is_never_chosen() {
    let all = [candidate(1, 1, 1), candidate(2, 2, 1)];
    let view = view(&all);
    let only = |n: u32| move |c: &Candidate| if c.eblock.raw() == n { f64::MAX } else { f64::INFINITY };
    assert_eq!(view.smallest(only(2)), Choice::empty(EblockId::new(2)));
    assert_eq!(view.smallest(only(3)), Choice::Decline);
}

#[test]
#[should_panic(expected = "is NaN")]
fn a_score_is_a_number() {
    view(&[candidate(1, 1, 1)]).smallest(|_| f64::NAN);
}

#[test]
fn a_choice_that_is_not_offered_is_none() {
    let all = [candidate(3, 1, 1), candidate(7, 2, 1)];
    let view = view(&all);
    for (e, expected) in [(2, None), (3, Some(&all[0])), (5, None), (7, Some(&all[1])), (u32::MAX, None)] {
        assert_eq!(view.chosen(Choice::empty(EblockId::new(e))), expected);
    }
    assert_eq!(view.chosen(Choice::Decline), None);
}

#[test]
fn each_policy_has_its_own_mind() {
    let mb = |tenths: u32| EBLOCK_BYTES / 10 * tenths;
    // A young one that is nearly empty, an old one that is half empty, the oldest with little to gain.
    let of = [candidate(3, mb(8), 10), candidate(7, mb(5), 400), candidate(9, mb(1), 2000)];
    let check = |policy: &str, expected: u32| {
        assert_eq!(chosen(policy, &of), Some(EblockId::new(expected)), "{policy}");
    };
    check("greedy", 3);
    check("oldest", 9);
    // 0.2 / (0.64 x 10) = 0.031, 0.5 / (0.25 x 400) = 0.005, 0.9 / (0.01 x 2000) = 0.045.
    check("min-cost-decline", 7);
    // 10 x 0.8 / 1.2 = 6.7, 400 x 0.5 / 1.5 = 133, 2000 x 0.1 / 1.9 = 105.
    check("cost-benefit", 7);
    check("round-robin", 3);
}

#[test]
fn round_robin_goes_on_behind_the_last_victim_whatever_it_was_chosen_for() {
    let of = [candidate(3, 1, 1), candidate(7, 1, 1), candidate(9, 1, 1)];
    let mut policy = make("round-robin");
    for (last, expected) in [(0, 3), (3, 7), (8, 9), (9, 3), (EBLOCKS - 1, 3)] {
        policy.step_begins(EblockId::new(last));
        for _ in 0..2 {
            assert_eq!(policy.choose(&view(&of)), Choice::empty(EblockId::new(expected)), "after {last}");
        }
    }
}
