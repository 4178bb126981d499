//! From the codes of a compressed matrix to its elements. Every score of a decoder may come through here.

use super::compressed::{ColumnHeader, CompressedMatrix, Format};
use crate::error::{Result, try_filled};

/// Columns that are expanded one after the other over a block of rows: their elements share lines of the cache.
const COLUMNS: usize = 16;

/// Rows of such a block, so few that its lines stay in the nearest cache.
const ROWS: usize = 128;

/// Rows from which on a table of all 256 codes of a column costs less than computing each element.
const TABLE_ROWS: usize = 100;

impl CompressedMatrix {
    /// Writes all elements, row by row. `data` has as many places.
    pub(super) fn expand(&self, data: &mut [f32]) -> Result<()> {
        match self.format {
            Format::Columns => self.expand_columns(data)?,
            Format::TwoBytes => {
                let step = step(self.range, 1.0 / 65535.0);
                let (codes, _) = self.bytes.as_chunks::<2>();
                for (value, code) in data.iter_mut().zip(codes) {
                    *value = self.min + f32::from(u16::from_le_bytes(*code)) * step;
                }
            }
            Format::OneByte => {
                let step = step(self.range, 1.0 / 255.0);
                for (value, &code) in data.iter_mut().zip(&self.bytes) {
                    *value = self.min + f32::from(code) * step;
                }
            }
        }
        Ok(())
    }

    fn expand_columns(&self, data: &mut [f32]) -> Result<()> {
        if self.rows < TABLE_ROWS {
            (0..self.cols).for_each(|c| self.expand_short_column(c, data));
            return Ok(());
        }
        let mut tables = try_filled([0.0; 256], COLUMNS, "tables of a matrix")?;
        for first in (0..self.cols).step_by(COLUMNS) {
            let columns = first..self.cols.min(first + COLUMNS);
            for (c, table) in columns.clone().zip(tables.iter_mut()) {
                let Some((header, _)) = self.column(c) else { return Ok(()) };
                Pieces::new(self.percentiles(header)).fill(table);
            }
            for (block, rows) in data.chunks_mut(ROWS * self.cols).enumerate() {
                for (c, table) in columns.clone().zip(tables.iter()) {
                    let Some(codes) = self.column(c).and_then(|(_, codes)| codes.get(block * ROWS..)) else {
                        return Ok(());
                    };
                    for (row, &code) in rows.chunks_exact_mut(self.cols).zip(codes) {
                        row[c] = table[usize::from(code)];
                    }
                }
            }
        }
        Ok(())
    }

    fn expand_short_column(&self, c: usize, data: &mut [f32]) {
        let Some((header, codes)) = self.column(c) else { return };
        let pieces = Pieces::new(self.percentiles(header));
        for (row, &code) in data.chunks_exact_mut(self.cols).zip(codes) {
            row[c] = pieces.value(code);
        }
    }

    /// The percentiles of a column as floats.
    pub(super) fn percentiles(&self, header: ColumnHeader) -> [f32; 4] {
        const UNIT: f32 = 1.0 / 65535.0;
        header.map(|p| self.min + (self.range * UNIT) * f32::from(p))
    }
}

/// Size of one step; the product is rounded once, from double.
fn step(range: f32, unit: f64) -> f32 {
    (f64::from(range) * unit) as f32
}

/// The three linear pieces of a column: codes 0 to 64, 64 to 192 and 192 to 255.
#[derive(Clone, Copy, Default)]
struct Pieces {
    start: [f32; 3],
    width: [f32; 3],
}

impl Pieces {
    fn new([p0, p25, p75, p100]: [f32; 4]) -> Pieces {
        Pieces { start: [p0, p25, p75], width: [p25 - p0, p75 - p25, p100 - p75] }
    }

    /// The element of a code: the width times the code is a `float`, the rest is done in `double`.
    #[inline]
    fn value(&self, code: u8) -> f32 {
        const FIRST: [i32; 3] = [0, 64, 192];
        const UNIT: [f64; 3] = [1.0 / 64.0, 1.0 / 128.0, 1.0 / 63.0];
        let piece = usize::from(code > 64) + usize::from(code > 192);
        let steps = (i32::from(code) - FIRST[piece]) as f32;
        (f64::from(self.start[piece]) + f64::from(self.width[piece] * steps) * UNIT[piece]) as f32
    }

    fn fill(&self, table: &mut [f32; 256]) {
        const STEPS: [f32; 129] = {
            let mut steps = [0.0; 129];
            let mut step = 0;
            while step < 129 {
                steps[step] = step as f32;
                step += 1;
            }
            steps
        };
        // The second and third piece begin with their step 1: their step 0 is the end of the piece before.
        let (low, rest) = table.split_at_mut(65);
        let (middle, high) = rest.split_at_mut(128);
        let fill = |part: &mut [f32], first: usize, piece: usize, unit: f64| {
            let (start, width) = (f64::from(self.start[piece]), self.width[piece]);
            for (value, step) in part.iter_mut().zip(&STEPS[first..]) {
                *value = (start + f64::from(width * step) * unit) as f32;
            }
        };
        fill(low, 0, 0, 1.0 / 64.0);
        fill(middle, 1, 1, 1.0 / 128.0);
        fill(high, 1, 2, 1.0 / 63.0);
    }
}
