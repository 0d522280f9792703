//! Runs of equal numbers.
//!
//! ```text
//!    0  runs                                                 u32
//!    4  0                                                    12 bytes
//!   16  for each block of 1,024 rows: the run of its first row u32, rows of that run before the block u32
//!       zeroes up to a multiple of 64
//!       a vector: length of each run, less 1
//!       a vector: number of each run
//! ```
//!
//! *Example.* Rows 0 to 1,999 have 5, and rows 2,000 to 2,999 have 8. These are two runs, stored as lengths 1,999 and
//! 999 and numbers 5 and 8. Block 0 begins in run 0 with 0 rows before it. Block 1 begins in run 0 with 1,024 rows
//! before it. Block 2 begins in run 1 with 48 rows before it.
//!
//! Invariants, which [`Runs::parse`] checks: the lengths add up to the rows, and the start of each block agrees with
//! the lengths.

use std::ops::Range;

use lode_base::{CELL_BYTES, PageBuf};

use super::lines::BLOCK_ROWS;
use super::number::Number;
use super::vector::{self, Scratch, Source, Vector};

const HEADER_BYTES: usize = 16;
/// The most runs of a block whose lengths are read one by one to find a row.
const SINGLE_RUNS_MAX: usize = 64;

/// Where a block begins: its run, and the rows of that run before the block.
type Start = [u32; 2];

/// Runs of equal numbers. [`Runs::parse`] checks them all; [`Runs::open`] does not check their lengths.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    rows: usize,
    starts: PageBuf,
    lengths: Vector,
    numbers: Vector,
}

