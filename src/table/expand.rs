//! From the codes of a compressed matrix to its elements. Every score of a decoder may come through here.

use super::compressed::{ColumnHeader, CompressedMatrix, Format};

/// Columns that are expanded together: their elements fill one line of the processor's cache.
const COLUMNS: usize = 16;

/// Rows from which on a table of all 256 codes of a column costs less than computing each element.
const TABLE_ROWS: usize = 160;

impl CompressedMatrix {
    /// Writes all elements, row by row. `data` has as many places.
    pub(super) fn expand(&self, data: &mut [f32]) {
        match self.format {
            Format::Columns => self.expand_columns(data),
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
    }

    fn expand_columns(&self, data: &mut [f32]) {
        let mut tables = Box::new([[0.0; 256]; COLUMNS]);
        let with_tables = self.rows >= TABLE_ROWS;
        for first in (0..self.cols).step_by(COLUMNS) {
            let count = COLUMNS.min(self.cols - first);
            let mut pieces = [Pieces::default(); COLUMNS];
            let mut codes: [&[u8]; COLUMNS] = [&[]; COLUMNS];
            for k in 0..count {
                let Some((header, column)) = self.column(first + k) else { return };
                pieces[k] = Pieces::new(self.percentiles(header));
                codes[k] = column;
                if with_tables {
                    pieces[k].fill(&mut tables[k]);
                }
            }
            for (r, row) in data.chunks_exact_mut(self.cols).enumerate() {
                let row = &mut row[first..first + count];
                if with_tables {
                    for ((value, column), table) in row.iter_mut().zip(&codes).zip(tables.iter()) {
                        *value = table[usize::from(column[r])];
                    }
                } else {
                    for ((value, column), pieces) in row.iter_mut().zip(&codes).zip(&pieces) {
                        *value = pieces.value(column[r]);
                    }
                }
            }
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
        let mut fill = |codes: std::ops::RangeInclusive<usize>, piece: usize, first: i32, unit: f64| {
            let (start, width) = (f64::from(self.start[piece]), self.width[piece]);
            for code in codes {
                table[code] = (start + f64::from(width * (code as i32 - first) as f32) * unit) as f32;
            }
        };
        fill(0..=64, 0, 0, 1.0 / 64.0);
        fill(65..=192, 1, 64, 1.0 / 128.0);
        fill(193..=255, 2, 192, 1.0 / 63.0);
    }
}
