//! Page buffers: immutable bytes, reference-counted, 64-byte aligned at their start, sliceable.
//!
//! ```text
//!   PageBufMut ── freeze ─► PageBuf ── slice ─► PageBuf      (all slices share one allocation)
//! ```
//!
//! The reference count lies in the cache line before the bytes, so reading a page touches one place in memory.
//!
//! A `PageBuf` can be viewed as a slice of numbers where its alignment allows, so that a filter runs over arrays
//! and Arrow takes the bytes without a copy.
//!
//! When the last `PageBuf` of an allocation is dropped, the thread keeps the memory for its next
//! [`PageBufMut::scratch`]. This saves work of the allocator, and the memory is still in the CPU's cache. A thread
//! keeps up to 768 KB of short buffers. [`limit_spares`] limits the longer buffers of all threads together.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};
use triomphe::{Arc, UniqueArc};

use crate::CELL_BYTES;
use crate::prefetch::prefetch_at;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; CELL_BYTES]);

/// Lines in a unit: longer buffers are kept in whole units.
const UNIT_LINES: usize = 4096 / CELL_BYTES;
/// Bytes of buffers below a unit that a thread keeps, by their exact length.
const TINY_BYTES: usize = 512 << 10;
/// Buffers of up to this many units are kept by their length in units.
const SMALL_UNITS: usize = 16;
/// The most bytes that are kept of each such length, and of all of them.
const SMALL_BYTES: usize = 128 << 10;
const SMALL_BYTES_ALL: usize = 256 << 10;
/// Longer buffers: the most units of one, and the number that a thread keeps.
const LARGE_UNITS: usize = 512;
const LARGE_COUNT: usize = 2;

/// The bytes of longer buffers that all threads keep; below, their limit.
static LARGE_BYTES: AtomicUsize = AtomicUsize::new(0);
static LARGE_BYTES_MAX: AtomicUsize = AtomicUsize::new(64 << 20);

/// Limits the bytes of buffers above 64 KB that all threads of the process together keep for reuse. The default is 64 MB. What a
/// thread already keeps stays until the thread uses it.
pub fn limit_spares(bytes: usize) {
    LARGE_BYTES_MAX.store(bytes, Ordering::Relaxed);
}

/// Unused buffers, with arbitrary contents.
struct Spares {
    /// By lines, from one on.
    tiny: [Vec<Lines>; UNIT_LINES - 1],
    tiny_bytes: usize,
    /// The length of which a buffer is dropped next if there are too many.
    tiny_next: usize,
    /// By units, from one on.
    small: [Vec<Lines>; SMALL_UNITS],
    small_bytes: usize,
    large: Vec<Lines>,
}

thread_local! {
    static SPARES: RefCell<Spares> = const {
        RefCell::new(Spares {
            tiny: [const { Vec::new() }; UNIT_LINES - 1],
            tiny_bytes: 0,
            tiny_next: 0,
            small: [const { Vec::new() }; SMALL_UNITS],
            small_bytes: 0,
            large: Vec::new(),
        })
    };
}

impl Spares {
    /// A buffer of this many lines, less than a unit. All lines are initialised.
    fn take_tiny(&mut self, lines: usize) -> Option<Lines> {
        let lines = self.tiny[lines - 1].pop()?;
        self.tiny_bytes -= bytes(&lines);
        Some(lines)
    }

    /// Keeps a buffer of less than a unit.
    fn keep_tiny(&mut self, lines: Lines) {
        self.tiny_bytes += bytes(&lines);
        self.tiny[lines.len() - 1].push(lines);
        while self.tiny_bytes > TINY_BYTES {
            // Each length makes room in turn, so that lengths which are no longer used go away too.
            self.tiny_next = (self.tiny_next + 1) % self.tiny.len();
            drop(self.take_tiny(self.tiny_next + 1));
        }
    }

