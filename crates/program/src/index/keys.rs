//! Order keys in as few bytes as their type needs.
//!
//! ```text
//!   BOOLEAN 1    SMALLINT 2    INTEGER, DATE, REAL 4    DECIMAL of up to 18 digits: as the digits need
//!   all others 8
//! ```
//!
//! Invariant: the order of keys is kept, though different keys may become the same one. A key that was cut off at an end of the range
//! comes back as the end of all keys.

use std::cmp::Ordering;

use lode_page::DataType;

const SIGN: u64 = 1 << 63;

/// Bytes of a key of this type.
pub(super) fn key_bytes(t: DataType) -> usize {
    match t {
        DataType::Boolean => 1,
        DataType::SmallInt => 2,
        DataType::Integer | DataType::Date | DataType::Real => 4,
        // One more bit for the sign, and room at both ends.
        DataType::Decimal { precision: digits @ 0..=18, .. } => {
            let bits = u64::BITS - 10u64.pow(digits.into()).leading_zeros() + 1;
            bits.div_ceil(8) as usize
        }
        _ => 8,
    }
}

/// Appends a key in `bytes` bytes.
pub(super) fn put_key(key: u64, bytes: usize, out: &mut Vec<u8>) {
    let shift = 64 - 8 * bytes as u32;
    let (least, greatest) = (i64::MIN >> shift, i64::MAX >> shift);
    let place = ((key ^ SIGN) as i64).clamp(least, greatest);
    out.extend(&place.wrapping_sub(least).to_le_bytes()[..bytes]);
}

/// The key of type `t` in these bytes.
pub(super) fn key_at(bytes: &[u8], t: DataType) -> u64 {
    let mut number = [0; 8];
    number[..bytes.len()].copy_from_slice(bytes);
    let number = u64::from_le_bytes(number);
    let shift = 64 - 8 * bytes.len() as u32;
    let may_be_cut = shift > 0 && matches!(t, DataType::Decimal { .. });
    match number {
        0 if may_be_cut => 0,
        n if may_be_cut && n == u64::MAX >> shift => u64::MAX,
        n => (i64::MIN >> shift).wrapping_add(n as i64) as u64 ^ SIGN,
    }
}

/// The NULL bits of a part: bit i set when its i-th column has one.
pub(super) fn nulls(header: &[u8]) -> u32 {
    let mut bits = [0; 4];
    bits[..header.len()].copy_from_slice(header);
    u32::from_le_bytes(bits)
}

/// The least and the greatest of a column, in its bytes.
pub(super) fn ends(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len() / 2)
}

/// Widens the least and the greatest of `union` to those of `part`. A column with only NULLs adds nothing: its least is greater than all
/// others, and its greatest less.
pub(super) fn widen_ends(union: &mut [u8], part: &[u8], compare: impl Fn(&[u8], &[u8]) -> Ordering) {
    let (least, greatest) = union.split_at_mut(part.len() / 2);
    let (part_least, part_greatest) = ends(part);
    if compare(part_least, least).is_lt() {
        least.copy_from_slice(part_least);
    }
    if compare(part_greatest, greatest).is_gt() {
        greatest.copy_from_slice(part_greatest);
    }
}

/// Sets the bits of `union` that are set in `part`.
pub(super) fn set_bits(union: &mut [u8], part: &[u8]) {
    union.iter_mut().zip(part).for_each(|(u, p)| *u |= p);
}

/// Whether these bytes are of a column with only NULLs: its least is ff ff ..., its greatest 00 00 ...
pub(super) fn has_no_ends(bytes: &[u8]) -> bool {
    let (least, greatest) = ends(bytes);
    least.iter().all(|&b| b == u8::MAX) && greatest.iter().all(|&b| b == 0)
}

/// Whether these NULL bits name a column beyond the `columns` of the part.
pub(super) fn has_other_nulls(nulls: u32, columns: usize) -> bool {
    columns > 0 && nulls.checked_shr(columns as u32).unwrap_or(0) != 0
}

#[cfg(test)]
mod tests {
    use lode_page::Value;
    use proptest::prelude::*;

    use super::*;
    use crate::key_of;

    const TYPES: [DataType; 8] = [
        DataType::Boolean,
        DataType::SmallInt,
        DataType::Integer,
        DataType::BigInt,
        DataType::Decimal { precision: 4, scale: 0 },
        DataType::Decimal { precision: 15, scale: 2 },
        DataType::Decimal { precision: 18, scale: 2 },
        DataType::Decimal { precision: 30, scale: 2 },
    ];

    fn back(t: DataType, key: u64) -> u64 {
        let mut bytes = Vec::new();
        put_key(key, key_bytes(t), &mut bytes);
        assert_eq!(bytes.len(), key_bytes(t));
        key_at(&bytes, t)
    }

    #[test]
    fn values_of_the_type_keep_their_keys() {
        use DataType::{BigInt, Boolean, Date, Real, SmallInt};
        let ints = |t, ends: [i64; 2]| [ends[0], -1, 0, ends[1]].map(|v| (t, Value::Int(v))).to_vec();
        let mut values = vec![(Boolean, Value::Boolean(false)), (Boolean, Value::Boolean(true))];
        values.extend(ints(SmallInt, [i16::MIN.into(), i16::MAX.into()]));
        values.extend(ints(Date, [i32::MIN.into(), i32::MAX.into()]));
        values.extend(ints(BigInt, [i64::MIN, i64::MAX]));
        values.extend([f32::NEG_INFINITY, -0.0, 0.0, f32::NAN].map(|v| (Real, Value::Real(v))));
        for precision in 1..=18 {
            let end = 10i128.pow(precision.into()) - 1;
            let t = DataType::Decimal { precision, scale: 0 };
            values.extend([end, -end, 0].map(|v| (t, Value::Decimal(v))));
        }
        for (t, v) in values {
            let key = key_of(t, &v).expect("a value of the type");
            assert_eq!(back(t, key), key, "{v:?} of {t}");
        }
    }

    #[test]
    fn decimals_take_what_their_digits_need() {
        let bytes = |precision| key_bytes(DataType::Decimal { precision, scale: 0 });
        assert_eq!([1, 2, 4, 9, 12, 15, 16, 18, 19].map(bytes), [1, 1, 2, 4, 6, 7, 7, 8, 8]);
    }

    proptest! {
        #[test]
        fn a_key_beyond_its_type_moves_outward_only_at_an_end(a: u64, b: u64, t in 0..TYPES.len()) {
            let t = TYPES[t];
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(back(t, a) <= back(t, b));
            if let DataType::Decimal { .. } = t {
                // What was cut off comes back as the end, so that a range reaches no less far.
                prop_assert!(back(t, a) == a || [0, u64::MAX].contains(&back(t, a)));
            }
        }
    }
}
