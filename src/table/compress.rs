//! From the elements of a matrix to codes, bit for bit as Kaldi makes them.

use super::compressed::{COLUMN_HEADER, ColumnHeader, CompressedMatrix, Format, Method};
use crate::error::{Error, Result, try_reserve};

/// Rows of fewer than this many make a piece of format `CM` unfit for its percentiles.
const FEWEST_ROWS: usize = 8;

pub(super) fn compress(
    data: &[f32],
    rows: usize,
    cols: usize,
    stride: usize,
    method: Method,
) -> Result<CompressedMatrix> {
    let rows_of = Rows::new(data, rows, cols, stride)?;
    if rows == 0 {
        return Ok(CompressedMatrix::default());
    }
    rows_of.check_finite()?;
    let (format, min, range) = match method {
        Method::Auto if rows > FEWEST_ROWS => rows_of.automatic(Format::Columns)?,
        Method::SpeechFeature => rows_of.automatic(Format::Columns)?,
        Method::Auto | Method::TwoByteAuto => rows_of.automatic(Format::TwoBytes)?,
        Method::OneByteAuto => rows_of.automatic(Format::OneByte)?,
        Method::TwoByteSignedInteger => (Format::TwoBytes, -32768.0, 65535.0),
        Method::OneByteUnsignedInteger => (Format::OneByte, 0.0, 255.0),
        Method::OneByteZeroOne => (Format::OneByte, 0.0, 1.0),
    };
    let too_large = || Error::Unsupported(format!("a matrix of {rows} by {cols} is too large to be compressed"));
    let size = format.size(rows, cols).ok_or_else(too_large)?;
    let mut matrix = CompressedMatrix { format, min, range, rows, cols, bytes: Vec::new() };
    try_reserve(&mut matrix.bytes, size, "compressed matrix")?;
    match format {
        Format::Columns => columns(&mut matrix, &rows_of)?,
        Format::TwoBytes => {
            let codes = rows_of.iter().flatten().map(|&value| steps(value, min, range, 65535) as u16);
            matrix.bytes.extend(codes.flat_map(u16::to_le_bytes));
        }
        Format::OneByte => {
            matrix.bytes.extend(rows_of.iter().flatten().map(|&value| steps(value, min, range, 255) as u8));
        }
    }
    Ok(matrix)
}

/// A matrix in a caller's memory. What lies between the rows is not read.
struct Rows<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a> Rows<'a> {
    fn new(data: &'a [f32], rows: usize, cols: usize, stride: usize) -> Result<Self> {
        let needed = rows.saturating_sub(1).checked_mul(stride).and_then(|before| before.checked_add(cols));
        let fits = (rows == 0) == (cols == 0) && stride >= cols && needed.is_some_and(|needed| needed <= data.len());
        if !fits {
            return Err(Error::Shape(format!(
                "{} values cannot hold a matrix of {rows} by {cols} with stride {stride}",
                data.len()
            )));
        }
        Ok(Rows { data, rows, cols, stride })
    }

    fn iter(&self) -> impl Iterator<Item = &'a [f32]> {
        self.data.chunks(self.stride.max(1)).take(self.rows).map(|row| &row[..self.cols])
    }

    fn check_finite(&self) -> Result<()> {
        for (r, row) in self.iter().enumerate() {
            if let Some(c) = row.iter().position(|value| !value.is_finite()) {
                return Err(Error::Argument(format!("row {r}, column {c}: {} cannot be compressed", row[c])));
            }
        }
        Ok(())
    }

    /// The given format from the least element to the greatest.
    fn automatic(&self, format: Format) -> Result<(Format, f32, f32)> {
        let first = self.data.first().copied().unwrap_or_default();
        // Of zeros with different signs the first counts, which f32::min does not promise.
        let (min, mut max) = self.iter().flatten().fold((first, first), |(min, max), &value| {
            (if value < min { value } else { min }, if value > max { value } else { max })
        });
        if max == min {
            // In double, as a literal 1.0 is in C++.
            max = (f64::from(min) + (1.0 + f64::from(min.abs()))) as f32;
        }
        let range = max - min;
        if !range.is_finite() || range <= 0.0 {
            return Err(Error::Argument(format!("elements from {min} to {max} cannot be compressed")));
        }
        Ok((format, min, range))
    }
}

/// The step of the range, of `count` steps, that a value falls on.
fn steps(value: f32, min: f32, range: f32, count: u16) -> i32 {
    let part = ((value - min) / range).clamp(0.0, 1.0);
    (f64::from(part * f32::from(count)) + 0.499) as i32
}

fn columns(matrix: &mut CompressedMatrix, rows: &Rows) -> Result<()> {
    let mut column = Vec::new();
    try_reserve(&mut column, rows.rows, "column")?;
    let mut sorted = Vec::new();
    try_reserve(&mut sorted, rows.rows, "column")?;
    let mut codes = Vec::new();
    try_reserve(&mut codes, rows.rows * rows.cols, "compressed matrix")?;
    for c in 0..rows.cols {
        column.clear();
        column.extend(rows.iter().map(|row| row[c]));
        sorted.clone_from(&column);
        let header = column_header(matrix, &mut sorted);
        for percentile in header {
            matrix.bytes.extend_from_slice(&percentile.to_le_bytes());
        }
        let percentiles = matrix.percentiles(header);
        codes.extend(column.iter().map(|&value| code(value, percentiles)));
    }
    debug_assert_eq!(matrix.bytes.len(), rows.cols * COLUMN_HEADER);
    matrix.bytes.append(&mut codes);
    Ok(())
}

