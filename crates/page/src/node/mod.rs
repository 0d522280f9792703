//! B+-tree nodes: sorted entries between two fences. A node has the size that its entries need.
//!
//! ```text
//!    0  magic "LBTN"            16  commit sequence number       30  heap end            36  0
//!    4  version                 24  bytes of the low fence       32  bytes of the heap   40  low fence, high fence,
//!    5  level (0: leaf)         26  bytes of the high fence          that nothing uses       heap ──►  ...  ◄── slots
//!    6  entries                     (65,535: none)               34  0
//!    8  LPID                    28  bytes of the prefix
//!
//!   slot i, 8 bytes, from the page's end:   | head: first 4 bytes of the suffix, as a number | offset: 2 | suffix bytes: 2 |
//!   heap entry:                             | value bytes: 2 (65,535: the LPID of a page) | suffix | value |
//! ```
//!
//! A key of the node is the common prefix of both fences, then a suffix. Keys are at least the low fence and below the
//! high one. An inner node's values are the LPIDs of its children, and its first suffix is empty: that child takes all
//! keys from the low fence on.
//!
//! Source: prefix truncation and fences as in Graefe, "Modern B-Tree Techniques" (2011), §3.4 and §4.2; heads as in
//! LeanStore (ICDE 2018).

mod edit;

use std::cmp::Ordering;
use std::ops::Range;

use lode_base::{Lpid, PageBuf};

use crate::PageError;
pub use edit::{NodeMut, Split};

const MAGIC: [u8; 4] = *b"LBTN";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 40;
const SLOT_BYTES: usize = 8;
/// The length field of a value that is the LPID of a page.
const PAGE_VALUE: u16 = u16::MAX;
/// The length field of a missing high fence.
const NO_FENCE: u16 = u16::MAX;
/// Longest node: offsets have 16 bits.
pub const NODE_BYTES_MAX: usize = u16::MAX as usize;
/// Longest key.
pub const NODE_KEY_BYTES_MAX: usize = 4096;
/// Longest value that is stored in a node.
pub const NODE_VALUE_BYTES_MAX: usize = 4096;

/// The value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeValue<'a> {
    /// The bytes themselves.
    Inline(&'a [u8]),
    /// The page that holds them; in an inner node, the child.
    Page(Lpid),
}

/// A node that was checked.
#[derive(Clone, Debug)]
pub struct Node {
    bytes: PageBuf,
}

impl Node {
    /// Checks the bytes of a node.
    ///
    /// # Errors
    /// When they are not a node, or not that of this LPID.
    pub fn decode(lpid: Lpid, bytes: PageBuf) -> Result<Self, PageError> {
        check(lpid, &bytes)?;
        Ok(Self { bytes })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &PageBuf {
        &self.bytes
    }

    /// 0 for a leaf.
    pub fn level(&self) -> u8 {
        raw(&self.bytes).level()
    }

    /// How many entries it has.
    pub fn entries(&self) -> usize {
        raw(&self.bytes).entries()
    }

    /// The number of the newest commit that changed it.
    pub fn csn(&self) -> u64 {
        raw(&self.bytes).csn()
    }

    /// Its page.
    pub fn lpid(&self) -> Lpid {
        raw(&self.bytes).lpid()
    }

    /// The smallest key that may be in it.
    pub fn low(&self) -> &[u8] {
        raw(&self.bytes).low()
    }

    /// The smallest key that is beyond it; `None` when nothing is.
    pub fn high(&self) -> Option<&[u8]> {
        raw(&self.bytes).high()
    }

    /// The common prefix of its keys.
    pub fn prefix(&self) -> &[u8] {
        raw(&self.bytes).prefix()
    }

    /// Where a key is, or where it would be. The key lies between the fences.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Result<usize, usize> {
        raw(&self.bytes).find(key)
    }

    /// The entry of an inner node whose child takes a key, and that child.
    #[inline]
    pub fn child_for(&self, key: &[u8]) -> (usize, Lpid) {
        let at = raw(&self.bytes).child_index(key);
        (at, self.child(at))
    }

