//! Where the drive's own tables lie: the pieces of each table, and the root that names them.
//!
//! ```text
//!   root:   7 x ( count 4 | mapping entries 8 each ) | count 4 | EBLOCK 4, generation 8 | ...
//!           and only if the page index has parts of extents:   count 4 | piece of their homes 8, mapping entry 8 | ...
//! ```
//!
//! Invariant: what only the checkpoint on the medium names (`superseded`) stays until the next checkpoint is durable.

use std::collections::BTreeMap;

use lode_base::{EblockId, Geometry};
use lode_flash::Generation;

use super::kind::{OwnKind, PART_PIECES_FROM, TABLES};
use crate::codec::{Malformed, Put, Take};
use crate::entry::Entry;

/// Where the tables lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// The homes of the pieces of each table, as words; 0: the piece is not there.
    homes: [Vec<u64>; TABLES.len()],
    /// The homes of the pieces of the table of index pages that are of parts of extents.
    parts: BTreeMap<usize, Entry>,
    root: Option<Entry>,
    /// Pages that only the checkpoint on the medium names: pinned until the next is durable.
    superseded: Vec<Entry>,
}

impl Tables {
    fn table(kind: OwnKind) -> usize {
        TABLES.iter().position(|k| *k == kind).expect("a table")
    }

    pub(crate) fn root(&self) -> Option<Entry> {
        self.root
    }

    /// The root lies elsewhere now. The answer is the old one, which the checkpoint on the medium still names.
    pub(crate) fn replace_root(&mut self, home: Option<Entry>) -> Option<Entry> {
        let old = std::mem::replace(&mut self.root, home);
        self.superseded.extend(old);
        old
    }

    /// Only the checkpoint on the medium names a page from now on.
    pub(crate) fn supersede(&mut self, old: Entry) {
        self.superseded.push(old);
    }

    /// Pages that only the checkpoint on the medium names.
    pub(crate) fn superseded(&self) -> &[Entry] {
        &self.superseded
    }

    /// The next checkpoint is durable: takes the pages that only the one before it named.
    pub(crate) fn take_superseded(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.superseded)
    }

    /// The pieces of a table and where they lie.
    pub(crate) fn pieces(&self, kind: OwnKind) -> impl Iterator<Item = (usize, Entry)> {
        let homes = self.homes[Self::table(kind)].iter().enumerate();
        let parts = self.parts.iter().filter(move |_| kind == OwnKind::IndexHomes);
        homes.filter_map(|(i, &w)| Some((i, Entry::from_word(w)?))).chain(parts.map(|(&i, &e)| (i, e)))
    }

    /// How many pieces are of parts of extents.
    pub(crate) fn part_pieces(&self) -> usize {
        self.parts.len()
    }

    fn is_of_parts(kind: OwnKind, piece: usize) -> bool {
        kind == OwnKind::IndexHomes && piece >= PART_PIECES_FROM
    }

    pub(crate) fn home(&self, kind: OwnKind, piece: usize) -> Option<Entry> {
        if Self::is_of_parts(kind, piece) {
            return self.parts.get(&piece).copied();
        }
        self.homes[Self::table(kind)].get(piece).copied().and_then(Entry::from_word)
    }

    pub(crate) fn set(&mut self, kind: OwnKind, piece: usize, home: Option<Entry>) {
        if Self::is_of_parts(kind, piece) {
            match home {
                Some(home) => self.parts.insert(piece, home),
                None => self.parts.remove(&piece),
            };
            return;
        }
        let homes = &mut self.homes[Self::table(kind)];
        if homes.len() <= piece {
            homes.resize(piece + 1, 0);
        }
        homes[piece] = home.map_or(0, Entry::word);
        while homes.pop_if(|w| *w == 0).is_some() {}
    }

    /// The payload of the root, with the generations of EBLOCKs that own pages lie in.
    pub(crate) fn encode(&self, generations: &[(EblockId, Generation)]) -> Vec<u8> {
        let mut b = Vec::new();
        for homes in &self.homes {
            b.put_u32(homes.len() as u32);
            homes.iter().for_each(|&w| b.put_u64(w));
        }
        b.put_u32(generations.len() as u32);
        for (e, generation) in generations {
            b.put_u32(e.raw());
            b.put_u64(generation.raw());
        }
        if !self.parts.is_empty() {
            b.put_u32(self.parts.len() as u32);
            for (&piece, home) in &self.parts {
                b.put_u64(piece as u64);
                b.put_u64(home.word());
            }
        }
        b
    }

    /// The tables of a root, and the generations of the EBLOCKs that the drive's own pages lie in.
    pub(crate) fn decode(
        bytes: &[u8],
        root: Entry,
        g: &Geometry,
    ) -> Result<(Self, Vec<(EblockId, Generation)>), Malformed> {
        let t = &mut Take::new(bytes);
        let mut tables = Self { root: Some(root), ..Self::default() };
        for homes in &mut tables.homes {
            for _ in 0..t.count(8)? {
                let word = t.u64()?;
                Entry::check(word, g).map_err(|what| t.bad(what))?;
                homes.push(word);
            }
        }
        let mut generations = Vec::new();
        for _ in 0..t.count(12)? {
            generations.push((t.eblock(g)?, Generation::from_raw(t.u64()?)));
        }
        if t.left() > 0 {
            tables.parts = parts(t, g)?;
        }
        t.end()?;
        Ok((tables, generations))
    }
}

