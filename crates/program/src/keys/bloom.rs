//! A split-block Bloom filter: a key sets one bit in each of the eight words of one block, so that a look-up touches one cache
//! line. Blocks, words and salts are those of Apache Parquet's specification ("Parquet Bloom Filter"); the hash is ours.

use lode_base::random::mix;

/// Bits for each key. With 12, about 1 in 150 other keys passes.
const BITS_PER_KEY: usize = 12;
const WORDS: usize = 8;
pub(super) const BLOCK_BYTES: usize = WORDS * 4;
/// The most blocks of a filter: 2 MB.
pub(super) const BLOCKS_MAX: usize = (2 << 20) / BLOCK_BYTES;

/// Odd multipliers, one a word (Parquet's).
const SALTS: [u32; WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// A set of hashes that may hold some that were never put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bloom {
    pub(super) blocks: Vec<[u32; WORDS]>,
}

impl Bloom {
    /// An empty filter for so many keys.
    pub(super) fn for_keys(keys: usize) -> Self {
        let blocks = (keys * BITS_PER_KEY).div_ceil(BLOCK_BYTES * 8).clamp(1, BLOCKS_MAX);
        Self { blocks: vec![[0; WORDS]; blocks] }
    }

    /// An empty filter of at most so many bytes, at least one block.
    pub(super) fn within(bytes: usize) -> Self {
        Self { blocks: vec![[0; WORDS]; (bytes / BLOCK_BYTES).clamp(1, BLOCKS_MAX)] }
    }

    /// Bytes of its blocks.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    fn block(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }

    pub(super) fn insert(&mut self, hash: u64) {
        let block = self.block(hash);
        for (word, salt) in self.blocks[block].iter_mut().zip(SALTS) {
            *word |= mask(hash, salt);
        }
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        let missing = |(word, salt): (&u32, u32)| mask(hash, salt) & !word;
        self.blocks[self.block(hash)].iter().zip(SALTS).map(missing).fold(0, |all, m| all | m) == 0
    }
}

fn mask(hash: u64, salt: u32) -> u32 {
    1 << ((hash as u32).wrapping_mul(salt) >> 27)
}

/// Spreads a number over 64 bits.
pub(super) fn hash_number(key: i64) -> u64 {
    mix(key as u64)
}

/// The same, word by word, for a string. The page index has it on the medium.
pub(crate) fn hash_bytes(key: &[u8]) -> u64 {
    let mut h = mix(key.len() as u64 ^ 1 << 63);
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        h = mix(h ^ u64::from_le_bytes(word));
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_other_keys_pass() {
        let mut bloom = Bloom::for_keys(10_000);
        (0..10_000).for_each(|k| bloom.insert(hash_number(k * 3)));
        assert!((0..10_000).all(|k| bloom.contains(hash_number(k * 3))));
        let others = (0..100_000).filter(|k| bloom.contains(hash_number(k * 3 + 1))).count();
        // About 0.7 % is expected.
        assert!((200..1_500).contains(&others), "{others} of 100,000");
    }
}
