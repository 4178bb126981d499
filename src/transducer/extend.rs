//! What a hypothesis may become: itself, later, or one label longer.

use std::cmp::Ordering;

use super::base::{Base, Hyp};
use super::model::Part;
use super::score_row::{ScoreRow, usable};
use crate::error::{Error, Result, try_reserve};

/// In place of a label: the hypothesis stays as it is. Comes before all labels.
pub(super) const STAYS: i32 = -1;

/// A hypothesis to be, before it is known whether it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub score: f64,
    /// Score of its best single alignment.
    pub best: f64,
    /// Place of the hypothesis that it comes from, the older the lower.
    pub from: u32,
    /// Label that is added, or [`STAYS`].
    pub label: i32,
    pub log_prob: f32,
    pub lm: f32,
    pub bias: f32,
    pub bias_state: u32,
}

/// Better first; of equal ones the smaller label, then the older hypothesis.
pub(super) fn order(a: &Candidate, b: &Candidate) -> Ordering {
    b.score.total_cmp(&a.score).then(a.label.cmp(&b.label)).then(a.from.cmp(&b.from))
}

/// Keeps the best `count`, in order.
pub(super) fn keep_best(candidates: &mut Vec<Candidate>, count: usize) {
    if count > 0 && candidates.len() > count {
        candidates.select_nth_unstable_by(count - 1, order);
    }
    candidates.truncate(count);
    candidates.sort_unstable_by(order);
}

/// Adds the candidate that stays as it is, `gain` later, unless that is forbidden.
pub(super) fn stay(hyp: &Hyp, from: u32, gain: f32, candidates: &mut Vec<Candidate>) -> Result<()> {
    if gain == f32::NEG_INFINITY {
        return Ok(());
    }
    try_reserve(candidates, 1, "candidates")?;
    candidates.push(Candidate {
        score: hyp.score + f64::from(gain),
        best: hyp.best + f64::from(gain),
        from,
        label: STAYS,
        log_prob: gain,
        lm: 0.0,
        bias: 0.0,
        bias_state: hyp.bias,
    });
    Ok(())
}

/// Adds the extensions of `hyp` by the best labels of `row`, which is about `frame`; with phrases
/// also those by the labels that they wish for.
pub(super) fn extend(
    base: &mut Base,
    hyp: &Hyp,
    from: u32,
    row: &ScoreRow<'_>,
    frame: u64,
    candidates: &mut Vec<Candidate>,
) -> Result<()> {
    let mut tops = std::mem::take(&mut base.tops);
    let result = try_reserve(&mut tops, base.width + 1, "best labels").and_then(|()| {
        row.best(base.width, base.shape.blank, &mut tops);
        try_reserve(candidates, tops.len(), "candidates")?;
        for top in &tops {
            candidates.extend(candidate(base, hyp, from, row, frame, top.label)?);
        }
        let Some(phrases) = base.phrases.clone() else { return Ok(()) };
        for label in phrases.wanted(hyp.bias) {
            if tops.iter().all(|top| top.label != label) {
                try_reserve(candidates, 1, "candidates")?;
                candidates.extend(candidate(base, hyp, from, row, frame, label)?);
            }
        }
        Ok(())
    });
    base.tops = tops;
    result
}

/// The extension by one label; `None` if it is forbidden.
fn candidate(
    base: &Base,
    hyp: &Hyp,
    from: u32,
    row: &ScoreRow<'_>,
    frame: u64,
    label: i32,
) -> Result<Option<Candidate>> {
    let log_prob = row.log_prob(label);
    let lm = if base.uses_lm { lm_score(base, hyp.node, frame, label)? } else { 0.0 };
    if log_prob == f32::NEG_INFINITY || lm == f32::NEG_INFINITY {
        return Ok(None);
    }
    let (bias_state, bias) = match &base.phrases {
        Some(phrases) => phrases.step(hyp.bias, label),
        None => (hyp.bias, 0.0),
    };
    let gain = f64::from(log_prob) + f64::from(lm) + f64::from(bias);
    let (score, best) = (hyp.score + gain, hyp.best + gain);
    Ok(Some(Candidate { score, best, from, label, log_prob, lm, bias, bias_state }))
}

/// What the language model adds for a label.
fn lm_score(base: &Base, node: u32, frame: u64, label: i32) -> Result<f32> {
    let row = base.histories.row(Part::LanguageModel, node);
    let value = row.get(label as usize).copied().unwrap_or(f32::NEG_INFINITY);
    let weighted = if value == f32::NEG_INFINITY { value } else { base.config.lm_weight * value };
    if usable(value) && usable(weighted) {
        return Ok(weighted);
    }
    Err(Error::Scores { frame, column: label as usize, value }.context("language model"))
}