impl Runs {
    /// Parses the runs of `rows` rows at the start of `bytes`. Returns the runs and the bytes that they take.
    ///
    /// # Errors
    /// Returns what is wrong with the runs.
    pub(crate) fn parse(bytes: &PageBuf, rows: usize) -> Result<(Self, usize), &'static str> {
        let (runs, used) = Self::open(bytes, rows)?;
        runs.check()?;
        Ok((runs, used))
    }

    /// Parses runs as [`Runs::parse`] does, but does not check the lengths. The caller may use only [`Runs::find`] on
    /// the result.
    ///
    /// # Errors
    /// Returns what is wrong with the checked parts.
    pub(crate) fn open(bytes: &PageBuf, rows: usize) -> Result<(Self, usize), &'static str> {
        let require = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        let blocks = rows.div_ceil(BLOCK_ROWS);
        let starts_end = HEADER_BYTES + blocks * size_of::<Start>();
        require(bytes.len() >= starts_end, "the bytes end within the starts of blocks")?;
        let count = u32::from_le_bytes(*bytes.first_chunk().expect("as many bytes were asked for"));
        let count = count as usize;
        require(bytes[4..HEADER_BYTES] == [0; 12], "unknown flags of runs")?;
        require(count <= rows && (count > 0) == (rows > 0), "a number of runs that the rows cannot have")?;
        let mut at = starts_end.next_multiple_of(CELL_BYTES).min(bytes.len());
        let (lengths, used) = Vector::parse(&bytes.slice(at..), count)?;
        at += used;
        let (numbers, used) = Vector::parse(&bytes.slice(at..), count)?;
        let starts = bytes.slice(HEADER_BYTES..starts_end);
        Ok((Self { rows, starts, lengths, numbers }, at + used))
    }

    /// Checks that the lengths agree with the rows and with the starts of blocks.
    fn check(&self) -> Result<(), &'static str> {
        let (rows, blocks) = (self.rows, self.rows.div_ceil(BLOCK_ROWS));
        let mut lengths = vec![0u64; self.len()];
        self.lengths.read(0, &mut lengths, &mut Scratch::default());
        let (mut row, mut block) = (0u64, 0);
        for (run, less_one) in lengths.iter().enumerate() {
            let end = less_one.checked_add(row + 1).filter(|&end| end <= rows as u64);
            let end = end.ok_or("runs of more rows than there are")?;
            while block < blocks && ((block * BLOCK_ROWS) as u64) < end {
                let before = (block * BLOCK_ROWS) as u64 - row;
                if self.start(block) != [run as u32, before as u32] {
                    return Err("a block that begins elsewhere");
                }
                block += 1;
            }
            row = end;
        }
        match row == rows as u64 {
            true => Ok(()),
            false => Err("runs of fewer rows than there are"),
        }
    }

    fn start(&self, block: usize) -> Start {
        bytemuck::pod_read_unaligned(&self.starts[block * size_of::<Start>()..][..size_of::<Start>()])
    }

    /// Returns the number of runs.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the runs of the blocks that `rows` touches, and the rows of the first such run before `rows`. `rows`
    /// must not be empty.
    fn of(&self, rows: &Range<usize>) -> (Range<usize>, usize) {
        let (first, last) = (rows.start / BLOCK_ROWS, (rows.end - 1) / BLOCK_ROWS);
        let [run, before] = self.start(first);
        let end = match (last + 1) * BLOCK_ROWS < self.rows {
            true => self.start(last + 1)[0] as usize + 1,
            false => self.len(),
        };
        (run as usize..end, before as usize + rows.start % BLOCK_ROWS)
    }

    /// Calls `f` for each run within `rows`, in order, with the run's length within `rows` and its number.
    pub(crate) fn each<N: Number>(
        &self,
        rows: &Range<usize>,
        scratch: &mut Scratch,
        mut f: impl FnMut(usize, N),
    ) {
        if rows.is_empty() {
            return;
        }
        let (runs, mut skip) = self.of(rows);
        let mut left = rows.len();
        let mut lengths = vec![0u32; runs.len()];
        let mut numbers = vec![N::zeroed(); runs.len()];
        self.lengths.read(runs.start, &mut lengths, scratch);
        self.numbers.read(runs.start, &mut numbers, scratch);
        for (less_one, number) in lengths.into_iter().zip(numbers) {
            let length = less_one as usize + 1;
            if skip >= length {
                skip -= length;
                continue;
            }
            let here = (length - skip).min(left);
            skip = 0;
            f(here, number);
            left -= here;
            if left == 0 {
                return;
            }
        }
    }

    /// Returns the number of row `row`, which must exist.
    ///
    /// # Errors
    /// When the runs contradict themselves. Runs that [`Runs::parse`] has checked never do.
    pub(crate) fn find(&self, row: usize) -> Result<i128, &'static str> {
        let (runs, mut skip) = self.of(&(row..row + 1));
        // A block has at most as many runs as rows. One more run may be the first of the next block.
        if runs.start >= runs.end || runs.end > self.len() || runs.len() > BLOCK_ROWS + 1 {
            return Err("a block that begins elsewhere");
        }
        if runs.len() <= SINGLE_RUNS_MAX {
            for run in runs {
                let less_one = self.lengths.get(run) as u32 as usize;
                if skip <= less_one {
                    return Ok(self.numbers.get(run));
                }
                skip -= less_one + 1;
            }
            return Err("runs of fewer rows than there are");
        }
        let mut lengths = [0u32; BLOCK_ROWS + 1];
        let lengths = &mut lengths[..runs.len()];
        self.lengths.read(runs.start, lengths, &mut Scratch::default());
        for (run, less_one) in runs.zip(lengths) {
            if skip <= *less_one as usize {
                return Ok(self.numbers.get(run));
            }
            skip -= *less_one as usize + 1;
        }
        Err("runs of fewer rows than there are")
    }

    /// Reads the numbers of rows `from..from + out.len()` into `out`.
    pub(crate) fn read<N: Number>(&self, from: usize, out: &mut [N], scratch: &mut Scratch) {
        let rows = from..from + out.len();
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let mut out = out;
        self.each(&rows, scratch, |length, number| {
            let (here, rest) = std::mem::take(&mut out).split_at_mut(length);
            here.fill(number);
            out = rest;
        });
    }

    /// Returns for each run the row after its last row.
    pub(crate) fn ends(&self, scratch: &mut Scratch) -> Vec<u32> {
        let mut ends = vec![0u32; self.len()];
        self.lengths.read(0, &mut ends, scratch);
        let mut end = 0;
        ends.iter_mut().for_each(|length| {
            end += *length + 1;
            *length = end;
        });
        ends
    }

    /// Returns the number of each run.
    pub(crate) fn numbers(&self) -> &Vector {
        &self.numbers
    }
}

/// Splits numbers into runs. Returns for each run its length, less 1, and its number.
pub(crate) fn runs_of<S: Source + PartialEq>(numbers: &[S]) -> (Vec<u32>, Vec<S>) {
    let (mut lengths, mut each) = (Vec::new(), Vec::new());
    for run in numbers.chunk_by(|a, b| a == b) {
        lengths.push(run.len() as u32 - 1);
        each.push(run[0]);
    }
    (lengths, each)
}

/// Returns the bytes that these numbers take as runs.
pub(crate) fn bytes_for<S: Source + PartialEq>(numbers: &[S]) -> usize {
    let (lengths, each) = runs_of(numbers);
    let index = HEADER_BYTES + numbers.len().div_ceil(BLOCK_ROWS) * size_of::<Start>();
    index.next_multiple_of(CELL_BYTES)
        + vector::bytes_for(&lengths, false)
        + vector::bytes_for(&each, false).min(vector::bytes_for(&each, true))
}

