//! Forward-backward of a supervision, in the log domain and in float64: probabilities of what was said are far too
//! small for anything else, and there is no leak to hold them up.

use super::acceptor::Acceptor;
use super::end_to_end;
use super::scores::{ScoreAt, Scores, ScoresMut, Shape};
use super::supervision::{Paths, Supervision};
use crate::error::{Error, Result, try_reserve};

/// What is known of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Numerator {
    /// Log-probability of all sequences together, times the weight; end-to-end without it, as in Kaldi. Where it is
    /// not finite (`ok` is then false), -10 a frame stands for it.
    pub log_prob: f64,
    /// Whether the log-probability is finite.
    pub ok: bool,
}

/// Arrays that are kept from call to call.
#[derive(Debug, Default)]
pub(super) struct NumeratorWork {
    pub alpha: Vec<f64>,
    pub beta: Vec<f64>,
    pub occupancies: Vec<Occupancy>,
}

/// How likely an arc is in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occupancy {
    pub row: usize,
    pub pdf: u32,
    pub value: f32,
}

impl NumeratorWork {
    /// Takes the logarithm of an occupancy. Where scores are so large that their sums round by more than 1, it may be
    /// above 0; an occupancy is still at most 1.
    pub fn push(&mut self, row: usize, pdf: u32, log: f64) -> Result<()> {
        try_reserve(&mut self.occupancies, 1, WHAT)?;
        self.occupancies.push(Occupancy { row, pdf, value: log.exp().min(1.0) as f32 });
        Ok(())
    }
}

pub(super) const WHAT: &str = "chain numerator";

impl Supervision {
    /// The log-probability of what was said, given `scores`, which are not clamped, and, if wanted, weight times its
    /// derivative, which is added to a matrix of the same shape: the likelihood of each pdf in each frame.
    ///
    /// [`Error::Shape`] unless there is a row for each sequence and frame and a column for each pdf.
    pub fn forward_backward(&self, scores: Scores, derivative: Option<&mut ScoresMut>) -> Result<Numerator> {
        self.check(scores.shape())?;
        if let Some(matrix) = &derivative {
            matrix.shape().check(scores.shape(), "the derivative")?;
        }
        let mut work = NumeratorWork::default();
        let found = self.run(scores, derivative.is_some(), &mut work)?;
        if let Some(matrix) = derivative {
            for Occupancy { row, pdf, value } in &work.occupancies {
                matrix.row(*row)[*pdf as usize] += self.weight * value;
            }
        }
        Ok(found)
    }

    /// Refuses scores of another shape.
    pub(super) fn check(&self, Shape { rows, cols }: Shape) -> Result<()> {
        let (n, frames) = (self.num_sequences, self.frames_per_sequence);
        if n.checked_mul(frames) != Some(rows) {
            return Err(Error::Shape(format!(
                "the network output has {rows} rows for {n} sequences of {frames} frames"
            )));
        }
        if cols != self.label_dim {
            let pdfs = self.label_dim;
            return Err(Error::Shape(format!("the network output has {cols} columns, the supervision {pdfs} pdfs")));
        }
        Ok(())
    }

    /// The row of a time of the joined FST, in which sequences come one after the other.
    pub(super) fn row(&self, time: usize) -> usize {
        time / self.frames_per_sequence + self.num_sequences * (time % self.frames_per_sequence)
    }

    /// As [`Supervision::forward_backward`]; occupancies, without weight, are left in `work`, none unless `ok`.
    pub(super) fn run(&self, scores: impl ScoreAt, backward: bool, work: &mut NumeratorWork) -> Result<Numerator> {
        work.occupancies.clear();
        let weight = f64::from(self.weight);
        let total = match &self.paths {
            Paths::Joined { fst, times } => weight * joined(fst, times, |time| self.row(time), scores, backward, work)?,
            Paths::EndToEnd(fsts) => {
                let mut total = 0.0;
                for (sequence, fst) in fsts.iter().enumerate() {
                    let rows = |time: usize| time * self.num_sequences + sequence;
                    total += end_to_end::run(fst, self.frames_per_sequence, rows, scores, backward, work)?;
                }
                total
            }
        };
        if total.is_finite() {
            return Ok(Numerator { log_prob: total, ok: true });
        }
        work.occupancies.clear();
        let frames = self.num_sequences as f64 * self.frames_per_sequence as f64;
        Ok(Numerator { log_prob: weight * frames * super::denominator::DEFAULT_LOG_PROB, ok: false })
    }
}

