//! What must hold of each decoder of this crate, whatever the bytes: for the tests at the foot, and for `cargo fuzz`.
//!
//! ```text
//!   bytes ─► as they are, and with magic, version and checksum made right ─► decode ─► encode ─► decode: the same again
//! ```
//!
//! Nothing panics, loops, or takes more memory than a small multiple of the bytes. What the bytes of one structure say of
//! another is for `forged`, which opens whole images.

use lode_base::checksum::{crc32c, crc32c_seeded};
use lode_base::{EblockId, Geometry};
use lode_flash::Generation;

use crate::checkpoint::CheckpointRecord;
use crate::codec::Take;
use crate::entry::Entry;
use crate::log;
use crate::own::{OwnKind, PARTS_FROM, Resident, Tables, decode_page, encode_page};
use crate::pages::{IndexPage, MapPage, Rules};
use crate::record::Record;
use crate::session::Sessions;
use crate::space::{
    Descriptor, PageName, decode_metadata, decode_unwritten, encode_metadata, encode_unwritten,
};

/// What the bytes are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A page of the log.
    LogPage,
    /// The records of a log group.
    LogRecords,
    /// A checkpoint record.
    Checkpoint,
    /// A checkpoint root.
    Root,
    /// The metadata of open EBLOCKs.
    Open,
    /// Index rules.
    Rules,
    /// The session table.
    Sessions,
    /// A piece of the EBLOCK summary.
    Summary,
    /// The frame of the drive's own pages.
    DrivePage,
    /// A mapping page.
    MapPage,
    /// An index page.
    IndexPage,
    /// The metadata at the end of an EBLOCK.
    Metadata,
    /// The header of a block device.
    BlockHeader,
}

impl Structure {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::LogPage,
        Self::LogRecords,
        Self::Checkpoint,
        Self::Root,
        Self::Open,
        Self::Rules,
        Self::Sessions,
        Self::Summary,
        Self::DrivePage,
        Self::MapPage,
        Self::IndexPage,
        Self::Metadata,
        Self::BlockHeader,
    ];
}

/// The medium that the bytes are of.
fn geometry() -> Geometry {
    Geometry::new(4, 1, 1, 4096, 4096, 1 << 20, 300).expect("a small geometry")
}

/// Decodes `bytes` as this structure, in every way in which it is decoded; answers whether one of them understood the bytes.
///
/// # Panics
/// When what must hold does not.
pub fn decode_all(structure: Structure, bytes: &[u8]) -> bool {
    let g = &geometry();
    match structure {
        Structure::LogPage => {
            let at = g.ppa(EblockId::new(3), 4096).expect("a place");
            let mut page = bytes.to_vec();
            let raw = log::decodes_page(at, &mut page, false);
            page.resize(page.len().clamp(128, 4096), 0);
            log::decodes_page(at, &mut page, true) || raw
        }
        Structure::LogRecords => {
            let encode = |records: Vec<Record>| {
                let mut b = Vec::new();
                records.iter().for_each(|r| r.encode(&mut b));
                assert!(records.iter().map(Record::bytes_about).sum::<u64>() <= 64 * b.len() as u64);
                b
            };
            same(bytes, |b| Record::decode_all(b, g).ok(), encode)
        }
        Structure::Checkpoint => {
            let raw = same(bytes, |b| CheckpointRecord::decode(b, g).ok(), |r| r.encode());
            let sealed = [b"LCKP\x02\0", bytes].concat();
            same(&sealed, |b| CheckpointRecord::decode(b, g).ok(), |r| r.encode()) || raw
        }
        Structure::Root => {
            let root = Entry::new(g.ppa(EblockId::new(2), 640).expect("a place"), 1000, false);
            same(bytes, |b| Tables::decode(b, root, g).ok(), |(t, generations)| t.encode(&generations))
        }
        Structure::Open => same(bytes, |b| decode_unwritten(b, g).ok(), |m| encode_unwritten(&m)),
        Structure::Rules => same(bytes, |b| Rules::decode(b).ok(), |r| r.encode()),
        Structure::Sessions => same(bytes, |b| Sessions::decode(b).ok(), |s| s.encode()),
        Structure::Summary => {
            let decode = |b: &[u8]| {
                let t = &mut Take::new(b);
                let mut descriptors = Vec::new();
                while t.left() > 0 {
                    descriptors.push(Descriptor::decode(t, g).ok()?);
                }
                Some(descriptors)
            };
            let encode = |descriptors: Vec<Descriptor>| {
                let mut b = Vec::new();
                descriptors.iter().for_each(|d| d.encode(&mut b));
                b
            };
            same(bytes, decode, encode)
        }
        Structure::DrivePage => decode_drive_page(bytes),
        Structure::MapPage => {
            let decode = |b: &[u8]| MapPage::decode(0, b, g).ok();
            let raw = same(bytes, decode, |p| p.encode());
            let mut page = bytes.to_vec();
            page.resize(8 << 10, 0);
            same(&page, decode, |p| p.encode()) || raw
        }
        Structure::IndexPage => same(
            bytes,
            |b| [0, PARTS_FROM].into_iter().find_map(|n| IndexPage::decode(n, b, g).ok()),
            |p| p.encode(),
        ),
        Structure::Metadata => decode_eblock_metadata(bytes),
        Structure::BlockHeader => crate::block::decodes_header(bytes),
    }
}