/// Appends these numbers as runs, and adds `base` to each number. The length of `out` must be a multiple of 64.
pub(crate) fn encode<S: Source + PartialEq>(numbers: &[S], base: i128, out: &mut Vec<u8>) {
    let (lengths, each) = runs_of(numbers);
    out.extend((lengths.len() as u32).to_le_bytes());
    out.extend([0; 12]);
    let mut row = 0;
    for (run, less_one) in lengths.iter().enumerate() {
        let end = row + *less_one as usize + 1;
        for block in row.div_ceil(BLOCK_ROWS)..end.div_ceil(BLOCK_ROWS) {
            let start: Start = [run as u32, (block * BLOCK_ROWS - row) as u32];
            out.extend_from_slice(bytemuck::bytes_of(&start));
        }
        row = end;
    }
    out.resize(out.len().next_multiple_of(CELL_BYTES), 0);
    vector::encode(&lengths, 0, false, out);
    let delta = vector::bytes_for(&each, true) < vector::bytes_for(&each, false);
    vector::encode(&each, base, delta, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(numbers: &[u64], base: i128) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(numbers, base, &mut bytes);
        assert_eq!(bytes.len(), bytes_for(numbers));
        bytes
    }

    fn check(numbers: &[u64], base: i128) {
        let bytes = encoded(numbers, base);
        let (runs, used) = Runs::parse(&PageBuf::copy_from(&bytes), numbers.len()).unwrap();
        assert_eq!(used, bytes.len());
        let mut scratch = Scratch::default();
        let expected = |i: usize| base.wrapping_add(numbers[i].into());
        for from in (0..numbers.len()).step_by(97) {
            assert_eq!(runs.find(from), Ok(expected(from)));
            for to in [from + 1, from + 1024, numbers.len()] {
                let mut out = vec![0i128; to.min(numbers.len()) - from];
                runs.read(from, &mut out, &mut scratch);
                out.iter().enumerate().for_each(|(i, &v)| assert_eq!(v, expected(from + i)));
            }
        }
        let ends = runs.ends(&mut scratch);
        assert_eq!(ends.last().map_or(0, |&e| e as usize), numbers.len());
        let mut from = 0;
        for (run, end) in ends.iter().enumerate() {
            let all = from..*end as usize;
            assert!(all.clone().all(|row| expected(row) == runs.numbers().get(run)), "run {run} is {all:?}");
            from = all.end;
        }
    }

    /// The example of the module's documentation, and others.
    #[test]
    fn runs_come_back() {
        check(&(0..3000).map(|i| if i < 2000 { 5 } else { 8 }).collect::<Vec<_>>(), 0);
        check(&[], 0);
        check(&[3], -3);
        check(&(0..5000).map(|i| i / 4).collect::<Vec<_>>(), 1);
        check(&(0..5000).map(|i| i % 2).collect::<Vec<_>>(), 1 << 80);
    }

    proptest! {
        #[test]
        fn any_runs_come_back(runs in proptest::collection::vec((0u64..5, 1usize..700), 0..40), base: i128) {
            let numbers: Vec<u64> = runs.iter().flat_map(|&(v, n)| std::iter::repeat_n(v, n)).collect();
            check(&numbers, base);
        }

        #[test]
        fn forged_runs_are_refused_or_harmless(
            runs in proptest::collection::vec((0u64..5, 1usize..700), 1..40),
            lies in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let numbers: Vec<u64> = runs.iter().flat_map(|&(v, n)| std::iter::repeat_n(v, n)).collect();
            let mut bytes = encoded(&numbers, 9);
            lies.iter().for_each(|(at, to)| bytes[at.index(160)] = *to);
            if let Ok((runs, _)) = Runs::parse(&PageBuf::copy_from(&bytes), numbers.len()) {
                let mut out = vec![0i32; numbers.len()];
                let mut scratch = Scratch::default();
                runs.read(0, &mut out, &mut scratch);
                let row = numbers.len() / 2;
                assert_eq!(runs.find(row).unwrap() as i32, out[row]);
            }
            if let Ok((runs, _)) = Runs::open(&PageBuf::copy_from(&bytes), numbers.len()) {
                (0..numbers.len()).for_each(|row| {
                    let _any_or_an_error = runs.find(row);
                });
            }
            for cut in [0, 15, bytes.len() / 2, bytes.len() - 1] {
                prop_assert!(Runs::parse(&PageBuf::copy_from(&bytes[..cut]), numbers.len()).is_err());
            }
        }
    }
}
