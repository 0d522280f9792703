//! Page buffers: immutable bytes, reference-counted, 64-byte aligned at their start, sliceable.
//!
//! ```text
//!   PageBufMut ── freeze ─► PageBuf ── slice ─► PageBuf      (all slices share one allocation)
//! ```
//!
//! The count of references lies in the line before the bytes: who reads a page goes to one place in memory.
//!
//! A `PageBuf` can be viewed as a slice of numbers where its alignment allows, so that a filter runs over arrays
//! and Arrow takes the bytes without a copy.
//!
//! What the last `PageBuf` of an allocation leaves behind is kept, in small numbers a thread, for the next
//! [`PageBufMut::scratch`] on it: the allocator has no work, and the memory is in the CPU's cache.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};

use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};
use triomphe::{Arc, UniqueArc};

use crate::CELL_BYTES;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; CELL_BYTES]);

/// Lines in a unit: what is kept are buffers of whole units.
const UNIT_LINES: usize = 4096 / CELL_BYTES;
/// Buffers of up to so many units are kept by their exact length.
const SMALL_UNITS: usize = 16;
/// Bytes that are kept of each such length, at most.
const SMALL_BYTES: usize = 128 << 10;
/// Longer buffers: how long, and how many.
const LARGE_UNITS: usize = 512;
const LARGE_COUNT: usize = 2;

/// Buffers that nobody uses any more, whatever is in them.
struct Spares {
    /// By units, from one on.
    small: [Vec<Lines>; SMALL_UNITS],
    large: Vec<Lines>,
}

thread_local! {
    static SPARES: RefCell<Spares> =
        const { RefCell::new(Spares { small: [const { Vec::new() }; SMALL_UNITS], large: Vec::new() }) };
}

impl Spares {
    /// Some lines, at least so many, all initialised.
    fn take(&mut self, lines: usize) -> Option<Lines> {
        let units = lines.div_ceil(UNIT_LINES);
        match units {
            0 => None,
            1..=SMALL_UNITS => self.small[units - 1].pop(),
            // Not one that is much longer: it would be kept alive for few bytes.
            _ => {
                let fits = |l: &Lines| (lines..=2 * lines).contains(&l.len());
                self.large.iter().rposition(fits).map(|i| self.large.swap_remove(i))
            }
        }
    }

    /// Keeps a buffer of a length that is kept.
    fn keep(&mut self, lines: Lines) {
        let units = lines.len() / UNIT_LINES;
        match units {
            ..=SMALL_UNITS => {
                let spares = &mut self.small[units - 1];
                if (spares.len() + 1) * units * UNIT_LINES * CELL_BYTES <= SMALL_BYTES {
                    spares.push(lines);
                }
            }
            _ => {
                // What was not asked for again makes room: lengths change with what a thread does.
                if self.large.len() == LARGE_COUNT {
                    self.large.remove(0);
                }
                self.large.push(lines);
            }
        }
    }
}

/// Memory that one buffer has to itself.
type Lines = UniqueArc<[Line]>;

fn zeroed(lines: usize) -> Lines {
    std::iter::repeat_n(Line::zeroed(), lines).collect()
}

/// Whether a buffer of so many lines is one that is kept.
fn is_kept(lines: usize) -> bool {
    lines.is_multiple_of(UNIT_LINES) && (1..=LARGE_UNITS).contains(&(lines / UNIT_LINES))
}

/// A buffer being filled; [`PageBufMut::freeze`] makes it a [`PageBuf`].
pub struct PageBufMut {
    lines: Lines,
    len: usize,
}

impl PageBufMut {
    /// A buffer of `len` zero bytes, 64-byte aligned.
    pub fn zeroed(len: usize) -> Self {
        Self { lines: zeroed(len.div_ceil(CELL_BYTES)), len }
    }

    /// A buffer of `len` bytes, 64-byte aligned, whatever is in them: for those who write all of it.
    pub fn scratch(len: usize) -> Self {
        let lines = len.div_ceil(CELL_BYTES);
        let spare = SPARES.try_with(|s| s.borrow_mut().take(lines)).ok().flatten();
        match spare {
            Some(lines) => Self { lines, len },
            None => Self { lines: zeroed(lines.next_multiple_of(UNIT_LINES)), len },
        }
    }

    /// An empty buffer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { lines: zeroed(capacity.div_ceil(CELL_BYTES)), len: 0 }
    }

    /// Makes the buffer `len` bytes long; new bytes are zero.
    pub fn resize(&mut self, len: usize) {
        let lines = len.div_ceil(CELL_BYTES);
        if lines > self.lines.len() {
            let mut longer = zeroed(lines.max(2 * self.lines.len()));
            let used = self.len.div_ceil(CELL_BYTES);
            longer[..used].copy_from_slice(&self.lines[..used]);
            self.lines = longer;
        }
        let old = self.len.min(len);
        let there: &mut [u8] = bytemuck::cast_slice_mut(&mut self.lines[..lines]);
        there[old..len].fill(0);
        self.len = len;
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.resize(start + bytes.len());
        self[start..].copy_from_slice(bytes);
    }

    /// Appends zeroes until the length is a multiple of `align`.
    pub fn pad_to(&mut self, align: usize) {
        self.resize(self.len.next_multiple_of(align));
    }

    /// The finished buffer, without a copy.
    ///
    /// # Panics
    /// When it is 4 GB or longer.
    #[inline]
    pub fn freeze(self) -> PageBuf {
        let len = u32::try_from(self.len).expect("a buffer is below 4 GB");
        PageBuf { lines: Shared(Some(self.lines.shareable())), start: 0, len }
    }
}

impl Deref for PageBufMut {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for PageBufMut {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..len]
    }
}

