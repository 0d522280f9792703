//! Inner nodes that a snapshot has met. What the snapshot sees of a page never changes, so it need not look the page up again.
//!
//! ```text
//!   LPID ─► one of 64 places ─► the node that came there first          set once, read without a lock
//! ```
//!
//! Readers of one snapshot on several threads would otherwise all lock the shard of the table that has the root.

use std::hash::Hasher;
use std::sync::OnceLock;

use lode_base::Lpid;
use lode_page::Node;

use super::frames::LpidHasher;

/// Places: enough for the two upper levels of a tree of some hundred MB.
const PLACES: usize = 64;

type Places = [OnceLock<(Lpid, Node)>; PLACES];

/// Inner nodes of one snapshot.
#[derive(Default)]
pub(crate) struct Upper {
    /// Made when the first node is kept: most snapshots of a writer are never read.
    places: OnceLock<Box<Places>>,
}

impl Upper {
    fn place(lpid: Lpid) -> usize {
        let mut h = LpidHasher::default();
        h.write_u64(lpid.raw());
        h.finish() as usize % PLACES
    }

    /// An inner node that was kept.
    #[inline]
    pub(crate) fn get(&self, lpid: Lpid) -> Option<&Node> {
        let (kept, node) = self.places.get()?[Self::place(lpid)].get()?;
        (*kept == lpid).then_some(node)
    }

    /// Keeps an inner node as the snapshot sees it, unless another has its place.
    pub(crate) fn keep(&self, lpid: Lpid, node: &Node) {
        let places = self.places.get_or_init(|| Box::new([const { OnceLock::new() }; PLACES]));
        places[Self::place(lpid)].get_or_init(|| (lpid, node.clone()));
    }
}