/// Whether the bytes can be decoded. Then what they say is encoded, which decodes to what encodes the same.
fn same<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<T>, encode: impl Fn(T) -> Vec<u8>) -> bool {
    let Some(first) = decode(bytes) else { return false };
    let encoded = encode(first);
    let again = encode(decode(&encoded).expect("what was encoded can be decoded"));
    assert_eq!(again, encoded, "what was decoded is encoded as the same");
    true
}

fn decode_drive_page(bytes: &[u8]) -> bool {
    let mut b = bytes.to_vec();
    let mut understood = false;
    for kind in OwnKind::ALL {
        let number = u64::from(kind.tag());
        if let Ok(payload) = decode_page(kind, number, &b) {
            let encoded = encode_page(kind, number, payload);
            assert_eq!(decode_page(kind, number, &encoded), Ok(payload));
            understood = true;
        }
        // The next kind sees the bytes sealed for it.
        b.resize(b.len().max(32), 0);
        b[..4].copy_from_slice(b"LDPG");
        b[4..8].copy_from_slice(&[kind.tag() % 10 + 1, 1, 0, 0]);
        b[8..16].copy_from_slice(&u64::from(kind.tag() % 10 + 1).to_le_bytes());
        let len = u32::from_le_bytes([b[16], b[17], b[18], b[19]]) as usize;
        let end = len.saturating_add(32).min(b.len());
        let crc = crc32c_seeded(crc32c(&b[..20]), &b[32..end]);
        b[20..24].copy_from_slice(&crc.to_le_bytes());
    }
    understood
}

fn decode_eblock_metadata(bytes: &[u8]) -> bool {
    let g = geometry();
    let (e, generation) = (EblockId::new(4), Generation::from_raw(9 << 32 | 2));
    // What an older version wrote is written anew as this one does.
    let newest = |b: &&[u8]| b.get(4..6) == Some(&[2, 0][..]);
    let decode = |b: &[u8]| Some(b).filter(newest).and_then(|b| decode_metadata(b, e, generation).ok());
    let encode = |words: Vec<u64>| encode_metadata(&g, e, generation, &words).to_vec();
    let _ = decode_metadata(bytes, e, generation);
    let raw = same(bytes, decode, encode);
    let mut b = bytes.to_vec();
    b.resize(b.len().max(32), 0);
    b[..8].copy_from_slice(b"LEBM\x02\0\0\0");
    b[8..16].copy_from_slice(&generation.raw().to_le_bytes());
    b[16..20].copy_from_slice(&e.raw().to_le_bytes());
    let words = u32::from_le_bytes([b[20], b[21], b[22], b[23]]) as usize;
    let end = words.saturating_mul(8).saturating_add(32).min(b.len());
    let crc = crc32c_seeded(crc32c(&b[..24]), &b[32..end]);
    b[24..28].copy_from_slice(&crc.to_le_bytes());
    same(&b, decode, encode) || raw
}

#[cfg(test)]
mod tests;
