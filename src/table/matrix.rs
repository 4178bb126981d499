//! Matrices: dense rows of floats, read from any of Kaldi's forms.

use super::basic::describe_byte;
use super::compressed::CompressedMatrix;
use super::holder::Holder;
use super::input::{BLOCK, Input, is_space};
use super::output::Output;
use super::real::{Real, read_as};
use super::specifier::parse_range;
use crate::error::{Error, Result, try_copy, try_reserve};

/// A matrix with dense rows, one after the other. Without rows it has no columns either.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix<T = f32> {
    rows: usize,
    cols: usize,
    data: Vec<T>,
}

impl<T: Real> Matrix<T> {
    /// A matrix of its rows one after the other; gives [`Error::Shape`] unless there are `rows` times `cols` values.
    pub fn from_data(rows: usize, cols: usize, data: Vec<T>) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) || (rows == 0) != (cols == 0) {
            return Err(Error::Shape(format!("{} values do not make a matrix of {rows} by {cols}", data.len())));
        }
        Ok(Matrix { rows, cols, data })
    }

    /// A copy; fails only for lack of memory.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Matrix { rows: self.rows, cols: self.cols, data: try_copy(&self.data, "matrix")? })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All values, row by row.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// All values, row by row, to change them.
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// All values, row by row, without the matrix.
    pub fn into_data(self) -> Vec<T> {
        self.data
    }

    /// A row, `None` outside `0..rows`.
    pub fn row(&self, row: usize) -> Option<&[T]> {
        let start = row.checked_mul(self.cols)?;
        if row < self.rows { self.data.get(start..start + self.cols) } else { None }
    }

    /// The rows in order.
    pub fn iter_rows(&self) -> impl ExactSizeIterator<Item = &[T]> {
        // chunks_exact refuses zero; an empty matrix has no chunks of one.
        self.data.chunks_exact(self.cols.max(1))
    }

    /// A part of the matrix, in the form of a script's range (`0:9`, `0:9,3:5`, `:,3:5`; both ends belong to it).
    pub fn range(&self, range: &str) -> Result<Self> {
        let (rows, cols) = parse_range(range, self.rows, self.cols)?;
        let mut data = Vec::new();
        try_reserve(&mut data, rows.len() * cols.len(), "part of a matrix")?;
        for row in self.iter_rows().skip(rows.start).take(rows.len()) {
            data.extend_from_slice(row.get(cols.clone()).unwrap_or_default());
        }
        Matrix::from_data(rows.len(), cols.len(), data)
    }

    /// Reads a matrix: in binary a plain one of either type or a compressed one (`FM`, `DM`, `CM`, `CM2`, `CM3`).
    pub fn read(input: &mut Input, binary: bool) -> Result<Self> {
        if !binary {
            return read_text(input);
        }
        if input.peek()? == Some(b'C') {
            let Matrix { rows, cols, data } = CompressedMatrix::read(input, true)?.to_matrix()?;
            return Matrix::from_data(rows, cols, T::from_floats(data));
        }
        let start = input.offset();
        let token = input.token(true)?;
        let (rows, cols) = match token.as_str() {
            "FM" | "DM" => read_size(input)?,
            _ => return Err(unknown_form(input, start, &token)),
        };
        let count = rows as u64 * cols as u64;
        let data = match token.as_str() {
            "FM" => read_as::<f32, T>(input, count, "matrix"),
            _ => read_as::<f64, T>(input, count, "matrix"),
        };
        Matrix::from_data(rows, cols, data?)
    }

    /// Writes a matrix as `FM` or `DM`, or in text with seven significant digits.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        if !binary {
            return self.write_text(output);
        }
        let size = |count: usize| {
            i32::try_from(count).map_err(|_| {
                Error::Unsupported(format!("a matrix of {} by {} is too large for the format", self.rows, self.cols))
            })
        };
        output.write_token(T::MATRIX)?;
        output.write_i32(true, size(self.rows)?)?;
        output.write_i32(true, size(self.cols)?)?;
        write_values(output, &self.data)
    }

    fn write_text(&self, output: &mut Output) -> Result<()> {
        if self.rows == 0 {
            return output.write_text(" [ ]\n");
        }
        output.write_text(" [")?;
        for row in self.iter_rows() {
            output.write_text("\n  ")?;
            for value in row {
                output.write_text_number(value.to_f64())?;
            }
        }
        output.write_text("]\n")
    }
}

