//! Redo pages: the records of some commits, on their way to the drive.
//!
//! ```text
//!    0  magic "LRDO"             16  newest commit within      32  bytes of the body
//!    4  version   5  0           24  newest commit that is     36  CRC of all else
//!    8  number of the page           durable with its batch    40  the body: entries
//!
//!   entry:   | commit sequence number: 8 | bytes: 4 | records |
//! ```
//!
//! Pages are numbered without a gap. The records of a commit may lie in several entries and pages, all of one batch.

use lode_base::checksum::{crc32c, crc32c_seeded};
use lode_base::{Lpid, PAGE_BYTES_MIN, PageBuf, PageBufMut};

use super::Record;
use crate::EngineError;
use crate::trees::tree::Csn;

const MAGIC: [u8; 4] = *b"LRDO";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 40;
const ENTRY_BYTES: usize = 12;
/// A page is cut when it has this many bytes.
const PAGE_BYTES_FULL: usize = 64 << 10;

/// The bodies of pages that are being filled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies {
    full: Vec<(Csn, Vec<u8>)>,
    last: Vec<u8>,
    newest: Option<Csn>,
    /// Where the entry that is being filled begins in `last`.
    entry: Option<usize>,
}

impl Bodies {
    /// Begins the records of a commit, which is newer than all before.
    pub(crate) fn begin(&mut self, csn: Csn) {
        self.newest = Some(csn);
        self.entry = None;
    }

    /// Appends a record of the commit that was begun.
    pub(crate) fn push(&mut self, r: &Record<'_>) {
        let csn = self.newest.expect("a commit was begun");
        if self.last.len() >= PAGE_BYTES_FULL {
            self.full.push((csn, std::mem::take(&mut self.last)));
            self.entry = None;
        }
        let at = *self.entry.get_or_insert_with(|| {
            self.last.extend_from_slice(&csn.raw().to_le_bytes());
            self.last.extend_from_slice(&[0; 4]);
            self.last.len() - ENTRY_BYTES
        });
        r.encode(&mut self.last);
        let bytes = (self.last.len() - at - ENTRY_BYTES) as u32;
        self.last[at + 8..at + ENTRY_BYTES].copy_from_slice(&bytes.to_le_bytes());
    }

    /// Appends what was filled later.
    pub(crate) fn append(&mut self, later: Self) {
        let full = !later.full.is_empty() || self.last.len() + later.last.len() > PAGE_BYTES_FULL;
        if let (Some(newest), true) = (self.newest, full && !self.last.is_empty()) {
            self.full.push((newest, std::mem::take(&mut self.last)));
        }
        self.full.extend(later.full);
        match self.last.is_empty() {
            true => self.last = later.last,
            false => self.last.extend(later.last),
        }
        self.newest = later.newest.or(self.newest);
        self.entry = None;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.full.iter().map(|(_, b)| b.len()).sum::<usize>() + self.last.len()
    }

    /// Bytes of the pages of these bodies in a batch, at most.
    pub(crate) fn page_bytes(&self) -> usize {
        self.bytes() + (self.full.len() + 1) * (HEADER_BYTES + PAGE_BYTES_MIN)
    }

    /// Whether no commit was begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// The bodies and the newest commit of each, in order. Once a commit was begun there is at least one.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Csn, &[u8])> {
        let last = self.newest.map(|csn| (csn, &self.last[..]));
        self.full.iter().map(|(csn, b)| (*csn, &b[..])).chain(last)
    }
}

