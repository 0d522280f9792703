//! Compact forms of the drive's own program units. Mapping pages and metadata are eight-byte words that differ in few
//! bits. The copy of a log page differs from it in few bytes. Units that are not full end in zeroes.
//!
//! ```text
//!   0 │ bytes                                                                zeroes behind them are left out
//!   1 │ words 4 │ base 8 │ shift 1 │ width 1 │ others 2 │ (index 4, word 8) each │ (word - base) >> shift, width bits each
//!   2 │ (offset 4, byte 1) each                                              where it differs from the unit before
//! ```
//!
//! These forms exist only in memory, so they need no checks. Source: frames of reference with exceptions (Zukowski et
//! al., ICDE 2006).

const RAW: u8 = 0;
const WORDS: u8 = 1;
const PATCH: u8 = 2;

/// A unit is kept as a patch of the one before if it differs in at most this many bytes.
const PATCH_BYTES_MAX: usize = 32;
/// Words of a frame agree from this bit on: in the length of an entry's page, and the bits above it.
const COMMON_FROM_BIT: u32 = 42;
/// Bytes of a frame before its exceptions.
const FRAME_BYTES: usize = 16;

fn word(b: &[u8]) -> u64 {
    u64::from_le_bytes(b[..8].try_into().expect("8 bytes"))
}

fn number(b: &[u8]) -> usize {
    u32::from_le_bytes(b[..4].try_into().expect("4 bytes")) as usize
}

/// Bytes up to the last that is not zero.
fn trimmed(unit: &[u8]) -> &[u8] {
    // Whole cache lines first: most of a log page is often empty.
    let (lines, rest) = unit.as_chunks::<64>();
    if !rest.is_empty() {
        return unit;
    }
    let unit = &unit[..lines.iter().rposition(|l| *l != [0; 64]).map_or(0, |at| (at + 1) * 64)];
    let words = unit.as_chunks::<8>().0;
    &unit[..words.iter().rposition(|w| *w != [0; 8]).map_or(0, |at| (at + 1) * 8)]
}

/// Appends `unit`, which may consist of `words`. `before` is the previous unit, if that is no patch itself. Returns
/// whether the unit was stored as a patch.
pub(super) fn pack(unit: &[u8], before: Option<&[u8]>, words: bool, out: &mut Vec<u8>) -> bool {
    if let Some(patch) = before.and_then(|before| patch(unit, before)) {
        out.push(PATCH);
        for (at, byte) in patch {
            out.extend((at as u32).to_le_bytes());
            out.push(byte);
        }
        return true;
    }
    let bytes = trimmed(unit);
    if !(words && pack_words(bytes, out)) {
        out.push(RAW);
        out.extend(bytes);
    }
    false
}

/// The differences to the unit before, if they are few.
fn patch(unit: &[u8], before: &[u8]) -> Option<Vec<(usize, u8)>> {
    if unit.len() != before.len() {
        return None;
    }
    let (lines, rest) = unit.as_chunks::<64>();
    if !rest.is_empty() {
        return None;
    }
    let mut differs = Vec::new();
    for (i, (a, b)) in lines.iter().zip(before.as_chunks::<64>().0).enumerate() {
        if a == b {
            continue;
        }
        differs.extend((0..a.len()).filter(|&j| a[j] != b[j]).map(|j| (i * 64 + j, a[j])));
        if differs.len() > PATCH_BYTES_MAX {
            return None;
        }
    }
    Some(differs)
}

