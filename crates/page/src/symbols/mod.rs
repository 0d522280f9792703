//! Strings as codes of symbols. A reader expands the strings that it needs.
//!
//! ```text
//!   | bytes of all strings u32 | 0 u32 | symbols | for each block of 1,024 rows: its first code u32
//!   | a vector: bytes of codes of each row | codes, row after row |
//!     blocks, vector and codes start at multiples of 64 bytes; `table` draws the symbols
//! ```
//!
//! Each string can be expanded alone. Reading one row adds up at most 1,024 lengths of its block, and then expands
//! the row's own codes. Some searches need only the codes: see `lode_program`.
//!
//! Invariants: the start of each block agrees with the lengths; `Symbols::parse` checks it. A TEXT column stays in
//! this form only if its codes prove that all strings are UTF-8 (`Symbols::are_text`). A code stands for at most 8
//! bytes. So a string is at most 8 times as long as its codes.

mod matcher;
mod table;
mod train;

use std::ops::Range;

use lode_base::{CELL_BYTES, PageBuf, PageBufMut};

pub use table::{ESCAPE, SymbolTable};

use crate::Values;
use crate::packed::vector;
use crate::packed::{BLOCK_ROWS, Scratch, Vector};
use matcher::Matcher;
use table::SYMBOL_BYTES_MAX;

const HEADER_BYTES: usize = 8;
/// A string of fewer codes is expanded without an allocation beside its own.
const SHORT_CODES: usize = 64;
/// Approximate bytes of the sample that symbols are trained on.
const SAMPLE_BYTES: usize = 16 << 10;

/// A column of strings, stored as codes of symbols.
#[derive(Clone, Debug)]
pub struct Symbols {
    id: u8,
    rows: usize,
    string_bytes: usize,
    table: SymbolTable,
    starts: PageBuf,
    lengths: Vector,
    codes: PageBuf,
    body: PageBuf,
}

