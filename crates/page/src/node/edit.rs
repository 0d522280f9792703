//! Nodes under change: a copy with free room between heap and slots.
//!
//! Invariant: the bytes are a valid node at all times, so that freezing one costs nothing.

use lode_base::{Lpid, PageBuf, PageBufMut};

use super::{
    HEADER_BYTES, MAGIC, NO_FENCE, NODE_BYTES_MAX, Node, NodeValue, PAGE_VALUE, Raw, SLOT_BYTES, VERSION,
    common_prefix, head_of, raw, separator,
};

/// Extra room for the next changes of a node.
const ROOM_BYTES: usize = 256;

/// A node that is being changed.
#[derive(Clone, Debug)]
pub struct NodeMut {
    buf: PageBufMut,
}

/// A split node.
#[derive(Debug)]
pub struct Split {
    /// The first key of the right node: the separator in the parent.
    pub separator: Vec<u8>,
    /// The left node, which keeps the low fence.
    pub left: NodeMut,
    /// The right node.
    pub right: NodeMut,
}

impl NodeMut {
    /// A node without entries for keys from `low` on and below `high`.
    pub fn empty(lpid: Lpid, level: u8, low: &[u8], high: Option<&[u8]>) -> Self {
        let fences = low.len() + high.map_or(0, <[u8]>::len);
        let mut buf = PageBufMut::zeroed(HEADER_BYTES + fences + ROOM_BYTES);
        buf[..4].copy_from_slice(&MAGIC);
        buf[4] = VERSION;
        buf[5] = level;
        buf[8..16].copy_from_slice(&lpid.raw().to_le_bytes());
        let mut node = Self { buf };
        node.set_u16(24, low.len());
        node.set_u16(26, high.map_or(NO_FENCE.into(), <[u8]>::len));
        node.set_u16(28, high.map_or(0, |h| common_prefix(low, h)));
        node.set_u16(30, HEADER_BYTES + fences);
        node.buf[HEADER_BYTES..HEADER_BYTES + low.len()].copy_from_slice(low);
        if let Some(high) = high {
            node.buf[HEADER_BYTES + low.len()..HEADER_BYTES + fences].copy_from_slice(high);
        }
        node
    }

    /// A copy of a node, with room for changes.
    pub fn of(node: &Node) -> Self {
        let r = raw(&node.bytes);
        let slots = SLOT_BYTES * r.entries();
        let room = if r.gap() < ROOM_BYTES / 4 { ROOM_BYTES } else { r.gap() };
        let len = (r.heap_end() + slots + room).min(NODE_BYTES_MAX);
        let mut buf = PageBufMut::zeroed(len);
        buf[..r.heap_end()].copy_from_slice(&r.0[..r.heap_end()]);
        buf[len - slots..].copy_from_slice(&r.0[r.0.len() - slots..]);
        Self { buf }
    }

