//! The index entry of a page that is being written.

use lode_base::{Lpid, PageBuf};
use lode_command::CommandError;
use lode_program::{EvalError, IndexEntry, IndexRule};

use crate::compute::columns::{PageColumns, bad_page};

/// The entry that `rule` makes of the whole page `lpid`.
///
/// # Errors
/// [`CommandError::BadPage`] when the bytes are no table page of the rule's schema.
pub(crate) fn entry_of(rule: &IndexRule, lpid: Lpid, page: &PageBuf) -> Result<IndexEntry, CommandError> {
    let len = u32::try_from(page.len()).map_err(|_| bad_page(lpid, "it is too long"))?;
    let fetch = |r: std::ops::Range<u32>| Ok(page.slice(r.start as usize..r.end as usize));
    let mut columns = PageColumns::open(lpid, len, rule.schema(), fetch)?;
    rule.entry(&mut columns).map_err(|e| match e {
        EvalError::Source(e) => e,
        e => bad_page(lpid, e),
    })
}
