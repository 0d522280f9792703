//! The matcher: the keys of the task are looked for in the bytes of the page as it is read.
//!
//! A page without them goes no further, and no core sees it. It knows neither columns nor rows: a page with all keys may have no row
//! that passes.

use std::sync::Arc;

use lode_command::CommandError;
use lode_program::answer::Member;
use lode_program::{Matcher, Verdict};

use super::{Asked, Looked, Mechanism, Page, Screen, Stage};
use crate::compute::PageCost;
use crate::planted::{self, Planted};

/// The member of the table.
pub(super) struct PatternMatcher;

struct Compiled {
    matcher: Arc<Matcher>,
}

impl Mechanism for PatternMatcher {
    fn member(&self) -> Member {
        Member::Matcher
    }

    /// Declines a task without keys.
    fn compile(&self, asked: &Asked) -> Option<Stage> {
        let matcher = asked.matcher.clone()?;
        let matcher =
            planted::instead(Planted::MatcherKeyBit, || matcher.clone(), || with_bit_changed(&matcher));
        Some(Stage::Screen(Box::new(Compiled { matcher })))
    }
}

impl Screen for Compiled {
    fn verdict(&self, page: &Page<'_>) -> Result<Looked, CommandError> {
        let (bytes, media_bytes) = page.access.read_past_matcher(page.at)?;
        let may_match = || self.matcher.may_match(&bytes);
        let has_all = || self.matcher.keys().all(|k| bytes.windows(k.len()).any(|w| w == k));
        let passes = planted::instead(Planted::MatcherAllForAny, may_match, has_all);
        let verdict = if passes { Verdict::Maybe } else { Verdict::No };
        Ok(Looked { verdict, read: Some((bytes, media_bytes)), keys_compared: 0 })
    }

    fn cost(&self, looked: &Looked, page: &Page<'_>, cost: &mut PageCost) {
        cost.read = true;
        // What is dropped does not reach the memory of the device.
        cost.matched_bytes = if looked.verdict == Verdict::No { 0 } else { page.at.len_bytes().into() };
    }
}

/// The matcher with another first key.
fn with_bit_changed(m: &Matcher) -> Arc<Matcher> {
    let mut keys: Vec<Vec<u8>> = m.keys().map(<[u8]>::to_vec).collect();
    keys[0][0] ^= 1;
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let passes = (0..8).fold(0, |p, found| p | u8::from(m.passes_with(found)) << found);
    Arc::new(Matcher::of_keys(&keys, passes).expect("as many keys, of the same lengths"))
}