impl Clone for PageBufMut {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl fmt::Debug for PageBufMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageBufMut({} bytes)", self.len)
    }
}

/// The memory of a [`PageBuf`], until it is dropped.
#[derive(Clone)]
struct Shared(Option<Arc<[Line]>>);

impl Shared {
    #[inline]
    fn lines(&self) -> &[Line] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(lines) = self.0.take() else { return };
        // Where two threads drop the last two at once, nobody keeps it, and it is freed.
        if is_kept(lines.len())
            && let Ok(lines) = Arc::try_unique(lines)
        {
            // A thread that ends has no spares any more.
            let _ = SPARES.try_with(|s| s.borrow_mut().keep(lines));
        }
    }
}

/// Immutable bytes, shared by reference count; cloning and slicing copy nothing.
#[derive(Clone)]
pub struct PageBuf {
    lines: Shared,
    start: u32,
    len: u32,
}

impl PageBuf {
    /// The buffer of no bytes.
    pub fn empty() -> Self {
        PageBufMut::with_capacity(0).freeze()
    }

    /// A copy of `bytes`, 64-byte aligned.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut b = PageBufMut::zeroed(bytes.len());
        b.copy_from_slice(bytes);
        b.freeze()
    }

    /// A copy of `values` in the machine's (little-endian) order, 64-byte aligned.
    pub fn from_values<T: NoUninit>(values: &[T]) -> Self {
        Self::copy_from(bytemuck::cast_slice(values))
    }

    /// A part of this buffer that shares its bytes.
    ///
    /// # Panics
    /// When the range lies outside the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let from = match range.start_bound() {
            Bound::Included(&n) => n,
            Bound::Excluded(&n) => n + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&n) => n + 1,
            Bound::Excluded(&n) => n,
            Bound::Unbounded => self.len(),
        };
        assert!(from <= to && to <= self.len(), "slice {from}..{to} of a buffer of {} bytes", self.len());
        // Both are within the buffer, whose bytes 32 bits can count.
        Self { lines: self.lines.clone(), start: self.start + from as u32, len: (to - from) as u32 }
    }

    /// The bytes as numbers of type `T`: `None` when the start is not aligned for `T` or the length is no multiple.
    pub fn try_values<T: AnyBitPattern>(&self) -> Option<&[T]> {
        bytemuck::try_cast_slice(self).ok()
    }

    /// Bytes of memory that this buffer keeps alive (the whole allocation, whatever the slice).
    pub fn memory_bytes(&self) -> usize {
        self.lines.lines().len() * CELL_BYTES
    }
}

impl Deref for PageBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(self.lines.lines())[self.start as usize..][..self.len as usize]
    }
}

impl AsRef<[u8]> for PageBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PageBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageBuf({} bytes)", self.len)
    }
}

impl PartialEq for PageBuf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PageBuf {}

impl Default for PageBuf {
    fn default() -> Self {
        Self::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_share_and_are_bounded() {
        let b = PageBuf::copy_from(&(0..200).collect::<Vec<u8>>());
        let s = b.slice(64..128).slice(1..3);
        assert_eq!(&*s, &[65, 66]);
        assert_eq!(s.memory_bytes(), b.memory_bytes());
        assert!(std::panic::catch_unwind(|| b.slice(100..201)).is_err());
    }

    #[test]
    fn numbers_need_their_alignment() {
        let b = PageBuf::from_values(&[1u64, 2, 3]);
        assert_eq!(b.try_values::<u64>(), Some(&[1u64, 2, 3][..]));
        assert_eq!(b.slice(8..).try_values::<u64>(), Some(&[2u64, 3][..]));
        assert_eq!(b.slice(4..12).try_values::<u64>(), None);
        assert_eq!(b.slice(0..12).try_values::<u64>(), None);
    }

    #[test]
    fn memory_that_was_used_serves_again_but_never_shows() {
        let filled = |len: usize| {
            let mut b = PageBufMut::scratch(len);
            b.fill(7);
            b.freeze()
        };
        for len in [4096, 8192, 100, 1 << 20] {
            let (a, b) = (filled(len), filled(len));
            let at = [a.as_ptr(), b.as_ptr()];
            assert_ne!(at[0], at[1], "two that live share nothing");
            let part = a.slice(10..20);
            drop((a, b));
            assert_eq!(&*part, &[7; 10], "a slice keeps it");
            let c = filled(len);
            assert_ne!(c.as_ptr(), at[0]);
            assert_eq!(c.as_ptr(), at[1], "{len} bytes");
            assert!(PageBufMut::zeroed(len).iter().all(|&b| b == 0));
            let mut grown = PageBufMut::scratch(len);
            grown.resize(len - 90);
            grown.resize(len + 5000);
            assert!(grown[len - 90..].iter().all(|&b| b == 0), "{len} bytes");
        }
        // Found by review: two buffers of a length that was not asked for again were kept for good.
        drop((filled(100 << 10), filled(100 << 10)));
        let at = filled(1 << 20).as_ptr();
        assert_eq!(filled(1 << 20).as_ptr(), at);
        let kept: Vec<_> = (0..100).map(|_| filled(4096)).collect();
        drop(kept);
        let count = SPARES.with(|s| s.borrow().small[0].len());
        assert_eq!(count * 4096, SMALL_BYTES);
    }

    #[test]
    fn a_shrunk_buffer_grows_with_zeroes() {
        let mut b = PageBufMut::with_capacity(0);
        b.extend_from_slice(&[7; 100]);
        b.resize(10);
        b.pad_to(64);
        assert_eq!(&b[8..12], &[7, 7, 0, 0]);
        assert_eq!(b.freeze().len(), 64);
    }
}
