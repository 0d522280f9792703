//! Loops over typed slices: 64 rows become 64 bytes of 0 or 1, and these become one word.
//!
//! Words without active rows are skipped.

use crate::bits;
use crate::lanes::{Data, Lane, Strings};
use crate::like::Pattern;
use crate::order_key::{total32, total64};
use crate::plan::Test;
use crate::sets::{FEW, IntSet};
use crate::{CompareOp, KeySet};

/// Bits of `f` over `values`, for the words that `active` asks for.
pub(super) fn map<T: Copy>(values: &[T], active: &[u64], out: &mut [u64], f: impl Fn(T) -> bool) {
    let (full, rest) = values.as_chunks::<64>();
    for ((chunk, &a), o) in full.iter().zip(active).zip(&mut *out) {
        if a != 0 {
            *o = bits::pack(&chunk.map(|v| u8::from(f(v))));
        }
    }
    if !rest.is_empty() {
        out[full.len()] = rest.iter().enumerate().fold(0, |w, (i, &v)| w | u64::from(f(v)) << i);
    }
}

/// Bits of `f` over pairs of values.
fn zip<T: Copy>(a: &[T], b: &[T], active: &[u64], out: &mut [u64], f: impl Fn(T, T) -> bool) {
    let ((full_a, rest_a), (full_b, rest_b)) = (a.as_chunks::<64>(), b.as_chunks::<64>());
    for (((a, b), &wanted), o) in full_a.iter().zip(full_b).zip(active).zip(&mut *out) {
        if wanted != 0 {
            let mut bytes = [0; 64];
            for i in 0..64 {
                bytes[i] = u8::from(f(a[i], b[i]));
            }
            *o = bits::pack(&bytes);
        }
    }
    if !rest_a.is_empty() {
        let pairs = rest_a.iter().zip(rest_b);
        out[full_a.len()] = pairs.enumerate().fold(0, |w, (i, (&a, &b))| w | u64::from(f(a, b)) << i);
    }
}

/// Bits of `f` over rows, only for those that `active` asks for.
pub(super) fn rows(active: &[u64], out: &mut [u64], f: impl Fn(usize) -> bool) {
    for (i, (&a, o)) in active.iter().zip(out).enumerate() {
        let mut word = 0;
        bits::each(a, |bit| word |= u64::from(f(i * 64 + bit)) << bit);
        *o = word;
    }
}

pub(super) fn invert(out: &mut [u64]) {
    out.iter_mut().for_each(|w| *w = !*w);
}

/// Bits of a test over a block.
pub(super) fn test(t: &Test, data: &Data<'_>, active: &[u64], out: &mut [u64]) {
    match (t, data) {
        (Test::Range { low, high, outside }, data) => {
            range(data, *low, *high, active, out);
            if *outside {
                invert(out);
            }
        }
        (Test::Ints(set), data) => in_set(set, data, active, out),
        (Test::Bytes(op, b), Data::Bytes(s)) => match op {
            CompareOp::Eq => rows(active, out, |i| *s.get(i) == **b),
            CompareOp::NotEq => rows(active, out, |i| *s.get(i) != **b),
            CompareOp::Lt => rows(active, out, |i| *s.get(i) < **b),
            CompareOp::LtEq => rows(active, out, |i| *s.get(i) <= **b),
            CompareOp::Gt => rows(active, out, |i| *s.get(i) > **b),
            CompareOp::GtEq => rows(active, out, |i| *s.get(i) >= **b),
        },
        (Test::Strings(set), Data::Bytes(s)) => rows(active, out, |i| set.contains(s.get(i))),
        (Test::Keys(set), data) => in_keys(set, data, active, out),
        (Test::Like(p), Data::Bytes(s)) => like(p, s, active, out),
        _ => unreachable!("tests were checked to be of their value's type"),
    }
}

macro_rules! range_of {
    ($lane:expr, $signed:ty, $unsigned:ty, $low:expr, $high:expr, $active:expr, $out:expr, $order:expr) => {{
        // Bounds beyond the width of the values are moved to its ends. The range may then be empty.
        let low = $low.max(<$signed>::MIN.into());
        let high = $high.min(<$signed>::MAX.into());
        if low > high {
            $out.fill(0);
            return;
        }
        let (low, high) = (low as $signed, high as $signed);
        // low <= v <= high is one comparison: v - low as an unsigned number is at most high - low.
        let span = high.wrapping_sub(low) as $unsigned;
        match $lane {
            Lane::Const(v) => {
                $out.fill(if $order(*v).wrapping_sub(low) as $unsigned <= span { !0 } else { 0 })
            }
            Lane::Slice(s) if span == 0 => map(s, $active, $out, |v| $order(v) == low),
            Lane::Slice(s) => map(s, $active, $out, |v| $order(v).wrapping_sub(low) as $unsigned <= span),
        }
    }};
}