/// The page of a body.
pub(crate) fn encode(number: u64, newest: Csn, body: &[u8]) -> PageBuf {
    let mut page = PageBufMut::zeroed((HEADER_BYTES + body.len()).max(PAGE_BYTES_MIN));
    page[..4].copy_from_slice(&MAGIC);
    page[4] = VERSION;
    page[8..16].copy_from_slice(&number.to_le_bytes());
    page[16..24].copy_from_slice(&newest.raw().to_le_bytes());
    page[32..36].copy_from_slice(&(body.len() as u32).to_le_bytes());
    page[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(body);
    let crc = crc32c_seeded(crc32c(&page[..36]), &page[HEADER_BYTES..]);
    page[36..40].copy_from_slice(&crc.to_le_bytes());
    page.freeze()
}

/// A redo page that was checked.
#[derive(Clone, Debug)]
pub(crate) struct RedoPage {
    pub(crate) lpid: Lpid,
    pub(crate) number: u64,
    pub(crate) newest: Csn,
    bytes: PageBuf,
    body_bytes: usize,
}

impl RedoPage {
    /// Checks a page, its records included.
    pub(crate) fn decode(lpid: Lpid, bytes: PageBuf) -> Result<Self, EngineError> {
        let bad = |what: &str| EngineError::BadRedo { lpid, what: what.into() };
        if bytes.len() < PAGE_BYTES_MIN || bytes[..4] != MAGIC {
            return Err(bad("not a redo page"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        if crc32c_seeded(crc32c(&bytes[..36]), &bytes[HEADER_BYTES..]) != u32_at(36) {
            return Err(bad("wrong checksum"));
        }
        if bytes[4] != VERSION {
            return Err(bad(&format!("format version {}; this Lode reads {VERSION}", bytes[4])));
        }
        let body_bytes = u32_at(32) as usize;
        if bytes.len() != (HEADER_BYTES + body_bytes).max(PAGE_BYTES_MIN) {
            return Err(bad("a body of another length than its page"));
        }
        let page =
            Self { lpid, number: u64_at(8), newest: Csn::new(u64_at(16)), bytes: bytes.clone(), body_bytes };
        let mut last = Csn::new(0);
        for entry in page.entries() {
            let (csn, records) = entry.ok_or_else(|| bad("an entry that is cut off"))?;
            if csn < last || csn > page.newest {
                return Err(bad("commits out of order"));
            }
            last = csn;
            let mut rest = records;
            while !rest.is_empty() {
                Record::decode(&mut rest).ok_or_else(|| bad("a record that is none"))?;
            }
        }
        Ok(page)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn entries(&self) -> impl Iterator<Item = Option<(Csn, &[u8])>> {
        let mut rest = &self.bytes[HEADER_BYTES..HEADER_BYTES + self.body_bytes];
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let entry = rest.split_at_checked(ENTRY_BYTES).and_then(|(head, tail)| {
                let csn = Csn::new(u64::from_le_bytes(head[..8].try_into().expect("8 bytes")));
                let bytes = u32::from_le_bytes(head[8..].try_into().expect("4 bytes"));
                let (records, after) = tail.split_at_checked(bytes as usize)?;
                rest = after;
                Some((csn, records))
            });
            if entry.is_none() {
                rest = &[];
            }
            Some(entry)
        })
    }

    /// Its records, each with its commit, in the order in which they were made.
    pub(crate) fn records(&self) -> impl Iterator<Item = (Csn, Record<'_>)> {
        let entries = self.entries().map(|e| e.expect("it was checked"));
        entries.flat_map(|(csn, mut rest)| {
            std::iter::from_fn(move || {
                (!rest.is_empty()).then(|| (csn, Record::decode(&mut rest).expect("it was checked")))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use lode_page::NodeValue;

    use super::*;

    fn lpid(n: u64) -> Lpid {
        Lpid::from_raw(n).unwrap()
    }

    #[test]
    fn records_come_back_in_order_over_several_pages() {
        let mut bodies = Bodies::default();
        let mut made = Vec::new();
        let image = vec![3u8; 40_000];
        for csn in 1..20u64 {
            bodies.begin(Csn::new(csn));
            for n in 0..csn {
                bodies.push(&Record::Take { lpid: lpid(n) });
                bodies.push(&Record::Image { lpid: lpid(n), bytes: &image });
                made.extend([(csn, n), (csn, n)]);
            }
        }
        let mut later = Bodies::default();
        later.begin(Csn::new(30));
        later.push(&Record::Free { lpid: lpid(1) });
        made.push((30, 1));
        bodies.append(later);
        // Many small commits that come one by one make pages of a bounded size, too.
        for csn in 31..4000u64 {
            let mut one = Bodies::default();
            one.begin(Csn::new(csn));
            one.push(&Record::Put { lpid: lpid(csn), key: b"key", value: NodeValue::Inline(&[7; 60]) });
            made.push((csn, csn));
            bodies.append(one);
        }
        assert!(bodies.parts().all(|(_, b)| b.len() <= PAGE_BYTES_FULL + image.len() + 64));
        let pages: Vec<RedoPage> = (0..)
            .zip(bodies.parts())
            .map(|(n, (newest, body))| RedoPage::decode(lpid(n), encode(n, newest, body)).unwrap())
            .collect();
        assert!(pages.len() > 10);
        let read: Vec<(u64, u64)> =
            pages.iter().flat_map(|p| p.records()).map(|(csn, r)| (csn.raw(), r.lpid().raw())).collect();
        assert_eq!(read, made);
    }

    #[test]
    fn any_flipped_byte_is_found() {
        let mut bodies = Bodies::default();
        bodies.begin(Csn::new(4));
        bodies.push(&Record::Delete { lpid: lpid(2), key: b"abc" });
        let (newest, body) = bodies.parts().next().unwrap();
        let page = encode(7, newest, body);
        for at in 0..page.len() {
            let mut bytes = page.to_vec();
            bytes[at] ^= 4;
            assert!(RedoPage::decode(lpid(1), PageBuf::copy_from(&bytes)).is_err(), "byte {at}");
        }
    }
}