/// Packs words into a frame, if that takes at most three quarters of their bytes.
fn pack_words(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() || words.len() < 64 {
        return false;
    }
    let words: Vec<u64> = words.iter().map(|w| u64::from_le_bytes(*w)).collect();
    let mut common: Vec<u64> = words.iter().map(|w| w >> COMMON_FROM_BIT).collect();
    let common = *common.select_nth_unstable(words.len() / 2).1;
    let is_in = |w: u64| w >> COMMON_FROM_BIT == common;
    let framed = || words.iter().copied().filter(|&w| is_in(w));
    let base = framed().min().expect("the median is in");
    let (most, bits) = framed().fold((0, 0), |(most, bits), w| (most.max(w - base), bits | (w - base)));
    let shift = if bits == 0 { 0 } else { bits.trailing_zeros() };
    let width = (64 - (most >> shift).leading_zeros()) as usize;
    let others = words.iter().filter(|&&w| !is_in(w)).count();
    let packed = 1 + FRAME_BYTES + others * 12 + (words.len() * width).div_ceil(8);
    if packed * 4 > bytes.len() * 3 || others > usize::from(u16::MAX) {
        return false;
    }
    out.reserve(packed);
    out.push(WORDS);
    out.extend((words.len() as u32).to_le_bytes());
    out.extend(base.to_le_bytes());
    out.extend([shift as u8, width as u8]);
    out.extend((others as u16).to_le_bytes());
    for (i, &w) in words.iter().enumerate().filter(|(_, w)| !is_in(**w)) {
        out.extend((i as u32).to_le_bytes());
        out.extend(w.to_le_bytes());
    }
    let (mut held, mut count) = (0u128, 0);
    for &w in &words {
        let delta = if is_in(w) { (w - base) >> shift } else { 0 };
        held |= u128::from(delta) << count;
        count += width;
        while count >= 8 {
            out.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        out.push(held as u8);
    }
    true
}

/// Unpacks to `unit`. A patch is applied to the contents of `unit`.
pub(super) fn unpack(packed: &[u8], unit: &mut [u8]) {
    let body = &packed[1..];
    match packed[0] {
        PATCH => body.as_chunks::<5>().0.iter().for_each(|p| unit[number(p)] = p[4]),
        WORDS => unpack_words(body, unit),
        _ => {
            unit[..body.len()].copy_from_slice(body);
            unit[body.len()..].fill(0);
        }
    }
}

fn unpack_words(body: &[u8], unit: &mut [u8]) {
    let (count, base) = (number(body), word(&body[4..]));
    let (shift, width) = (u32::from(body[12]), usize::from(body[13]));
    let others = usize::from(u16::from_le_bytes([body[14], body[15]]));
    let (exceptions, packed) = body[FRAME_BYTES..].split_at(others * 12);
    let (mut held, mut bits) = (0u128, 0);
    let mut next = packed.iter();
    let mask = (1u128 << width) - 1;
    let (words, rest) = unit.split_at_mut(count * 8);
    rest.fill(0);
    for out in words.as_chunks_mut::<8>().0 {
        while bits < width {
            held |= u128::from(*next.next().expect("all words were packed")) << bits;
            bits += 8;
        }
        *out = (base + (((held & mask) as u64) << shift)).to_le_bytes();
        held >>= width;
        bits -= width;
    }
    for e in exceptions.as_chunks::<12>().0 {
        words[number(e) * 8..][..8].copy_from_slice(&e[4..]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn packed_bytes(unit: &[u8], before: Option<&[u8]>) -> usize {
        let mut out = Vec::new();
        let is_patch = pack(unit, before, true, &mut out);
        assert_eq!(is_patch, out[0] == PATCH);
        let mut back = before.map_or(vec![0xEE; unit.len()], <[u8]>::to_vec);
        unpack(&out, &mut back);
        assert!(back == unit, "it comes back");
        out.len()
    }

    fn unit(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let mut unit: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        unit.resize(4096, 0);
        unit
    }

    #[test]
    fn entries_of_a_drive_of_64_gb_take_three_bytes_and_names_as_well() {
        let mixed = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let entry = |n| 1 << 63 | 4096 << 42 | mixed(n) << 6;
        assert_eq!(packed_bytes(&unit((0..512).map(entry)), None), 17 + 512 * 3);
        // A header before them, and zeroes behind.
        let header = [0x0101_4750_444c, 7, 0x1234_5678_0000_2000, 0];
        let some = unit(header.into_iter().chain((0..400).map(entry)));
        assert_eq!(packed_bytes(&some, None), 17 + 4 * 12 + 404 * 3);
        let names = unit((0..512).map(mixed));
        assert_eq!(packed_bytes(&names, None), 17 + 512 * 3);
        let next_to_each_other = unit((0..512).map(|n| 4096 << 42 | (77 + n) << 6));
        assert_eq!(packed_bytes(&next_to_each_other, None), 17 + 512 * 9 / 8);
    }

    #[test]
    fn copies_and_zeroes_take_little() {
        assert_eq!(packed_bytes(&[0; 4096], None), 1);
        let page: Vec<u8> = (0..4096u32).map(|n| ((n * n) >> 3) as u8).collect();
        assert_eq!(packed_bytes(&page, None), 4097);
        let mut copy = page.clone();
        for at in [3, 64, 65, 4095] {
            copy[at] ^= 1;
        }
        assert_eq!(packed_bytes(&copy, Some(&page)), 1 + 4 * 5);
        assert_eq!(packed_bytes(&[1; 4096], Some(&page)), 17, "one that is another takes what it takes");
    }

    proptest! {
        #[test]
        fn whatever_is_packed_comes_back(
            words in vec(any::<u64>(), 0..512), low in 0..64u32, high in 0..64u32, common in any::<u64>()
        ) {
            let mask = u64::MAX << low & u64::MAX >> high;
            let all = unit(words.iter().enumerate().map(|(i, w)| if i % 17 == 3 { *w } else { common | w & mask }));
            packed_bytes(&all, None);
            let mut other = all.clone();
            other[words.len()] ^= 0x80;
            packed_bytes(&other, Some(&all));
        }
    }
}
