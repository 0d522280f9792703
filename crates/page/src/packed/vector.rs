//! A vector: numbers in blocks of 1,024. Each block is packed with the bits that its span needs.
//!
//! ```text
//!    0  kind: 1 frames of reference, 2 with deltas   u8      entry of a block, kind 1 (16 bytes) and 2 (32 bytes)
//!    1  0 (3 bytes)                                           0  reference: its least number, less the base   u64
//!    4  numbers                                      u32      8  number of its first line                     u32
//!    8  lines                                        u32     12  width: bits of a packed number, 0 to 64      u8
//!   12  0                                            u32     13  0; of kind 2: 0, or bits of a word of deltas u8
//!   16  base: the least number of all                i128    14  0                                            u16
//!   32  an entry for each block                              16  (kind 2) greatest number, less the reference u64
//!       zeroes up to a multiple of 64                        24  (kind 2) step: the least delta               u64
//!       lines of 128 bytes, block after block (`lines`)
//!
//!   Number i of a packed block is base + reference + packed number i.
//!   A block of deltas begins with one line of unpacked numbers, less base and reference: numbers 0 to 31 in words of
//!   32 bits, or 0 to 15 in words of 64 bits. The lines after it hold packed deltas in words of the same bits.
//!   The delta of number i is: number i, less number i - 32 (of 64 bits: i - 16), less the step.
//! ```
//!
//! A delta is the difference to the number one line of words before. So all lanes add at once. Keys that ascend by a
//! constant step have deltas of width 0. Reading a single number adds at most 64 words.
//!
//! *Example.* The numbers 1, 2, 3, ... 1024 have base 1, reference 0, step 32 and width 0. The block takes one line
//! of 32 words: 0 to 31.
//!
//! Invariants, which [`Vector::parse`] checks: the entries name the lines of their blocks in order and without gaps.
//! Sums wrap. So a forged base yields other numbers, but never a panic.

use bytemuck::{Pod, Zeroable};
use lode_base::PageBuf;

use super::lines::{self, BLOCK_ROWS, LINE_BYTES, Word, bits_of, word_bits};
use super::number::Number;

const PACKED: u8 = 1;
const DELTAS: u8 = 2;
const HEADER_BYTES: usize = size_of::<Header>();

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Header {
    kind: u8,
    zero: [u8; 3],
    numbers: u32,
    lines: u32,
    zero_too: u32,
    base: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    reference: u64,
    first_line: u32,
    width: u8,
    delta_bits: u8,
    zero: u16,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Deltas {
    high: u64,
    step: u64,
}

const _: () = assert!(size_of::<Header>() == 32 && std::mem::offset_of!(Header, base) == 16);
const _: () = assert!(size_of::<Entry>() == 16 && size_of::<Deltas>() == 16);

/// A checked vector.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    numbers: usize,
    kind: u8,
    base: i128,
    entries: PageBuf,
    lines: PageBuf,
}

/// A buffer for the unpacked offsets of one block.
#[derive(Debug)]
pub struct Scratch([u64; BLOCK_ROWS]);

impl Scratch {
    fn words<W: Word>(&mut self) -> &mut [W] {
        &mut bytemuck::cast_slice_mut(&mut self.0)[..BLOCK_ROWS]
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self([0; BLOCK_ROWS])
    }
}