    /// The child of entry `i` of an inner node.
    ///
    /// # Panics
    /// When the node is a leaf.
    pub fn child(&self, i: usize) -> Lpid {
        match raw(&self.bytes).value(i) {
            NodeValue::Page(l) => l,
            NodeValue::Inline(_) => panic!("an inner node's values are pages"),
        }
    }

    /// The key of entry `i` without the prefix.
    #[inline]
    pub fn suffix(&self, i: usize) -> &[u8] {
        raw(&self.bytes).suffix(i)
    }

    /// Puts the key of entry `i` in `out`.
    pub fn read_key(&self, i: usize, out: &mut Vec<u8>) {
        raw(&self.bytes).read_key(i, out);
    }

    /// The value of entry `i`.
    #[inline]
    pub fn value(&self, i: usize) -> NodeValue<'_> {
        raw(&self.bytes).value(i)
    }

    /// The bytes of an inline value, which share those of the node.
    pub fn share(&self, i: usize) -> Option<PageBuf> {
        let (range, page) = raw(&self.bytes).value_range(i);
        (!page).then(|| self.bytes.slice(range))
    }

    /// The node without the free room between heap and slots, as it is written to a drive.
    pub fn compact(&self) -> PageBuf {
        let r = raw(&self.bytes);
        match r.garbage() == 0 && r.gap() == 0 {
            true => self.bytes.clone(),
            false => NodeMut::of(self).finish_exact(),
        }
    }

    /// Bytes that it takes without unused room.
    pub fn used_bytes(&self) -> usize {
        raw(&self.bytes).used_bytes()
    }
}

/// A view of a node's bytes by field.
#[derive(Clone, Copy)]
struct Raw<'a>(&'a [u8]);

#[inline]
fn raw(bytes: &[u8]) -> Raw<'_> {
    Raw(bytes)
}