/// The sequences one after the other, `row` telling where a time stands in the scores.
fn joined(
    fst: &Acceptor,
    times: &[u32],
    row: impl Fn(usize) -> usize,
    scores: impl ScoreAt,
    backward: bool,
    work: &mut NumeratorWork,
) -> Result<f64> {
    const NONE: f64 = f64::NEG_INFINITY;
    let score = |state: usize, label: i32| f64::from(scores.at(row(times[state] as usize), label as usize - 1));
    fill(&mut work.alpha, fst.num_states(), NONE)?;
    work.alpha[0] = 0.0;
    let mut total = NONE;
    for (state, &final_cost) in fst.finals.iter().enumerate() {
        let alpha = work.alpha[state];
        for arc in fst.arcs(state) {
            let through = alpha - f64::from(arc.cost) + score(state, arc.label);
            let next = &mut work.alpha[arc.next as usize];
            *next = log_add(*next, through);
        }
        if final_cost != f32::INFINITY {
            total = log_add(total, alpha - f64::from(final_cost));
        }
    }
    if !backward || !total.is_finite() {
        return Ok(total);
    }
    fill(&mut work.beta, fst.num_states(), NONE)?;
    for (state, &final_cost) in fst.finals.iter().enumerate().rev() {
        let (alpha, mut beta) = (work.alpha[state], -f64::from(final_cost));
        for arc in fst.arcs(state) {
            let after = work.beta[arc.next as usize];
            // What leads nowhere says nothing, whatever its score is.
            if after == NONE || alpha == NONE {
                continue;
            }
            let through = score(state, arc.label) - f64::from(arc.cost) + after;
            beta = log_add(beta, through);
            work.push(row(times[state] as usize), arc.label as u32 - 1, alpha + through - total)?;
        }
        work.beta[state] = beta;
    }
    told_apart(work.beta[0], total);
    Ok(total)
}

/// Says so where both directions disagree, as Kaldi does.
fn told_apart(backward: f64, forward: f64) {
    if (backward - forward).abs() > 0.001 * (backward.abs() + forward.abs()) {
        log::warn!(target: "chain", "numerator: log-probability {forward} forward, {backward} backward");
    }
}

/// Makes `vec` hold `len` times `value`.
pub(super) fn fill(vec: &mut Vec<f64>, len: usize, value: f64) -> Result<()> {
    vec.clear();
    try_reserve(vec, len, WHAT)?;
    vec.resize(len, value);
    Ok(())
}

/// The logarithm of a sum of which the logarithms of the parts are given. NaN if either is.
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (most, least) = if a >= b { (a, b) } else { (b, a) };
    if least == f64::NEG_INFINITY || most == f64::INFINITY {
        // No subtraction of infinities; a NaN among them is still one.
        return if least.is_nan() { least } else { most };
    }
    most + (least - most).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_logarithms() {
        let none = f64::NEG_INFINITY;
        assert_eq!(log_add(0.0, 0.0), 2f64.ln());
        assert!((log_add(1.0, -2.0) - (1f64.exp() + (-2f64).exp()).ln()).abs() < 1e-15);
        assert_eq!((log_add(none, 3.0), log_add(3.0, none), log_add(none, none)), (3.0, 3.0, none));
        assert_eq!(log_add(-2000.0, 5.0), 5.0);
        assert_eq!(
            (log_add(f64::INFINITY, 1.0), log_add(f64::INFINITY, f64::INFINITY)),
            (f64::INFINITY, f64::INFINITY)
        );
        for other in [0.0, none, f64::INFINITY, f64::NAN] {
            assert!(log_add(f64::NAN, other).is_nan() && log_add(other, f64::NAN).is_nan(), "{other}");
        }
    }
}
