//! The `lengths` encoding: the bytes of the strings end to end, and their lengths as packed numbers.
//!
//! ```text
//!   | for each block of 1,024 rows: where its strings begin u32 |
//!   | a vector: lengths of the rows | strings, row after row |
//!     each part starts at a multiple of 64 bytes
//! ```
//!
//! In memory the strings have plain offsets. Reading one row adds up the lengths before it in its block.

use std::ops::Range;

use lode_base::{CELL_BYTES, PageBuf, PageBufMut};

use super::contract::{Cost, Encoded, Encoding, Shape};
use super::input::Input;
use crate::packed::vector::{self, Vector};
use crate::packed::{BLOCK_ROWS, Scratch};
use crate::{DataType, Values};

/// The entry in [`super::ENCODINGS`].
pub(super) struct Lengths;

/// The time to unpack one length and add it, in picoseconds.
const ROW_PS: u64 = 500;

impl Encoding for Lengths {
    fn id(&self) -> u8 {
        10
    }

    fn name(&self) -> &'static str {
        "lengths"
    }

    fn takes(&self, t: DataType) -> bool {
        t.is_variable()
    }

    fn estimate(&self, input: &Input<'_>) -> Option<Cost> {
        let (offsets, data) = input.strings()?;
        let index = input.rows.div_ceil(BLOCK_ROWS) * 4 + vector::bytes_for(&lengths_of(offsets), false);
        Some(Cost { bytes: index + data.len(), unpack_ps: input.rows as u64 * ROW_PS })
    }

    fn encode(&self, input: &Input<'_>) -> Option<Encoded> {
        let (offsets, data) = input.strings()?;
        let mut body = Vec::with_capacity(data.len() + input.rows * 2 + 1024);
        put(offsets, data, &mut body);
        Some(Encoded { body, width: 0 })
    }

    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str> {
        let Parts { starts, lengths, data } = parts(shape, &body)?;
        let mut offsets = PageBufMut::scratch((shape.rows + 1) * 4);
        let ends: &mut [u32] = bytemuck::cast_slice_mut(&mut offsets);
        ends[0] = 0;
        lengths.read(0, &mut ends[1..], &mut Scratch::default());
        let mut end = 0u64;
        for (block, ends) in ends[1..].chunks_mut(BLOCK_ROWS).enumerate() {
            if u64::from(start(&starts, block)) != end {
                return Err("a block that begins elsewhere");
            }
            for e in ends {
                end += u64::from(*e);
                *e = end as u32;
            }
        }
        match end == data.len() as u64 {
            true => Ok(Values::Var { offsets: offsets.freeze(), data }),
            false => Err("strings that no row has, or fewer than the rows have"),
        }
    }

    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str> {
        let Parts { starts, lengths, data } = parts(shape, &body)?;
        if rows.is_empty() {
            return Ok(Values::Var { offsets: PageBuf::from_values(&[0u32]), data: PageBuf::empty() });
        }
        let first = rows.start / BLOCK_ROWS * BLOCK_ROWS;
        let mut each = vec![0u32; rows.end - first];
        lengths.read(first, &mut each, &mut Scratch::default());
        let (before, here) = each.split_at(rows.start - first);
        let sum = |lengths: &[u32]| lengths.iter().map(|&l| u64::from(l)).sum::<u64>();
        let from = u64::from(start(&starts, first / BLOCK_ROWS)) + sum(before);
        let to = from + sum(here);
        if to > data.len() as u64 {
            return Err("strings that end behind their segment");
        }
        let mut end = 0;
        let ends = here.iter().map(|&l| {
            end += l;
            end
        });
        let offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
        Ok(Values::Var {
            offsets: PageBuf::from_values(&offsets),
            data: data.slice(from as usize..to as usize),
        })
    }
}

struct Parts {
    starts: PageBuf,
    lengths: Vector,
    data: PageBuf,
}

fn parts(shape: &Shape, body: &PageBuf) -> Result<Parts, &'static str> {
    if !shape.data_type.is_variable() || shape.width != 0 {
        return Err("an encoding or width that the type does not have");
    }
    let starts_end = shape.rows.div_ceil(BLOCK_ROWS) * 4;
    if body.len() < starts_end {
        return Err("the bytes end within the starts of blocks");
    }
    let at = starts_end.next_multiple_of(CELL_BYTES).min(body.len());
    let (lengths, used) = Vector::parse(&body.slice(at..), shape.rows)?;
    Ok(Parts { starts: body.slice(..starts_end), lengths, data: body.slice(at + used..) })
}

fn start(starts: &[u8], block: usize) -> u32 {
    u32::from_le_bytes(starts[block * 4..block * 4 + 4].try_into().expect("four bytes"))
}

pub(super) fn lengths_of(offsets: &[u32]) -> Vec<u32> {
    offsets.windows(2).map(|w| w[1] - w[0]).collect()
}

fn put(offsets: &[u32], data: &[u8], out: &mut Vec<u8>) {
    let rows = offsets.len() - 1;
    offsets[..rows].iter().step_by(BLOCK_ROWS).for_each(|start| out.extend(start.to_le_bytes()));
    out.resize(out.len().next_multiple_of(CELL_BYTES), 0);
    vector::encode(&lengths_of(offsets), 0, false, out);
    out.extend_from_slice(&data[..offsets[rows] as usize]);
}
