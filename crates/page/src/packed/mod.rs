//! Packed numbers: a column of fixed width as it lies on the medium, unpacked where it is looked at.
//!
//! ```text
//!   Packed ─┬─ blocks of 1,024, each with its least number and its span ─► a filter decides on the span, or unpacks 1,024 offsets
//!           └─ runs ─► a filter decides once a run
//! ```
//!
//! `lines` packs bits, `vector` makes blocks of them, `runs` repeats numbers. What all of them share: row n is found by unpacking at
//! most 1,024 numbers, and any range of rows by unpacking the blocks that it touches.

pub(crate) mod lines;
mod number;
pub(crate) mod runs;
pub(crate) mod vector;

use std::ops::Range;

use lode_base::{PageBuf, PageBufMut};

pub use lines::BLOCK_ROWS;
pub use number::Number;
pub(crate) use runs::Runs;
pub(crate) use vector::Vector;
pub use vector::{Block, Offsets, Scratch};

/// A packed column of numbers. A number is what its bits are as an integer with sign; so are the bits of a REAL or DOUBLE.
#[derive(Clone, Debug)]
pub struct Packed {
    id: u8,
    width: u8,
    rows: usize,
    form: Form,
    body: PageBuf,
}

#[derive(Clone, Debug)]
pub(crate) enum Form {
    Vector(Vector),
    Runs(Runs),
}

impl Packed {
    /// The numbers in `body`, which are `width` bytes each in memory; `id` names their encoding on the medium.
    pub(crate) fn new(id: u8, width: u8, rows: usize, form: Form, body: PageBuf) -> Self {
        Self { id, width, rows, form, body }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of a number when it is unpacked: 2, 4, 8 or 16.
    pub fn width(&self) -> u8 {
        self.width
    }

    /// The number of its encoding.
    pub(crate) fn id(&self) -> u8 {
        self.id
    }

    /// Its bytes, as they lie on the medium.
    pub(crate) fn body(&self) -> &PageBuf {
        &self.body
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Its blocks of [`BLOCK_ROWS`] rows; 0 where it is runs.
    pub fn blocks(&self) -> usize {
        match &self.form {
            Form::Vector(v) => v.blocks(),
            Form::Runs(_) => 0,
        }
    }

    /// Block `block`.
    ///
    /// # Panics
    /// When it is not below [`Packed::blocks`].
    pub fn block(&self, block: usize) -> Block<'_> {
        match &self.form {
            Form::Vector(v) => v.block(block),
            Form::Runs(_) => panic!("block {block} of runs"),
        }
    }

    /// The runs that it is: the row behind the last of each, and their numbers, one a run; `None` where it is blocks.
    pub fn runs(&self) -> Option<(Vec<u32>, PageBuf)> {
        let Form::Runs(runs) = &self.form else { return None };
        let scratch = &mut Scratch::default();
        let numbers = unpacked(self.width, runs.len(), |out| match out {
            Out::Two(out) => runs.numbers().read(0, out, scratch),
            Out::Four(out) => runs.numbers().read(0, out, scratch),
            Out::Eight(out) => runs.numbers().read(0, out, scratch),
            Out::Sixteen(out) => runs.numbers().read(0, out, scratch),
        });
        Some((runs.ends(&mut Scratch::default()), numbers))
    }

    /// Whether it is runs.
    pub fn is_runs(&self) -> bool {
        matches!(self.form, Form::Runs(_))
    }

    /// The number of row `row`: the low [`Packed::width`] bytes of it are the value's.
    ///
    /// # Panics
    /// When `row` is not below [`Packed::rows`].
    pub fn get(&self, row: usize) -> i128 {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let number = match &self.form {
            Form::Vector(v) => v.get(row),
            Form::Runs(r) => r.find(row, &mut Scratch::default()).expect("the runs were checked"),
        };
        cut(number, self.width)
    }

    /// The numbers of rows from `from` on, as wide as the caller has them: numbers narrower than [`Packed::width`] lose bits.
    ///
    /// # Panics
    /// When there are fewer rows.
    pub fn read<N: Number>(&self, from: usize, out: &mut [N], scratch: &mut Scratch) {
        match &self.form {
            Form::Vector(v) => v.read(from, out, scratch),
            Form::Runs(r) => r.read(from, out, scratch),
        }
    }

    /// The numbers of these rows, [`Packed::width`] bytes each.
    ///
    /// # Panics
    /// When there are fewer rows.
    pub fn unpack(&self, rows: Range<usize>) -> PageBuf {
        let scratch = &mut Scratch::default();
        unpacked(self.width, rows.len(), |out| match out {
            Out::Two(out) => self.read(rows.start, out, scratch),
            Out::Four(out) => self.read(rows.start, out, scratch),
            Out::Eight(out) => self.read(rows.start, out, scratch),
            Out::Sixteen(out) => self.read(rows.start, out, scratch),
        })
    }
}

/// The number that the low `width` bytes are.
pub(crate) fn cut(number: i128, width: u8) -> i128 {
    match width {
        2 => (number as i16).into(),
        4 => (number as i32).into(),
        8 => (number as i64).into(),
        _ => number,
    }
}

enum Out<'a> {
    Two(&'a mut [i16]),
    Four(&'a mut [i32]),
    Eight(&'a mut [i64]),
    Sixteen(&'a mut [i128]),
}

/// A buffer of `rows` numbers of `width` bytes, which `read` fills.
fn unpacked(width: u8, rows: usize, read: impl FnOnce(Out<'_>)) -> PageBuf {
    let mut out = PageBufMut::scratch(rows * usize::from(width));
    match width {
        2 => read(Out::Two(bytemuck::cast_slice_mut(&mut out))),
        4 => read(Out::Four(bytemuck::cast_slice_mut(&mut out))),
        8 => read(Out::Eight(bytemuck::cast_slice_mut(&mut out))),
        _ => read(Out::Sixteen(bytemuck::cast_slice_mut(&mut out))),
    }
    out.freeze()
}
