//! The layout of an image.
//!
//! ```text
//!   0        superblock            4 KB
//!   4 KB     its copy              4 KB
//!   8 KB     epoch records         2 x 4 KB, the newer one counts
//!   64 KB    checkpoint slots      2 x 128 KB, the newer one counts
//!   320 KB   their copies          2 x 96 KB
//!   512 KB   data: groups of | 4 KB of tags | 1 MB of data |, byte 0 of the medium first
//! ```
//!
//! A tag group has 256 tags of 16 bytes; with read units above 4 KB only its first tags are used. Everything is
//! 4 KB-aligned. The file is sparse, and as long as the last group that was ever written.

/// Where the superblock's copies lie.
pub(crate) const SUPERBLOCK_AT: [u64; 2] = [0, 4096];
/// Bytes of a superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
/// Where the epoch records lie.
pub(crate) const EPOCH_AT: [u64; 2] = [8192, 12_288];
/// Where the checkpoint slots lie, and their copies.
pub(crate) const CHECKPOINT_AT: [[u64; 2]; 2] = [[64 << 10, 192 << 10], [320 << 10, 416 << 10]];
/// Where the data area begins; no image is shorter.
pub(crate) const DATA_AT: u64 = 512 << 10;
/// Bytes of data in a group.
pub(crate) const GROUP_DATA_BYTES: u64 = 1 << 20;
/// Bytes of tags in a group.
pub(crate) const GROUP_TAG_BYTES: u64 = 4096;
/// Bytes of a group.
pub(crate) const GROUP_BYTES: u64 = GROUP_TAG_BYTES + GROUP_DATA_BYTES;

/// The group that a byte of the medium lies in.
pub(crate) const fn group_of(byte: u64) -> u64 {
    byte / GROUP_DATA_BYTES
}

/// Where a group begins in the image: its tags.
pub(crate) const fn group_at(group: u64) -> u64 {
    DATA_AT + group * GROUP_BYTES
}

/// Where a byte of the medium lies in the image.
pub(crate) const fn data_at(byte: u64) -> u64 {
    group_at(group_of(byte)) + GROUP_TAG_BYTES + byte % GROUP_DATA_BYTES
}

/// Groups that lie completely in an image of `image_bytes`.
pub(crate) const fn whole_groups(image_bytes: u64) -> u64 {
    image_bytes.saturating_sub(DATA_AT) / GROUP_BYTES
}

/// The host's page cache may split one write at multiples of this in the image.
const PART_BYTES: u64 = 512 << 10;

/// The first byte of the medium from `byte` on at which a large write is best split.
pub(crate) const fn part_from(byte: u64) -> u64 {
    let in_data = data_at(byte).next_multiple_of(PART_BYTES) - DATA_AT;
    // If tags lie there, the split is at the data behind them.
    let in_group = (in_data % GROUP_BYTES).saturating_sub(GROUP_TAG_BYTES);
    in_data / GROUP_BYTES * GROUP_DATA_BYTES + in_group
}

/// Splits `len` bytes of the medium from `byte` on where groups end: (byte, bytes) each.
pub(crate) fn by_group(byte: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = byte + len;
    let mut at = byte;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let part = (GROUP_DATA_BYTES - at % GROUP_DATA_BYTES).min(end - at);
            at += part;
            (at - part, part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_are_parted_at_multiples_in_the_image() {
        assert_eq!(part_from(0), (512 << 10) - 4096);
        for byte in (0..300 * GROUP_DATA_BYTES).step_by(28 << 10) {
            let part = part_from(byte);
            assert!((byte..byte + PART_BYTES).contains(&part), "{byte}: {part}");
            // Every 128th group begins at a multiple, so its tags and data are not split.
            let begins = part.is_multiple_of(128 * GROUP_DATA_BYTES);
            let at = if begins { group_at(group_of(part)) } else { data_at(part) };
            assert!(at.is_multiple_of(PART_BYTES) && data_at(byte) <= data_at(part), "{byte}: {part}");
        }
    }

    #[test]
    fn groups_follow_each_other_and_split_ranges() {
        assert_eq!(data_at(0), DATA_AT + 4096);
        assert_eq!(data_at(GROUP_DATA_BYTES), DATA_AT + GROUP_BYTES + 4096);
        assert_eq!(data_at(GROUP_DATA_BYTES - 1) + 1, group_at(1));
        let m = GROUP_DATA_BYTES;
        assert_eq!(by_group(m - 10, m + 20).collect::<Vec<_>>(), [(m - 10, 10), (m, m), (2 * m, 10)]);
        assert_eq!(whole_groups(group_at(3) - 1), 2);
    }
}
