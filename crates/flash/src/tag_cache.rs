//! Tag groups in memory, so that a read costs one read of data and none of tags.
//!
//! ```text
//!   group ── mod SLOTS ─► slot { group, changes, 256 tags }       16 MB hold the tags of 4 GB of data
//! ```
//!
//! Invariant: a cached tag is what the image has. A loader reads the image without the slot's lock; `changes` tells
//! it whether a tag was written meanwhile, and then it reads again. Whoever holds a group by [`TagCache::held`] sees tags
//! that were not written since; of others he may see halves, so that what does not verify by them is to be read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::FlashError;
use crate::tag::{TAG_BYTES, Tag};

/// Slots of the cache.
const SLOTS: usize = 4096;
/// Tags in a group.
pub(crate) const GROUP_TAGS: usize = 256;

/// The tags of one group, as they lie on the image.
pub(crate) type GroupBytes = [u8; GROUP_TAGS * TAG_BYTES];

/// The tags of one group in memory: two words each.
pub(crate) struct Group(Box<[[AtomicU64; TAG_BYTES / 8]]>);

impl Group {
    fn new(bytes: &GroupBytes) -> Self {
        let word = |b: &[u8; 8]| AtomicU64::new(u64::from_le_bytes(*b));
        let (tags, _) = bytes.as_chunks::<TAG_BYTES>();
        Self(tags.iter().map(|t| std::array::from_fn(|i| word(&t.as_chunks().0[i]))).collect())
    }

    /// Tag `index`.
    pub(crate) fn tag(&self, index: usize) -> Tag {
        let mut bytes = [0; TAG_BYTES];
        for (b, word) in bytes.as_chunks_mut().0.iter_mut().zip(&self.0[index]) {
            *b = word.load(Ordering::Relaxed).to_le_bytes();
        }
        Tag::from_bytes(&bytes)
    }

    fn copy_from(&self, first: usize, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks();
        for (to, word) in self.0[first..].iter().flatten().zip(words) {
            to.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct Slot {
    /// Writes and evictions so far, of any group that maps here.
    changes: u64,
    held: Option<(u64, Arc<Group>)>,
}

pub(crate) struct TagCache {
    slots: Vec<RwLock<Slot>>,
}

impl TagCache {
    /// A cache for a medium of `groups` groups.
    pub(crate) fn new(groups: u64) -> Self {
        let slots = groups.clamp(1, SLOTS as u64);
        Self { slots: (0..slots).map(|_| RwLock::default()).collect() }
    }

    fn slot(&self, group: u64) -> &RwLock<Slot> {
        &self.slots[(group % self.slots.len() as u64) as usize]
    }

    /// Copies tags `first..first + out.len()` of `group` to `out`, reading the group with `load` if it is not here.
    pub(crate) fn get(
        &self,
        group: u64,
        first: usize,
        out: &mut [Tag],
        load: impl Fn(&mut GroupBytes) -> Result<(), FlashError>,
    ) -> Result<(), FlashError> {
        let copy = |g: &Group, out: &mut [Tag]| {
            out.iter_mut().enumerate().for_each(|(i, t)| *t = g.tag(first + i));
        };
        loop {
            let changes = {
                let slot = self.slot(group).read();
                if let Some((held, tags)) = &slot.held
                    && *held == group
                {
                    copy(tags, out);
                    return Ok(());
                }
                slot.changes
            };
            let mut bytes = Box::new([0; GROUP_TAGS * TAG_BYTES]);
            load(&mut bytes)?;
            let mut slot = self.slot(group).write();
            if slot.changes == changes {
                let tags = Group::new(&bytes);
                copy(&tags, out);
                slot.held = Some((group, Arc::new(tags)));
                return Ok(());
            }
        }
    }

    /// The tags of `group`, if they are here.
    pub(crate) fn held(&self, group: u64) -> Option<Arc<Group>> {
        let slot = self.slot(group).read();
        slot.held.as_ref().filter(|(held, _)| *held == group).map(|(_, tags)| tags.clone())
    }

    /// Tags that were just written to the image, from tag `first` of `group` on.
    pub(crate) fn written(&self, group: u64, first: usize, tags: &[u8]) {
        let mut slot = self.slot(group).write();
        slot.changes += 1;
        if let Some((held, group_tags)) = &slot.held
            && *held == group
        {
            group_tags.copy_from(first, tags);
        }
    }

    /// Forgets `group`, whose tags are (or may be) no longer what they were.
    pub(crate) fn forget(&self, group: u64) {
        let mut slot = self.slot(group).write();
        slot.changes += 1;
        slot.held.take_if(|(held, _)| *held == group);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn loads_once_sees_writes_and_reads_again_when_overtaken() {
        let cache = TagCache::new(2);
        let loads = Cell::new(0);
        let tag = Tag { crc: 9, generation: 8, kind: 1 };
        let get = |group, overtaken: bool| {
            let mut out = [Tag::default(); 2];
            let load = |_: &mut GroupBytes| {
                loads.set(loads.get() + 1);
                if overtaken && loads.get() == 1 {
                    cache.written(group, 5, &tag.to_bytes());
                }
                Ok(())
            };
            cache.get(group, 5, &mut out, load).unwrap();
            (out[0], loads.replace(0))
        };
        assert_eq!(get(0, true), (Tag::default(), 2));
        assert_eq!(get(0, false), (Tag::default(), 0));
        let held = cache.held(0).unwrap();
        cache.written(0, 5, &tag.to_bytes());
        assert_eq!(get(0, false), (tag, 0));
        assert_eq!((held.tag(5), held.tag(6)), (tag, Tag::default()));
        assert!(cache.held(2).is_none());
        assert_eq!(get(2, false), (Tag::default(), 1), "another group of the same slot");
        cache.forget(2);
        assert_eq!(get(2, false).1, 1);
    }
}
