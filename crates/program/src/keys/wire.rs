//! Key sets on the wire.

use lode_base::wire::{Malformed, Reader, Writer};

use super::bloom::{BLOCKS_MAX, Bloom};
use super::{BITMAP_BITS_MAX, KEYS_MAX, KeySet, NumberKeys, StringKeys};

/// Writes a key set.
pub(crate) fn put_keys(w: &mut Writer<'_>, set: &KeySet) {
    match set {
        KeySet::Numbers(NumberKeys::List(keys)) => {
            w.u8(0);
            w.count(keys.len());
            keys.iter().for_each(|k| w.u64(*k as u64));
        }
        KeySet::Numbers(NumberKeys::Bitmap { low, words }) => {
            w.u8(1);
            w.u64(*low as u64);
            w.count(words.len());
            words.iter().for_each(|word| w.u64(*word));
        }
        KeySet::Numbers(NumberKeys::Bloom { low, high, bloom }) => {
            w.u8(2);
            w.u64(*low as u64);
            w.u64(*high as u64);
            put_bloom(w, bloom);
        }
        KeySet::Numbers(NumberKeys::Folded(bits)) => {
            w.u8(5);
            w.u64(*bits);
        }
        KeySet::Strings(StringKeys::List(keys)) => {
            w.u8(3);
            w.count(keys.len());
            keys.iter().for_each(|k| w.bytes(k));
        }
        KeySet::Strings(StringKeys::Bloom { low, high, bloom }) => {
            w.u8(4);
            w.u64(*low);
            w.u64(*high);
            put_bloom(w, bloom);
        }
    }
}

/// Reads a key set.
///
/// # Errors
/// When the bytes are not those of one: a list out of order, a bitmap without its ends or too long, a Bloom filter without
/// blocks or with too many, bounds that are exchanged.
pub(crate) fn take_keys(r: &mut Reader<'_>) -> Result<KeySet, Malformed> {
    Ok(match r.u8()? {
        0 => {
            let n = keys_of(r, 8)?;
            let keys = (0..n).map(|_| r.u64().map(|k| k as i64)).collect::<Result<Vec<_>, _>>()?;
            if !keys.is_sorted_by(|a, b| a < b) {
                return Err(r.bad("keys that do not ascend"));
            }
            KeySet::Numbers(NumberKeys::List(keys))
        }
        1 => {
            let low = r.u64()? as i64;
            let n = r.count(8)?;
            if n as u64 * 64 > BITMAP_BITS_MAX {
                return Err(r.bad("a bitmap that is too long"));
            }
            let words = (0..n).map(|_| r.u64()).collect::<Result<Vec<_>, _>>()?;
            let has_ends = words.first().is_some_and(|w| w & 1 == 1) && words.last() != Some(&0);
            let keys = NumberKeys::Bitmap { low, words };
            if !has_ends || keys.high().is_none() {
                return Err(r.bad("a bitmap without its ends"));
            }
            KeySet::Numbers(keys)
        }
        2 => {
            let (low, high) = (r.u64()? as i64, r.u64()? as i64);
            let bloom = take_bloom(r)?;
            if low > high {
                return Err(r.bad("bounds of keys that are exchanged"));
            }
            KeySet::Numbers(NumberKeys::Bloom { low, high, bloom })
        }
        3 => {
            let n = keys_of(r, 4)?;
            let keys = (0..n).map(|_| r.bytes().map(Box::from)).collect::<Result<Vec<Box<[u8]>>, _>>()?;
            if !keys.is_sorted_by(|a, b| a < b) {
                return Err(r.bad("keys that do not ascend"));
            }
            KeySet::Strings(StringKeys::List(keys))
        }
        4 => {
            let (low, high) = (r.u64()?, r.u64()?);
            let bloom = take_bloom(r)?;
            if low > high {
                return Err(r.bad("bounds of keys that are exchanged"));
            }
            KeySet::Strings(StringKeys::Bloom { low, high, bloom })
        }
        5 => KeySet::Numbers(NumberKeys::Folded(r.u64()?)),
        _ => return Err(r.bad("no form of a key set")),
    })
}

