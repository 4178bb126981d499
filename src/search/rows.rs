//! Rows of log-likelihoods: how a caller's memory is looked at, checked and scaled.

use crate::error::{Error, Result};

/// A borrowed matrix of log-likelihoods, `frames` rows of `dim` columns, `stride` elements apart.
/// Elements between `dim` and `stride` are never read.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: &'a [f32],
    frames: usize,
    dim: usize,
    stride: usize,
}

impl<'a> Rows<'a> {
    /// A view of `data`, which must hold `(frames - 1) * stride + dim` elements.
    pub fn new(data: &'a [f32], frames: usize, dim: usize, stride: usize) -> Result<Rows<'a>> {
        if stride < dim {
            return Err(Error::Shape(format!("stride {stride} is below the width {dim}")));
        }
        let needed = Rows::elements(frames, dim, stride);
        if needed.is_none_or(|needed| needed > data.len()) {
            return Err(Error::Shape(format!(
                "{frames} rows of {dim} columns at stride {stride} do not fit {} elements",
                data.len()
            )));
        }
        Ok(Rows { data, frames, dim, stride })
    }

    /// Elements that such a matrix spans, `None` where the count overflows.
    pub fn elements(frames: usize, dim: usize, stride: usize) -> Option<usize> {
        match frames.checked_sub(1) {
            None => Some(0),
            Some(gaps) => gaps.checked_mul(stride)?.checked_add(dim),
        }
    }

    /// Rows without padding.
    pub fn dense(data: &'a [f32], dim: usize) -> Result<Rows<'a>> {
        let frames = data.len().checked_div(dim).unwrap_or(0);
        Rows::new(data, frames, dim, dim)
    }

    /// Number of rows.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Number of columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Row `frame`.
    pub fn row(&self, frame: usize) -> &'a [f32] {
        let start = frame * self.stride;
        &self.data[start..start + self.dim]
    }

    /// Rows `from..from + count`, as far as they are there.
    pub fn slice(&self, from: usize, count: usize) -> Rows<'a> {
        let from = from.min(self.frames);
        let frames = count.min(self.frames - from);
        let start = (from * self.stride).min(self.data.len());
        Rows { data: &self.data[start..], frames, dim: self.dim, stride: self.stride }
    }
}

/// Writes `-(scale * ll)` of each column to `costs`, `+inf` for a log-likelihood of `-inf`.
///
/// NaN, `+inf`, and values whose scaled cost would be `-inf` are refused; the least such
/// column is named. `costs` has at least the length of `row`.
pub fn scale_row(row: &[f32], scale: f32, frame: u64, costs: &mut [f32]) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    let good = if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was just asked.
        unsafe { scale_avx2(row, scale, costs) }
    } else {
        scale_plain(row, scale, costs)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let good = scale_plain(row, scale, costs);
    if good {
        return Ok(());
    }
    let column = first_unusable(row, scale).unwrap_or(0);
    Err(Error::Scores { frame, column, value: row.get(column).copied().unwrap_or(f32::NAN) })
}

/// Scales all, and tells whether all are usable.
#[inline(always)]
fn scale_plain(row: &[f32], scale: f32, costs: &mut [f32]) -> bool {
    let mut good = true;
    for (cost, &ll) in costs.iter_mut().zip(row) {
        let scaled = -(scale * ll);
        // `-inf` is "no such arc", whatever the scale (0 * -inf would be NaN).
        *cost = if ll == f32::NEG_INFINITY { f32::INFINITY } else { scaled };
        good &= usable(ll, scaled);
    }
    good
}

/// The same code for wider vectors. Each value is rounded once, so the bits are the same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scale_avx2(row: &[f32], scale: f32, costs: &mut [f32]) -> bool {
    scale_plain(row, scale, costs)
}

/// The least column of `row` that [`scale_row`] refuses.
pub fn first_unusable(row: &[f32], scale: f32) -> Option<usize> {
    // Without a branch first: nearly all rows are good.
    let good = row.iter().fold(true, |good, &ll| good & usable(ll, -(scale * ll)));
    if good { None } else { row.iter().position(|&ll| !usable(ll, -(scale * ll))) }
}

