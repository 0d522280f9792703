//! Streams: who writes pages. Each stream fills EBLOCKs of its own, so that pages that die together lie together.
//!
//! Source: ELEOS §VI-B (streams by age).

/// Open EBLOCKs that GC keeps per lane, by the age of the pages that it moves.
pub(crate) const GC_CLASSES: u8 = 3;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    /// Batches: pages that replace others.
    UserHot,
    /// Batches: pages that are written for the first time.
    UserCold,
    /// The drive's own pages.
    Drive,
    /// The log.
    Log,
    /// Pages that GC moves, by age: class 0 is the youngest.
    Gc(u8),
}

impl Stream {
    /// All streams of pages: all but the log.
    pub(crate) const PAGES: [Self; 3 + GC_CLASSES as usize] =
        [Self::UserHot, Self::UserCold, Self::Drive, Self::Gc(0), Self::Gc(1), Self::Gc(2)];

    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::UserHot => 0,
            Self::UserCold => 1,
            Self::Drive => 2,
            Self::Log => 3,
            Self::Gc(class) => 4 + class,
        }
    }

    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        if tag == Self::Log.tag() {
            return Some(Self::Log);
        }
        Self::PAGES.into_iter().find(|s| s.tag() == tag)
    }
}