impl Symbols {
    /// Parses the strings of `rows` rows in `body`. `id` is the id of their encoding.
    ///
    /// # Errors
    /// Returns what is wrong with the body.
    pub(crate) fn parse(id: u8, body: PageBuf, rows: usize) -> Result<Self, &'static str> {
        let symbols = Self::open(id, body, rows)?;
        symbols.check()?;
        Ok(symbols)
    }

    /// Parses strings as [`Symbols::parse`] does, but does not check the lengths. The caller may use only
    /// [`Symbols::find`] on the result.
    ///
    /// # Errors
    /// Returns what is wrong with the checked parts.
    pub(crate) fn open(id: u8, body: PageBuf, rows: usize) -> Result<Self, &'static str> {
        let (header, rest) =
            body.split_first_chunk::<HEADER_BYTES>().ok_or("the bytes end within a header")?;
        if header[4..] != [0; 4] {
            return Err("unknown flags of symbols");
        }
        let string_bytes = u32::from_le_bytes(*header.first_chunk().expect("eight bytes")) as usize;
        let (table, used) = SymbolTable::parse(rest)?;
        let from = (HEADER_BYTES + used).next_multiple_of(CELL_BYTES);
        let starts_end = from + rows.div_ceil(BLOCK_ROWS) * 4;
        if body.len() < starts_end {
            return Err("the bytes end within the starts of blocks");
        }
        let starts = body.slice(from..starts_end);
        let at = starts_end.next_multiple_of(CELL_BYTES).min(body.len());
        let (lengths, used) = Vector::parse(&body.slice(at..), rows)?;
        let codes = body.slice(at + used..);
        if string_bytes > codes.len() * SYMBOL_BYTES_MAX {
            return Err("strings longer than their codes allow");
        }
        Ok(Self { id, rows, string_bytes, table, starts, lengths, codes, body })
    }

    /// Checks that the lengths agree with the codes and with the starts of blocks.
    fn check(&self) -> Result<(), &'static str> {
        let mut room = [0u32; BLOCK_ROWS];
        let (mut end, scratch) = (0u64, &mut Scratch::default());
        for block in 0..self.lengths.blocks() {
            if self.start(block) as u64 != end {
                return Err("a block that begins elsewhere");
            }
            let lengths = &mut room[..BLOCK_ROWS.min(self.rows - block * BLOCK_ROWS)];
            self.lengths.read(block * BLOCK_ROWS, lengths, scratch);
            end += lengths.iter().map(|&l| u64::from(l)).sum::<u64>();
        }
        match end == self.codes.len() as u64 {
            true => Ok(()),
            false => Err("codes that no row has, or fewer than the rows have"),
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the symbols that the codes stand for.
    pub fn table(&self) -> &SymbolTable {
        &self.table
    }

    /// Returns the bytes of all expanded strings, as stored by the writer. The number is not checked against the
    /// strings.
    pub(crate) fn string_bytes(&self) -> usize {
        self.string_bytes
    }

    /// Returns the bytes of the encoded column.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn id(&self) -> u8 {
        self.id
    }

    pub(crate) fn body(&self) -> &PageBuf {
        &self.body
    }

    /// Returns whether the codes prove that all strings are UTF-8. They do if each symbol, and each sequence of
    /// escaped bytes, is whole characters.
    pub(crate) fn are_text(&self) -> bool {
        let escapes = || {
            let mut text = true;
            self.each(0..self.rows, |_, codes| text = text && table::escapes_are_text(codes));
            text
        };
        self.table.is_of_text() && (table::escapes_are_ascii(&self.codes) || escapes())
    }

    fn start(&self, block: usize) -> usize {
        let bytes = &self.starts[block * 4..block * 4 + 4];
        u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize
    }

    /// Calls `f` with each of these rows and its codes, in order.
    ///
    /// # Panics
    /// When the column has fewer rows.
    pub fn each(&self, rows: Range<usize>, mut f: impl FnMut(usize, &[u8])) {
        self.each_block(rows, |first, codes, ends| {
            let mut at = 0;
            for (i, &end) in ends.iter().enumerate() {
                f(first + i, &codes[at..end as usize]);
                at = end as usize;
            }
        });
    }

    /// Calls `f` for each block that contains some of these rows. `f` gets the first of the rows in the block, the
    /// codes of the rows in the block end to end, and the end of each row's codes.
    ///
    /// # Panics
    /// When the column has fewer rows.
    pub fn each_block(&self, rows: Range<usize>, mut f: impl FnMut(usize, &[u8], &[u32])) {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let (mut room, scratch) = ([0u32; BLOCK_ROWS], &mut Scratch::default());
        let mut row = rows.start;
        while row < rows.end {
            let (block, first) = (row / BLOCK_ROWS, row / BLOCK_ROWS * BLOCK_ROWS);
            let end = (first + BLOCK_ROWS).min(rows.end);
            let lengths = &mut room[..end - first];
            self.lengths.read(first, lengths, scratch);
            let (before, here) = lengths.split_at_mut(row - first);
            let from = self.start(block) + before.iter().map(|&l| l as usize).sum::<usize>();
            let mut at = 0;
            for length in &mut *here {
                at += *length;
                *length = at;
            }
            f(row, &self.codes[from..from + at as usize], here);
            row = end;
        }
    }

    /// Returns the string of row `row`, which must exist.
    ///
    /// # Errors
    /// When the lengths contradict the codes. Lengths that [`Symbols::parse`] has checked never do.
    pub(crate) fn find(&self, row: usize) -> Result<Box<[u8]>, &'static str> {
        let from = (self.start(row / BLOCK_ROWS) as u64).saturating_add(self.lengths.sum_before(row));
        let to = from.saturating_add(u64::from(self.lengths.get(row) as u32));
        if to > self.codes.len() as u64 {
            return Err("codes that end behind their segment");
        }
        let codes = &self.codes[from as usize..to as usize];
        if codes.len() < SHORT_CODES {
            let mut room = [0; SHORT_CODES * SYMBOL_BYTES_MAX];
            let end = self.table.expand(codes, &mut room, 0);
            return Ok(room[..end].into());
        }
        let mut out = Vec::new();
        self.append(codes, &mut out);
        Ok(out.into())
    }

    /// Returns the string of row `row`.
    ///
    /// # Panics
    /// When the column has fewer rows.
    pub fn get(&self, row: usize) -> Box<[u8]> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        self.find(row).expect("the numbers of codes were checked")
    }

    /// Appends the string that these codes stand for.
    pub fn append(&self, codes: &[u8], out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + (codes.len() + 1) * SYMBOL_BYTES_MAX, 0);
        let end = self.table.expand(codes, out, at);
        out.truncate(end);
    }

    /// Expands the strings of these rows into plain values.
    pub(crate) fn expand(&self, rows: Range<usize>) -> Values {
        let mut offsets = PageBufMut::scratch((rows.len() + 1) * 4);
        let mut data = PageBufMut::with_capacity(self.share(&rows));
        let ends = bytemuck::cast_slice_mut(&mut offsets);
        self.write(rows, ends, |strings| data.extend_from_slice(strings));
        Values::Var { offsets: offsets.freeze(), data: data.freeze() }
    }

    /// Expands the strings of these rows. Returns their offsets, one more than rows, and their bytes.
    ///
    /// # Panics
    /// When the column has fewer rows.
    pub fn strings(&self, rows: Range<usize>) -> (Vec<u32>, Vec<u8>) {
        let (mut ends, mut data) = (vec![0; rows.len() + 1], Vec::with_capacity(self.share(&rows)));
        self.write(rows, &mut ends, |strings| data.extend_from_slice(strings));
        (ends, data)
    }

    /// Estimates the bytes of the strings of these rows.
    fn share(&self, rows: &Range<usize>) -> usize {
        (self.string_bytes as u64 * rows.len() as u64 / self.rows.max(1) as u64) as usize + 64
    }

    /// Writes the offsets of these rows to `ends`, and passes the strings of each block to `put`.
    fn write(&self, rows: Range<usize>, ends: &mut [u32], mut put: impl FnMut(&[u8])) {
        ends[0] = 0;
        let (mut room, mut at, first) = (Vec::new(), 0, rows.start);
        let mut row = rows.start;
        while row < rows.end {
            let end = ((row / BLOCK_ROWS + 1) * BLOCK_ROWS).min(rows.end);
            let most = (self.codes_of(&(row..end)) + 1) * SYMBOL_BYTES_MAX;
            if room.len() < most {
                room.resize(most, 0);
            }
            let mut here = 0;
            self.each(row..end, |row, codes| {
                here = self.table.expand(codes, &mut room, here);
                ends[row - first + 1] = (at + here) as u32;
            });
            put(&room[..here]);
            (row, at) = (end, at + here);
        }
    }

    /// Returns the bytes of the codes of these rows.
    fn codes_of(&self, rows: &Range<usize>) -> usize {
        let place = |row: usize| match row % BLOCK_ROWS {
            0 if row == self.rows => self.codes.len(),
            0 => self.start(row / BLOCK_ROWS),
            rest => {
                let mut lengths = vec![0u32; rest];
                self.lengths.read(row - rest, &mut lengths, &mut Scratch::default());
                self.start(row / BLOCK_ROWS) + lengths.iter().map(|&l| l as usize).sum::<usize>()
            }
        };
        match rows.is_empty() {
            true => 0,
            false => place(rows.end) - place(rows.start),
        }
    }
}

