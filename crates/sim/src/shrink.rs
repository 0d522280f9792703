//! Shortens a failing list of steps by bisection to a short one that still fails.
//!
//! ```text
//!   0 1 2 3 4 5 6 7 x        nothing after the failing step matters
//!   0 1 . . 4 5 6 7 x        a chunk is left out: it still fails, so it stays out
//!   0 . . . 4 . . 7 x        chunks of half the size, and so on, until no single step can be left out
//! ```
//!
//! Source: delta debugging (Zeller, Hildebrandt, TSE 2002).

use crate::failure::Failure;

/// Returns the numbers of the remaining steps and the failure with them. `fails` runs the steps with these numbers;
/// it is called at most `runs` times.
pub(crate) fn cut_down(
    failure: Failure,
    steps: Vec<usize>,
    runs: u32,
    mut fails: impl FnMut(&[usize]) -> Option<Failure>,
) -> (Vec<usize>, Failure) {
    let mut failure = failure;
    let mut left: Vec<usize> = steps.into_iter().filter(|&n| n <= failure.step).collect();
    let mut runs = runs;
    let mut size = left.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut cut_some = false;
        while at < left.len() && runs > 0 {
            let end = (at + size).min(left.len());
            let without: Vec<usize> = left[..at].iter().chain(&left[end..]).copied().collect();
            runs -= 1;
            match fails(&without).filter(|f| f.is_like(&failure)) {
                Some(f) => {
                    left = without.into_iter().filter(|&n| n <= f.step).collect();
                    failure = f;
                    cut_some = true;
                }
                None => at = end,
            }
        }
        match size {
            _ if runs == 0 => break,
            1 if !cut_some => break,
            1 => {}
            n => size = n / 2,
        }
    }
    (left, failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    #[test]
    fn what_is_needed_is_left_and_nothing_else() {
        let needed = [3, 41, 42, 77];
        let fails = |steps: &[usize]| {
            let failed = needed.iter().all(|n| steps.contains(n));
            failed.then(|| Failure { step: 77, kind: FailureKind::Lost, what: String::new() })
        };
        let all: Vec<usize> = (0..100).collect();
        let mut runs = 0;
        let (left, failure) = cut_down(fails(&all).unwrap(), all.clone(), 1000, |s| {
            runs += 1;
            fails(s)
        });
        assert_eq!((left, failure.step), (needed.to_vec(), 77));
        assert!(runs < 120, "{runs} runs");
        let (left, _) = cut_down(fails(&all).unwrap(), all, 3, fails);
        assert!(
            left.len() < 80 && needed.iter().all(|n| left.contains(n)),
            "out of runs: what was found stands"
        );
    }

    #[test]
    fn another_failure_is_not_taken_for_this_one() {
        let fails = |steps: &[usize]| {
            let kind = if steps.contains(&1) { FailureKind::Lost } else { FailureKind::Panic };
            Some(Failure { step: 9, kind, what: String::new() })
        };
        let (left, failure) = cut_down(fails(&[1]).unwrap(), (0..10).collect(), 1000, fails);
        assert_eq!((left, failure.kind), (vec![1], FailureKind::Lost));
    }
}