    fn raw(&self) -> Raw<'_> {
        raw(&self.buf)
    }

    fn set_u16(&mut self, at: usize, value: usize) {
        let value = u16::try_from(value).expect("a node's parts fit 16 bits");
        self.buf[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// 0 for a leaf.
    pub fn level(&self) -> u8 {
        self.raw().level()
    }

    /// How many entries it has.
    pub fn entries(&self) -> usize {
        self.raw().entries()
    }

    /// Its page.
    pub fn lpid(&self) -> Lpid {
        self.raw().lpid()
    }

    /// The number of the newest commit that changed it.
    pub fn csn(&self) -> u64 {
        self.raw().csn()
    }

    /// The smallest key that may be in it.
    pub fn low(&self) -> &[u8] {
        self.raw().low()
    }

    /// The smallest key that is beyond it.
    pub fn high(&self) -> Option<&[u8]> {
        self.raw().high()
    }

    /// Bytes that it takes without unused room.
    pub fn used_bytes(&self) -> usize {
        self.raw().used_bytes()
    }

    /// Where a key is, or where it would be. The key lies between the fences.
    pub fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.raw().find(key)
    }

    /// The entry of an inner node whose child takes a key, and that child.
    pub fn child_for(&self, key: &[u8]) -> (usize, Lpid) {
        let at = self.raw().child_index(key);
        (at, self.child(at))
    }

    /// The child of entry `i` of an inner node.
    ///
    /// # Panics
    /// When the node is a leaf.
    pub fn child(&self, i: usize) -> Lpid {
        match self.raw().value(i) {
            NodeValue::Page(l) => l,
            NodeValue::Inline(_) => panic!("an inner node's values are pages"),
        }
    }

    /// The value of entry `i`.
    pub fn value(&self, i: usize) -> NodeValue<'_> {
        self.raw().value(i)
    }

    /// Puts the key of entry `i` in `out`.
    pub fn read_key(&self, i: usize, out: &mut Vec<u8>) {
        self.raw().read_key(i, out);
    }

    /// Sets the value of a key, which lies between the fences. Returns whether the key is new.
    ///
    /// # Panics
    /// When key or value is longer than a node allows, or the node has its maximal length.
    pub fn put(&mut self, key: &[u8], value: NodeValue<'_>) -> bool {
        match self.find(key) {
            Ok(i) => {
                self.replace(i, value);
                false
            }
            Err(i) => {
                let prefix = self.raw().prefix_len();
                self.insert(i, &key[prefix..], value);
                true
            }
        }
    }

    fn replace(&mut self, i: usize, value: NodeValue<'_>) {
        let (range, page) = self.raw().value_range(i);
        let (bytes, tag) = value_bytes(&value);
        if range.len() == bytes.len() && page == (tag == PAGE_VALUE) {
            self.buf[range].copy_from_slice(&bytes);
            return;
        }
        let suffix = self.raw().suffix(i).to_vec();
        self.remove(i);
        self.insert(i, &suffix, value);
    }

    fn insert(&mut self, i: usize, suffix: &[u8], value: NodeValue<'_>) {
        let (bytes, tag) = value_bytes(&value);
        let size = 2 + suffix.len() + bytes.len();
        self.make_room(size + SLOT_BYTES);
        let (entries, offset) = (self.entries(), self.raw().heap_end());
        self.set_u16(offset, tag.into());
        self.buf[offset + 2..offset + 2 + suffix.len()].copy_from_slice(suffix);
        self.buf[offset + 2 + suffix.len()..offset + size].copy_from_slice(&bytes);
        self.set_u16(30, offset + size);
        // Slots from i on move down by one.
        let end = self.buf.len();
        let (low, high) = (end - SLOT_BYTES * entries, end - SLOT_BYTES * i);
        self.buf.copy_within(low..high, low - SLOT_BYTES);
        self.set_u16(6, entries + 1);
        let slot = self.raw().slot_at(i);
        self.buf[slot..slot + 4].copy_from_slice(&head_of(suffix).to_le_bytes());
        self.set_u16(slot + 4, offset);
        self.set_u16(slot + 6, suffix.len());
    }

    /// Removes a key. Returns whether it was there.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let found = self.find(key);
        if let Ok(i) = found {
            self.remove(i);
        }
        found.is_ok()
    }

    /// Removes entry `i`.
    pub fn remove(&mut self, i: usize) {
        let (entries, size) = (self.entries(), self.raw().entry_bytes(i));
        let garbage = self.raw().garbage() + size;
        let end = self.buf.len();
        let (low, high) = (end - SLOT_BYTES * entries, end - SLOT_BYTES * (i + 1));
        self.buf.copy_within(low..high, low + SLOT_BYTES);
        self.set_u16(6, entries - 1);
        self.set_u16(32, garbage);
    }

    /// Ensures that this many bytes are free between heap and slots.
    fn make_room(&mut self, needed: usize) {
        if self.raw().gap() >= needed {
            return;
        }
        let used = self.used_bytes();
        // Values that change their size leave garbage in the heap. Some of it is kept as free room.
        let len = (used + needed + ROOM_BYTES.max(used / 16)).min(NODE_BYTES_MAX);
        assert!(used + needed <= len, "a node of {used} bytes has no room for {needed} more");
        self.rebuild(len);
    }

    /// The same node in `len` bytes, its heap in the order of its keys.
    fn rebuild(&mut self, len: usize) {
        let old = std::mem::replace(&mut self.buf, PageBufMut::zeroed(len));
        let r = raw(&old);
        let mut at = r.heap_start();
        self.buf[..at].copy_from_slice(&old[..at]);
        for i in 0..r.entries() {
            let size = r.entry_bytes(i);
            self.buf[at..at + size].copy_from_slice(&old[r.offset(i)..r.offset(i) + size]);
            let (from, to) = (r.slot_at(i), self.raw().slot_at(i));
            self.buf[to..to + SLOT_BYTES].copy_from_slice(&old[from..from + SLOT_BYTES]);
            self.set_u16(to + 4, at);
            at += size;
        }
        self.set_u16(30, at);
        self.set_u16(32, 0);
    }

    /// Appends the entries `from..to` of a node, whose keys are above all that are here.
    fn append(&mut self, from: &Raw<'_>, entries: std::ops::Range<usize>) {
        let mut key = Vec::new();
        for i in entries {
            from.read_key(i, &mut key);
            // The first key of an inner node stands for the low fence.
            let suffix: &[u8] = match self.level() > 0 && self.entries() == 0 {
                true => &[],
                false => &key[self.raw().prefix_len()..],
            };
            self.insert(self.entries(), suffix, from.value(i));
        }
    }

    /// Whether it has enough entries to be split.
    pub fn can_split(&self) -> bool {
        self.entries() >= 2 * self.split_least()
    }

    /// The fewest entries of each part of a split. An inner node with one child would be a useless level: with long
    /// keys, a tree that is filled in order would grow by a level every few keys.
    fn split_least(&self) -> usize {
        if self.level() > 0 { 3 } else { 1 }
    }

    /// Splits the node in two of about the same size. If keys arrive in order, the left node stays full instead. `last_put` is the
    /// entry that was put last.
    ///
    /// # Panics
    /// When the node has too few entries: [`NodeMut::can_split`].
    pub fn split(&self, right: Lpid, last_put: usize) -> Split {
        let r = self.raw();
        let entries = r.entries();
        let least = self.split_least();
        assert!(self.can_split(), "{entries} entries cannot be cut in two");
        let cut = match last_put + 1 == entries {
            true => entries - least,
            false => {
                let half = (0..entries).map(|i| r.entry_bytes(i) + SLOT_BYTES).sum::<usize>() / 2;
                let mut bytes = 0;
                let over = (0..entries).position(|i| {
                    bytes += r.entry_bytes(i) + SLOT_BYTES;
                    bytes > half
                });
                over.expect("all is more than a half").clamp(least, entries - least)
            }
        };
        let (mut before, mut first) = (Vec::new(), Vec::new());
        r.read_key(cut - 1, &mut before);
        r.read_key(cut, &mut first);
        let separator = match r.level() {
            // The first key of an inner node is empty in the node, so it cannot be shortened to a separator.
            0 => separator(&before, &first).to_vec(),
            _ => first,
        };
        self.cut(cut, separator, right)
    }

    fn cut(&self, at: usize, separator: Vec<u8>, right: Lpid) -> Split {
        let r = self.raw();
        let mut left = Self::empty(r.lpid(), r.level(), r.low(), Some(&separator));
        left.append(&r, 0..at);
        let mut right = Self::empty(right, r.level(), &separator, r.high());
        right.append(&r, at..r.entries());
        left.set_csn(r.csn());
        right.set_csn(r.csn());
        Split { separator, left, right }
    }

    /// Keeps only the entries below `separator`: redoes the left part of a split.
    ///
    /// # Panics
    /// When the separator is not between the fences.
    pub fn truncate(&mut self, separator: &[u8]) {
        let r = self.raw();
        let at = match r.find(separator) {
            Ok(i) | Err(i) => i,
        };
        let mut left = Self::empty(r.lpid(), r.level(), r.low(), Some(separator));
        left.append(&r, 0..at);
        left.set_csn(r.csn());
        *self = left;
    }

    /// This node and its right neighbour as one, in this one's page.
    pub fn merged(&self, right: &Self, separator: &[u8]) -> Self {
        let (l, r) = (self.raw(), right.raw());
        let mut node = Self::empty(l.lpid(), l.level(), l.low(), r.high());
        node.append(&l, 0..l.entries());
        let mut first = 0;
        if l.level() > 0 {
            // The right node's first child takes the keys from the separator on.
            let at = node.raw().prefix_len();
            node.insert(node.entries(), &separator[at..], r.value(0));
            first = 1;
        }
        node.append(&r, first..r.entries());
        node.set_csn(l.csn().max(r.csn()));
        node
    }

    /// The same entries and fences in another page.
    pub fn moved(&self, lpid: Lpid) -> Self {
        let mut node = self.clone();
        node.buf[8..16].copy_from_slice(&lpid.raw().to_le_bytes());
        node
    }

    #[cfg(test)]
    pub(super) fn buf_for_tests(&self) -> Vec<u8> {
        self.buf.to_vec()
    }

    /// Sets the newest commit that changed it.
    pub fn set_csn(&mut self, csn: u64) {
        self.buf[16..24].copy_from_slice(&csn.to_le_bytes());
    }

    /// The node as it is, with its free room.
    pub fn finish(self) -> Node {
        debug_assert!(super::check(self.lpid(), &self.buf).is_ok());
        Node { bytes: self.buf.freeze() }
    }

    /// The node's bytes without unused room, at least as many as a page has.
    pub fn finish_exact(mut self) -> PageBuf {
        let used = self.used_bytes().max(lode_base::PAGE_BYTES_MIN);
        if self.buf.len() != used || self.raw().garbage() > 0 {
            self.rebuild(used);
        }
        self.buf.freeze()
    }
}

/// A value's bytes, and the length field before them.
fn value_bytes<'a>(v: &NodeValue<'a>) -> (std::borrow::Cow<'a, [u8]>, u16) {
    match v {
        NodeValue::Inline(b) => {
            assert!(b.len() < usize::from(PAGE_VALUE), "a value of {} bytes stands in no node", b.len());
            ((*b).into(), b.len() as u16)
        }
        NodeValue::Page(l) => (l.raw().to_le_bytes().to_vec().into(), PAGE_VALUE),
    }
}