/// The numbers of a block, each less the least number of the block.
#[derive(Clone, Copy, Debug)]
pub enum Offsets<'a> {
    /// Offsets of at most 8 bits.
    U8(&'a [u8]),
    /// Offsets of at most 16 bits.
    U16(&'a [u16]),
    /// Offsets of at most 32 bits.
    U32(&'a [u32]),
    /// Offsets of at most 64 bits.
    U64(&'a [u64]),
}

/// One block of a vector.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    low: i128,
    high: u64,
    rows: usize,
    entry: Entry,
    step: u64,
    lines: &'a [u8],
}

impl Vector {
    /// Parses the vector of `numbers` numbers at the start of `bytes`. Returns the vector and the bytes that it
    /// takes.
    ///
    /// # Errors
    /// Returns what is wrong with the vector.
    pub(crate) fn parse(bytes: &PageBuf, numbers: usize) -> Result<(Self, usize), &'static str> {
        let require = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        require(bytes.len() >= HEADER_BYTES, "the bytes end within a vector's header")?;
        let h: Header = bytemuck::pod_read_unaligned(&bytes[..HEADER_BYTES]);
        require(matches!(h.kind, PACKED | DELTAS), "an unknown kind of vector")?;
        require(h.zero == [0; 3] && h.zero_too == 0, "unknown flags of a vector")?;
        require(h.numbers as usize == numbers, "a vector of another length")?;
        let blocks = numbers.div_ceil(BLOCK_ROWS);
        let entries_end = HEADER_BYTES + blocks * entry_bytes(h.kind);
        let start = entries_end.next_multiple_of(lode_base::CELL_BYTES);
        let end = start as u64 + u64::from(h.lines) * LINE_BYTES as u64;
        require(end <= bytes.len() as u64, "a vector that ends behind its segment")?;
        let vector = Self {
            numbers,
            kind: h.kind,
            base: i128::from_le_bytes(h.base),
            entries: bytes.slice(HEADER_BYTES..entries_end),
            lines: bytes.slice(start..end as usize),
        };
        require(vector.lines.try_values::<u64>().is_some(), "lines off their alignment")?;
        let mut next = 0;
        for b in 0..blocks {
            let (entry, deltas) = vector.entry(b);
            require(entry.zero == 0, "unknown flags of a block")?;
            require(entry.first_line == next, "lines out of order")?;
            let word_ok = match entry.delta_bits {
                0 => entry.width <= 64 && deltas.is_none_or(|d| d.step == 0),
                32 | 64 if h.kind == DELTAS => entry.width <= entry.delta_bits,
                _ => false,
            };
            require(word_ok, "a width that no block has")?;
            next += block_lines(vector.block_rows(b), &entry) as u32;
            require(next <= h.lines, "blocks of more lines than there are")?;
        }
        require(next == h.lines, "lines that no block has")?;
        Ok((vector, end as usize))
    }

    /// Returns the number of numbers in the vector.
    pub(crate) fn len(&self) -> usize {
        self.numbers
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.numbers.div_ceil(BLOCK_ROWS)
    }

    /// Returns whether blocks of the vector may hold deltas.
    pub(crate) fn has_deltas(&self) -> bool {
        self.kind == DELTAS
    }

    fn block_rows(&self, block: usize) -> usize {
        (self.numbers - block * BLOCK_ROWS).min(BLOCK_ROWS)
    }

    fn entry(&self, block: usize) -> (Entry, Option<Deltas>) {
        let at = block * entry_bytes(self.kind);
        let bytes = &self.entries[at..at + entry_bytes(self.kind)];
        let deltas = (self.kind == DELTAS).then(|| bytemuck::pod_read_unaligned(&bytes[16..]));
        (bytemuck::pod_read_unaligned(&bytes[..16]), deltas)
    }

    /// Returns block `block`, which must be below [`Vector::blocks`].
    pub(crate) fn block(&self, block: usize) -> Block<'_> {
        let (entry, deltas) = self.entry(block);
        let rows = self.block_rows(block);
        let from = entry.first_line as usize * LINE_BYTES;
        let to = from + block_lines(rows, &entry) * LINE_BYTES;
        let packed_high = if entry.width == 0 { 0 } else { u64::MAX >> (64 - u32::from(entry.width)) };
        Block {
            low: self.base.wrapping_add(entry.reference.into()),
            high: deltas.filter(|_| entry.delta_bits > 0).map_or(packed_high, |d| d.high),
            rows,
            entry,
            step: deltas.map_or(0, |d| d.step),
            lines: &self.lines[from..to],
        }
    }

    /// Returns number `i`.
    pub(crate) fn get(&self, i: usize) -> i128 {
        let block = self.block(i / BLOCK_ROWS);
        block.low.wrapping_add(block.get(i % BLOCK_ROWS).into())
    }

    /// Returns the sum of the numbers of the block of number `i` that come before it. Each is cut to 32 bits, as
    /// [`Vector::read`] into 32 bits does.
    pub(crate) fn sum_before(&self, i: usize) -> u64 {
        let (block, count) = (self.block(i / BLOCK_ROWS), i % BLOCK_ROWS);
        let low = block.low as u32;
        let fits = u32::try_from(block.high).is_ok_and(|high| low.checked_add(high).is_some());
        match block.entry.delta_bits {
            0 if fits => u64::from(low) * count as u64 + block.sum(count),
            _ => (0..count).map(|i| u64::from(block.low.wrapping_add(block.get(i).into()) as u32)).sum(),
        }
    }

    /// Reads numbers `from..from + out.len()` into `out`.
    pub(crate) fn read<N: Number>(&self, from: usize, out: &mut [N], scratch: &mut Scratch) {
        assert!(from + out.len() <= self.numbers, "{} numbers from {from} of {}", out.len(), self.numbers);
        let (mut at, mut out) = (from, out);
        while !out.is_empty() {
            let (block, skip) = (self.block(at / BLOCK_ROWS), at % BLOCK_ROWS);
            let count = (block.rows - skip).min(out.len());
            let (here, rest) = out.split_at_mut(count);
            let low = N::of(block.low);
            match here {
                // Reading a single number of a block is cheaper than unpacking the whole block.
                [one] => *one = low.plus(block.get(skip)),
                here => match block.offsets(scratch) {
                    Offsets::U8(v) => plus(low, &v[skip..], here),
                    Offsets::U16(v) => plus(low, &v[skip..], here),
                    Offsets::U32(v) => plus(low, &v[skip..], here),
                    Offsets::U64(v) => plus(low, &v[skip..], here),
                },
            }
            at += count;
            out = rest;
        }
    }
}

