//! What a policy may see of an EBLOCK, what it answers, and the table of all policies.
//!
//! ```text
//!   available_bytes, age, erase_count ─► score ─► the smallest goes; infinite: never
//! ```
//!
//! Invariants: a score is a number or +infinity, never NaN; an EBLOCK with nothing available scores +infinity,
//! since moving it would gain nothing; the choice depends on the candidates alone, not on their order.
//!
//! Source: ELEOS §VI-A. We differ: equal scores go to the EBLOCK that was erased less often, which levels wear
//! at no cost.

use std::fmt;

use lode_base::EblockId;

use super::{cost_benefit, greedy, min_cost_decline, oldest, round_robin};

/// The policies, the default first.
pub const POLICIES: &[Policy] =
    &[min_cost_decline::POLICY, greedy::POLICY, oldest::POLICY, cost_benefit::POLICY, round_robin::POLICY];

/// What a policy may see of an EBLOCK that could go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub eblock: EblockId,
    /// Bytes in it that no page needs, at most `eblock_bytes`.
    pub available_bytes: u32,
    /// Bytes of an EBLOCK, above 0.
    pub eblock_bytes: u32,
    /// Now minus its timestamp, in update sequence numbers: 1 or more.
    pub age: u64,
    /// How often it was erased.
    pub erase_count: u32,
}

/// What is the same for all candidates of one choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// EBLOCKs of the drive.
    pub eblocks: u32,
    /// The victim before.
    pub last_victim: u32,
}

/// A way to choose the victim.
#[derive(Clone, Copy)]
pub struct Policy {
    /// Its name, as in options and reports.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The candidate with the smallest score goes; one with an infinite score never does.
    pub score: fn(&Candidate, &Round) -> f64,
}

impl Candidate {
    /// The available fraction E, 0 to 1.
    pub(super) fn available_fraction(&self) -> f64 {
        let (available, all) = (self.available_bytes, self.eblock_bytes);
        assert!(available <= all && all > 0, "{available} of {all} bytes are available");
        f64::from(available) / f64::from(all)
    }

    /// Its age as a number for formulas.
    pub(super) fn age(&self) -> f64 {
        assert!(self.age > 0, "an EBLOCK is at least one update old");
        self.age as f64
    }
}