    /// A buffer of at least this many lines. All lines are initialised.
    fn take(&mut self, lines: usize) -> Option<Lines> {
        let units = lines.div_ceil(UNIT_LINES);
        match units {
            0 => None,
            1..=SMALL_UNITS => {
                let lines = self.small[units - 1].pop()?;
                self.small_bytes -= bytes(&lines);
                Some(lines)
            }
            // A much longer buffer is not used: it would be kept alive for few bytes.
            _ => {
                let fits = |l: &Lines| (lines..=2 * lines).contains(&l.len());
                self.large.iter().rposition(fits).map(|i| self.take_large(i))
            }
        }
    }

    /// Keeps a buffer of a length that is kept.
    fn keep(&mut self, lines: Lines) {
        let units = lines.len() / UNIT_LINES;
        match units {
            0 => self.keep_tiny(lines),
            1..=SMALL_UNITS => {
                if (self.small[units - 1].len() + 1) * bytes(&lines) > SMALL_BYTES {
                    return;
                }
                self.small_bytes += bytes(&lines);
                self.small[units - 1].push(lines);
                while self.small_bytes > SMALL_BYTES_ALL {
                    // The length with the most bytes makes room.
                    let most = (0..SMALL_UNITS).max_by_key(|i| self.small[*i].len() * (i + 1));
                    drop(most.and_then(|i| self.take((i + 1) * UNIT_LINES)));
                }
            }
            _ => {
                // The oldest buffer makes room, since the lengths that a thread needs change with its work.
                if self.large.len() == LARGE_COUNT {
                    drop(self.take_large(0));
                }
                LARGE_BYTES.fetch_add(bytes(&lines), Ordering::Relaxed);
                self.large.push(lines);
                let is_over =
                    || LARGE_BYTES.load(Ordering::Relaxed) > LARGE_BYTES_MAX.load(Ordering::Relaxed);
                while !self.large.is_empty() && is_over() {
                    drop(self.take_large(0));
                }
            }
        }
    }

    fn take_large(&mut self, i: usize) -> Lines {
        let lines = self.large.remove(i);
        LARGE_BYTES.fetch_sub(bytes(&lines), Ordering::Relaxed);
        lines
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        while !self.large.is_empty() {
            drop(self.take_large(0));
        }
    }
}

/// A spare buffer of the thread that is long enough, if it has one.
fn spare(lines: usize) -> Option<Lines> {
    SPARES.try_with(|s| s.borrow_mut().take(lines)).ok().flatten()
}

/// A spare buffer of the thread with exactly this many lines, if such lengths are kept and it has one.
fn exact_spare(lines: usize) -> Option<Lines> {
    match lines {
        0 => None,
        1..UNIT_LINES => SPARES.try_with(|s| s.borrow_mut().take_tiny(lines)).ok().flatten(),
        _ => (is_kept(lines) && lines <= SMALL_UNITS * UNIT_LINES).then(|| spare(lines)).flatten(),
    }
}

fn bytes(lines: &Lines) -> usize {
    lines.len() * CELL_BYTES
}

/// Memory with a single owner.
type Lines = UniqueArc<[Line]>;

fn zeroed(lines: usize) -> Lines {
    std::iter::repeat_n(Line::zeroed(), lines).collect()
}

/// Whether a buffer of so many lines is one that is kept.
fn is_kept(lines: usize) -> bool {
    match lines {
        0 => false,
        1..UNIT_LINES => true,
        _ => lines.is_multiple_of(UNIT_LINES) && lines / UNIT_LINES <= LARGE_UNITS,
    }
}

/// A buffer being filled; [`PageBufMut::freeze`] makes it a [`PageBuf`].
pub struct PageBufMut {
    lines: Lines,
    len: usize,
}

impl PageBufMut {
    /// A buffer of `len` zero bytes, 64-byte aligned.
    pub fn zeroed(len: usize) -> Self {
        let lines = len.div_ceil(CELL_BYTES);
        // A buffer whose length is kept takes a spare, although it must be cleared: otherwise buffers made here would
        // displace the spares that are in use.
        match exact_spare(lines) {
            Some(mut lines) => {
                lines.fill(Line::zeroed());
                Self { lines, len }
            }
            None => Self { lines: zeroed(lines), len },
        }
    }

