//! Rows of scores: normalised, checked, and their best labels.

use super::model::ScoreKind;
use crate::error::{Error, Result};

/// How many values are worked on side by side: a few vectors, since each addition waits for the one before.
const LANES: usize = 32;

/// How many values are looked at together for the best labels.
const BLOCK: usize = 2 * LANES;

/// What turns the values of a row into log-probabilities, by subtraction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Norm {
    max: f32,
    log_sum: f32,
}

impl Norm {
    /// Of a row that the joint network gave at `frame`. NaN and `+inf` are refused.
    pub fn of(values: &[f32], kind: ScoreKind, frame: u64) -> Result<Norm> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as was just asked.
            return unsafe { Norm::of_avx2(values, kind, frame) };
        }
        Norm::of_plain(values, kind, frame)
    }

    /// The same code for wider vectors. Without fused multiplications the bits are the same.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn of_avx2(values: &[f32], kind: ScoreKind, frame: u64) -> Result<Norm> {
        Norm::of_plain(values, kind, frame)
    }

    #[inline(always)]
    fn of_plain(values: &[f32], kind: ScoreKind, frame: u64) -> Result<Norm> {
        let (max, good) = max_and_check(values);
        if !good {
            return Err(unusable(values, frame));
        }
        // Of a row without any allowed label nothing is taken, whatever is subtracted.
        if kind == ScoreKind::LogProbs || max == f32::NEG_INFINITY {
            return Ok(Norm::default());
        }
        Ok(Norm { max, log_sum: sum_of_exps(values, max).ln() as f32 })
    }
}

/// A row of scores over the vocabulary.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreRow<'a> {
    pub values: &'a [f32],
    pub norm: Norm,
}

impl ScoreRow<'_> {
    /// Natural log of the probability of `label`.
    pub fn log_prob(&self, label: i32) -> f32 {
        let value = self.values.get(label as usize);
        value.map_or(f32::NEG_INFINITY, |value| value - self.norm.max - self.norm.log_sum)
    }

    /// The best `count` labels without `blank`, best first, of equal ones the smaller first; labels of
    /// log-probability `-inf` are left out.
    pub fn best(&self, count: usize, blank: i32, found: &mut Vec<Top>) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as was just asked.
            return unsafe { self.best_avx2(count, blank, found) };
        }
        self.best_plain(count, blank, found);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn best_avx2(&self, count: usize, blank: i32, found: &mut Vec<Top>) {
        self.best_plain(count, blank, found);
    }

    #[inline(always)]
    fn best_plain(&self, count: usize, blank: i32, found: &mut Vec<Top>) {
        found.clear();
        let Some(last) = count.checked_sub(1) else { return };
        let mut least = self.bound(last, blank);
        for (block, values) in self.values.chunks(BLOCK).enumerate() {
            // Most blocks have nothing to add; to find that out takes no branch a value.
            if !values.iter().fold(false, |any, value| any | (*value > least)) {
                continue;
            }
            for (at, &value) in values.iter().enumerate() {
                let label = (block * BLOCK + at) as i32;
                if value > least && label != blank {
                    if found.len() == count {
                        found.pop();
                    }
                    let place = found.partition_point(|top| top.value >= value);
                    found.insert(place, Top { label, value });
                    if found.len() == count {
                        least = found.last().map_or(least, |top| top.value);
                    }
                }
            }
        }
    }

    /// A value that all of the best `last + 1` labels are above. The best of labels that are [`BLOCK`] apart are different
    /// labels, so that the least of the best `last + 1` of them bounds what is to be found.
    #[inline(always)]
    fn bound(&self, last: usize, blank: i32) -> f32 {
        // (A single best one is found by the way.)
        if last == 0 || last >= BLOCK {
            return f32::NEG_INFINITY;
        }
        let mut bests = [f32::NEG_INFINITY; BLOCK];
        let (blocks, rest) = self.values.as_chunks::<BLOCK>();
        for block in blocks {
            for lane in 0..BLOCK {
                bests[lane] = if block[lane] > bests[lane] { block[lane] } else { bests[lane] };
            }
        }
        for (best, value) in bests.iter_mut().zip(rest) {
            *best = best.max(*value);
        }
        if let Some(lane) = usize::try_from(blank).ok().map(|blank| blank % BLOCK) {
            let labels = (lane..).step_by(BLOCK).zip(self.values.iter().skip(lane).step_by(BLOCK));
            let others = labels.filter(|(label, _)| *label != blank as usize);
            bests[lane] = others.fold(f32::NEG_INFINITY, |best, (_, value)| best.max(*value));
        }
        let bound = *bests.select_nth_unstable_by(last, |one, two| two.total_cmp(one)).1;
        // What equals it still counts.
        if bound == f32::NEG_INFINITY { bound } else { bound.next_down() }
    }
}