fn keys_of(r: &mut Reader<'_>, each_bytes: usize) -> Result<usize, Malformed> {
    match r.count(each_bytes)? {
        n if n > KEYS_MAX => Err(r.bad("a key set that is too large")),
        n => Ok(n),
    }
}

fn put_bloom(w: &mut Writer<'_>, bloom: &Bloom) {
    w.count(bloom.blocks.len());
    bloom.blocks.iter().flatten().for_each(|word| w.u32(*word));
}

fn take_bloom(r: &mut Reader<'_>) -> Result<Bloom, Malformed> {
    let n = r.count(32)?;
    if n == 0 || n > BLOCKS_MAX {
        return Err(r.bad("a Bloom filter without blocks, or with too many"));
    }
    let mut blocks = vec![[0; 8]; n];
    for word in blocks.iter_mut().flatten() {
        *word = r.u32()?;
    }
    Ok(Bloom { blocks })
}

#[cfg(test)]
mod tests {
    use lode_base::PageBuf;
    use lode_base::wire::read_whole;

    use super::*;

    fn bytes(set: &KeySet) -> Vec<u8> {
        let mut b = Vec::new();
        put_keys(&mut Writer::new(&mut b), set);
        b
    }

    fn read(b: &[u8]) -> Result<KeySet, Malformed> {
        read_whole(&PageBuf::copy_from(b), take_keys)
    }

    fn string(i: u32) -> Box<[u8]> {
        format!("{i:05}").into_bytes().into()
    }

    #[test]
    fn key_sets_come_back_and_cut_ones_do_not() {
        let sets = [
            KeySet::of_numbers(vec![]),
            KeySet::of_numbers(vec![-4, 9, i64::MAX]),
            KeySet::of_numbers((0..2000).map(|i| i * 5).collect()),
            KeySet::of_numbers((0..2000).map(|i| i << 40).collect()),
            KeySet::of_strings((0..3).map(string).collect()),
            KeySet::Numbers(NumberKeys::Folded(1 << 40 | 7)),
            KeySet::of_strings((0..2000).map(string).collect()),
        ];
        for set in sets {
            let b = bytes(&set);
            assert_eq!(read(&b).as_ref(), Ok(&set));
            for n in (0..b.len()).step_by(b.len() / 50 + 1) {
                assert!(read(&b[..n]).is_err(), "cut to {n}");
            }
        }
    }

    #[test]
    fn malformed_key_sets_are_refused() {
        let list = |keys: &[u64]| {
            let mut b = Vec::new();
            let w = &mut Writer::new(&mut b);
            w.u8(0);
            w.count(keys.len());
            keys.iter().for_each(|k| w.u64(*k));
            b
        };
        assert!(read(&list(&[1, 2])).is_ok());
        assert!(read(&list(&[2, 2])).is_err() && read(&list(&[2, 1])).is_err());
        let bitmap = |low: i64, words: &[u64]| {
            let mut b = Vec::new();
            let w = &mut Writer::new(&mut b);
            w.u8(1);
            w.u64(low as u64);
            w.count(words.len());
            words.iter().for_each(|word| w.u64(*word));
            b
        };
        assert!(read(&bitmap(7, &[3])).is_ok());
        assert!(
            read(&bitmap(7, &[2])).is_err()
                && read(&bitmap(7, &[1, 0])).is_err()
                && read(&bitmap(7, &[])).is_err()
        );
        assert!(read(&bitmap(i64::MAX, &[3])).is_err(), "a key beyond 64 bits");
        assert!(read(&bitmap(0, &vec![1; (BITMAP_BITS_MAX / 64) as usize + 1])).is_err());
        let bloom = |low: u64, high: u64, blocks: usize| {
            let mut b = Vec::new();
            let w = &mut Writer::new(&mut b);
            w.u8(2);
            w.u64(low);
            w.u64(high);
            w.count(blocks);
            (0..blocks * 8).for_each(|_| w.u32(1));
            b
        };
        assert!(read(&bloom(1, 2, 1)).is_ok());
        assert!(read(&bloom(1, 2, 0)).is_err() && read(&bloom(3, 2, 1)).is_err());
        assert!(read(&bloom(1, 2, BLOCKS_MAX + 1)).is_err());
        assert!(read(&[5]).is_err() && read(&[6]).is_err());
    }
}
