//! The dictionary encoding: the distinct values, and for each row a packed code that names one of them.
//!
//! ```text
//!    0  encoding of the values: 2 fixed, 3 variable, or 10, 11 of strings   u8
//!    1  encoding of the codes: 6 frames of reference, 8 runs                u8
//!    2  0                                                                   u16
//!    4  values                                                              u32
//!    8  bytes of the values, as stored                                      u32
//!   12  0                                                                   u32
//!   64  values: fixed ones end to end; variable ones as offsets (one more than values, u32), then bytes;
//!       values of encoding 10 or 11 as a body of that encoding
//!       zeroes up to a multiple of 64
//!       codes: a body of their encoding
//! ```
//!
//! In memory a code takes 1 or 2 bytes. Reading row n reads one code and then one value.

use std::ops::Range;
use std::sync::Arc;

use lode_base::{CELL_BYTES, PageBuf, PageBufMut};

use super::contract::{Cost, Encoded, Encoding, Shape, what};
use super::input::Input;
use super::{fsst, lengths, of_id};
use crate::packed::runs::{self, Runs};
use crate::packed::vector::{self, Vector};
use crate::packed::{Number, Scratch};
use crate::{Column, DataType, Value, Values, ops};

/// The entry in [`super::ENCODINGS`].
pub(super) struct Dictionary;

/// The time to unpack one code, in picoseconds.
const CODE_PS: u64 = 100;
const FIXED: u8 = 2;
const VARIABLE: u8 = 3;
const FRAMES: u8 = 6;
const RUNS: u8 = 8;
const HEADER_BYTES: usize = 16;

impl Encoding for Dictionary {
    fn id(&self) -> u8 {
        9
    }

    fn name(&self) -> &'static str {
        "dictionary"
    }

    fn takes(&self, t: DataType) -> bool {
        t != DataType::Boolean
    }

    fn estimate(&self, input: &Input<'_>) -> Option<Cost> {
        // Interning is slow, so numbers are interned only if a sample of them has few distinct ones.
        if let Some(numbers) = input.numbers()
            && !numbers.are_few()
        {
            return None;
        }
        let found = input.interned()?;
        let distinct = found.first_rows.len();
        let value = input.plain_bytes().checked_div(input.rows)?;
        let codes = input.rows * vector::bits_for(distinct as u64 - 1) as usize / 8;
        let bytes = HEADER_BYTES + CELL_BYTES + distinct * value + codes;
        Some(Cost { bytes, unpack_ps: input.rows as u64 * CODE_PS })
    }

    fn encode(&self, input: &Input<'_>) -> Option<Encoded> {
        let found = input.interned()?;
        let distinct = found.first_rows.len();
        let all = Column::trusted(input.data_type, input.rows, None, input.values.clone());
        let values = ops::take(&all, &found.first_rows);
        let mut body = vec![0; CELL_BYTES];
        let values_id = put_values(&values, &mut body);
        let value_bytes = body.len() - CELL_BYTES;
        body.resize(body.len().next_multiple_of(CELL_BYTES), 0);
        let codes: Vec<u32> = found.codes.iter().map(|&c| c.into()).collect();
        let codes_id = match runs::bytes_for(&codes) < vector::bytes_for(&codes, false) {
            true => RUNS,
            false => FRAMES,
        };
        match codes_id {
            RUNS => runs::encode(&codes, 0, &mut body),
            _ => vector::encode(&codes, 0, false, &mut body),
        }
        body[..2].copy_from_slice(&[values_id, codes_id]);
        body[4..8].copy_from_slice(&(distinct as u32).to_le_bytes());
        body[8..12].copy_from_slice(&(value_bytes as u32).to_le_bytes());
        Some(Encoded { body, width: input.width() })
    }

    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str> {
        self.range(shape, body, 0..shape.rows)
    }

    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str> {
        let parts = Parts::of(shape, body)?;
        let dictionary = Arc::new(parts.all_values()?);
        let code_width = if dictionary.rows() <= 1 << 8 { 1 } else { 2 };
        let mut codes = PageBufMut::scratch(rows.len() * usize::from(code_width));
        match code_width {
            1 => parts.codes::<u8>(rows, &mut codes)?,
            _ => parts.codes::<u16>(rows, bytemuck::cast_slice_mut(&mut codes))?,
        }
        Ok(Values::Dict { code_width, codes: codes.freeze(), dictionary })
    }

    fn row(&self, shape: &Shape, body: PageBuf, row: usize) -> Result<Value, &'static str> {
        let parts = Parts::of(shape, body)?;
        let code = &mut [0u32];
        parts.codes(row..row + 1, code)?;
        let code = code[0] as usize;
        if code >= parts.shape.rows {
            return Err("a code lies outside the dictionary");
        }
        let values = match parts.values_id {
            FIXED => {
                let width = usize::from(shape.width);
                Values::Fixed {
                    width: shape.width,
                    data: parts.values.slice(code * width..(code + 1) * width),
                }
            }
            VARIABLE => {
                let (offsets, data) = parts.variable()?;
                let o: &[u32] = offsets.try_values().ok_or("offsets are not aligned")?;
                let (from, to) = (o[code] as usize, o[code + 1] as usize);
                if from > to || to > data.len() {
                    return Err("offsets fall");
                }
                let offsets = PageBuf::from_values(&[0, (to - from) as u32]);
                Values::Var { offsets, data: data.slice(from..to) }
            }
            id => of_id(id).expect("it was checked").range(
                &parts.shape,
                parts.values.clone(),
                code..code + 1,
            )?,
        };
        Ok(Column::new(shape.data_type, 1, None, values).map_err(what)?.value(0))
    }
}

