//! Predicates over one dictionary column. They are evaluated once for each distinct value, and the outcomes are
//! mapped through the codes.

use lode_base::PageBuf;
use lode_page::{Column, DataType, Values};

use super::predicate::Run;
use super::{Meter, SingleColumn, kernel};
use crate::bits::{self, Tri};
use crate::lanes::Codes;
use crate::plan::Node;

/// The outcomes of a predicate that reads only `column`, which has a dictionary.
pub(super) fn evaluate(node: &Node, column: &Column, active: &[u64]) -> Tri {
    let Values::Dict { code_width, codes, dictionary } = column.values() else {
        unreachable!("the caller looked")
    };
    let values = over(node, dictionary);
    let codes = Codes::new(*code_width, codes, 0..column.rows());
    let distinct = dictionary.rows();
    let truth = mapped(&values.truth, distinct, codes, active);
    let known = values.known.map(|k| mapped(&k, distinct, codes, active));
    let mut tri = Tri { truth, known };
    if let Some(valid) = column.validity() {
        // A NULL row has no value in the dictionary, so the predicate is evaluated for NULL too.
        let null = over(node, &null_of(column.data_type()));
        let spread = |bit: u64| if bit & 1 == 1 { !0 } else { 0 };
        let (null_truth, null_known) = (spread(null.truth[0]), spread(null.known_word(0)));
        let mut known = Vec::with_capacity(active.len());
        for i in 0..active.len() {
            let valid = bits::word(valid, i);
            known.push(tri.known_word(i) & valid | null_known & !valid);
            tri.truth[i] = tri.truth[i] & valid | null_truth & !valid;
        }
        tri.known = Some(known);
    }
    tri
}

/// The outcomes for each row of one column.
fn over(node: &Node, column: &Column) -> Tri {
    let mut run = Run { columns: SingleColumn(column), rows: column.rows(), meter: &mut Meter::default() };
    let Ok(tri) = run.evaluate(node, &bits::all(column.rows()));
    tri
}

/// One row that is NULL.
fn null_of(t: DataType) -> Column {
    let values = match t.fixed_bytes() {
        Some(width) => {
            Values::Fixed { width: width as u8, data: PageBuf::from_values(&[0i128]).slice(..width) }
        }
        None if t == DataType::Boolean => Values::Bits(PageBuf::copy_from(&[0])),
        None => Values::Var { offsets: PageBuf::from_values(&[0u32, 0]), data: PageBuf::empty() },
    };
    Column::new(t, 1, Some(PageBuf::copy_from(&[0])), values).expect("one row of zeroes")
}

/// For each row, the bit of its code.
fn mapped(of_codes: &[u64], distinct: usize, codes: Codes<'_>, active: &[u64]) -> Vec<u64> {
    let mut out = vec![0; active.len()];
    let set = |code: usize| of_codes[code / 64] >> (code % 64) & 1 == 1;
    let hits = (0..distinct).filter(|&c| set(c)).count();
    let first_last = |wanted: bool| {
        let first = (0..distinct).find(|&c| set(c) == wanted).unwrap_or(0);
        (first, (0..distinct).rfind(|&c| set(c) == wanted).unwrap_or(0))
    };
    let (first, last) = first_last(true);
    let (first_out, last_out) = first_last(false);
    if hits == 0 || hits == distinct {
        out.fill(if hits == 0 { 0 } else { !0 });
    } else if last - first + 1 == hits {
        within(codes, first, last, active, &mut out);
    } else if last_out - first_out + 1 == distinct - hits {
        within(codes, first_out, last_out, active, &mut out);
        out.iter_mut().for_each(|w| *w = !*w);
    } else {
        match codes {
            Codes::Byte(c) => {
                let table: [bool; 256] = std::array::from_fn(|code| code < distinct && set(code));
                kernel::map(c, active, &mut out, |code| table[usize::from(code)]);
            }
            Codes::Short(c) => {
                let table: Vec<bool> = (0..distinct).map(set).collect();
                kernel::map(c, active, &mut out, |code| table[usize::from(code)]);
            }
        }
    }
    out
}

/// Whether codes lie from `first` to `last`: one comparison for each row, many rows at a time.
fn within(codes: Codes<'_>, first: usize, last: usize, active: &[u64], out: &mut [u64]) {
    match codes {
        Codes::Byte(c) => {
            let (first, span) = (first as u8, (last - first) as u8);
            kernel::map(c, active, out, |code| code.wrapping_sub(first) <= span);
        }
        Codes::Short(c) => {
            let (first, span) = (first as u16, (last - first) as u16);
            kernel::map(c, active, out, |code| code.wrapping_sub(first) <= span);
        }
    }
}