    /// A buffer of `len` bytes with arbitrary contents, which takes no more memory than [`PageBufMut::zeroed`]: for callers that
    /// overwrite all of it and keep it.
    pub fn tight(len: usize) -> Self {
        let lines = len.div_ceil(CELL_BYTES);
        Self { lines: exact_spare(lines).unwrap_or_else(|| zeroed(lines)), len }
    }

    /// A buffer of `len` bytes, 64-byte aligned, with arbitrary contents: for callers that overwrite all of it.
    pub fn scratch(len: usize) -> Self {
        let lines = len.div_ceil(CELL_BYTES);
        match spare(lines) {
            Some(lines) => Self { lines, len },
            None => Self { lines: zeroed(lines.next_multiple_of(UNIT_LINES)), len },
        }
    }

    /// An empty buffer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        let lines = capacity.div_ceil(CELL_BYTES);
        Self { lines: exact_spare(lines).unwrap_or_else(|| zeroed(lines)), len: 0 }
    }

    /// Makes the buffer `len` bytes long; new bytes are zero.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len);
        let old = self.len.min(len);
        let there: &mut [u8] = bytemuck::cast_slice_mut(&mut self.lines);
        there[old..len].fill(0);
        self.len = len;
    }

    /// Makes room for `len` bytes in all.
    fn reserve(&mut self, len: usize) {
        let lines = len.div_ceil(CELL_BYTES);
        if lines > self.lines.len() {
            let mut longer = zeroed(lines.max(2 * self.lines.len()));
            let used = self.len.div_ceil(CELL_BYTES);
            longer[..used].copy_from_slice(&self.lines[..used]);
            self.lines = longer;
        }
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.reserve(start + bytes.len());
        self.len += bytes.len();
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
        let mut copy = Self::tight(self.len);
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
        // If two threads drop the last two references at the same time, neither keeps the memory, and it is freed.
        if is_kept(lines.len())
            && let Ok(lines) = Arc::try_unique(lines)
        {
            // A thread that ends no longer has spares.
            let _ = SPARES.try_with(|s| s.borrow_mut().keep(lines));
        }
    }
}

