//! A cache of tag groups, so that a read of data needs no read of tags.
//!
//! ```text
//!   group ── mod slots ─► slot { version, group, 256 tags }       16 MB hold the tags of 4 GB of data
//!   reader: version ─► tags ─► version still the same?            no lock
//!   writer: lock ─► version odd ─► tags ─► version even
//! ```
//!
//! Invariant: a cached tag equals the image's. A loader reads the image without the slot's lock, and reads again if
//! the version shows that a tag was written meanwhile. A reader uses its result only if the version was even, and the
//! same before and after. Source: sequence locks over atomic words (Boehm, MSPC 2012).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use lode_base::prefetch::prefetch;
use parking_lot::Mutex;

use crate::FlashError;
use crate::tag::{TAG_BYTES, Tag};

/// Slots of the cache, at most.
const SLOTS_MAX: usize = 4096;
/// Tags in a group.
pub(crate) const GROUP_TAGS: usize = 256;

/// The tags of one group, as they lie on the image.
pub(crate) type GroupBytes = [u8; GROUP_TAGS * TAG_BYTES];

/// A tag in memory, in one cache line.
#[derive(Default)]
#[repr(align(16))]
struct Words([AtomicU64; TAG_BYTES / 8]);

impl Words {
    fn load(&self) -> Tag {
        let mut bytes = [0; TAG_BYTES];
        for (b, word) in bytes.as_chunks_mut().0.iter_mut().zip(&self.0) {
            *b = word.load(Ordering::Relaxed).to_le_bytes();
        }
        Tag::from_bytes(&bytes)
    }

    fn store(&self, bytes: &[u8; TAG_BYTES]) {
        for (word, b) in self.0.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*b), Ordering::Relaxed);
        }
    }
}

type Group = [Words; GROUP_TAGS];

#[derive(Default)]
struct Slot {
    /// Incremented twice for each change of a group that maps here. Odd during a change.
    version: AtomicU64,
    /// The group whose tags are here, plus 1; 0 is none.
    held: AtomicU64,
    /// Allocated when they are first needed.
    tags: OnceLock<Box<Group>>,
    changing: Mutex<()>,
}

impl Slot {
    fn holds(&self, group: u64) -> bool {
        self.held.load(Ordering::Relaxed) == group + 1
    }

    fn tags(&self) -> &Group {
        self.tags.get_or_init(|| Box::new(std::array::from_fn(|_| Words::default())))
    }

    /// Changes the slot, unless its version has changed since `since`. Returns whether it did.
    fn change(&self, since: Option<u64>, change: impl FnOnce(&Self)) -> bool {
        let _changing = self.changing.lock();
        let version = self.version.load(Ordering::Relaxed);
        if since.is_some_and(|s| s != version) {
            return false;
        }
        self.version.store(version + 1, Ordering::Relaxed);
        // A reader that sees a part of the change also sees the odd version.
        fence(Ordering::Release);
        change(self);
        self.version.store(version + 2, Ordering::Release);
        true
    }

    fn store(&self, first: usize, bytes: &[u8]) {
        for (words, b) in self.tags()[first..].iter().zip(bytes.as_chunks().0) {
            words.store(b);
        }
    }
}

/// The tags of a group that were in the cache when they were looked up.
#[derive(Clone, Copy)]
pub(crate) struct CachedTags<'a> {
    slot: &'a Slot,
    tags: &'a Group,
    version: u64,
}

impl CachedTags<'_> {
    /// Prefetches tag `index`.
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch(&self.tags[index].0[0]);
    }

    /// Tag `index`; `None` if the slot has changed since.
    pub(crate) fn tag(&self, index: usize) -> Option<Tag> {
        let tag = self.tags[index].load();
        fence(Ordering::Acquire);
        (self.slot.version.load(Ordering::Relaxed) == self.version).then_some(tag)
    }
}

pub(crate) struct TagCache {
    slots: Vec<Slot>,
    /// The number of slots in use, from the first on.
    used: AtomicUsize,
}

impl TagCache {
    /// A cache for a medium of `groups` groups.
    pub(crate) fn new(groups: u64) -> Self {
        let slots = groups.clamp(1, SLOTS_MAX as u64);
        let slots: Vec<Slot> = (0..slots).map(|_| Slot::default()).collect();
        Self { used: AtomicUsize::new(slots.len()), slots }
    }

    /// Lowers the limit of memory. Must not be called while the cache is in use.
    pub(crate) fn limit(&self, bytes: usize) {
        // The limit is never raised: a slot beyond the old limit may have outdated tags.
        let used = (bytes / size_of::<Group>()).clamp(1, self.used.load(Ordering::Relaxed));
        self.used.store(used, Ordering::Relaxed);
    }

    fn slot(&self, group: u64) -> &Slot {
        &self.slots[(group % self.used.load(Ordering::Relaxed) as u64) as usize]
    }