#[inline(always)]
fn usable(ll: f32, scaled: f32) -> bool {
    const INFINITY: u32 = f32::INFINITY.to_bits();
    const NEG_INFINITY: u32 = f32::NEG_INFINITY.to_bits();
    // By bits: of comparisons with NaN that compilers choose, valgrind has some wrong.
    let (ll, scaled) = (ll.to_bits(), scaled.to_bits());
    (ll == NEG_INFINITY) | ((ll & !(1 << 31) < INFINITY) & (scaled != NEG_INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_and_keeps_minus_infinity_apart() {
        let mut costs = [0.0; 4];
        scale_row(&[-1.0, f32::NEG_INFINITY, 2.0, 0.0], 0.5, 0, &mut costs).unwrap();
        assert_eq!(costs[..3], [0.5, f32::INFINITY, -1.0]);
        scale_row(&[-1.0, f32::NEG_INFINITY], 0.0, 0, &mut costs).unwrap();
        assert_eq!(costs[1], f32::INFINITY);
        scale_row(&[-1.0, f32::NEG_INFINITY], -1.0, 0, &mut costs).unwrap();
        assert_eq!(costs[..2], [-1.0, f32::INFINITY]);
    }

    #[test]
    fn names_the_least_bad_column() {
        let mut costs = [0.0; 3];
        for bad in [f32::NAN, f32::INFINITY] {
            let error = scale_row(&[0.0, bad, bad], 1.0, 7, &mut costs).unwrap_err();
            assert!(matches!(error, Error::Scores { frame: 7, column: 1, .. }), "{error}");
        }
        let error = scale_row(&[0.0, 0.0, 3e38], 10.0, 7, &mut costs).unwrap_err();
        assert!(matches!(error, Error::Scores { column: 2, .. }), "{error}");
    }

    /// Rows of all lengths round those of vectors, with something odd in each place.
    #[test]
    fn each_column_is_looked_at() {
        for len in 1..40 {
            let row: Vec<f32> = (0..len).map(|at| at as f32 - 7.5).collect();
            let mut costs = vec![f32::NAN; len + 1];
            scale_row(&row, 0.1, 0, &mut costs).unwrap();
            assert!(row.iter().zip(&costs).all(|(ll, cost)| cost.to_bits() == (-(0.1 * ll)).to_bits()));
            for at in 0..len {
                for (odd, scale, good) in [
                    (f32::NAN, 1.0, false),
                    (f32::INFINITY, 1.0, false),
                    (f32::NEG_INFINITY, -2.0, true),
                    (f32::MAX, 2.0, false),
                    (f32::MAX, -2.0, true),
                    (-f32::MAX, 2.0, true),
                ] {
                    let mut row = row.clone();
                    row[at] = odd;
                    let scaled = scale_row(&row, scale, 0, &mut costs);
                    assert_eq!(scaled.is_ok(), good, "{odd} at {at} of {len}");
                    assert_eq!(first_unusable(&row, scale), if good { None } else { Some(at) });
                    assert!(!good || costs[at] == f32::INFINITY);
                }
            }
        }
    }

    #[test]
    fn padding_is_never_part_of_a_row() {
        let data = [1.0, 2.0, f32::NAN, 3.0, 4.0];
        let rows = Rows::new(&data, 2, 2, 3).unwrap();
        assert_eq!(rows.row(0), [1.0, 2.0]);
        assert_eq!(rows.row(1), [3.0, 4.0]);
        assert_eq!(rows.slice(1, 5).row(0), [3.0, 4.0]);
        assert_eq!(rows.slice(2, 5).frames(), 0);
        assert!(Rows::new(&data, 3, 2, 3).is_err());
        assert!(Rows::new(&data, 2, 3, 2).is_err());
        assert!(Rows::new(&data, usize::MAX, 3, 3).is_err());
        assert_eq!(Rows::new(&[], 0, 3, 3).unwrap().frames(), 0);
    }
}