impl Policy {
    /// The policy of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|p| p.name == name)
    }

    /// The victim; `None` when nothing would be gained by any.
    pub fn choose(
        &self,
        candidates: impl IntoIterator<Item = Candidate>,
        round: &Round,
    ) -> Option<Candidate> {
        let scored = candidates.into_iter().filter_map(|c| {
            let score = if c.available_bytes == 0 { f64::INFINITY } else { (self.score)(&c, round) };
            assert!(!score.is_nan(), "{} scores {c:?} as NaN", self.name);
            (score < f64::INFINITY).then_some((score, c))
        });
        let before = |a: &(f64, Candidate), b: &(f64, Candidate)| {
            let ties = |c: &Candidate| (c.erase_count, c.eblock);
            a.0.total_cmp(&b.0).then_with(|| ties(&a.1).cmp(&ties(&b.1)))
        };
        scored.min_by(before).map(|(_, c)| c)
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Policy {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const EBLOCK_BYTES: u32 = 1 << 20;
    const EBLOCKS: u32 = 64;

    fn candidate(eblock: u32, available_bytes: u32, age: u64) -> Candidate {
        let eblock = EblockId::new(eblock);
        Candidate { eblock, available_bytes, eblock_bytes: EBLOCK_BYTES, age, erase_count: 0 }
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let available =
            prop_oneof![Just(0), Just(1), Just(EBLOCK_BYTES - 1), Just(EBLOCK_BYTES), 0..=EBLOCK_BYTES];
        let age = prop_oneof![Just(1), Just(u64::MAX), 1..1_000_000u64];
        let parts = proptest::collection::vec((available, age, 0..3u32), 1..EBLOCKS as usize);
        parts.prop_map(|parts| {
            let of = |(i, (available, age, erase_count))| Candidate {
                erase_count,
                ..candidate(i as u32, available, age)
            };
            parts.into_iter().enumerate().map(of).collect()
        })
    }

    fn round(last_victim: u32) -> Round {
        Round { eblocks: EBLOCKS, last_victim }
    }

    proptest! {
        #[test]
        fn every_policy_chooses_what_gains_something(all in candidates(), last in 0..EBLOCKS) {
            for p in POLICIES {
                for c in &all {
                    let score = (p.score)(c, &round(last));
                    prop_assert!(!score.is_nan() && score != f64::NEG_INFINITY, "{p:?} {c:?}: {score}");
                    prop_assert_eq!(score == f64::INFINITY, c.available_bytes == 0, "{:?} {:?}", p, c);
                }
                let victim = p.choose(all.iter().copied(), &round(last));
                prop_assert_eq!(victim.is_some(), all.iter().any(|c| c.available_bytes > 0), "{:?}", p);
                prop_assert!(victim.is_none_or(|v| v.available_bytes > 0), "{p:?} gains nothing");
                let backwards = p.choose(all.iter().rev().copied(), &round(last));
                prop_assert_eq!(victim, backwards, "{:?} depends on the order", p);
            }
        }

        /// Those that weigh what moving costs; `oldest` and `round-robin` do not look at it.
        #[test]
        fn an_eblock_without_live_pages_goes_first(all in candidates(), last in 0..EBLOCKS) {
            prop_assume!(all.iter().any(|c| c.available_bytes == EBLOCK_BYTES));
            for name in ["min-cost-decline", "greedy", "cost-benefit"] {
                let p = Policy::named(name).unwrap();
                let victim = p.choose(all.iter().copied(), &round(last)).unwrap();
                prop_assert_eq!(victim.available_bytes, EBLOCK_BYTES, "{}", name);
            }
        }

        /// Of two that differ in age alone, or in available bytes alone, no policy takes the worse one.
        #[test]
        fn older_and_emptier_is_never_worse(a in 1..=EBLOCK_BYTES, more in 0..EBLOCK_BYTES, age in 1..1000u64) {
            let emptier = a.saturating_add(more).min(EBLOCK_BYTES);
            for p in POLICIES {
                let score = |c| (p.score)(&c, &round(0));
                prop_assert!(score(candidate(5, emptier, age)) <= score(candidate(5, a, age)), "{p:?}");
                prop_assert!(score(candidate(5, a, age + 7)) <= score(candidate(5, a, age)), "{p:?}");
            }
        }
    }

    #[test]
    fn names_are_distinct_and_found() {
        let names: HashSet<_> = POLICIES.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), POLICIES.len());
        assert!(POLICIES.iter().all(|p| Policy::named(p.name) == Some(p) && !p.about.is_empty()));
        assert_eq!(POLICIES[0].name, "min-cost-decline");
        assert_eq!(Policy::named("none"), None);
        assert_ne!(POLICIES[0], POLICIES[1]);
        assert_eq!(format!("{:?}", POLICIES[0]), "min-cost-decline");
    }

    #[test]
    fn equal_scores_go_to_the_less_worn() {
        let worn = Candidate { erase_count: 9, ..candidate(1, 4096, 5) };
        let fresh = Candidate { erase_count: 2, ..candidate(2, 4096, 5) };
        let greedy = Policy::named("greedy").unwrap();
        assert_eq!(greedy.choose([worn, fresh], &round(0)), Some(fresh));
    }

    fn check(policy: &str, of: &[Candidate], last_victim: u32, expected: u32) {
        let victim = Policy::named(policy).unwrap().choose(of.iter().copied(), &round(last_victim));
        assert_eq!(victim.map(|c| c.eblock.raw()), Some(expected), "{policy}");
    }

    #[test]
    fn each_policy_has_its_own_mind() {
        let mb = |tenths: u32| EBLOCK_BYTES / 10 * tenths;
        // A young one that is nearly empty, an old one that is half empty, the oldest with little to gain.
        let of = [
            candidate(3, mb(8), 10),
            candidate(7, mb(5), 400),
            candidate(9, mb(1), 2000),
            candidate(11, 0, 9999),
        ];
        check("greedy", &of, 0, 3);
        check("oldest", &of, 0, 9);
        let scored = |name: &str, expected: [f64; 3]| {
            for (c, expected) in of.iter().zip(expected) {
                let score = (Policy::named(name).unwrap().score)(c, &round(0));
                assert!((score / expected - 1.0).abs() < 0.001, "{name}: {score}, not {expected}");
            }
        };
        scored("min-cost-decline", [0.03125, 0.005, 0.045]);
        scored("cost-benefit", [-20.0 / 3.0, -400.0 / 3.0, -2000.0 / 19.0]);
        // 0.2 / (0.64 x 10) = 0.031, 0.5 / (0.25 x 400) = 0.005, 0.9 / (0.01 x 2000) = 0.045.
        check("min-cost-decline", &of, 0, 7);
        // 10 x 0.8 / 1.2 = 6.7, 400 x 0.5 / 1.5 = 133, 2000 x 0.1 / 1.9 = 105.
        check("cost-benefit", &of, 0, 7);
        check("round-robin", &of, 0, 3);
        check("round-robin", &of, 3, 7);
        check("round-robin", &of, 9, 3);
    }
}
