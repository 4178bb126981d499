//! Forward-backward of one sequence over an FST with cycles, in the log domain and in float64. Paths have one arc a
//! frame and end in a final state.

use super::acceptor::Acceptor;
use super::numerator::{NumeratorWork, WHAT, fill, log_add};
use super::scores::ScoreAt;
use crate::error::{Error, Result};

const NONE: f64 = f64::NEG_INFINITY;

/// The log-probability; occupancies are added to `work`. `row` tells where a frame stands in the scores.
pub(super) fn run(
    fst: &Acceptor,
    frames: usize,
    row: impl Fn(usize) -> usize,
    scores: impl ScoreAt,
    backward: bool,
    work: &mut NumeratorWork,
) -> Result<f64> {
    let states = fst.num_states();
    let size = frames.checked_add(1).and_then(|times| times.checked_mul(states));
    let size = size.ok_or_else(|| Error::NoMemory { what: WHAT.into(), asked: u64::MAX })?;
    fill(&mut work.alpha, size, NONE)?;
    work.alpha[0] = 0.0;
    for frame in 0..frames {
        let row = row(frame);
        let (before, after) = work.alpha.split_at_mut((frame + 1) * states);
        for (state, &alpha) in before[frame * states..].iter().enumerate().filter(|(_, alpha)| **alpha != NONE) {
            for arc in fst.arcs(state) {
                let through = alpha - f64::from(arc.cost) + f64::from(scores.at(row, arc.label as usize - 1));
                let next = &mut after[arc.next as usize];
                *next = log_add(*next, through);
            }
        }
    }
    let last = &work.alpha[frames * states..];
    let ends = last.iter().zip(&fst.finals).filter(|(_, cost)| **cost != f32::INFINITY);
    let total = ends.fold(NONE, |total, (alpha, cost)| log_add(total, alpha - f64::from(*cost)));
    if backward && total.is_finite() {
        occupancies(fst, frames, row, scores, total, work)?;
    }
    Ok(total)
}

fn occupancies(
    fst: &Acceptor,
    frames: usize,
    row: impl Fn(usize) -> usize,
    scores: impl ScoreAt,
    total: f64,
    work: &mut NumeratorWork,
) -> Result<()> {
    let states = fst.num_states();
    // Betas of this frame, then of the next.
    fill(&mut work.beta, 2 * states, NONE)?;
    for (beta, &cost) in work.beta[states..].iter_mut().zip(&fst.finals) {
        *beta = -f64::from(cost);
    }
    for frame in (0..frames).rev() {
        let row = row(frame);
        for state in 0..states {
            let alpha = work.alpha[frame * states + state];
            let mut beta = NONE;
            for arc in fst.arcs(state) {
                let after = work.beta[states + arc.next as usize];
                // What leads nowhere says nothing, whatever its score is.
                if after == NONE || alpha == NONE {
                    continue;
                }
                let through = f64::from(scores.at(row, arc.label as usize - 1)) - f64::from(arc.cost) + after;
                beta = log_add(beta, through);
                work.push(row, arc.label as u32 - 1, alpha + through - total)?;
            }
            work.beta[state] = beta;
        }
        work.beta.copy_within(..states, states);
    }
    Ok(())
}
