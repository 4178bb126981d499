//! Compressed matrices: one or two bytes an element, kept as they stand in a file.
//!
//! Three formats exist. `CM` has for each column four 16-bit percentiles (0, 25, 75, 100) and bytes that interpolate
//! between them, column after column. `CM2` and `CM3` have 16- and 8-bit steps of one range, row after row.

use super::compress;
use super::holder::Holder;
use super::input::Input;
use super::matrix::{Matrix, check_size, unknown_form};
use super::output::Output;
use super::specifier::parse_range;
use crate::error::{Error, Result, try_copy, try_reserve};

/// How elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `CM`: a byte an element, between percentiles of its column.
    Columns,
    /// `CM2`: two bytes an element.
    TwoBytes,
    /// `CM3`: one byte an element.
    OneByte,
}

/// How a matrix is to be compressed; the numbers are Kaldi's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// 1: as [`Method::SpeechFeature`] for more than 8 rows, else as [`Method::TwoByteAuto`].
    Auto = 1,
    /// 2: format `CM`.
    SpeechFeature = 2,
    /// 3: format `CM2` between the least and the greatest element.
    TwoByteAuto = 3,
    /// 4: format `CM2`, whole numbers from -32768 to 32767.
    TwoByteSignedInteger = 4,
    /// 5: format `CM3` between the least and the greatest element.
    OneByteAuto = 5,
    /// 6: format `CM3`, whole numbers from 0 to 255.
    OneByteUnsignedInteger = 6,
    /// 7: format `CM3`, from 0 to 1.
    OneByteZeroOne = 7,
}

/// Percentiles of a column, as steps of the matrix's range.
pub(super) type ColumnHeader = [u16; 4];

/// Bytes of a column header.
pub(super) const COLUMN_HEADER: usize = 8;

/// A compressed matrix that keeps its codes, so that it can be written again byte for byte.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressedMatrix {
    pub(super) format: Format,
    pub(super) min: f32,
    pub(super) range: f32,
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// Everything after the header of 16 bytes.
    pub(super) bytes: Vec<u8>,
}

impl Format {
    fn token(self) -> &'static str {
        match self {
            Format::Columns => "CM",
            Format::TwoBytes => "CM2",
            Format::OneByte => "CM3",
        }
    }

    /// Bytes after the header; `None` if that is beyond any memory.
    pub(super) fn size(self, rows: usize, cols: usize) -> Option<usize> {
        match self {
            Format::Columns => rows.checked_add(COLUMN_HEADER)?.checked_mul(cols),
            Format::TwoBytes => rows.checked_mul(cols)?.checked_mul(2),
            Format::OneByte => rows.checked_mul(cols),
        }
    }
}

impl Default for CompressedMatrix {
    /// The empty matrix.
    fn default() -> Self {
        CompressedMatrix { format: Format::Columns, min: 0.0, range: 0.0, rows: 0, cols: 0, bytes: Vec::new() }
    }
}

impl CompressedMatrix {
    /// Compresses a matrix given as rows of `cols` values that begin `stride` values apart. NaN and infinite elements
    /// are refused with [`Error::Argument`], too few values with [`Error::Shape`].
    pub fn compress(data: &[f32], rows: usize, cols: usize, stride: usize, method: Method) -> Result<Self> {
        compress::compress(data, rows, cols, stride, method)
    }

    /// Compresses a matrix.
    pub fn from_matrix(matrix: &Matrix, method: Method) -> Result<Self> {
        Self::compress(matrix.data(), matrix.rows(), matrix.cols(), matrix.cols(), method)
    }

    /// A copy; fails only for lack of memory.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(CompressedMatrix { bytes: try_copy(&self.bytes, "compressed matrix")?, ..*self })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How the elements are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The matrix that this stands for, every element exactly as Kaldi gives it.
    pub fn to_matrix(&self) -> Result<Matrix> {
        let mut data = Vec::new();
        let count = self.rows * self.cols;
        try_reserve(&mut data, count, "matrix")?;
        data.resize(count, 0.0);
        self.expand(&mut data)?;
        Matrix::from_data(self.rows, self.cols, data)
    }