/// The percentiles of a column. They are kept apart, so that none of the three pieces between them is empty.
fn column_header(matrix: &CompressedMatrix, column: &mut [f32]) -> ColumnHeader {
    let mut header = [0; 4];
    let mut next = 0;
    for ((percentile, value), highest) in header.iter_mut().zip(quartiles(column)).zip([65532, 65533, 65534, 65535]) {
        let least: i32 = next;
        let step = value.map_or(least, |value| steps(value, matrix.min, matrix.range, 65535));
        *percentile = step.max(least).min(highest);
        next = *percentile + 1;
    }
    header.map(|percentile| percentile as u16)
}

/// The least element, those a quarter and three quarters up, and the greatest; a column of fewer than five lacks the
/// higher ranks of its own order.
fn quartiles(column: &mut [f32]) -> [Option<f32>; 4] {
    let count = column.len();
    if count < 5 {
        column.sort_unstable_by(f32::total_cmp);
        return [0, 1, 2, 3].map(|rank| column.get(rank).copied());
    }
    let quarter = count / 4;
    // Finding two ranks costs far less than sorting.
    let (low, &mut first, rest) = column.select_nth_unstable_by(quarter, f32::total_cmp);
    let (_, &mut third, high) = rest.select_nth_unstable_by(2 * quarter - 1, f32::total_cmp);
    let least = low.iter().copied().min_by(f32::total_cmp);
    let most = high.iter().copied().max_by(f32::total_cmp);
    [least, Some(first), Some(third), most.or(Some(third))]
}

/// The code of an element between the percentiles of its column.
fn code(value: f32, [p0, p25, p75, p100]: [f32; 4]) -> u8 {
    let part = |low: f32, high: f32, count: f32| truncate(f64::from((value - low) / (high - low) * count) + 0.5);
    let code = if value < p25 {
        part(p0, p25, 64.0).clamp(0, 64)
    } else if value < p75 {
        part(p25, p75, 128.0).wrapping_add(64).clamp(64, 192)
    } else {
        part(p75, p100, 63.0).wrapping_add(192).clamp(192, 255)
    };
    code as u8
}

/// A float's whole part as the processors that Kaldi runs on give it: what does not fit is the least number. Percentiles
/// that fall together, in a column of large elements that hardly differ, lead to such.
fn truncate(value: f64) -> i32 {
    let whole = value.trunc();
    if (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&whole) { whole as i32 } else { i32::MIN }
}

/// See [`CompressedMatrix::piece`].
pub(super) fn piece(
    whole: &CompressedMatrix,
    row: i64,
    rows: usize,
    col: usize,
    cols: usize,
    pad_rows: bool,
) -> Result<CompressedMatrix> {
    if rows == 0 || cols == 0 {
        return Ok(CompressedMatrix::default());
    }
    let outside = || {
        Error::Shape(format!(
            "{rows} rows from {row} and {cols} columns from {col} are not within a matrix of {} by {}",
            whole.rows, whole.cols
        ))
    };
    let last_row = i64::try_from(rows - 1).ok().and_then(|more| row.checked_add(more)).ok_or_else(outside)?;
    let whole_rows = whole.rows as i64;
    let rows_fit = if pad_rows { row < whole_rows } else { row >= 0 && last_row < whole_rows };
    let cols_fit = col.checked_add(cols).is_some_and(|end| end <= whole.cols);
    if !rows_fit || !cols_fit || whole.rows == 0 {
        return Err(outside());
    }
    // Which row of the whole each row is a copy of.
    let source = |r: usize| (row + r as i64).clamp(0, whole_rows - 1) as usize;
    let mut bytes = Vec::new();
    let size = whole.format.size(rows, cols).ok_or_else(outside)?;
    try_reserve(&mut bytes, size, "compressed matrix")?;
    match whole.format {
        Format::Columns => {
            bytes.extend_from_slice(&whole.bytes[col * COLUMN_HEADER..(col + cols) * COLUMN_HEADER]);
            for c in col..col + cols {
                let Some((_, codes)) = whole.column(c) else { return Err(outside()) };
                bytes.extend((0..rows).map(|r| codes[source(r)]));
            }
        }
        Format::TwoBytes | Format::OneByte => {
            let width = if whole.format == Format::TwoBytes { 2 } else { 1 };
            for r in 0..rows {
                let start = (source(r) * whole.cols + col) * width;
                bytes.extend_from_slice(&whole.bytes[start..start + cols * width]);
            }
        }
    }
    let piece = CompressedMatrix { format: whole.format, min: whole.min, range: whole.range, rows, cols, bytes };
    if piece.format == Format::Columns && rows < FEWEST_ROWS {
        return CompressedMatrix::from_matrix(&piece.to_matrix()?, Method::TwoByteAuto);
    }
    Ok(piece)
}