/// A trained symbol table, and the bytes of the sample before and after it is written as codes.
pub(crate) struct Trained {
    table: SymbolTable,
    /// Bytes of the codes of the sample.
    pub(crate) codes: usize,
    pub(crate) strings: usize,
}

/// Trains symbols on a sample of the strings, which are given as `offsets` into `data`. Returns `None` if all strings
/// are empty.
pub(crate) fn train(offsets: &[u32], data: &[u8], text: bool) -> Option<Trained> {
    let rows = offsets.len() - 1;
    let total = offsets[rows] as usize;
    if total == 0 {
        return None;
    }
    // The sample takes every `step`-th row. A string longer than a quarter of the sample is cut.
    let step = (total / SAMPLE_BYTES).max(1);
    let mut sample: Vec<&[u8]> = Vec::new();
    let (mut row, mut bytes) = (0, 0);
    while row < rows && bytes < SAMPLE_BYTES {
        let s = &data[offsets[row] as usize..offsets[row + 1] as usize];
        let s = &s[..s.len().min(SAMPLE_BYTES / 4)];
        sample.push(s);
        bytes += s.len();
        row += step;
    }
    let table = train::train(&sample, text);
    let matcher = Matcher::new(&table);
    let mut codes = Vec::new();
    sample.iter().for_each(|s| matcher.write(s, &mut codes));
    Some(Trained { table, codes: codes.len(), strings: bytes })
}