/// A label and its value in the row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Top {
    pub label: i32,
    value: f32,
}

/// The error for a row with a value that cannot be used: its first one.
#[cold]
pub(super) fn unusable(values: &[f32], frame: u64) -> Error {
    let found = values.iter().enumerate().find(|(_, value)| !usable(**value));
    let (column, value) = found.map_or((0, f32::NAN), |(column, value)| (column, *value));
    Error::Scores { frame, column, value }
}

/// Whether a score is a number below infinity.
pub(super) fn usable(value: f32) -> bool {
    value <= f32::MAX
}

/// The largest value, and whether all are usable.
#[inline(always)]
fn max_and_check(values: &[f32]) -> (f32, bool) {
    let mut max = [f32::NEG_INFINITY; LANES];
    let mut bad = [0u32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            max[lane] = if chunk[lane] > max[lane] { chunk[lane] } else { max[lane] };
            bad[lane] |= u32::from(!usable(chunk[lane]));
        }
    }
    let fold = |max: f32, value: &f32| if *value > max { *value } else { max };
    let best = max.iter().chain(rest).fold(f32::NEG_INFINITY, fold);
    (best, bad.iter().all(|bad| *bad == 0) && rest.iter().all(|value| usable(*value)))
}

/// Sum of `exp(value - max)`, in lanes of single precision that are added up in double precision
/// every few hundred values.
#[inline(always)]
fn sum_of_exps(values: &[f32], max: f32) -> f64 {
    let mut total = 0.0;
    for block in values.chunks(16 * LANES) {
        let mut sums = [0.0f32; LANES];
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                sums[lane] += exp(chunk[lane] - max);
            }
        }
        total += sums.iter().map(|sum| f64::from(*sum)).sum::<f64>();
        total += rest.iter().map(|value| f64::from(exp(value - max))).sum::<f64>();
    }
    total
}

/// `exp` of a number that is not above 0, to 2 units in the last place; below -87 it stays at the
/// value there. Multiplications and additions only, so that compilers work on many side by side
/// and every machine gets the same bits.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, the first with so few digits that multiples of it are exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Adding it leaves the nearest whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = if x > -87.0 { x } else { -87.0 };
    let shifted = x * LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let r = x - whole * LN_2_HIGH - whole * LN_2_LOW;
    // The polynomial of Cephes' expf.
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    f32::from_bits((p.to_bits() as i32).wrapping_add(exponent << 23) as u32)
}

