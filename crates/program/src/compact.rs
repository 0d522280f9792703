//! `compact`: the rows of a column that passed, as a column.

use lode_page::{Column, Values};

use crate::Selection;
use lode_base::{PageBuf, PageBufMut};

/// The rows of `c` that `s` selects. Dictionaries are kept and shared.
///
/// # Panics
/// When `s` is a mask of another number of rows.
pub fn compact(c: &Column, s: &Selection) -> Column {
    let rows: Vec<usize> = match s {
        Selection::All => return c.clone(),
        Selection::None => Vec::new(),
        Selection::Some(mask) => {
            assert_eq!(mask.rows(), c.rows(), "a mask for another page");
            mask.iter().collect()
        }
    };
    let gather = |data: &[u8], width: usize| {
        let mut out = PageBufMut::with_capacity(rows.len() * width);
        rows.iter().for_each(|r| out.extend_from_slice(&data[r * width..(r + 1) * width]));
        out.freeze()
    };
    let bits = |data: &[u8]| {
        let mut out = vec![0u8; rows.len().div_ceil(8)];
        rows.iter().enumerate().for_each(|(i, r)| out[i / 8] |= (data[r / 8] >> (r % 8) & 1) << (i % 8));
        PageBuf::copy_from(&out)
    };
    let values = match c.values() {
        Values::Bits(b) => Values::Bits(bits(b)),
        Values::Fixed { width, data } => Values::Fixed { width: *width, data: gather(data, (*width).into()) },
        Values::Var { offsets, data } => {
            let o: &[u32] = offsets.try_values().expect("offsets were checked to be aligned");
            let (mut ends, mut bytes) = (vec![0u32], Vec::new());
            for &r in &rows {
                bytes.extend_from_slice(&data[o[r] as usize..o[r + 1] as usize]);
                ends.push(bytes.len() as u32);
            }
            Values::Var { offsets: PageBuf::from_values(&ends), data: PageBuf::copy_from(&bytes) }
        }
        Values::Dict { code_width, codes, dictionary } => Values::Dict {
            code_width: *code_width,
            codes: gather(codes, (*code_width).into()),
            dictionary: dictionary.clone(),
        },
    };
    Column::new(c.data_type(), rows.len(), c.validity().map(|v| bits(v)), values)
        .expect("rows of a checked column")
}
