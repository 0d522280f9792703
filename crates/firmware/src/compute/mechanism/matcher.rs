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
        Some(Stage::Screen(Box::new(Compiled { matcher })))
    }
}

impl Screen for Compiled {
    fn verdict(&self, page: &Page<'_>) -> Result<Looked, CommandError> {
        let (bytes, media_bytes) = page.access.read_past_matcher(page.at)?;
        let verdict = if self.matcher.may_match(&bytes) { Verdict::Maybe } else { Verdict::No };
        Ok(Looked { verdict, read: Some((bytes, media_bytes)) })
    }

    fn cost(&self, said: Verdict, page: &Page<'_>, cost: &mut PageCost) {
        cost.read = true;
        // What is dropped does not reach the memory of the device.
        cost.matched_bytes = if said == Verdict::No { 0 } else { page.at.len_bytes().into() };
    }
}
