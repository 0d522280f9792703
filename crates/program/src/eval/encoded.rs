//! Tests of one encoded column. A test reads packed numbers, runs or codes where that is cheaper than unpacking the
//! values.
//!
//! ```text
//!   block of 1,024: least number and span ─┬─ outside the tested range ─► no row passes
//!                                          ├─ within the tested range ──► all rows pass
//!                                          └─ otherwise ─► the offsets are unpacked at 8, 16, 32 or 64 bits,
//!                                                          and compared with the constants less the least number
//!   runs ─► one outcome for each run ─► copied to all its rows
//! ```
//!
//! *Example.* `d BETWEEN 9000 AND 9100` is tested on a block whose least number is 8,036 and whose span is 4,095 (12
//! bits). The offsets take 16 bits. They are compared with 964 and 1,064. One 128-bit instruction compares eight of
//! them.

use lode_page::packed::{Block, Offsets, Packed, Scratch};
use lode_page::{Column, DataType, Values};

use super::{kernel, symbols};
use crate::KeySet;
use crate::bits;
use crate::keys::NumberKeys;
use crate::lanes::Data;
use crate::plan::Test;
use crate::sets::{FEW, IntSet};

/// Words of 64 bits that hold one bit for each row of a block.
const BLOCK_WORDS: usize = lode_page::packed::BLOCK_ROWS / 64;

/// Writes one bit for each row of the column to `out`: whether the row passes the test. Returns false if the test is
/// as cheap on plain values; `out` is then unchanged.
pub(super) fn test(t: &Test, column: &Column, active: &[u64], out: &mut [u64]) -> bool {
    match column.values() {
        Values::Packed(p) if p.is_runs() => runs(t, column.data_type(), p, out),
        Values::Packed(p) => numbers(t, p, active, out),
        Values::Symbols(s) => return symbols::test(t, s, active, out),
        _ => return false,
    }
    true
}

/// Tests each run once.
fn runs(t: &Test, data_type: DataType, p: &Packed, out: &mut [u64]) {
    let (ends, numbers) = p.runs().expect("the caller looked");
    let values = Values::Fixed { width: p.width(), data: numbers };
    let each = Column::new(data_type, ends.len(), None, values).expect("one number a run");
    let mut outcomes = vec![0; ends.len().div_ceil(64)];
    kernel::test(t, &Data::of(&each, 0..ends.len()), &bits::all(ends.len()), &mut outcomes);
    out.fill(0);
    let mut from = 0;
    for (run, &end) in ends.iter().enumerate() {
        let end = end as usize;
        if outcomes[run / 64] >> (run % 64) & 1 == 1 {
            set(out, from, end);
        }
        from = end;
    }
}

/// Sets bits `from..to`, which must not be empty.
fn set(out: &mut [u64], from: usize, to: usize) {
    let (first, last) = (from / 64, (to - 1) / 64);
    let head = !0 << (from % 64);
    let tail = !0 >> (63 - (to - 1) % 64);
    if first == last {
        out[first] |= head & tail;
        return;
    }
    out[first] |= head;
    out[first + 1..last].fill(!0);
    out[last] |= tail;
}

fn numbers(t: &Test, p: &Packed, active: &[u64], out: &mut [u64]) {
    let scratch = &mut Scratch::default();
    for (b, (active, out)) in active.chunks(BLOCK_WORDS).zip(out.chunks_mut(BLOCK_WORDS)).enumerate() {
        if active.iter().all(|&w| w == 0) {
            continue;
        }
        let block = p.block(b);
        match t {
            Test::Range { low, high, outside } => {
                range(&block, *low, *high, active, out, scratch);
                if *outside {
                    kernel::invert(out);
                }
            }
            Test::Ints(set) => in_set(set, &block, active, out, scratch),
            Test::Keys(set) if let KeySet::Numbers(keys) = &**set => {
                in_keys(keys, &block, active, out, scratch);
            }
            _ => unreachable!("tests were checked to be of their value's type"),
        }
    }
}