/// `ln(exp(one) + exp(two))` in double precision.
pub(super) fn log_add(one: f64, two: f64) -> f64 {
    let (high, low) = if one >= two { (one, two) } else { (two, one) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[f32], kind: ScoreKind) -> ScoreRow<'_> {
        ScoreRow { values, norm: Norm::of(values, kind, 0).unwrap() }
    }

    #[test]
    fn exp_is_within_two_units() {
        let mut worst = 0;
        for step in 0..870_000 {
            let x = -(step as f32) / 1e4;
            let wanted = f64::from(x).exp() as f32;
            worst = worst.max((exp(x).to_bits() as i64 - wanted.to_bits() as i64).abs());
        }
        assert!(worst <= 2, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
    }

    /// Log-softmax by definition.
    fn plain(values: &[f32]) -> Vec<f64> {
        let max = values.iter().fold(f32::NEG_INFINITY, |max, value| max.max(*value));
        let sum: f64 = values.iter().map(|value| f64::from(value - max).exp()).sum();
        values.iter().map(|value| f64::from(value - max) - sum.ln()).collect()
    }

    fn values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 1e6 - 8.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn rows_of_all_lengths_are_normalised() {
        for count in [2, 3, 7, 8, 9, 31, 500, 5_000] {
            let values = values(count, count as u32);
            let row = seen(&values, ScoreKind::Logits);
            for (label, wanted) in plain(&values).into_iter().enumerate() {
                let found = f64::from(row.log_prob(label as i32));
                assert!((found - wanted).abs() < 2e-6 * wanted.abs().max(1.0), "{count} {label}: {found} {wanted}");
            }
            let row = seen(&values, ScoreKind::LogProbs);
            assert_eq!(row.log_prob(1), values[1]);
        }
    }

    #[test]
    fn wider_vectors_give_the_same_bits() {
        for count in [2, 31, 32, 33, 500, 5_000] {
            let values = values(count, count as u32);
            let row = seen(&values, ScoreKind::Logits);
            let plain = Norm::of_plain(&values, ScoreKind::Logits, 0).unwrap();
            assert_eq!(
                [row.norm.max, row.norm.log_sum].map(f32::to_bits),
                [plain.max, plain.log_sum].map(f32::to_bits)
            );
            let (mut wide, mut narrow) = (Vec::new(), Vec::new());
            row.best(16.min(count - 1), 1, &mut wide);
            row.best_plain(16.min(count - 1), 1, &mut narrow);
            assert_eq!(wide, narrow);
        }
    }

    #[test]
    fn the_best_are_those_of_a_sorted_row() {
        for (count, blank) in [(2, 0), (3, 2), (40, 7), (500, 499), (500, -1), (2047, 64), (2048, 0), (6_500, 3_000)] {
            // Many ties.
            let values: Vec<f32> = values(count, 5).into_iter().map(|value| value.round() + 0.0).collect();
            let row = seen(&values, ScoreKind::Logits);
            let mut sorted: Vec<i32> = (0..count as i32).filter(|label| *label != blank).collect();
            sorted.sort_by(|a, b| values[*b as usize].total_cmp(&values[*a as usize]));
            let mut found = Vec::new();
            for want in [0, 1, 2, 5, 16, 63, 64, 65, count - 1] {
                row.best(want.min(count - 1), blank, &mut found);
                let labels: Vec<i32> = found.iter().map(|top| top.label).collect();
                assert_eq!(labels, sorted[..want.min(count - 1)], "{want} of {count}");
            }
        }
    }

    #[test]
    fn what_is_forbidden_is_never_taken_and_what_is_no_number_is_refused() {
        let low = f32::NEG_INFINITY;
        let (values, none) = ([low, 1.0, low, low], [low; 9]);
        let row = seen(&values, ScoreKind::Logits);
        let mut found = Vec::new();
        row.best(3, 0, &mut found);
        assert_eq!(found.iter().map(|top| top.label).collect::<Vec<_>>(), [1]);
        assert_eq!((row.log_prob(1), row.log_prob(0)), (0.0, low));
        let row = seen(&none, ScoreKind::Logits);
        assert_eq!(row.log_prob(3), low);
        for bad in [f32::NAN, f32::INFINITY] {
            for at in 0..9 {
                let mut values = [0.5; 9];
                values[at] = bad;
                match Norm::of(&values, ScoreKind::LogProbs, 7) {
                    Err(Error::Scores { frame: 7, column, .. }) => assert_eq!(column, at),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn log_add_is_exact_at_its_ends() {
        assert!((log_add(0.2f64.ln(), 0.3f64.ln()) - 0.5f64.ln()).abs() < 1e-15);
        assert_eq!(log_add(f64::NEG_INFINITY, -3.0), -3.0);
        assert_eq!(log_add(f64::NEG_INFINITY, f64::NEG_INFINITY), f64::NEG_INFINITY);
    }
}