#[inline]
fn plus<N: Number, W: Word>(low: N, offsets: &[W], out: &mut [N]) {
    out.iter_mut().zip(offsets).for_each(|(out, v)| *out = low.plus(v.number()));
}

const fn entry_bytes(kind: u8) -> usize {
    if kind == DELTAS { size_of::<Entry>() + size_of::<Deltas>() } else { size_of::<Entry>() }
}

/// Returns the lines that a block of `rows` numbers takes.
fn block_lines(rows: usize, entry: &Entry) -> usize {
    let width = u32::from(entry.width);
    match entry.delta_bits {
        0 => lines::lines(rows, width, word_bits(width)),
        bits => {
            let lanes = LINE_BYTES * 8 / usize::from(bits);
            1 + lines::lines(rows.saturating_sub(lanes), width, bits.into())
        }
    }
}

impl<'a> Block<'a> {
    /// Returns the number of numbers in the block.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the least number. No number of the block is below it.
    pub fn low(&self) -> i128 {
        self.low
    }

    /// Returns the span. No number is greater than [`Block::low`] plus the span.
    pub fn span(&self) -> u64 {
        self.high
    }

    /// Returns number `i`, less the least number of the block.
    pub fn get(&self, i: usize) -> u64 {
        assert!(i < self.rows, "number {i} of {}", self.rows);
        let width = self.entry.width.into();
        match self.entry.delta_bits {
            0 => match word_bits(width) {
                8 => lines::get::<u8>(self.lines, width, i),
                16 => lines::get::<u16>(self.words(), width, i),
                32 => lines::get::<u32>(self.words(), width, i),
                _ => lines::get::<u64>(self.words(), width, i),
            },
            32 => sum::<u32>(self.words(), width, self.step, i),
            _ => sum::<u64>(self.words(), width, self.step, i),
        }
    }

