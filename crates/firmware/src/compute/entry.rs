//! The index entry of a page that is being written.

use lode_base::{Lpid, PageBuf};
use lode_command::CommandError;
use lode_page::TablePage;
use lode_program::{IndexEntry, IndexRule};

use crate::compute::columns::{PageColumns, bad_page, eval_error, page_error};

/// The entry that `rule` makes of the whole page `lpid`. The page may have columns that were added to its table after the rule
/// was registered.
///
/// # Errors
/// [`CommandError::BadPage`] when the bytes are no table page of the rule's schema.
pub(crate) fn entry_of(rule: &IndexRule, lpid: Lpid, page: &PageBuf) -> Result<IndexEntry, CommandError> {
    let len = u32::try_from(page.len()).map_err(|_| bad_page(lpid, "it is too long"))?;
    let fetch = |r: std::ops::Range<u32>| Ok(page.slice(r.start as usize..r.end as usize));
    let open = TablePage::open(lpid, len, page).map_err(|e| page_error(lpid, &e))?;
    let mut columns = PageColumns::of_page(open, page.clone(), rule.schema(), fetch)?;
    rule.entry(&mut columns).map_err(|e| eval_error(lpid, e))
}