/// Appends these strings as codes. The length of `out` must be a multiple of 64.
pub(crate) fn encode(trained: &Trained, offsets: &[u32], data: &[u8], out: &mut Vec<u8>) {
    let rows = offsets.len() - 1;
    let (codes, lengths) = Matcher::new(&trained.table).write_all(offsets, data);
    let mut starts: Vec<u8> = Vec::with_capacity(rows.div_ceil(BLOCK_ROWS) * 4);
    let mut end = 0u32;
    for (row, length) in lengths.iter().enumerate() {
        if row % BLOCK_ROWS == 0 {
            starts.extend(end.to_le_bytes());
        }
        end += length;
    }
    out.extend(offsets[rows].to_le_bytes());
    out.extend([0; HEADER_BYTES - 4]);
    trained.table.put(out);
    out.resize(out.len().next_multiple_of(CELL_BYTES), 0);
    out.extend(starts);
    out.resize(out.len().next_multiple_of(CELL_BYTES), 0);
    vector::encode(&lengths, 0, false, out);
    out.extend_from_slice(&codes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(strings: &[Vec<u8>]) -> Option<Vec<u8>> {
        let mut offsets = vec![0u32];
        strings.iter().for_each(|s| offsets.push(offsets[offsets.len() - 1] + s.len() as u32));
        let mut bytes = Vec::new();
        let text = strings.iter().all(|s| std::str::from_utf8(s).is_ok());
        encode(&train(&offsets, &strings.concat(), text)?, &offsets, &strings.concat(), &mut bytes);
        Some(bytes)
    }

    fn strings_of(values: &Values) -> Vec<Vec<u8>> {
        let Values::Var { offsets, data } = values else { panic!("{values:?}") };
        let o: &[u32] = offsets.try_values().unwrap();
        o.windows(2).map(|w| data[w[0] as usize..w[1] as usize].to_vec()).collect()
    }

    fn check(strings: &[Vec<u8>]) -> usize {
        let Some(bytes) = encoded(strings) else { return 0 };
        let symbols = Symbols::parse(13, PageBuf::copy_from(&bytes), strings.len()).unwrap();
        assert_eq!(strings_of(&symbols.expand(0..strings.len())), strings);
        for from in (0..strings.len()).step_by(311) {
            assert_eq!(*symbols.get(from), strings[from]);
            let to = (from + 1500).min(strings.len());
            assert_eq!(strings_of(&symbols.expand(from..to)), &strings[from..to]);
        }
        bytes.len()
    }

    fn sentences(rows: usize) -> Vec<Vec<u8>> {
        let words =
            ["furiously", "special", "requests", "sleep", "above", "the", "pending", "deposits", "größe"];
        let word = |i: usize| words[(i * i / 7 + i) % words.len()];
        (0..rows).map(|i| format!("{} {} {} {i}", word(i), word(i * 3 + 1), word(i * 5)).into()).collect()
    }

    #[test]
    fn sentences_take_a_third() {
        let strings = sentences(5000);
        let plain: usize = strings.iter().map(Vec::len).sum();
        let bytes = check(&strings);
        assert!(bytes * 5 < plain * 2, "{bytes} of {plain} bytes");
        assert_eq!(encoded(&strings), encoded(&strings));
    }

    #[test]
    fn strings_of_all_kinds_come_back() {
        check(&[]);
        check(&[vec![], vec![]]);
        check(&[vec![0; 9], vec![255, 255], vec![], (0..=255).collect()]);
        check(&(0..3000u32).map(|i| i.to_be_bytes().to_vec()).collect::<Vec<_>>());
        check(&[vec![b'x'; 100_000], b"y".to_vec()]);
        check(&(0..2000).map(|i| vec![0; i % 12]).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_text_is_known_where_no_character_is_cut() {
        let is_text = |s: &[Vec<u8>]| {
            let bytes = encoded(s).unwrap();
            Symbols::parse(13, PageBuf::copy_from(&bytes), s.len()).unwrap().are_text()
        };
        assert!(is_text(&(0..100).map(|i| format!("a word and {i}").into()).collect::<Vec<_>>()));
        assert!(is_text(&sentences(900)));
        assert!(is_text(&(0..400).map(|i| format!("数据库 {i} 🙂 ä").into()).collect::<Vec<_>>()));
        assert!(!is_text(&[vec![0xff, 0xfe, 1, 2, 3], vec![0x80; 7]]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_strings_come_back(
            some in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..50), rows in 1usize..2500,
        ) {
            check(&(0..rows).map(|i| some[i * 31 % some.len()].clone()).collect::<Vec<_>>());
        }

        #[test]
        fn long_strings_of_few_bytes_come_back(
            alphabet in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 1..5),
            draws in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..40), 1..200),
            cuts in proptest::collection::vec(0usize..3000, 0..6),
        ) {
            let all: Vec<u8> =
                draws.iter().flat_map(|(at, count)| vec![alphabet[at.index(alphabet.len())]; *count]).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(all.len())).chain([0, all.len()]).collect();
            cuts.sort_unstable();
            check(&cuts.windows(2).map(|w| all[w[0]..w[1]].to_vec()).collect::<Vec<_>>());
        }

        #[test]
        fn forged_symbols_are_refused_or_harmless(
            rows in 1usize..1500, lies in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let whole = encoded(&sentences(rows)).unwrap();
            for cut in [0, 7, whole.len() / 2, whole.len() - 1] {
                prop_assert!(Symbols::parse(13, PageBuf::copy_from(&whole[..cut]), rows).is_err());
            }
            let mut bytes = whole;
            lies.iter().for_each(|(at, to)| { let at = at.index(bytes.len()); bytes[at] = *to });
            if let Ok(symbols) = Symbols::parse(13, PageBuf::copy_from(&bytes), rows) {
                let all = strings_of(&symbols.expand(0..rows));
                assert_eq!(*symbols.get(rows / 2), all[rows / 2]);
                let whole = all.iter().all(|s| std::str::from_utf8(s).is_ok());
                assert!(whole || !symbols.are_text());
            }
            if let Ok(symbols) = Symbols::open(13, PageBuf::copy_from(&bytes), rows) {
                (0..rows).step_by(7).for_each(|row| drop(symbols.find(row)));
            }
        }
    }
}