    /// Unpacks all numbers, each less the least number of the block.
    pub fn offsets<'s>(&self, scratch: &'s mut Scratch) -> Offsets<'s> {
        let width = self.entry.width.into();
        match self.entry.delta_bits {
            0 => match word_bits(width) {
                8 => Offsets::U8(self.unpacked(width, scratch)),
                16 => Offsets::U16(self.unpacked(width, scratch)),
                32 => Offsets::U32(self.unpacked(width, scratch)),
                _ => Offsets::U64(self.unpacked(width, scratch)),
            },
            32 => Offsets::U32(self.added(width, scratch)),
            _ => Offsets::U64(self.added(width, scratch)),
        }
    }

    /// Returns the sum of the first `count` numbers, each less the least number of the block. They are no deltas, and
    /// have at most 32 bits.
    fn sum(&self, count: usize) -> u64 {
        let width = self.entry.width.into();
        match word_bits(width) {
            _ if width == 0 => 0,
            8 => self.sum_unpacked::<u8>(width, count),
            16 => self.sum_unpacked::<u16>(width, count),
            _ => self.sum_unpacked::<u32>(width, count),
        }
    }

    /// The same of numbers that are packed in words `W`. It unpacks no more lines than it needs.
    fn sum_unpacked<W: Word>(&self, width: u32, count: usize) -> u64 {
        let mut out = [W::zeroed(); BLOCK_ROWS];
        W::unpack(self.words(), width, &mut out[..count.next_multiple_of(W::LANES)]);
        out[..count].iter().map(|v| v.number()).sum()
    }

    fn words<W: Word>(&self) -> &'a [W] {
        bytemuck::try_cast_slice(self.lines).expect("segments are aligned")
    }

    fn unpacked<'s, W: Word>(&self, width: u32, scratch: &'s mut Scratch) -> &'s [W] {
        let out = &mut scratch.words()[..self.rows.next_multiple_of(W::LANES)];
        W::unpack(self.words(), width, out);
        &out[..self.rows]
    }

    fn added<'s, W: Word + Delta>(&self, width: u32, scratch: &'s mut Scratch) -> &'s [W] {
        let out = &mut scratch.words::<W>()[..self.rows.next_multiple_of(W::LANES)];
        let (first, deltas) = self.words::<W>().split_at(W::LANES);
        W::unpack(deltas, width, &mut out[W::LANES..]);
        out[..W::LANES].copy_from_slice(first);
        W::add_up(out, W::low_bits_of(self.step));
        &out[..self.rows]
    }
}

/// Returns number `i` of a block of deltas, less the least number of the block.
fn sum<W: Word + Delta>(words: &[W], width: u32, step: u64, i: usize) -> u64 {
    let (first, deltas) = words.split_at(W::LANES);
    let lane = i % W::LANES;
    let step = W::low_bits_of(step);
    (0..i / W::LANES)
        .fold(first[lane], |sum, row| {
            let delta = W::low_bits_of(lines::get(deltas, width, row * W::LANES + lane));
            sum.wrapping_plus(delta).wrapping_plus(step)
        })
        .number()
}

/// A word of deltas.
trait Delta: Sized {
    fn wrapping_plus(self, other: Self) -> Self;

    fn wrapping_less(self, other: Self) -> Self;

    /// Returns whether `self` is less than `other`, both as signed differences.
    fn signed_below(self, other: Self) -> bool;

    /// Adds to each word from the second line on: the word one line before it, and `step`.
    fn add_up(out: &mut [Self], step: Self);
}