    /// Reads a compressed matrix. One in plain form (`FM`, `DM`, text) is compressed by [`Method::Auto`].
    pub fn read(input: &mut Input, binary: bool) -> Result<Self> {
        if !binary || input.peek()? != Some(b'C') {
            let start = input.offset();
            let matrix = Matrix::read(input, binary)?;
            return Self::from_matrix(&matrix, Method::Auto).map_err(|error| match error {
                no_memory @ Error::NoMemory { .. } => no_memory,
                other => input.format_error_at(start, format!("the matrix cannot be compressed: {other}")),
            });
        }
        let start = input.offset();
        let token = input.token(true)?;
        let format = match token.as_str() {
            "CM" => Format::Columns,
            "CM2" => Format::TwoBytes,
            "CM3" => Format::OneByte,
            _ => return Err(unknown_form(input, start, &token)),
        };
        let min = f32::from_le_bytes(input.read_array()?);
        let range = f32::from_le_bytes(input.read_array()?);
        let at_size = input.offset();
        let (rows, cols) = (i32::from_le_bytes(input.read_array()?), i32::from_le_bytes(input.read_array()?));
        if (rows, cols) == (0, 0) {
            skip_stray_bytes(input)?;
            return Ok(Self::default());
        }
        let wrong = |why: String| input.format_error_at(at_size, why);
        let (rows, cols) = check_size(rows, cols).map_err(wrong)?;
        let size = format.size(rows, cols);
        let size = size.ok_or_else(|| wrong(format!("a matrix of {rows} by {cols} is too large")))?;
        let bytes = input.read_bounded(size as u64, "compressed matrix")?;
        Ok(CompressedMatrix { format, min, range, rows, cols, bytes })
    }

    /// Writes the matrix in its own format, or in text as a plain matrix. An empty one is `CM` and 16 zero bytes.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        if !binary {
            return self.to_matrix()?.write(output, false);
        }
        let size = |count: usize| {
            i32::try_from(count).map(i32::to_le_bytes).map_err(|_| {
                Error::Unsupported(format!("a matrix of {} by {} is too large for the format", self.rows, self.cols))
            })
        };
        output.write_token(self.format.token())?;
        output.write_all(&self.min.to_le_bytes())?;
        output.write_all(&self.range.to_le_bytes())?;
        output.write_all(&size(self.rows)?)?;
        output.write_all(&size(self.cols)?)?;
        output.write_all(&self.bytes)
    }

    /// The header of a column and its codes, in format `CM`.
    pub(super) fn column(&self, col: usize) -> Option<(ColumnHeader, &[u8])> {
        let header = self.bytes.get(col * COLUMN_HEADER..)?.first_chunk::<COLUMN_HEADER>()?;
        let (halves, _) = header.as_chunks::<2>();
        let mut percentiles = [0; 4];
        percentiles.iter_mut().zip(halves).for_each(|(p, half)| *p = u16::from_le_bytes(*half));
        let start = self.cols * COLUMN_HEADER + col * self.rows;
        Some((percentiles, self.bytes.get(start..start + self.rows)?))
    }

    /// A part of the matrix with the same codes, as Kaldi cuts it: the ranges of the elements stay those of the whole
    /// matrix, except that a piece in format `CM` with fewer than 8 rows is compressed anew by [`Method::TwoByteAuto`].
    ///
    /// With `pad_rows`, rows before the first and after the last are copies of these (`row` may then be negative);
    /// otherwise they are refused with [`Error::Shape`]. Without rows or columns the piece is empty.
    pub fn piece(&self, row: i64, rows: usize, col: usize, cols: usize, pad_rows: bool) -> Result<Self> {
        compress::piece(self, row, rows, col, cols, pad_rows)
    }
}

/// Kaldi writes an empty matrix with four bytes too many, which its own reader takes for the next object. They are zero,
/// as nothing that may follow a matrix is.
fn skip_stray_bytes(input: &mut Input) -> Result<()> {
    if input.peek_bytes(4)? == [0; 4] {
        input.skip(4, "empty matrix")?;
    }
    Ok(())
}

/// Matrices as entries of tables that are kept compressed.
pub struct CompressedMatrixHolder;

impl Holder for CompressedMatrixHolder {
    type Value = CompressedMatrix;

    fn read(input: &mut Input) -> Result<CompressedMatrix> {
        let binary = input.binary_header()?;
        CompressedMatrix::read(input, binary)
    }

    fn write(output: &mut Output, value: &CompressedMatrix, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        value.write(output, binary)
    }

    fn range(value: &CompressedMatrix, range: &str) -> Result<CompressedMatrix> {
        let (rows, cols) = parse_range(range, value.rows, value.cols)?;
        value.piece(rows.start as i64, rows.len(), cols.start, cols.len(), false)
    }
}