    /// Copies tags `first..first + out.len()` of `group` to `out`, reading the group with `load` if it is not here.
    pub(crate) fn get(
        &self,
        group: u64,
        first: usize,
        out: &mut [Tag],
        load: impl Fn(&mut GroupBytes) -> Result<(), FlashError>,
    ) -> Result<(), FlashError> {
        let slot = self.slot(group);
        loop {
            let version = {
                let _changing = slot.changing.lock();
                if slot.holds(group) {
                    let tags = &slot.tags()[first..];
                    out.iter_mut().zip(tags).for_each(|(out, words)| *out = words.load());
                    return Ok(());
                }
                slot.version.load(Ordering::Relaxed)
            };
            let mut bytes = Box::new([0; GROUP_TAGS * TAG_BYTES]);
            load(&mut bytes)?;
            let loaded = slot.change(Some(version), |slot| {
                slot.store(0, &bytes[..]);
                slot.held.store(group + 1, Ordering::Relaxed);
            });
            if loaded {
                let (tags, _) = bytes.as_chunks();
                out.iter_mut().zip(&tags[first..]).for_each(|(out, b)| *out = Tag::from_bytes(b));
                return Ok(());
            }
        }
    }

    /// The tags of `group`, if they are cached and no change is under way.
    pub(crate) fn held(&self, group: u64) -> Option<CachedTags<'_>> {
        let slot = self.slot(group);
        let version = slot.version.load(Ordering::Acquire);
        let is_here = version.is_multiple_of(2) && slot.holds(group);
        Some(CachedTags { slot, tags: slot.tags.get().filter(|_| is_here)?, version })
    }

    /// Updates tags that were just written to the image, from tag `first` of `group` on.
    pub(crate) fn written(&self, group: u64, first: usize, tags: &[u8]) {
        self.slot(group).change(None, |slot| {
            if slot.holds(group) {
                slot.store(first, tags);
            }
        });
    }

    /// Drops `group`, whose tags may have changed.
    pub(crate) fn forget(&self, group: u64) {
        self.slot(group).change(None, |slot| {
            if slot.holds(group) {
                slot.held.store(0, Ordering::Relaxed);
            }
        });
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
        assert_eq!(held.tag(5), Some(Tag::default()));
        cache.written(0, 5, &tag.to_bytes());
        assert_eq!(get(0, false), (tag, 0));
        assert_eq!(held.tag(5), None, "it changed since");
        let held = cache.held(0).unwrap();
        assert_eq!((held.tag(5), held.tag(6)), (Some(tag), Some(Tag::default())));
        assert!(cache.held(2).is_none());
        assert_eq!(get(2, false), (Tag::default(), 1), "another group of the same slot");
        assert_eq!(held.tag(6), None, "its tags went");
        cache.forget(2);
        assert_eq!(get(2, false).1, 1);
    }

    #[test]
    fn a_limit_leaves_nothing_behind_that_is_old() {
        let cache = TagCache::new(8);
        let get = |group| {
            let mut out = [Tag::default()];
            cache.get(group, 0, &mut out, |_| Ok(())).unwrap();
            out[0]
        };
        (0..8).for_each(|g| assert_eq!(get(g), Tag::default()));
        cache.limit(3 * size_of::<Group>());
        let tag = Tag { crc: 9, generation: 8, kind: 1 };
        for group in 0..8 {
            get(group);
            cache.written(group, 0, &tag.to_bytes());
            assert_eq!(get(group), tag);
        }
        cache.limit(usize::MAX);
        assert_eq!(cache.used.load(Ordering::Relaxed), 3, "it does not grow");
        assert_eq!(get(7), tag, "not from where it was before");
        cache.limit(0);
        assert_eq!(cache.used.load(Ordering::Relaxed), 1);
    }

    /// Two threads read tags that two others change. No reader sees halves of two tags.
    #[test]
    fn no_reader_sees_half_a_change() {
        let cache = TagCache::new(1);
        let tag = |n: u32| Tag { crc: n, generation: n.into(), kind: n };
        let bytes = |n: u32| tag(n).to_bytes();
        let load = |b: &mut GroupBytes| {
            b.as_chunks_mut().0.fill(bytes(1));
            Ok(())
        };
        let one = |t: Tag| assert_eq!(t, tag(t.crc));
        std::thread::scope(|s| {
            s.spawn(|| (1..20_000).for_each(|n| cache.written(0, 7, &bytes(n))));
            s.spawn(|| (1..2000).for_each(|n| if n % 7 == 0 { cache.forget(0) } else { cache.forget(1) }));
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..20_000 {
                        if let Some(t) = cache.held(0).and_then(|h| h.tag(7)) {
                            one(t);
                        }
                        let mut out = [Tag::default()];
                        cache.get(0, 7, &mut out, load).unwrap();
                        one(out[0]);
                    }
                });
            }
        });
    }
}
