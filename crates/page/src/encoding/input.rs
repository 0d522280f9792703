//! A column that is to be encoded, and facts that several encodings need. Each fact is computed once, at its first
//! use.

use std::cell::OnceCell;

use bytemuck::Pod;
use lode_base::PageBuf;

use crate::ops::numbers;
use crate::packed::BLOCK_ROWS;
use crate::packed::lines::Word;
use crate::packed::vector::{self, Source};
use crate::symbols::{self, Trained};
use crate::table_page::dictionary::{Interned, hash_u64, intern_values};
use crate::{DataType, Values, bits};

/// The most blocks that an estimate samples.
const SAMPLE_BLOCKS: usize = 8;
/// The numbers in the sample whose distinct ones are counted before a dictionary is tried.
const DISTINCT_SAMPLE: usize = 1024;

/// A plain column, whose values under NULLs are zero or empty.
pub(crate) struct Input<'a> {
    pub(super) data_type: DataType,
    pub(super) rows: usize,
    pub(super) values: &'a Values,
    validity: Option<&'a PageBuf>,
    numbers: OnceCell<Option<Numbers>>,
    frame_bytes: OnceCell<usize>,
    trained: OnceCell<Option<Trained>>,
    interned: OnceCell<Option<Interned>>,
}

/// The numbers of a column, each less the least one. A NULL repeats a neighbouring number, so it widens no span and
/// splits no run.
pub(crate) struct Numbers {
    pub(super) base: i128,
    pub(super) offsets: Offsets,
}

pub(crate) enum Offsets {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// Evaluates one expression for narrow or for wide offsets.
macro_rules! of_offsets {
    ($offsets:expr, $v:ident => $e:expr) => {
        match $offsets {
            $crate::encoding::input::Offsets::Narrow($v) => $e,
            $crate::encoding::input::Offsets::Wide($v) => $e,
        }
    };
}
pub(super) use of_offsets;

impl<'a> Input<'a> {
    /// Makes the input of plain values, which are zero or empty under NULLs.
    pub(crate) fn new(
        data_type: DataType,
        rows: usize,
        values: &'a Values,
        validity: Option<&'a PageBuf>,
    ) -> Self {
        Self {
            data_type,
            rows,
            values,
            validity,
            numbers: OnceCell::new(),
            frame_bytes: OnceCell::new(),
            trained: OnceCell::new(),
            interned: OnceCell::new(),
        }
    }

    /// Returns the bytes of one number in memory; 0 for bits and strings.
    pub(super) fn width(&self) -> u8 {
        if let Values::Fixed { width, .. } = self.values { *width } else { 0 }
    }

    /// Returns the bytes of the plain values.
    pub(super) fn plain_bytes(&self) -> usize {
        match self.values {
            Values::Bits(b) => b.len(),
            Values::Fixed { data, .. } => data.len(),
            Values::Var { offsets, data } => offsets.len() + data.len(),
            _ => unreachable!("plain values"),
        }
    }

    /// Returns the offsets and the bytes of the strings; `None` for other values.
    pub(super) fn strings(&self) -> Option<(&[u32], &[u8])> {
        match self.values {
            Values::Var { offsets, data } => Some((numbers(offsets), data)),
            _ => None,
        }
    }

    /// Returns the numbers; `None` for strings, and for numbers whose span exceeds 64 bits.
    pub(super) fn numbers(&self) -> Option<&Numbers> {
        self.numbers.get_or_init(|| Numbers::of(self.values, self.rows, self.validity)).as_ref()
    }

    /// Returns the approximate bytes of the numbers as frames of reference.
    pub(super) fn frame_bytes(&self) -> Option<usize> {
        let numbers = self.numbers()?;
        Some(*self.frame_bytes.get_or_init(|| numbers.sampled(|block| block_bytes(block, false))))
    }

    /// Returns symbols trained on the strings; `None` if the column has no bytes of strings.
    pub(super) fn trained(&self) -> Option<&Trained> {
        let (offsets, data) = self.strings()?;
        let text = self.data_type == DataType::Text;
        self.trained.get_or_init(|| symbols::train(offsets, data, text)).as_ref()
    }

    /// Returns the distinct values and the codes; `None` if there are too many distinct values.
    pub(super) fn interned(&self) -> Option<&Interned> {
        // The distinct values may take at most half of the plain bytes, and a code has at most 16 bits.
        let max = |value: usize| (self.plain_bytes() / 2 / value.max(1)).min(1 << 16);
        self.interned.get_or_init(|| intern_values(self.values, self.rows, max)).as_ref()
    }
}

impl Numbers {
    fn of(values: &Values, rows: usize, validity: Option<&PageBuf>) -> Option<Self> {
        let offsets = match values {
            Values::Bits(b) => {
                let bits = (0..rows).map(|row| bits::get(b, row).into()).collect();
                Self { base: 0, offsets: Offsets::Narrow(filled(bits, validity)) }
            }
            Values::Fixed { width: 2, data } => Self::less_base::<i16>(numbers(data), validity)?,
            Values::Fixed { width: 4, data } => Self::less_base::<i32>(numbers(data), validity)?,
            Values::Fixed { width: 8, data } => Self::less_base::<i64>(numbers(data), validity)?,
            Values::Fixed { data, .. } => Self::less_base::<i128>(numbers(data), validity)?,
            _ => return None,
        };
        Some(offsets)
    }

