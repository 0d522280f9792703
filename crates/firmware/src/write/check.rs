//! Whether a batch is valid by itself, whatever the drive holds.

use std::collections::HashSet;

use lode_base::fast::FastSet;
use lode_base::{ExtentId, Lpid, PAGE_BYTES_MIN};
use lode_command::{Batch, CommandError, Identity};

use crate::pages::index_page_bytes;
use crate::space::page_bytes_max;

fn invalid(what: impl Into<String>) -> CommandError {
    CommandError::Invalid(what.into())
}

/// Checks the limits of a batch, and that it names each thing once.
///
/// # Errors
/// [`CommandError::Invalid`] says what is wrong.
pub(super) fn check(batch: &Batch, id: &Identity) -> Result<(), CommandError> {
    let pages = batch.writes.len() + batch.trims.len();
    if pages as u64 > u64::from(id.batch_pages_max) {
        let most = id.batch_pages_max;
        return Err(invalid(format!("a batch of {pages} pages; at most {most} are taken")));
    }
    let bytes = batch.payload_bytes() as u64;
    if bytes > id.batch_bytes_max {
        let most = id.batch_bytes_max;
        return Err(invalid(format!("a batch of {bytes} bytes; at most {most} are taken")));
    }
    let releases: FastSet<ExtentId> = batch.releases.iter().copied().collect();
    if releases.len() < batch.releases.len() {
        return Err(invalid("an extent is released twice in one batch"));
    }
    for p in &batch.writes {
        let (lpid, len) = (p.lpid, p.data.len());
        if !(PAGE_BYTES_MIN..=id.page_bytes_max as usize).contains(&len) {
            let max = id.page_bytes_max;
            return Err(invalid(format!("page {lpid} has {len} bytes; {PAGE_BYTES_MIN} to {max} are taken")));
        }
        if !releases.is_empty() && releases.contains(&lpid.extent()) {
            return Err(invalid(format!("page {lpid} is written in an extent that is released")));
        }
    }
    let mut lpids: Vec<Lpid> = Vec::with_capacity(pages);
    lpids.extend(batch.writes.iter().map(|p| p.lpid).chain(batch.trims.iter().copied()));
    // Most batches come in order.
    if !lpids.is_sorted() {
        lpids.sort_unstable();
    }
    if let Some(twice) = lpids.windows(2).find(|w| w[0] == w[1]) {
        return Err(invalid(format!("page {} comes twice in one batch", twice[0])));
    }
    check_rules(batch, id)
}

fn check_rules(batch: &Batch, id: &Identity) -> Result<(), CommandError> {
    let mut owners = HashSet::new();
    if let Some((owner, _)) = batch.index_rules.iter().find(|(owner, _)| !owners.insert(*owner)) {
        return Err(invalid(format!("{owner:?} gets two index rules in one batch")));
    }
    let most = page_bytes_max(&id.geometry);
    let is_wide = |entry_bytes| index_page_bytes(entry_bytes) > most;
    let wide = batch.index_rules.iter().find(|(_, r)| r.as_ref().is_some_and(|r| is_wide(r.entry_bytes())));
    match wide {
        Some((owner, _)) => {
            Err(invalid(format!("the index entries of {owner:?} are too wide for an EBLOCK")))
        }
        None => Ok(()),
    }
}