/// Bits of `low <= v <= high` in the type's order.
fn range(data: &Data<'_>, low: i128, high: i128, active: &[u64], out: &mut [u64]) {
    match data {
        Data::I16(l) => range_of!(l, i16, u16, low, high, active, out, |v: i16| v),
        Data::I32(l) => range_of!(l, i32, u32, low, high, active, out, |v: i32| v),
        Data::I64(l) => range_of!(l, i64, u64, low, high, active, out, |v: i64| v),
        Data::I128(l) => range_of!(l, i128, u128, low, high, active, out, |v: i128| v),
        Data::F32(l) => range_of!(l, i32, u32, low, high, active, out, |v: f32| total32(v.to_bits())),
        Data::F64(l) => range_of!(l, i64, u64, low, high, active, out, |v: f64| total64(v.to_bits())),
        Data::Bytes(_) => unreachable!("ranges of strings are comparisons"),
    }
}

macro_rules! in_set_of {
    ($set:expr, $lane:expr, $signed:ty, $active:expr, $out:expr, $order:expr, $contains:expr) => {{
        let few: Vec<$signed> = match $set.values() {
            v if v.len() <= FEW => v.iter().filter_map(|&v| v.try_into().ok()).collect(),
            _ => Vec::new(),
        };
        match ($lane, few.first()) {
            (Lane::Const(v), _) => $out.fill(if $contains($order(*v)) { !0 } else { 0 }),
            (Lane::Slice(s), Some(&first)) => {
                let few: [$signed; FEW] = std::array::from_fn(|i| few.get(i).copied().unwrap_or(first));
                map(s, $active, $out, |v| {
                    let v = $order(v);
                    few.iter().fold(false, |hit, &x| hit | (x == v))
                });
            }
            (Lane::Slice(s), None) => rows($active, $out, |i| $contains($order(s[i]))),
        }
    }};
}

fn in_set(set: &IntSet, data: &Data<'_>, active: &[u64], out: &mut [u64]) {
    let narrow = |v: i64| set.contains_narrow(v);
    match data {
        Data::I16(l) => in_set_of!(set, l, i16, active, out, |v: i16| v, |v: i16| narrow(v.into())),
        Data::I32(l) => in_set_of!(set, l, i32, active, out, |v: i32| v, |v: i32| narrow(v.into())),
        Data::I64(l) => in_set_of!(set, l, i64, active, out, |v: i64| v, narrow),
        Data::I128(l) => in_set_of!(set, l, i128, active, out, |v: i128| v, |v: i128| set.contains(v)),
        Data::F32(l) => {
            in_set_of!(set, l, i32, active, out, |v: f32| total32(v.to_bits()), |v: i32| narrow(v.into()))
        }
        Data::F64(l) => in_set_of!(set, l, i64, active, out, |v: f64| total64(v.to_bits()), narrow),
        Data::Bytes(_) => unreachable!("sets of strings are sets of strings"),
    }
}

fn in_keys(set: &KeySet, data: &Data<'_>, active: &[u64], out: &mut [u64]) {
    macro_rules! keys_of {
        ($lane:expr, $holds:expr) => {
            match $lane {
                Lane::Const(v) => out.fill(if $holds(*v) { !0 } else { 0 }),
                Lane::Slice(s) => rows(active, out, |i| $holds(s[i])),
            }
        };
    }
    match (set, data) {
        (KeySet::Numbers(keys), Data::I16(l)) => keys_of!(l, |v: i16| keys.contains(v.into())),
        (KeySet::Numbers(keys), Data::I32(l)) => keys_of!(l, |v: i32| keys.contains(v.into())),
        (KeySet::Numbers(keys), Data::I64(l)) => keys_of!(l, |v: i64| keys.contains(v)),
        (KeySet::Numbers(keys), Data::I128(l)) => keys_of!(l, |v: i128| keys.contains_wide(v)),
        (KeySet::Strings(keys), Data::Bytes(s)) => rows(active, out, |i| keys.contains(s.get(i))),
        _ => unreachable!("key sets were checked to be of their value's type"),
    }
}

/// Bits of LIKE.
fn like(p: &Pattern, strings: &Strings<'_>, active: &[u64], out: &mut [u64]) {
    match (p, strings) {
        (Pattern::Contains(finder), Strings::Var { offsets, data }) => {
            let wanted: usize = active.iter().map(|w| w.count_ones() as usize).sum();
            if wanted * 4 >= offsets.len() {
                return contains(finder, offsets, data, out);
            }
            rows(active, out, |i| finder.find(strings.get(i)).is_some());
        }
        (Pattern::Exact(b), _) => rows(active, out, |i| *strings.get(i) == **b),
        (Pattern::Prefix(b), _) => rows(active, out, |i| strings.get(i).starts_with(b)),
        (Pattern::Suffix(b), _) => rows(active, out, |i| strings.get(i).ends_with(b)),
        (p, _) => rows(active, out, |i| p.matches(strings.get(i))),
    }
}