/// Appends the distinct values in the encoding that takes the fewest bytes. Returns the id of that encoding.
fn put_values(values: &Column, out: &mut Vec<u8>) -> u8 {
    match values.values() {
        Values::Fixed { data, .. } => {
            out.extend_from_slice(data);
            FIXED
        }
        Values::Var { offsets, data } => {
            let input = Input::new(values.data_type(), values.rows(), values.values(), None);
            let encoded = [&lengths::Lengths as &dyn Encoding, &fsst::Fsst]
                .into_iter()
                .filter_map(|e| e.encode(&input).map(|body| (e.id(), body.body)))
                .min_by_key(|(_, body)| body.len())
                .filter(|(_, body)| body.len() < offsets.len() + data.len());
            match encoded {
                Some((id, body)) => {
                    out.extend(body);
                    id
                }
                None => {
                    out.extend_from_slice(offsets);
                    out.extend_from_slice(data);
                    VARIABLE
                }
            }
        }
        _ => unreachable!("distinct values are plain"),
    }
}

/// The parts of a body.
struct Parts {
    /// The shape of the distinct values.
    shape: Shape,
    rows: usize,
    values_id: u8,
    codes_id: u8,
    values: PageBuf,
    codes: PageBuf,
}

impl Parts {
    fn of(shape: &Shape, body: PageBuf) -> Result<Self, &'static str> {
        let require = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        require(
            shape.data_type != DataType::Boolean && shape.is_of_type(),
            "an encoding or width that the type does not have",
        )?;
        require(body.len() >= CELL_BYTES, "the bytes end within a dictionary's header")?;
        let number =
            |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes")) as usize;
        let (values_id, codes_id, distinct, value_bytes) = (body[0], body[1], number(4), number(8));
        let zero = body[2..4].iter().chain(&body[12..CELL_BYTES]).all(|&b| b == 0);
        require(zero, "unknown flags of a dictionary")?;
        require(
            distinct <= 1 << 16 && (distinct > 0 || shape.rows == 0),
            "a dictionary that its codes cannot reach",
        )?;
        let in_strings = |id: u8| id == lengths::Lengths.id() || id == fsst::Fsst.id();
        let values_ok = match shape.data_type.is_variable() {
            true => values_id == VARIABLE || in_strings(values_id),
            false => values_id == FIXED && value_bytes == distinct * usize::from(shape.width),
        };
        require(values_ok, "values that a dictionary does not have")?;
        require(matches!(codes_id, FRAMES | RUNS), "codes that a dictionary does not have")?;
        let values_end = CELL_BYTES + value_bytes;
        require(values_end <= body.len(), "a dictionary that ends behind its segment")?;
        let codes = values_end.next_multiple_of(CELL_BYTES).min(body.len());
        Ok(Self {
            shape: Shape { rows: distinct, ..*shape },
            rows: shape.rows,
            values_id,
            codes_id,
            // The values are copied. Otherwise these few bytes would keep the whole segment in memory.
            values: PageBuf::copy_from(&body[CELL_BYTES..values_end]),
            codes: body.slice(codes..),
        })
    }

    /// Returns the offsets and the bytes of values of variable length that are stored plain.
    fn variable(&self) -> Result<(PageBuf, PageBuf), &'static str> {
        let end = (self.shape.rows + 1) * 4;
        match end <= self.values.len() {
            true => Ok((self.values.slice(..end), self.values.slice(end..))),
            false => Err("the bytes end within the offsets of a dictionary"),
        }
    }

    /// Returns the distinct values.
    fn all_values(&self) -> Result<Column, &'static str> {
        let (t, distinct) = (self.shape.data_type, self.shape.rows);
        let values = match self.values_id {
            FIXED => Values::Fixed { width: self.shape.width, data: self.values.clone() },
            VARIABLE => {
                let (offsets, data) = self.variable()?;
                Values::Var { offsets, data }
            }
            id => of_id(id).expect("it was checked").range(&self.shape, self.values.clone(), 0..distinct)?,
        };
        Column::new(t, distinct, None, values).map_err(what)
    }

    /// Reads the codes of `rows` into `out`, at the width of `N`.
    fn codes<N: Number>(&self, rows: Range<usize>, out: &mut [N]) -> Result<(), &'static str> {
        let used = match self.codes_id {
            FRAMES => {
                let (vector, used) = Vector::parse(&self.codes, self.rows)?;
                match out {
                    [one] => *one = N::of(vector.get(rows.start)),
                    out => vector.read(rows.start, out, &mut Scratch::default()),
                }
                used
            }
            _ if rows.len() == 1 => {
                let (runs, used) = Runs::open(&self.codes, self.rows)?;
                out[0] = N::of(runs.find(rows.start)?);
                used
            }
            _ => {
                let (runs, used) = Runs::parse(&self.codes, self.rows)?;
                runs.read(rows.start, out, &mut Scratch::default());
                used
            }
        };
        match used == self.codes.len() {
            true => Ok(()),
            false => Err("bytes behind the codes of a dictionary"),
        }
    }
}
