//! Properties of each decoder of this crate, for any bytes: for the tests at the foot, and for `cargo fuzz`.
//!
//! ```text
//!   bytes ─► as they are, and with magic and checksum made right ─► decode ─► encode ─► decode: the same again
//! ```
//!
//! No decoder panics, loops, or takes more memory than a small multiple of its input and of the structure. For
//! images, the bytes describe changes to a valid image, which is sealed again, opened and read.

use std::sync::OnceLock;

use lode_base::checksum::{crc32c_seeded, seed_of};
use lode_base::{EblockId, Geometry, PageBuf};

pub use crate::faults::Image;
use crate::record::{self, CHECKPOINT_MAGIC, EPOCH_MAGIC, RECORD_HEADER_BYTES, Slot};
use crate::superblock::{self, Superblock};
use crate::tag::{TAG_BYTES, Tag};
use crate::{Faults, Generation, Medium};

/// The decoder that gets the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuzzTarget {
    /// The superblock.
    Superblock,
    /// An epoch record, or a checkpoint record with its payload.
    Record,
    /// The tag of a read unit.
    Tag,
    /// Changes to an image.
    Image,
}

impl FuzzTarget {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Superblock, Self::Record, Self::Tag, Self::Image];
}

/// Decodes `bytes` in every way of this target. Returns whether one of them succeeded.
///
/// # Panics
/// When a property does not hold.
pub fn decode_all(kind: FuzzTarget, bytes: &[u8]) -> bool {
    match kind {
        FuzzTarget::Superblock => decode_superblock(bytes),
        FuzzTarget::Record => decode_record(bytes),
        FuzzTarget::Tag => decode_tag(bytes),
        FuzzTarget::Image => open_image(bytes),
    }
}

fn decode_superblock(bytes: &[u8]) -> bool {
    let mut b = [0; 4096];
    let len = bytes.len().min(b.len());
    b[..len].copy_from_slice(&bytes[..len]);
    let again = |b: &_| Superblock::decode(b).is_ok_and(|s| Superblock::decode(&s.encode()) == Ok(s));
    let raw = again(&b);
    b[..8].copy_from_slice(b"LODEIMG\0");
    superblock::seal(&mut b);
    again(&b) || raw
}

fn decode_record(bytes: &[u8]) -> bool {
    let mut understood = false;
    for (magic, at) in [(EPOCH_MAGIC, 8192), (CHECKPOINT_MAGIC, 64 << 10)] {
        let mut b = bytes.to_vec();
        b.resize(b.len().max(RECORD_HEADER_BYTES), 0);
        for seal in [false, true] {
            if seal {
                b[..8].copy_from_slice(&magic);
                let len = u32::from_le_bytes([b[8], b[9], b[10], b[11]]) as usize;
                let end = RECORD_HEADER_BYTES.saturating_add(len).min(b.len());
                let crc = crc32c_seeded(seed_of(at), &b[16..end]);
                b[12..16].copy_from_slice(&crc.to_le_bytes());
            }
            if let Slot::Whole(r) = record::decode(magic, at, &b) {
                let encoded = record::encode(magic, at, &r);
                assert_eq!(encoded[..], b[..encoded.len()], "a record has one form");
                assert_eq!(record::decode(magic, at, &encoded), Slot::Whole(r));
                understood = true;
            }
        }
    }
    understood
}

fn decode_tag(bytes: &[u8]) -> bool {
    let mut b = [0; TAG_BYTES];
    let len = bytes.len().min(b.len());
    b[..len].copy_from_slice(&bytes[..len]);
    let tag = Tag::from_bytes(&b);
    assert_eq!(tag.to_bytes(), b);
    let generation = Generation::from_raw(tag.generation);
    assert_eq!(Generation::from_raw(generation.raw()), generation);
    assert!(!format!("{generation}{generation:?}").is_empty());
    tag.crc == tag.expected_crc(7, &bytes[len..])
}

const EBLOCKS: u32 = 8;

fn geometry() -> Geometry {
    Geometry::new(2, 1, 1, 4096, 8192, 64 << 10, EBLOCKS).expect("a small geometry")
}

/// An image of two EBLOCKs with pages, and two checkpoints.
fn valid() -> &'static Faults {
    static VALID: OnceLock<Faults> = OnceLock::new();
    VALID.get_or_init(|| {
        let (m, faults) = Medium::simulated(geometry());
        let data = PageBuf::copy_from(&[7; 8192]);
        for e in [0, 3] {
            m.erase(EblockId::new(e)).expect("nothing fails");
            for wblock in 0..3 {
                m.program(EblockId::new(e), wblock, &data).expect("nothing fails");
            }
        }
        for slot in 0..2 {
            m.write_checkpoint_record(slot, b"where the log begins").expect("nothing fails");
        }
        m.sync().expect("nothing fails");
        faults
    })
}