/// Bits of "contains the needle", by one search over the strings of all rows, end to end.
///
/// If a hit reaches over its row's end, no later hit can start in that row either, and the search continues with the
/// next row that is long enough. So no byte is searched more than twice, whatever the strings.
fn contains(finder: &memchr::memmem::Finder<'_>, offsets: &[u32], data: &[u8], out: &mut [u64]) {
    out.fill(0);
    let (rows, needle) = (offsets.len() - 1, finder.needle().len());
    let end = offsets[rows] as usize;
    let mut row = 0;
    loop {
        while row < rows && ((offsets[row + 1] - offsets[row]) as usize) < needle {
            row += 1;
        }
        if row == rows {
            return;
        }
        let from = offsets[row] as usize;
        let Some(hit) = finder.find(&data[from..end]) else { return };
        let at = from + hit;
        // Rows before the hit do not contain the needle. Empty rows are skipped too.
        while (offsets[row + 1] as usize) <= at && row + 1 < rows {
            row += 1;
        }
        if at + needle <= offsets[row + 1] as usize {
            out[row / 64] |= 1 << (row % 64);
        }
        row += 1;
    }
}

/// Bits of a comparison of two blocks.
pub(super) fn compare(op: CompareOp, a: Data<'_>, b: Data<'_>, active: &[u64], out: &mut [u64]) {
    // a > b is b < a, and a <= b is NOT b < a, so two loops for each type are enough.
    let (a, b) = if matches!(op, CompareOp::Gt | CompareOp::LtEq) { (b, a) } else { (a, b) };
    let equality = matches!(op, CompareOp::Eq | CompareOp::NotEq);
    macro_rules! lanes {
        ($a:expr, $b:expr, $order:expr) => {
            match equality {
                true => pairs($a, $b, active, out, |a, b| $order(a) == $order(b)),
                false => pairs($a, $b, active, out, |a, b| $order(a) < $order(b)),
            }
        };
    }
    match (&a, &b) {
        (Data::I16(a), Data::I16(b)) => lanes!(a, b, |v: i16| v),
        (Data::I32(a), Data::I32(b)) => lanes!(a, b, |v: i32| v),
        (Data::I64(a), Data::I64(b)) => lanes!(a, b, |v: i64| v),
        (Data::I128(a), Data::I128(b)) => lanes!(a, b, |v: i128| v),
        (Data::F32(a), Data::F32(b)) => lanes!(a, b, |v: f32| total32(v.to_bits())),
        (Data::F64(a), Data::F64(b)) => lanes!(a, b, |v: f64| total64(v.to_bits())),
        (Data::Bytes(a), Data::Bytes(b)) => match equality {
            true => rows(active, out, |i| a.get(i) == b.get(i)),
            false => rows(active, out, |i| a.get(i) < b.get(i)),
        },
        // Decimals of different widths.
        _ => {
            let (a, b) = (a.wide(1), b.wide(1));
            lanes!(&a, &b, |v: i128| v);
        }
    }
    if matches!(op, CompareOp::NotEq | CompareOp::LtEq | CompareOp::GtEq) {
        invert(out);
    }
}

fn pairs<T: Copy>(
    a: &Lane<'_, T>,
    b: &Lane<'_, T>,
    active: &[u64],
    out: &mut [u64],
    f: impl Fn(T, T) -> bool,
) {
    match (a, b) {
        (Lane::Const(a), Lane::Const(b)) => out.fill(if f(*a, *b) { !0 } else { 0 }),
        (Lane::Const(a), Lane::Slice(b)) => map(b, active, out, |b| f(*a, b)),
        (Lane::Slice(a), Lane::Const(b)) => map(a, active, out, |a| f(a, *b)),
        (Lane::Slice(a), Lane::Slice(b)) => zip(a, b, active, out, f),
    }
}

#[cfg(test)]
mod tests {
    use memchr::memmem::Finder;

    use super::*;

    #[test]
    fn one_search_finds_rows_and_not_what_lies_across_them() {
        let check = |rows: &[&str], needle: &str| {
            let data = rows.concat();
            let mut offsets = vec![0u32];
            rows.iter().for_each(|r| offsets.push(offsets[offsets.len() - 1] + r.len() as u32));
            let mut out = [0];
            contains(&Finder::new(needle), &offsets, data.as_bytes(), &mut out);
            let expected =
                rows.iter().enumerate().fold(0, |w, (i, r)| w | u64::from(r.contains(needle)) << i);
            assert_eq!(out[0], expected, "{needle:?} in {rows:?}");
        };
        check(&["a", "b", "ab", "", "xab", "ba"], "ab");
        check(&["", "", "aa", "a", "a", "aaa", ""], "aa");
        check(&["abc", "abc"], "abc");
        check(&["ab", "cabc", ""], "abc");
        check(&["", ""], "x");
        check(&["xx", "", "y", ""], "y");
    }
}