macro_rules! delta {
    ($t:ty, $signed:ty) => {
        impl Delta for $t {
            fn wrapping_plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn wrapping_less(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn signed_below(self, other: Self) -> bool {
                (self as $signed) < other as $signed
            }

            fn add_up(out: &mut [Self], step: Self) {
                const LANES: usize = LINE_BYTES * 8 / <$t>::BITS as usize;
                let lines = out.as_chunks_mut::<LANES>().0;
                for row in 1..lines.len() {
                    let (before, here) = lines.split_at_mut(row);
                    for (here, before) in here[0].iter_mut().zip(&before[row - 1]) {
                        *here = here.wrapping_add(*before).wrapping_add(step);
                    }
                }
            }
        }
    };
}
delta!(u32, i32);
delta!(u64, i64);

/// How a block is to be packed.
#[derive(Clone, Copy, Debug)]
struct Plan {
    entry: Entry,
    deltas: Deltas,
}

/// Plans the packing of a block of numbers, less the base of the vector. Uses deltas if `delta` is set and they take
/// fewer lines.
fn plan<S: Source>(numbers: &[S], delta: bool) -> Plan {
    let (low, high) = S::bounds(numbers);
    let (low, span) = (low.number(), high.number() - low.number());
    let packed = Entry { reference: low, width: bits_of(span) as u8, ..Entry::zeroed() };
    let packed = Plan { entry: packed, deltas: Deltas { high: span, step: 0 } };
    if !delta {
        return packed;
    }
    let with_deltas = match bits_of(span) {
        0..=32 => deltas_of::<S, u32>(numbers, low, 32),
        _ => deltas_of::<S, u64>(numbers, low, 64),
    };
    let with_deltas = Plan { deltas: Deltas { high: span, step: with_deltas.1 }, entry: with_deltas.0 };
    match block_lines(numbers.len(), &with_deltas.entry) < block_lines(numbers.len(), &packed.entry) {
        true => with_deltas,
        false => packed,
    }
}

/// Returns the entry and the step of a block of deltas in words `W` of `bits` bits.
fn deltas_of<S: Source, W: Word + Delta>(numbers: &[S], low: u64, bits: u8) -> (Entry, u64) {
    let word = |v: &S| W::low_bits_of(v.number());
    let mut pairs = numbers.iter().zip(numbers.get(W::LANES..).unwrap_or_default());
    let delta = |(a, b): (&S, &S)| word(b).wrapping_less(word(a));
    let (mut least, mut most) = match pairs.next() {
        Some(pair) => (delta(pair), delta(pair)),
        None => (W::zeroed(), W::zeroed()),
    };
    for pair in pairs {
        let d = delta(pair);
        least = if d.signed_below(least) { d } else { least };
        most = if most.signed_below(d) { d } else { most };
    }
    let width = bits_of(most.wrapping_less(least).number()) as u8;
    let entry = Entry { reference: low, width, delta_bits: bits, ..Entry::zeroed() };
    (entry, least.number())
}

/// A number, less the base, that is to be packed into a vector.
pub(crate) trait Source: Word {
    /// Returns the least and the greatest number; 0 and 0 if there are none.
    fn bounds(numbers: &[Self]) -> (Self, Self);
}

macro_rules! source {
    ($t:ty) => {
        impl Source for $t {
            fn bounds(numbers: &[Self]) -> (Self, Self) {
                let first = numbers.first().copied().unwrap_or_default();
                numbers.iter().fold((first, first), |(low, high), &v| (low.min(v), high.max(v)))
            }
        }
    };
}
source!(u32);
source!(u64);

/// Returns the lines that a vector of these numbers takes.
pub(crate) fn lines_for<S: Source>(numbers: &[S], delta: bool) -> usize {
    numbers.chunks(BLOCK_ROWS).map(|block| block_lines(block.len(), &plan(block, delta).entry)).sum()
}

/// Returns the bytes that a vector of these numbers takes.
pub(crate) fn bytes_for<S: Source>(numbers: &[S], delta: bool) -> usize {
    let kind = if delta { DELTAS } else { PACKED };
    index_bytes(numbers.len(), kind) + lines_for(numbers, delta) * LINE_BYTES
}

/// Returns the bits of packed numbers of which `v` is the greatest.
pub(crate) const fn bits_for(v: u64) -> u32 {
    bits_of(v)
}

/// Returns the bytes before the lines: header, entries and padding.
fn index_bytes(numbers: usize, kind: u8) -> usize {
    let entries = numbers.div_ceil(BLOCK_ROWS) * entry_bytes(kind);
    (HEADER_BYTES + entries).next_multiple_of(lode_base::CELL_BYTES)
}

/// Appends these numbers as a vector, and adds `base` to each number. The length of `out` must be a multiple of 64.
pub(crate) fn encode<S: Source>(numbers: &[S], base: i128, delta: bool, out: &mut Vec<u8>) {
    let kind = if delta { DELTAS } else { PACKED };
    let start = out.len();
    assert!(start.is_multiple_of(lode_base::CELL_BYTES), "a vector off its alignment");
    out.resize(start + index_bytes(numbers.len(), kind), 0);
    let mut next = 0u32;
    let mut scratch = Scratch::default();
    for (b, block) in numbers.chunks(BLOCK_ROWS).enumerate() {
        let mut plan = plan(block, delta);
        plan.entry.first_line = next;
        let block_lines = block_lines(block.len(), &plan.entry);
        next += block_lines as u32;
        let at = start + HEADER_BYTES + b * entry_bytes(kind);
        out[at..at + 16].copy_from_slice(bytemuck::bytes_of(&plan.entry));
        if delta {
            out[at + 16..at + 32].copy_from_slice(bytemuck::bytes_of(&plan.deltas));
        }
        let width = plan.entry.width.into();
        let from = out.len();
        out.resize(from + block_lines * LINE_BYTES, 0);
        let (lines, scratch) = (&mut out[from..], &mut scratch);
        match (plan.entry.delta_bits, word_bits(width)) {
            (0, 8) => pack::<S, u8>(block, &plan, lines, scratch),
            (0, 16) => pack::<S, u16>(block, &plan, lines, scratch),
            (0, 32) => pack::<S, u32>(block, &plan, lines, scratch),
            (0, _) => pack::<S, u64>(block, &plan, lines, scratch),
            (32, _) => pack_deltas::<S, u32>(block, &plan, lines, scratch),
            _ => pack_deltas::<S, u64>(block, &plan, lines, scratch),
        }
    }
    let header = Header {
        kind,
        numbers: numbers.len() as u32,
        lines: next,
        base: base.to_le_bytes(),
        ..Header::zeroed()
    };
    out[start..start + HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(&header));
}

fn pack<S: Source, W: Word>(numbers: &[S], plan: &Plan, lines: &mut [u8], scratch: &mut Scratch) {
    let words = &mut scratch.words::<W>()[..numbers.len().next_multiple_of(W::LANES)];
    let reference = plan.entry.reference;
    words.iter_mut().zip(numbers).for_each(|(w, v)| *w = W::low_bits_of(v.number() - reference));
    words[numbers.len()..].fill(W::zeroed());
    pack_words(words, plan, lines);
}

fn pack_deltas<S: Source, W: Word + Delta>(
    numbers: &[S],
    plan: &Plan,
    lines: &mut [u8],
    scratch: &mut Scratch,
) {
    let words = &mut scratch.words::<W>()[..numbers.len().next_multiple_of(W::LANES)];
    let (reference, step) = (plan.entry.reference, W::low_bits_of(plan.deltas.step));
    let (first, deltas) = words.split_at_mut(W::LANES);
    first.fill(W::zeroed());
    first.iter_mut().zip(numbers).for_each(|(w, v)| *w = W::low_bits_of(v.number() - reference));
    deltas.fill(W::zeroed());
    let pairs = numbers.iter().zip(numbers.get(W::LANES..).unwrap_or_default());
    for (d, (a, b)) in deltas.iter_mut().zip(pairs) {
        let (a, b) = (W::low_bits_of(a.number()), W::low_bits_of(b.number()));
        *d = b.wrapping_less(a).wrapping_less(step);
    }
    let (first_line, lines) = lines.split_at_mut(LINE_BYTES);
    first_line.copy_from_slice(bytemuck::cast_slice(first));
    pack_words(deltas, plan, lines);
}

/// Packs words into lines, which need not be aligned in memory.
fn pack_words<W: Word>(words: &[W], plan: &Plan, lines: &mut [u8]) {
    let width = plan.entry.width.into();
    match bytemuck::try_cast_slice_mut(lines) {
        Ok(lines) => W::pack(words, width, lines),
        Err(_) => {
            let mut aligned = vec![W::zeroed(); lines.len() / size_of::<W>()];
            W::pack(words, width, &mut aligned);
            lines.copy_from_slice(bytemuck::cast_slice(&aligned));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector(numbers: &[u64], base: i128, delta: bool) -> (Vec<u8>, Vector) {
        let mut bytes = Vec::new();
        encode(numbers, base, delta, &mut bytes);
        assert_eq!(bytes.len(), bytes_for(numbers, delta));
        let (v, used) = Vector::parse(&PageBuf::copy_from(&bytes), numbers.len()).unwrap();
        assert_eq!(used, bytes.len());
        (bytes, v)
    }

    fn check(numbers: &[u64], base: i128) {
        for delta in [false, true] {
            let (bytes, v) = vector(numbers, base, delta);
            let expected = |i: usize| base.wrapping_add(numbers[i].into());
            (0..numbers.len()).for_each(|i| assert_eq!(v.get(i), expected(i), "number {i}"));
            let mut scratch = Scratch::default();
            for from in [0, 1, 31, 1000, 1023, 1024, 1500] {
                for to in [from + 1, from + 40, from + 1100, numbers.len()] {
                    if from < to && to <= numbers.len() {
                        let mut out = vec![0i128; to - from];
                        v.read(from, &mut out, &mut scratch);
                        (from..to).for_each(|i| assert_eq!(out[i - from], expected(i), "number {i}"));
                    }
                }
            }
            for b in 0..v.blocks() {
                let (block, rows) = (v.block(b), b * BLOCK_ROWS..numbers.len().min((b + 1) * BLOCK_ROWS));
                let (low, high) = (rows.clone().map(expected).min(), rows.map(expected).max());
                assert_eq!(Some(block.low()), low);
                assert!(Some(block.low() + i128::from(block.span())) >= high);
            }
            if let Ok(narrow) = numbers.iter().map(|&v| u32::try_from(v)).collect::<Result<Vec<_>, _>>() {
                let mut same = Vec::new();
                encode(&narrow, base, delta, &mut same);
                assert_eq!(same, bytes);
            }
        }
    }

    #[test]
    fn numbers_come_back() {
        check(&[], 0);
        check(&[7], -5);
        check(&(0..5000).collect::<Vec<_>>(), 1);
        check(&(0..3000).map(|i| i * i % 977).collect::<Vec<_>>(), i128::from(i64::MIN));
        check(&(0..2100).map(|i| if i % 100 == 7 { u64::MAX } else { i }).collect::<Vec<_>>(), 1 << 100);
        check(&(0..1025).rev().map(|i| i << 40).collect::<Vec<_>>(), 0);
    }

    #[test]
    fn a_constant_step_takes_a_line_a_block() {
        let numbers: Vec<u64> = (0..4096).collect();
        assert_eq!(bytes_for(&numbers, true), 64 * 3 + 4 * 128);
        let (_, v) = vector(&numbers, 1, true);
        assert_eq!((v.block(2).low(), v.block(2).span()), (2049, 1023));
    }

    proptest! {
        #[test]
        fn any_numbers_come_back(
            numbers in proptest::collection::vec(any::<u64>(), 0..2500), shift in 0u32..64, sorted: bool, base: i128,
        ) {
            let mut numbers: Vec<u64> = numbers.iter().map(|v| v >> shift).collect();
            if sorted {
                numbers.sort_unstable();
            }
            check(&numbers, base >> 1);
        }

        #[test]
        fn forged_vectors_are_refused_or_harmless(
            len in 1usize..2200, shift in 0u32..64, delta: bool,
            lies in proptest::collection::vec((0usize..160, any::<u8>()), 1..4),
        ) {
            let numbers: Vec<u64> = (0..len as u64).map(|i| (i * 0x9e37_79b9) >> shift).collect();
            let (mut bytes, _) = vector(&numbers, 3, delta);
            for (at, to) in lies {
                let at = at % bytes.len();
                bytes[at] = to;
            }
            if let Ok((v, used)) = Vector::parse(&PageBuf::copy_from(&bytes), len) {
                assert!(used <= bytes.len());
                let mut out = vec![0i64; len];
                v.read(0, &mut out, &mut Scratch::default());
                (0..len).for_each(|i| assert_eq!(v.get(i) as i64, out[i]));
                let mut narrow = vec![0u32; len];
                v.read(0, &mut narrow, &mut Scratch::default());
                for i in (0..len).step_by(53) {
                    let before = &narrow[i / BLOCK_ROWS * BLOCK_ROWS..i];
                    assert_eq!(v.sum_before(i), before.iter().map(|&n| u64::from(n)).sum::<u64>(), "{i}");
                }
            }
            for cut in [0, 31, bytes.len() / 2, bytes.len() - 1] {
                prop_assert!(Vector::parse(&PageBuf::copy_from(&bytes[..cut]), len).is_err());
            }
        }
    }
}