/// Memory that an allocation of this many bytes takes, in an allocator with four sizes between two powers of two, as most have.
pub const fn allocated_bytes(bytes: usize) -> usize {
    if bytes <= 64 {
        return bytes.next_multiple_of(16);
    }
    bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 2))
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
        let mut b = PageBufMut::tight(bytes.len());
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
        // Both positions are within the buffer, which is shorter than 4 GB.
        Self { lines: self.lines.clone(), start: self.start + from as u32, len: (to - from) as u32 }
    }

    /// The bytes as numbers of type `T`: `None` when the start is not aligned for `T` or the length is no multiple.
    pub fn try_values<T: AnyBitPattern>(&self) -> Option<&[T]> {
        bytemuck::try_cast_slice(self).ok()
    }

    /// Bytes of memory that this buffer keeps alive: the whole allocation, however short the slice, with the
    /// reference count and the allocator's rounding.
    pub fn memory_bytes(&self) -> usize {
        allocated_bytes((1 + self.lines.lines().len()) * CELL_BYTES)
    }

    /// The bytes for changes, if nobody else shares the memory.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        let lines = Arc::get_mut(self.lines.0.as_mut()?)?;
        Some(&mut bytemuck::cast_slice_mut(lines)[self.start as usize..][..self.len as usize])
    }

    /// Prefetches the reference count, which dropping this would wait for.
    pub fn prefetch_count(&self) {
        prefetch_at(self.lines.lines().as_ptr().cast::<u8>().wrapping_sub(CELL_BYTES));
    }

    /// This buffer, or a copy if it keeps more than an eighth beyond its own bytes alive. For callers that hold it
    /// for long.
    pub fn tight(self) -> Self {
        let own = self.len().next_multiple_of(CELL_BYTES);
        match self.lines.lines().len() * CELL_BYTES > own + own / 8 {
            true => Self::copy_from(&self),
            false => self,
        }
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
        // Found by review: two buffers of a length that was no longer used were kept forever.
        drop((filled(100 << 10), filled(100 << 10)));
        let at = filled(1 << 20).as_ptr();
        assert_eq!(filled(1 << 20).as_ptr(), at);
        let kept: Vec<_> = (0..100).map(|_| filled(4096)).collect();
        drop(kept);
        let count = SPARES.with(|s| s.borrow().small[0].len());
        assert_eq!(count * 4096, SMALL_BYTES);
    }

    #[test]
    fn a_thread_keeps_little_whatever_lengths_it_uses() {
        for units in (1..=SMALL_UNITS).cycle().take(2000) {
            let some: Vec<PageBuf> = (0..3).map(|_| PageBufMut::scratch(units * 4096).freeze()).collect();
            drop(some);
            let held: usize = SPARES.with(|s| s.borrow().small.iter().flatten().map(bytes).sum());
            assert!(held <= SMALL_BYTES_ALL, "{held} bytes");
            assert_eq!(SPARES.with(|s| s.borrow().small_bytes), held);
        }
        // A request for zeroes takes a spare too.
        let spares = || SPARES.with(|s| s.borrow().small[1].len());
        let before = spares();
        let b = PageBufMut::zeroed(8192);
        assert!(before > 0 && spares() == before - 1 && b.iter().all(|&b| b == 0));
    }

    #[test]
    fn a_thread_keeps_short_buffers_by_their_length_and_no_more_than_it_may() {
        let filled = |len: usize| {
            let mut b = PageBufMut::tight(len);
            b.fill(7);
            b.freeze()
        };
        let at = filled(1100).as_ptr();
        assert_eq!(filled(1100).as_ptr(), at);
        assert_ne!(filled(1200).as_ptr(), at);
        let zeroes = PageBufMut::zeroed(1100);
        assert!(zeroes.as_ptr() == at && zeroes.iter().all(|&b| b == 0));
        let held = || SPARES.with(|s| s.borrow().tiny.iter().flatten().map(bytes).sum::<usize>());
        for len in (1..4033).step_by(CELL_BYTES).cycle().take(500) {
            let some: Vec<PageBuf> = (0..10).map(|_| filled(len)).collect();
            assert!(some.iter().all(|b| b.iter().all(|&b| b == 7)));
            drop(some);
            assert!(held() <= TINY_BYTES && SPARES.with(|s| s.borrow().tiny_bytes) == held());
        }
        // Lengths that are no longer used make room.
        let some: Vec<PageBuf> = (0..5000).map(|_| filled(1100)).collect();
        drop(some);
        let of_it = SPARES.with(|s| s.borrow().tiny[17].len() * 18 * CELL_BYTES);
        assert!(of_it > TINY_BYTES / 4 * 3, "{of_it} of {}", held());
    }

    #[test]
    fn only_who_has_a_buffer_alone_changes_it() {
        let mut a = PageBuf::copy_from(&[7; 200]);
        a.get_mut().unwrap()[3] = 8;
        let mut b = a.slice(1..100);
        assert!(a.get_mut().is_none() && b.get_mut().is_none());
        drop(a);
        b.get_mut().unwrap()[0] = 9;
        assert_eq!(b[..3], [9, 7, 8]);
    }

    #[test]
    fn what_is_kept_of_a_long_buffer_for_few_bytes_is_a_copy() {
        let page = PageBuf::copy_from(&[7; 4096]);
        let short = page.slice(64..1100).tight();
        assert_eq!((&*short, short.memory_bytes()), (&[7; 1036][..], 1280));
        let at = page.as_ptr();
        assert_eq!(page.slice(0..4000).tight().as_ptr(), at);
        assert_eq!(
            [1, 16, 64, 65, 1152, 4096, 4160].map(allocated_bytes),
            [16, 16, 64, 80, 1280, 4096, 5120]
        );
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
