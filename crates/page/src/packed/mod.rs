//! Packed numbers: a column of fixed width in the same bytes as on the medium. A reader unpacks the numbers that it
//! needs.
//!
//! ```text
//!   Packed ─┬─ blocks of 1,024, each with its least number and its span
//!           │    ─► a filter decides by the span, or unpacks the 1,024 offsets
//!           └─ runs ─► a filter decides once for each run
//! ```
//!
//! `lines` packs bits, `vector` packs blocks of numbers, and `runs` stores each run of equal numbers once. In all of
//! them, reading one row unpacks at most 1,024 numbers. Reading a range of rows unpacks only the blocks that the
//! range touches.

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

/// A packed column of numbers. A number is a signed integer. For REAL and DOUBLE it is the bits of the float.
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
    /// Makes a packed column of the numbers in `body`, which take `width` bytes each when unpacked. `id` is the id of
    /// their encoding on the medium.
    pub(crate) fn new(id: u8, width: u8, rows: usize, form: Form, body: PageBuf) -> Self {
        Self { id, width, rows, form, body }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes of one unpacked number: 2, 4, 8 or 16.
    pub fn width(&self) -> u8 {
        self.width
    }

    /// Returns the id of the encoding on the medium.
    pub(crate) fn id(&self) -> u8 {
        self.id
    }

    /// Returns the bytes as they are on the medium.
    pub(crate) fn body(&self) -> &PageBuf {
        &self.body
    }

    /// Returns the number of packed bytes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns the number of blocks of [`BLOCK_ROWS`] rows; 0 if the column is runs.
    pub fn blocks(&self) -> usize {
        match &self.form {
            Form::Vector(v) => v.blocks(),
            Form::Runs(_) => 0,
        }
    }

    /// Returns block `block`.
    ///
    /// # Panics
    /// When `block` is not below [`Packed::blocks`].
    pub fn block(&self, block: usize) -> Block<'_> {
        match &self.form {
            Form::Vector(v) => v.block(block),
            Form::Runs(_) => panic!("block {block} of runs"),
        }
    }

    /// Returns for each run the row after its last row, and its number, [`Packed::width`] bytes each. Returns `None`
    /// if the column is blocks.
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

    /// Returns whether the column is runs.
    pub fn is_runs(&self) -> bool {
        matches!(self.form, Form::Runs(_))
    }

    /// Returns the number of row `row`, as its low [`Packed::width`] bytes, sign-extended.
    ///
    /// # Panics
    /// When `row` is not below [`Packed::rows`].
    pub fn get(&self, row: usize) -> i128 {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let number = match &self.form {
            Form::Vector(v) => v.get(row),
            Form::Runs(r) => r.find(row).expect("the runs were checked"),
        };
        cut(number, self.width)
    }

    /// Reads the numbers of rows `from..from + out.len()` into `out`. If `N` is narrower than [`Packed::width`],
    /// numbers lose their high bits.
    ///
    /// # Panics
    /// When the column has fewer rows.
    pub fn read<N: Number>(&self, from: usize, out: &mut [N], scratch: &mut Scratch) {
        match &self.form {
            Form::Vector(v) => v.read(from, out, scratch),
            Form::Runs(r) => r.read(from, out, scratch),
        }
    }

    /// Unpacks the numbers of these rows, [`Packed::width`] bytes each.
    ///
    /// # Panics
    /// When the column has fewer rows.
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

/// Sign-extends the low `width` bytes of a number.
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

/// Returns a buffer of `rows` numbers of `width` bytes, which `read` fills.
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
