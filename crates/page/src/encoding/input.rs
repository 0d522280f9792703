//! A column on its way into a segment, and what encodings find out about it, each once.

use std::cell::OnceCell;

use bytemuck::Pod;
use lode_base::PageBuf;

use crate::ops::numbers;
use crate::packed::BLOCK_ROWS;
use crate::packed::lines::Word;
use crate::packed::vector::{self, Source};
use crate::symbols::{self, Trained};
use crate::table_page::dictionary::{Interned, hash_bytes, hash_u64, intern};
use crate::{DataType, Values, bits};

/// Blocks that estimates look at.
const SAMPLE_BLOCKS: usize = 8;
/// Numbers whose distinct ones are counted before a dictionary is tried.
const DISTINCT_SAMPLE: usize = 1024;

/// A column, plain, with nothing under its NULLs.
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

/// Numbers, less the least of them. NULLs repeat their neighbour, so that they make neither a span nor a run longer.
pub(crate) struct Numbers {
    pub(super) base: i128,
    pub(super) offsets: Offsets,
}

pub(crate) enum Offsets {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// Does the same for narrow and for wide offsets.
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
    /// Of plain values, which are zero or empty under NULLs.
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

    /// Bytes of a number in memory; 0 for bits and strings.
    pub(super) fn width(&self) -> u8 {
        if let Values::Fixed { width, .. } = self.values { *width } else { 0 }
    }

    /// Bytes of the values as they are.
    pub(super) fn plain_bytes(&self) -> usize {
        match self.values {
            Values::Bits(b) => b.len(),
            Values::Fixed { data, .. } => data.len(),
            Values::Var { offsets, data } => offsets.len() + data.len(),
            _ => unreachable!("plain values"),
        }
    }

    /// The strings: offsets and bytes.
    pub(super) fn strings(&self) -> Option<(&[u32], &[u8])> {
        match self.values {
            Values::Var { offsets, data } => Some((numbers(offsets), data)),
            _ => None,
        }
    }

    /// The numbers; `None` for strings, and where they lie further apart than 64 bits.
    pub(super) fn numbers(&self) -> Option<&Numbers> {
        self.numbers.get_or_init(|| Numbers::of(self.values, self.rows, self.validity)).as_ref()
    }

    /// Bytes that the numbers take as frames of reference, about.
    pub(super) fn frame_bytes(&self) -> Option<usize> {
        let numbers = self.numbers()?;
        Some(*self.frame_bytes.get_or_init(|| numbers.sampled(|block| block_bytes(block, false))))
    }

    /// Symbols for the strings.
    pub(super) fn trained(&self) -> Option<&Trained> {
        let (offsets, data) = self.strings()?;
        let text = self.data_type == DataType::Text;
        self.trained.get_or_init(|| symbols::train(offsets, data, text)).as_ref()
    }

    /// The distinct values, where they are few.
    pub(super) fn interned(&self) -> Option<&Interned> {
        self.interned.get_or_init(|| self.intern()).as_ref()
    }

    fn intern(&self) -> Option<Interned> {
        fn fixed<T: Pod + PartialEq>(
            data: &PageBuf,
            max: usize,
            hash: impl Fn(T) -> u64,
        ) -> Option<Interned> {
            let v: &[T] = numbers(data);
            intern(v.len(), max, |row| hash(v[row]), |a, b| v[a] == v[b])
        }
        // More values than this cost more than they save, at the bytes that a value takes: half of what is there.
        let max = |value: usize| (self.plain_bytes() / 2 / value.max(1)).min(1 << 16);
        match self.values {
            Values::Fixed { width, data } => {
                let max = max((*width).into());
                match (max, width) {
                    (0, _) => None,
                    (_, 2) => fixed(data, max, |v: u16| hash_u64(v.into())),
                    (_, 4) => fixed(data, max, |v: u32| hash_u64(v.into())),
                    (_, 8) => fixed(data, max, hash_u64),
                    _ => fixed(data, max, |v: u128| hash_u64(v as u64 ^ hash_u64((v >> 64) as u64))),
                }
            }
            Values::Var { offsets, data } => {
                let max = max(4 + data.len().checked_div(self.rows)?);
                if max == 0 {
                    return None;
                }
                let (o, data): (&[u32], &[u8]) = (numbers(offsets), data);
                let bytes = |row: usize| &data[o[row] as usize..o[row + 1] as usize];
                intern(self.rows, max, |row| hash_bytes(bytes(row)), |a, b| bytes(a) == bytes(b))
            }
            _ => None,
        }
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
        // The bits of a difference are right whatever wraps between: it is known to fit.
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

    /// `of_block` of all blocks, about: of some of them.
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

    /// Whether so few of some numbers are distinct that a dictionary may pay.
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

/// A block of numbers, narrow or wide.
pub(crate) trait Blocks {
    /// Bytes as a vector without its header.
    fn vector_bytes(&self, delta: bool) -> usize;

    /// How many runs they are.
    fn runs(&self) -> usize;

    /// Bytes as runs without their headers.
    fn run_bytes(&self) -> usize;
}

/// Bytes of an entry of a block.
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
        // Where runs are short, many blocks of rows make a block of runs, which is full there.
        let full = |bytes: usize| bytes * lengths.len() / lengths.len().next_multiple_of(BLOCK_ROWS / 8);
        full((&lengths[..]).vector_bytes(false) + numbers) + 8
    }
}

/// Bytes of a block as a vector.
pub(super) fn block_bytes(block: &dyn Blocks, delta: bool) -> usize {
    block.vector_bytes(delta)
}

/// Numbers whose NULLs repeat the number before them, or the first one behind them.
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
