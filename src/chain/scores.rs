//! Views of a caller's matrices: rows of scores or derivatives, some way apart.

use crate::error::{Error, Result};

fn check(len: usize, [rows, cols, stride]: [usize; 3], what: &str) -> Result<()> {
    let shape = || format!("{what}: {rows} rows of {cols} numbers, {stride} apart, in {len} numbers");
    let needed = rows.saturating_sub(1).checked_mul(stride).and_then(|before| before.checked_add(cols));
    match needed {
        Some(_) if rows == 0 || cols == 0 => Err(Error::Shape(format!("{what}: {rows} rows of {cols} numbers"))),
        Some(needed) if stride >= cols && needed <= len => Ok(()),
        _ => Err(Error::Shape(shape())),
    }
}

/// How many rows and columns a matrix has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub rows: usize,
    pub cols: usize,
}

impl Shape {
    /// [`Error::Shape`] unless this is the shape of the network output too.
    pub fn check(self, output: Shape, what: &str) -> Result<()> {
        if self == output {
            return Ok(());
        }
        let Shape { rows, cols } = self;
        Err(Error::Shape(format!("{what} is {rows} by {cols}, the network output {} by {}", output.rows, output.cols)))
    }
}

/// Where a score can be asked for.
pub(super) trait ScoreAt: Copy + Sync {
    /// The score of a pdf in a row; both are within the shape.
    fn at(self, row: usize, pdf: usize) -> f32;
}

impl ScoreAt for Scores<'_> {
    #[inline]
    fn at(self, row: usize, pdf: usize) -> f32 {
        self.row(row)[pdf]
    }
}

/// Rows of the network's output.
#[derive(Clone, Copy, Debug)]
pub struct Scores<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a> Scores<'a> {
    /// `rows` rows of `cols` numbers that begin `stride` numbers apart; what lies between rows is never read. At least
    /// one row and one column. [`Error::Shape`] where `data` is too short or rows overlap.
    pub fn new(data: &'a [f32], rows: usize, cols: usize, stride: usize) -> Result<Scores<'a>> {
        check(data.len(), [rows, cols, stride], "network output")?;
        Ok(Scores { data, rows, cols, stride })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    pub(super) fn shape(&self) -> Shape {
        Shape { rows: self.rows, cols: self.cols }
    }

    /// All numbers from the first to the last one, and how far apart rows begin.
    pub(super) fn used(&self) -> (&'a [f32], usize) {
        (&self.data[..(self.rows - 1) * self.stride + self.cols], self.stride)
    }

    /// A row; `row` is below [`Scores::rows`].
    #[inline]
    pub(super) fn row(&self, row: usize) -> &'a [f32] {
        &self.data[row * self.stride..][..self.cols]
    }
}

/// Rows of a derivative, to be written.
#[derive(Debug)]
pub struct ScoresMut<'a> {
    data: &'a mut [f32],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a> ScoresMut<'a> {
    /// As [`Scores::new`]; what lies between rows is never written.
    pub fn new(data: &'a mut [f32], rows: usize, cols: usize, stride: usize) -> Result<ScoresMut<'a>> {
        check(data.len(), [rows, cols, stride], "derivative")?;
        Ok(ScoresMut { data, rows, cols, stride })
    }

    pub(super) fn shape(&self) -> Shape {
        Shape { rows: self.rows, cols: self.cols }
    }

    /// As [`Scores::used`].
    pub(super) fn used(&mut self) -> (&mut [f32], usize) {
        (&mut self.data[..(self.rows - 1) * self.stride + self.cols], self.stride)
    }

    /// A row; `row` is below the number of rows.
    #[inline]
    pub(super) fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.stride..][..self.cols]
    }

    /// Blocks of `rows` rows: the first numbers of row r of one begin at `r * stride`.
    pub(super) fn blocks(&mut self, rows: usize) -> Blocks<'_> {
        let cols = self.cols;
        let (data, stride) = self.used();
        Blocks { data, len: rows * stride, stride, cols }
    }
}

/// Rows in blocks that several threads may write to.
pub(super) struct Blocks<'a> {
    pub data: &'a mut [f32],
    /// Numbers of a block; the last one may be shorter.
    pub len: usize,
    pub stride: usize,
    pub cols: usize,
}