impl<'a> Raw<'a> {
    #[inline]
    fn u16(self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("8 bytes"))
    }

    fn level(self) -> u8 {
        self.0[5]
    }

    #[inline]
    fn entries(self) -> usize {
        self.u16(6)
    }

    fn lpid(self) -> Lpid {
        Lpid::from_raw(self.u64(8)).expect("it was checked")
    }

    fn csn(self) -> u64 {
        self.u64(16)
    }

    fn low_len(self) -> usize {
        self.u16(24)
    }

    /// Bytes of the high fence as far as it is stored.
    fn high_len(self) -> usize {
        match self.u16(26) as u16 {
            NO_FENCE => 0,
            n => n.into(),
        }
    }

    #[inline]
    fn prefix_len(self) -> usize {
        self.u16(28)
    }

    fn heap_end(self) -> usize {
        self.u16(30)
    }

    fn garbage(self) -> usize {
        self.u16(32)
    }

    fn heap_start(self) -> usize {
        HEADER_BYTES + self.low_len() + self.high_len()
    }

    fn low(self) -> &'a [u8] {
        &self.0[HEADER_BYTES..HEADER_BYTES + self.low_len()]
    }

    fn high(self) -> Option<&'a [u8]> {
        let start = HEADER_BYTES + self.low_len();
        (self.u16(26) as u16 != NO_FENCE).then(|| &self.0[start..start + self.high_len()])
    }

    fn prefix(self) -> &'a [u8] {
        &self.0[HEADER_BYTES..HEADER_BYTES + self.prefix_len()]
    }

    #[inline]
    fn slot_at(self, i: usize) -> usize {
        self.0.len() - SLOT_BYTES * (i + 1)
    }

    #[inline]
    fn head(self, i: usize) -> u32 {
        let at = self.slot_at(i);
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("4 bytes"))
    }

    #[inline]
    fn offset(self, i: usize) -> usize {
        self.u16(self.slot_at(i) + 4)
    }

    #[inline]
    fn suffix_len(self, i: usize) -> usize {
        self.u16(self.slot_at(i) + 6)
    }

    #[inline]
    fn suffix(self, i: usize) -> &'a [u8] {
        let start = self.offset(i) + 2;
        &self.0[start..start + self.suffix_len(i)]
    }

    fn read_key(self, i: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix());
        out.extend_from_slice(self.suffix(i));
    }

    /// Where a value lies, and whether it is the LPID of a page.
    #[inline]
    fn value_range(self, i: usize) -> (Range<usize>, bool) {
        let offset = self.offset(i);
        let start = offset + 2 + self.suffix_len(i);
        match self.u16(offset) as u16 {
            PAGE_VALUE => (start..start + 8, true),
            n => (start..start + usize::from(n), false),
        }
    }

    #[inline]
    fn value(self, i: usize) -> NodeValue<'a> {
        match self.value_range(i) {
            (r, true) => NodeValue::Page(Lpid::from_raw(self.u64(r.start)).expect("it was checked")),
            (r, false) => NodeValue::Inline(&self.0[r]),
        }
    }

    fn entry_bytes(self, i: usize) -> usize {
        self.value_range(i).0.end - self.offset(i)
    }

    fn gap(self) -> usize {
        self.0.len() - SLOT_BYTES * self.entries() - self.heap_end()
    }

    fn used_bytes(self) -> usize {
        self.heap_end() - self.garbage() + SLOT_BYTES * self.entries()
    }

    #[inline]
    fn find(self, key: &[u8]) -> Result<usize, usize> {
        let suffix = &key[self.prefix_len()..];
        let head = head_of(suffix);
        // Searches the heads first, which lie beside each other. The heap is read only for entries with the same
        // head.
        let (slots, _) = self.0[self.0.len() - SLOT_BYTES * self.entries()..].as_chunks::<SLOT_BYTES>();
        let n = slots.len();
        // The slot of the last entry comes first.
        let head_in =
            |slot: &[u8; SLOT_BYTES]| u32::from_le_bytes(*slot.first_chunk().expect("a slot begins with it"));
        // If the prefix is short, as at either end of a tree, all heads may be equal.
        let mut from = match n > 0 && self.head(0) < head {
            true => n - slots.partition_point(|s| head_in(s) >= head),
            false => 0,
        };
        let mut to = match from + 1 {
            _ if from == n || self.head(from) != head => return Err(from),
            next if next == n || self.head(next) != head => next,
            _ if self.head(n - 1) == head => n,
            _ => n - slots.partition_point(|s| head_in(s) > head),
        };
        let start = start_of(suffix);
        while from < to {
            let mid = (from + to) / 2;
            match self.compare(mid, suffix, start) {
                Ordering::Less => from = mid + 1,
                Ordering::Greater => to = mid,
                Ordering::Equal => return Ok(mid),
            }
        }
        Err(from)
    }

    /// How the suffix of entry `i` compares to another, whose start as a number is known.
    #[inline]
    fn compare(self, i: usize, suffix: &[u8], start: u64) -> Ordering {
        let (at, len) = (self.offset(i) + 2, self.suffix_len(i));
        // Slots follow the heap, so eight bytes can always be read, even if some belong to other data.
        let bytes = self.0[at..].first_chunk().expect("the slot of the entry lies behind");
        let others = u64::MAX.checked_shr(8 * len as u32).unwrap_or(0);
        let own = u64::from_be_bytes(*bytes) & !others;
        own.cmp(&start).then_with(|| match len.max(suffix.len()) {
            ..=START_BYTES => len.cmp(&suffix.len()),
            _ => self.suffix(i).cmp(suffix),
        })
    }

    #[inline]
    fn child_index(self, key: &[u8]) -> usize {
        match self.find(key) {
            Ok(i) => i,
            // The first entry covers all keys before the second.
            Err(i) => i.max(1) - 1,
        }
    }
}

/// The first four bytes of a suffix as a number that compares as they do.
#[inline]
fn head_of(suffix: &[u8]) -> u32 {
    (start_of(suffix) >> 32) as u32
}

/// Bytes that are compared as one number.
const START_BYTES: usize = 8;