pub(super) fn unknown_form(input: &Input, start: u64, token: &str) -> Error {
    let token = super::basic::printable(token);
    input.format_error_at(start, format!("expected a matrix (FM, DM, CM, CM2 or CM3), found {token}"))
}

/// Writes bare values.
pub(super) fn write_values<T: Real>(output: &mut Output, values: &[T]) -> Result<()> {
    let mut bytes = Vec::new();
    for part in values.chunks(BLOCK / 8) {
        bytes.clear();
        try_reserve(&mut bytes, size_of_val(part), "output buffer")?;
        part.iter().for_each(|value| value.append_to(&mut bytes));
        output.write_all(&bytes)?;
    }
    Ok(())
}

/// Numbers of rows and columns with their size bytes.
fn read_size(input: &mut Input) -> Result<(usize, usize)> {
    let start = input.offset();
    let (rows, cols) = (input.read_i32(true)?, input.read_i32(true)?);
    check_size(rows, cols).map_err(|why| input.format_error_at(start, why))
}

/// Neither number may be negative, and zero goes with zero only.
pub(super) fn check_size(rows: i32, cols: i32) -> Result<(usize, usize), String> {
    match (usize::try_from(rows), usize::try_from(cols)) {
        (Ok(rows), Ok(cols)) if (rows == 0) == (cols == 0) => Ok((rows, cols)),
        _ => Err(format!("a matrix cannot have {rows} rows and {cols} columns")),
    }
}

/// Text: `[`, rows ended by line ends or semicolons, `]` and the rest of its line.
fn read_text<T: Real>(input: &mut Input) -> Result<Matrix<T>> {
    input.skip_space()?;
    input.expect_byte(b'[')?;
    let mut text = TextRows { rows: 0, cols: 0, data: Vec::new(), row_start: 0 };
    loop {
        match input.peek()? {
            Some(byte @ (b'\n' | b';')) => {
                text.end_row(input)?;
                input.take(byte);
            }
            Some(b']') => {
                text.end_row(input)?;
                break input.take(b']');
            }
            Some(byte) if is_space(byte) => input.take(byte),
            Some(_) => {
                let value = T::read_text(input)?;
                try_reserve(&mut text.data, 1, "matrix")?;
                text.data.push(value);
            }
            None => return Err(input.text_error(format!("expected a number or ']', found {}", describe_byte(None)))),
        }
    }
    end_of_object(input)?;
    Matrix::from_data(text.rows, text.cols, text.data)
}

struct TextRows<T> {
    rows: usize,
    cols: usize,
    data: Vec<T>,
    /// Where the row that is being read begins in `data`.
    row_start: usize,
}

impl<T> TextRows<T> {
    fn end_row(&mut self, input: &Input) -> Result<()> {
        let length = self.data.len() - self.row_start;
        if length == 0 {
            return Ok(());
        }
        if self.rows == 0 {
            self.cols = length;
        } else if length != self.cols {
            let message = format!("row {} has {length} numbers where the rows before it have {}", self.rows, self.cols);
            return Err(input.text_error(message));
        }
        self.rows += 1;
        self.row_start = self.data.len();
        Ok(())
    }
}

/// The line end after a closing bracket belongs to the object.
pub(super) fn end_of_object(input: &mut Input) -> Result<()> {
    // Byte by byte: a slow pipe may have no more for now.
    if input.peek()? == Some(b'\r') && input.peek_bytes(2)? == b"\r\n" {
        input.take(b'\r');
    }
    if input.peek()? == Some(b'\n') {
        input.take(b'\n');
    }
    Ok(())
}

/// Matrices as entries of tables: any form is read, the plain one written.
pub struct MatrixHolder<T = f32>(std::marker::PhantomData<T>);

impl<T: Real> Holder for MatrixHolder<T> {
    type Value = Matrix<T>;

    fn read(input: &mut Input) -> Result<Matrix<T>> {
        let binary = input.binary_header()?;
        Matrix::read(input, binary)
    }

    fn write(output: &mut Output, value: &Matrix<T>, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        value.write(output, binary)
    }

    fn range(value: &Matrix<T>, range: &str) -> Result<Matrix<T>> {
        value.range(range)
    }
}