    fn less_base<T: Pod + Ord + Into<i128>>(values: &[T], validity: Option<&PageBuf>) -> Option<Self> {
        let bounds = |(low, high): (T, T), v: T| (low.min(v), high.max(v));
        let shown = |row: usize| validity.is_none_or(|v| bits::get(v, row));
        let first = (0..values.len()).find(|&row| shown(row));
        let first = first.map_or(T::zeroed(), |row| values[row]);
        let (low, high) = match validity {
            None => values.iter().fold((first, first), |b, &v| bounds(b, v)),
            Some(_) => {
                let each = (0..values.len()).filter(|&row| shown(row)).map(|row| values[row]);
                each.fold((first, first), bounds)
            }
        };
        let (low, high): (i128, i128) = (low.into(), high.into());
        // Wrapping arithmetic is exact here, because the difference fits the narrower type.
        let offsets = match high.checked_sub(low)? {
            0..=0xffff_ffff => {
                let low = low as u32;
                let each = values.iter().map(|&v| (v.into() as u32).wrapping_sub(low)).collect();
                Offsets::Narrow(filled(each, validity))
            }
            span if span <= u64::MAX.into() => {
                let low = low as u64;
                let each = values.iter().map(|&v| (v.into() as u64).wrapping_sub(low)).collect();
                Offsets::Wide(filled(each, validity))
            }
            _ => return None,
        };
        Some(Self { base: low, offsets })
    }

    /// Estimates the sum of `of_block` over all blocks from a sample of blocks.
    pub(super) fn sampled(&self, of_block: impl Fn(&dyn Blocks) -> usize) -> usize {
        let blocks = of_offsets!(&self.offsets, v => v.len().div_ceil(BLOCK_ROWS));
        let step = blocks.div_ceil(SAMPLE_BLOCKS).max(1);
        let (mut bytes, mut rows) = (0, 0);
        for block in (0..blocks).step_by(step) {
            let from = block * BLOCK_ROWS;
            of_offsets!(&self.offsets, v => {
                let block = &v[from..(from + BLOCK_ROWS).min(v.len())];
                bytes += of_block(&block);
                rows += block.len();
            });
        }
        bytes * of_offsets!(&self.offsets, v => v.len()) / rows.max(1)
    }

    /// Returns whether a sample has few enough distinct numbers that a dictionary may save bytes.
    pub(super) fn are_few(&self) -> bool {
        let count = of_offsets!(&self.offsets, v => v.len());
        if count < 8 * DISTINCT_SAMPLE {
            return true;
        }
        let at = |draw: usize| (hash_u64(draw as u64) % count as u64) as usize;
        let mut drawn: Vec<u64> =
            (0..DISTINCT_SAMPLE).map(|draw| of_offsets!(&self.offsets, v => v[at(draw)].number())).collect();
        drawn.sort_unstable();
        drawn.dedup();
        drawn.len() < DISTINCT_SAMPLE * 3 / 5
    }
}

/// A block of narrow or wide numbers.
pub(crate) trait Blocks {
    /// Returns the bytes of the block in a vector, without the vector's header.
    fn vector_bytes(&self, delta: bool) -> usize;

    /// Returns the number of runs.
    fn runs(&self) -> usize;

    /// Returns the bytes of the block as runs, without the headers.
    fn run_bytes(&self) -> usize;
}

/// Bytes of a block's entry in a vector.
const ENTRY_BYTES: usize = 16;
const DELTA_ENTRY_BYTES: usize = 32;

impl<S: Source + PartialEq> Blocks for &[S] {
    fn vector_bytes(&self, delta: bool) -> usize {
        let index = if delta { DELTA_ENTRY_BYTES } else { ENTRY_BYTES };
        vector::lines_for(self, delta) * crate::packed::lines::LINE_BYTES + index
    }

    fn runs(&self) -> usize {
        1 + self.iter().zip(&self[1..]).map(|(a, b)| usize::from(a != b)).sum::<usize>()
    }

    fn run_bytes(&self) -> usize {
        let (lengths, each) = crate::packed::runs::runs_of(self);
        let numbers = (&each[..]).vector_bytes(false).min((&each[..]).vector_bytes(true));
        // The runs of one sampled block may fill only a part of a line. In the whole column, the runs of many blocks
        // of rows share full lines. So the estimate leaves out the unused part of the line.
        let full = |bytes: usize| bytes * lengths.len() / lengths.len().next_multiple_of(BLOCK_ROWS / 8);
        full((&lengths[..]).vector_bytes(false) + numbers) + 8
    }
}

/// Returns the bytes of a block in a vector.
pub(super) fn block_bytes(block: &dyn Blocks, delta: bool) -> usize {
    block.vector_bytes(delta)
}

/// Replaces each NULL by the number before it. NULLs at the start are replaced by the first number.
fn filled<T: Copy + Default>(mut numbers: Vec<T>, validity: Option<&PageBuf>) -> Vec<T> {
    let Some(v) = validity else { return numbers };
    let first = (0..numbers.len()).find(|&row| bits::get(v, row));
    let mut last = first.map_or(T::default(), |row| numbers[row]);
    for (row, number) in numbers.iter_mut().enumerate() {
        match bits::get(v, row) {
            true => last = *number,
            false => *number = last,
        }
    }
    numbers
}