/// The first eight bytes of a suffix as a number that compares as they do.
#[inline]
fn start_of(suffix: &[u8]) -> u64 {
    match suffix.first_chunk() {
        Some(b) => u64::from_be_bytes(*b),
        None => {
            let mut b = [0; START_BYTES];
            b[..suffix.len()].copy_from_slice(suffix);
            u64::from_be_bytes(b)
        }
    }
}

/// How many bytes two keys begin with together.
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The shortest key that is above `left` and at most `right`, where `left` is below `right`: the separator of two leaves.
pub fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    &right[..common_prefix(left, right) + 1]
}

fn check(lpid: Lpid, bytes: &[u8]) -> Result<(), PageError> {
    let bad = |what, at| Err(PageError::Corrupt { lpid, what, at });
    if bytes.len() < HEADER_BYTES || bytes.len() > NODE_BYTES_MAX {
        return bad("not the length of a B+-tree node", bytes.len());
    }
    if bytes[..4] != MAGIC {
        return bad("not a B+-tree node", 0);
    }
    if bytes[4] > VERSION {
        return Err(PageError::NewerVersion { lpid, version: bytes[4], known: VERSION });
    }
    let r = raw(bytes);
    if bytes[4] == 0 || bytes[34..40] != [0; 6] {
        return bad("header bytes that mean nothing", 34);
    }
    if r.u64(8) != lpid.raw() {
        return bad("the page of another LPID", 8);
    }
    let entries = r.entries();
    let slots = SLOT_BYTES * entries;
    if r.heap_start() > r.heap_end() || r.heap_end() + slots > bytes.len() {
        return bad("its parts overlap", 24);
    }
    let same = r.high().map_or(0, |h| common_prefix(r.low(), h));
    if r.prefix_len() > same || r.high().is_some_and(|h| r.low() >= h) {
        return bad("its fences contradict each other", 24);
    }
    let inner = r.level() > 0;
    let (mut last, mut taken): (&[u8], usize) = (&[], 0);
    for i in 0..entries {
        let at = r.slot_at(i);
        let start = r.offset(i);
        if start < r.heap_start() || start + 2 + r.suffix_len(i) > r.heap_end() {
            return bad("an entry outside the heap", at);
        }
        let (value, page) = r.value_range(i);
        if value.end > r.heap_end() {
            return bad("a value outside the heap", at);
        }
        if page && Lpid::from_raw(r.u64(value.start)).is_none() || inner && !page {
            return bad("a value that is no page", at);
        }
        let suffix = r.suffix(i);
        if r.head(i) != head_of(suffix) || i > 0 && suffix <= last || inner && i == 0 && !suffix.is_empty() {
            return bad("an entry out of order", at);
        }
        (last, taken) = (suffix, taken + r.entry_bytes(i));
    }
    if inner && entries == 0 {
        return bad("an inner node without children", 6);
    }
    // The first key of an inner node is the low fence, although its suffix is empty.
    let first = usize::from(inner);
    if entries > first {
        let (low, prefix) = (r.low(), r.prefix_len());
        if r.suffix(first) < &low[prefix..] {
            return bad("a key below the low fence", r.slot_at(first));
        }
        if r.high().is_some_and(|h| last >= &h[prefix..]) {
            return bad("a key above the high fence", r.slot_at(entries - 1));
        }
    }
    if r.heap_start() + taken + r.garbage() != r.heap_end() {
        return bad("a heap that does not add up", 30);
    }
    Ok(())
}

/// Checks that hold for every decoder, for fuzzing.
pub fn fuzz(data: &[u8]) {
    let lpid = Lpid::from_raw(7).expect("7 is an LPID");
    if let Ok(node) = Node::decode(lpid, PageBuf::copy_from(data)) {
        let again = Node::decode(lpid, node.compact()).expect("what was checked stays sound");
        assert_eq!(again.entries(), node.entries());
        for i in 0..node.entries() {
            assert_eq!((again.suffix(i), again.value(i)), (node.suffix(i), node.value(i)));
        }
    }
}

#[cfg(test)]
mod tests;
