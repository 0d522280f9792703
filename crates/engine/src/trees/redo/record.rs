//! Redo records: what a commit did to a page.
//!
//! ```text
//!   0  kind   1  LPID: 6 bytes   7  payload
//!
//!   1 put       key bytes: 2 | value bytes: 2 (65,535: an LPID, 6 bytes) | key | value
//!   2 delete    key bytes: 2 | key
//!   3 image     bytes: 4 | the node
//!   4 truncate  key bytes: 2 | the separator: keys from it on are gone
//!   5 take      (the page is in use from now on)
//!   6 free      (the page is free from now on)
//! ```

use lode_base::Lpid;
use lode_page::NodeValue;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const IMAGE: u8 = 3;
const TRUNCATE: u8 = 4;
const TAKE: u8 = 5;
const FREE: u8 = 6;
const PAGE_VALUE: u16 = u16::MAX;

/// What was done to one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A key got a value, in a node.
    Put { lpid: Lpid, key: &'a [u8], value: NodeValue<'a> },
    /// A key was removed from a node.
    Delete { lpid: Lpid, key: &'a [u8] },
    /// The page is this node from now on.
    Image { lpid: Lpid, bytes: &'a [u8] },
    /// Keys from the separator on left the node.
    Truncate { lpid: Lpid, separator: &'a [u8] },
    /// The page is in use.
    Take { lpid: Lpid },
    /// The page is free.
    Free { lpid: Lpid },
}

impl Record<'_> {
    pub(crate) fn lpid(&self) -> Lpid {
        match *self {
            Self::Put { lpid, .. }
            | Self::Delete { lpid, .. }
            | Self::Image { lpid, .. }
            | Self::Truncate { lpid, .. }
            | Self::Take { lpid }
            | Self::Free { lpid } => lpid,
        }
    }

    /// Appends the record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Self::Put { .. } => PUT,
            Self::Delete { .. } => DELETE,
            Self::Image { .. } => IMAGE,
            Self::Truncate { .. } => TRUNCATE,
            Self::Take { .. } => TAKE,
            Self::Free { .. } => FREE,
        };
        out.push(kind);
        put_lpid(self.lpid(), out);
        match self {
            Self::Put { key, value, .. } => {
                put_len(key.len(), out);
                match value {
                    NodeValue::Inline(v) => {
                        assert!(v.len() < usize::from(PAGE_VALUE));
                        put_len(v.len(), out);
                        out.extend_from_slice(key);
                        out.extend_from_slice(v);
                    }
                    NodeValue::Page(l) => {
                        put_len(PAGE_VALUE.into(), out);
                        out.extend_from_slice(key);
                        put_lpid(*l, out);
                    }
                }
            }
            Self::Delete { key, .. } | Self::Truncate { separator: key, .. } => {
                put_len(key.len(), out);
                out.extend_from_slice(key);
            }
            Self::Image { bytes, .. } => {
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Take { .. } | Self::Free { .. } => {}
        }
    }

    /// Takes the first record off `bytes`; `None` if there is no whole one.
    pub(crate) fn decode<'a>(bytes: &mut &'a [u8]) -> Option<Record<'a>> {
        let kind = take(bytes, 1)?[0];
        let lpid = take_lpid(bytes)?;
        Some(match kind {
            PUT => {
                let (key, tag) = (take_len(bytes)?, take_len(bytes)?);
                let key = take(bytes, key)?;
                let value = match tag as u16 {
                    PAGE_VALUE => NodeValue::Page(take_lpid(bytes)?),
                    n => NodeValue::Inline(take(bytes, n.into())?),
                };
                Record::Put { lpid, key, value }
            }
            DELETE => {
                let n = take_len(bytes)?;
                Record::Delete { lpid, key: take(bytes, n)? }
            }
            TRUNCATE => {
                let n = take_len(bytes)?;
                Record::Truncate { lpid, separator: take(bytes, n)? }
            }
            IMAGE => {
                let n = u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?);
                Record::Image { lpid, bytes: take(bytes, n as usize)? }
            }
            TAKE => Record::Take { lpid },
            FREE => Record::Free { lpid },
            _ => return None,
        })
    }
}

fn put_lpid(lpid: Lpid, out: &mut Vec<u8>) {
    out.extend_from_slice(&lpid.raw().to_le_bytes()[..6]);
}

fn put_len(n: usize, out: &mut Vec<u8>) {
    let n = u16::try_from(n).expect("keys and values in nodes are short");
    out.extend_from_slice(&n.to_le_bytes());
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(taken)
}

fn take_len(bytes: &mut &[u8]) -> Option<usize> {
    Some(u16::from_le_bytes(take(bytes, 2)?.try_into().ok()?).into())
}

fn take_lpid(bytes: &mut &[u8]) -> Option<Lpid> {
    let mut raw = [0; 8];
    raw[..6].copy_from_slice(take(bytes, 6)?);
    Lpid::from_raw(u64::from_le_bytes(raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_cut_ones_do_not() {
        let l = Lpid::from_raw((1 << 48) - 3).unwrap();
        let records = [
            Record::Put { lpid: l, key: b"k", value: NodeValue::Inline(b"value") },
            Record::Put { lpid: l, key: b"", value: NodeValue::Page(l) },
            Record::Delete { lpid: l, key: b"key" },
            Record::Image { lpid: l, bytes: &[9; 300] },
            Record::Truncate { lpid: l, separator: b"s" },
            Record::Take { lpid: l },
            Record::Free { lpid: l },
        ];
        for r in records {
            let mut out = Vec::new();
            r.encode(&mut out);
            let mut bytes = &out[..];
            assert_eq!(Record::decode(&mut bytes), Some(r));
            assert!(bytes.is_empty());
            for n in 0..out.len() {
                assert_eq!(Record::decode(&mut &out[..n]), None, "{r:?} cut to {n}");
            }
        }
        assert_eq!(Record::decode(&mut &[9u8; 30][..]), None, "an unknown kind");
    }
}