/// Evaluates one expression for offsets `$v` of any width, whose type is `$t`.
macro_rules! of_offsets {
    ($offsets:expr, $v:ident: $t:ident => $e:expr) => {
        match $offsets {
            Offsets::U8($v) => of_offsets!(@ u8, $t, $e),
            Offsets::U16($v) => of_offsets!(@ u16, $t, $e),
            Offsets::U32($v) => of_offsets!(@ u32, $t, $e),
            Offsets::U64($v) => of_offsets!(@ u64, $t, $e),
        }
    };
    (@ $type:ty, $t:ident, $e:expr) => {{
        type $t = $type;
        $e
    }};
}

fn range(block: &Block<'_>, low: i128, high: i128, active: &[u64], out: &mut [u64], scratch: &mut Scratch) {
    let (least, span) = (block.low(), i128::from(block.span()));
    let most = least.saturating_add(span);
    if low > most || high < least || low > high {
        return out.fill(0);
    }
    if low <= least && most <= high {
        return out.fill(!0);
    }
    // Both bounds are within the span, so they fit the type of the offsets.
    let low = low.saturating_sub(least).clamp(0, span) as u64;
    let high = high.saturating_sub(least).clamp(0, span) as u64;
    of_offsets!(block.offsets(scratch), v: T => {
        let (low, width) = (low as T, (high - low) as T);
        match width {
            0 => kernel::map(v, active, out, |v| v == low),
            _ => kernel::map(v, active, out, |v| v.wrapping_sub(low) <= width),
        }
    });
}

fn in_set(set: &IntSet, block: &Block<'_>, active: &[u64], out: &mut [u64], scratch: &mut Scratch) {
    let least = block.low();
    let most = least.saturating_add(block.span().into());
    let within = set.within(least..=most);
    match within {
        [] => out.fill(0),
        few if few.len() <= FEW => {
            let offset = |i: usize| (few.get(i).unwrap_or(&few[0]) - least) as u64;
            of_offsets!(block.offsets(scratch), v: T => {
                let few: [T; FEW] = std::array::from_fn(|i| offset(i) as T);
                kernel::map(v, active, out, |v| few.iter().fold(false, |hit, &x| hit | (x == v)));
            });
        }
        _ => each(block, active, out, scratch, |v| set.contains_narrow(v), |v| set.contains(v)),
    }
}

/// Asks of each number of a block whether it passes: `narrow` if all of them fit 64 bits, else `wide`.
fn each(
    block: &Block<'_>,
    active: &[u64],
    out: &mut [u64],
    scratch: &mut Scratch,
    narrow: impl Fn(i64) -> bool,
    wide: impl Fn(i128) -> bool,
) {
    let least = block.low();
    match (i64::try_from(least), i64::try_from(least.saturating_add(block.span().into()))) {
        (Ok(least), Ok(_)) => of_offsets!(block.offsets(scratch), v: T => {
            let of = |v: T| narrow(least.wrapping_add(v as i64));
            kernel::rows(active, out, |i| of(v[i]));
        }),
        _ => of_offsets!(block.offsets(scratch), v: T => {
            let of = |v: T| wide(least.wrapping_add(v.into()));
            kernel::rows(active, out, |i| of(v[i]));
        }),
    }
}

/// Blocks that span up to this many numbers are first asked as a whole.
const ASKED_SPAN_MAX: u64 = 1 << 16;

fn in_keys(keys: &NumberKeys, block: &Block<'_>, active: &[u64], out: &mut [u64], scratch: &mut Scratch) {
    let least = block.low();
    let most = least.saturating_add(block.span().into());
    if block.span() <= ASKED_SPAN_MAX && !keys.meets(&(least..=most)) {
        return out.fill(0);
    }
    each(block, active, out, scratch, |v| keys.contains(v), |v| keys.contains_wide(v));
}