/// The pieces of homes of parts: some, which ascend.
fn parts(t: &mut Take<'_>, g: &Geometry) -> Result<BTreeMap<usize, Entry>, Malformed> {
    let mut parts = BTreeMap::new();
    for _ in 0..t.count(16)? {
        let (piece, home) = (t.u64()? as usize, Entry::check(t.u64()?, g).map_err(|what| t.bad(what))?);
        let ascends = parts.last_key_value().is_none_or(|(&last, _)| piece > last);
        let is_one = (PART_PIECES_FROM..2 * PART_PIECES_FROM).contains(&piece) && ascends;
        let home = home.filter(|_| is_one).ok_or(t.bad("an impossible piece of the table of index pages"))?;
        parts.insert(piece, home);
    }
    match parts.is_empty() {
        true => Err(t.bad("an empty list of pieces")),
        false => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back() {
        let g = Geometry::file(1 << 30).unwrap();
        let root = Entry::new(g.ppa(EblockId::new(2), 640).unwrap(), 1000, false);
        let mut tables = Tables { root: Some(root), ..Tables::default() };
        tables.set(OwnKind::Owners, 3, Some(root));
        let generations = vec![(EblockId::new(2), Generation::from_raw(8))];
        let b = tables.encode(&generations);
        assert_eq!(Tables::decode(&b, root, &g), Ok((tables.clone(), generations.clone())));
        // Pieces of parts of extents come behind, if there are any.
        let pieces = [PART_PIECES_FROM, PART_PIECES_FROM + (1 << 33)];
        pieces.into_iter().for_each(|p| tables.set(OwnKind::IndexHomes, p, Some(root)));
        let with = tables.encode(&generations);
        assert_eq!((&with[..b.len()], with.len()), (&b[..], b.len() + 4 + 2 * 16));
        assert_eq!(Tables::decode(&with, root, &g), Ok((tables.clone(), generations.clone())));
        assert!(tables.pieces(OwnKind::IndexHomes).map(|p| p.0).eq(pieces));
        for n in (0..with.len()).filter(|n| *n != b.len()) {
            assert!(Tables::decode(&with[..n], root, &g).is_err(), "cut to {n} bytes");
        }
        pieces.into_iter().for_each(|p| tables.set(OwnKind::IndexHomes, p, None));
        assert_eq!(tables.encode(&generations), b);
    }
}
