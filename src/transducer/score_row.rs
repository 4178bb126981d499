//! Rows of scores, as searches look at them.

use super::row_scan::usable;
use crate::error::Error;

/// What turns the values of a row into log-probabilities, by subtraction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Norm {
    pub max: f32,
    pub log_sum: f32,
}

/// A label and its value in the row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Top {
    pub label: i32,
    pub value: f32,
}

/// A row of scores over the vocabulary.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreRow<'a> {
    pub values: &'a [f32],
    pub norm: Norm,
    /// The best labels that were wanted of it, best first.
    pub tops: &'a [Top],
}

impl ScoreRow<'_> {
    /// Natural log of the probability of `label`.
    pub fn log_prob(&self, label: i32) -> f32 {
        let value = self.values.get(label as usize);
        value.map_or(f32::NEG_INFINITY, |value| self.log_prob_of(*value))
    }

    /// The same of a value in the row.
    pub fn log_prob_of(&self, value: f32) -> f32 {
        value - self.norm.max - self.norm.log_sum
    }
}

/// The error for a row with a value that cannot be used: its first one.
#[cold]
pub(super) fn unusable(values: &[f32], frame: u64) -> Error {
    let found = values.iter().enumerate().find(|(_, value)| !usable(**value));
    let (column, value) = found.map_or((0, f32::NAN), |(column, value)| (column, *value));
    Error::Scores { frame, column, value }
}

/// `ln(exp(one) + exp(two))` in double precision.
pub(super) fn log_add(one: f64, two: f64) -> f64 {
    let (high, low) = if one >= two { (one, two) } else { (two, one) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_add_is_exact_at_its_ends() {
        assert!((log_add(0.2f64.ln(), 0.3f64.ln()) - 0.5f64.ln()).abs() < 1e-15);
        assert_eq!(log_add(f64::NEG_INFINITY, -3.0), -3.0);
        assert_eq!(log_add(f64::NEG_INFINITY, f64::NEG_INFINITY), f64::NEG_INFINITY);
    }
}