/// Changes: | what 1 | where 2 | length 1 | bytes |, again and again.
fn open_image(bytes: &[u8]) -> bool {
    let opened = valid().forged(|image| {
        let mut rest = bytes;
        while let [what, low, high, len, more @ ..] = rest {
            let (change, more) = more.split_at(usize::from(len & 31).min(more.len()));
            rest = more;
            let at = usize::from(u16::from_le_bytes([*low, *high]));
            let over = |b: &mut [u8]| {
                let at = at % b.len().max(1);
                b.iter_mut().skip(at).zip(change).for_each(|(b, c)| *b = *c);
            };
            let number = |n: &mut (u64, u64)| {
                let mut b = [0; 8];
                over(&mut b);
                let n = if at.is_multiple_of(2) { &mut n.0 } else { &mut n.1 };
                *n = u64::from_le_bytes(b);
            };
            match what % 8 {
                // The fields of a superblock lie in its first 84 bytes.
                0 => image.superblock(what & 0x80 == 0, |b| over(&mut b[..96])),
                1 => image.epoch(usize::from(what >> 7), number),
                2 => image.checkpoint(usize::from(what >> 7), |numbers, _| number(numbers)),
                3 => image.checkpoint(usize::from(what >> 7), |_, payload| over(payload)),
                4 => {
                    let e = EblockId::new(at as u32 % EBLOCKS);
                    let at = geometry().ppa(e, u32::from(what >> 3) % 8 * 8192).expect("a place");
                    image.data(at, 8192, over);
                }
                5 => image.raw(512 << 10 | at as u64, change),
                _ => image.raw(at as u64 * 8, change),
            }
        }
    });
    let Ok((m, _)) = opened else { return false };
    let g = *m.geometry();
    let slots = m.read_checkpoint_records().expect("memory can be read");
    let newest = m.newest_checkpoint_record().expect("memory can be read");
    assert_eq!(newest.is_none(), slots == [None, None]);
    for e in (0..g.eblock_count().min(EBLOCKS)).map(EblockId::new) {
        m.set_generation(e, Generation::from_raw(1 << 32 | u64::from(e.raw() / 3 + 1)));
        for wblock in 0..g.wblocks_per_eblock().min(16) {
            m.probe(e, wblock).expect("memory can be read");
            let at = g.ppa(e, wblock * g.wblock_bytes()).expect("within the EBLOCK");
            let _ = m.read(at, g.wblock_bytes());
        }
    }
    m.write_checkpoint_record(0, b"the next").expect("an image that opens takes a checkpoint");
    m.sync().expect("an image that opens can be synced");
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Record;

    /// Memory of an image, its journal, and the state of 33 million EBLOCKs and 256 million groups.
    const IMAGE_BYTES: u64 = 48 << 20;

    /// Checks that no more memory is taken than 16 times the bytes plus the structure's own.
    fn bounded(kind: FuzzTarget, bytes: &[u8], own_bytes: u64) -> bool {
        let mut understood = false;
        let used = allocation_counter::measure(|| understood = decode_all(kind, bytes));
        let limit = 16 * bytes.len() as u64 + own_bytes;
        assert!(used.bytes_max <= limit, "{} bytes for {} of a {kind:?}", used.bytes_max, bytes.len());
        understood
    }

    /// Edits of bytes: overwritten, removed or repeated.
    pub(super) fn changes() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
        let byte = prop_oneof![Just(0), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
        prop::collection::vec((any::<u16>(), prop::collection::vec(byte, 1..9)), 0..4)
    }

    fn mutated(mut bytes: Vec<u8>, reach: usize, changes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        for (at, change) in changes {
            let at = usize::from(*at) % reach;
            bytes.iter_mut().skip(at).zip(change).for_each(|(b, c)| *b = *c);
        }
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn superblocks(
            uuid: [u8; 16], channels in 1..1024u32, eblock_log in 14..30u32, eblocks in 8..33_554_432u32,
            changes in changes(), noise: Vec<u8>,
        ) {
            let g = Geometry::new(channels, 3, 2, 4096, 4096, 1 << eblock_log, eblocks);
            if let Ok(geometry) = g {
                let s = Superblock { uuid, geometry };
                prop_assert_eq!(Superblock::decode(&s.encode()), Ok(s));
                bounded(FuzzTarget::Superblock, &mutated(s.encode().to_vec(), 96, &changes), 4096);
            }
            bounded(FuzzTarget::Superblock, &noise, 4096);
        }

        #[test]
        fn records(
            sequence in 0..1u64 << 62, image_bytes: u64, payload in prop::collection::vec(any::<u8>(), 0..100),
            changes in changes(), noise: Vec<u8>,
        ) {
            let r = Record { sequence, image_bytes, payload };
            let good = record::encode(CHECKPOINT_MAGIC, 64 << 10, &r);
            prop_assert_eq!(record::decode(CHECKPOINT_MAGIC, 64 << 10, &good), Slot::Whole(r));
            bounded(FuzzTarget::Record, &mutated(good, 40, &changes), 4096);
            bounded(FuzzTarget::Record, &noise, 4096);
        }

        #[test]
        fn tags(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            bounded(FuzzTarget::Tag, &bytes, 4096);
        }

        #[test]
        fn images(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            bounded(FuzzTarget::Image, &bytes, IMAGE_BYTES);
        }
    }

    #[test]
    fn an_unchanged_image_opens_and_a_forged_one_may() {
        assert!(decode_all(FuzzTarget::Image, &[]));
        // The superblock's number of channels: 3 instead of 2.
        assert!(bounded(FuzzTarget::Image, &[0, 56, 0, 1, 3], IMAGE_BYTES));
        assert!(!bounded(FuzzTarget::Image, &[0, 56, 0, 1, 0], IMAGE_BYTES));
        // Epoch and checkpoint sequences without a successor.
        for what in [1, 0x81, 2, 0x82] {
            bounded(FuzzTarget::Image, &[&[what, 0, 0, 8][..], &[0xff; 8]].concat(), IMAGE_BYTES);
        }
    }
}
