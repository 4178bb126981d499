//! What a hypothesis may become: itself, later, or one label longer.

use std::cmp::Ordering;

use super::base::{Base, Hyp};
use super::model::Part;
use super::row_scan::usable;
use super::score_row::ScoreRow;
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

/// Candidates, of which only those that may be among the best are kept.
#[derive(Default)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
    /// How many are wanted.
    count: usize,
    /// What is below it is not among them.
    least: f64,
    /// The best score that was below it.
    pub passed_over: f64,
}

impl Candidates {
    /// Begins anew: the best `count` are wanted, and none below `least`.
    pub fn begin(&mut self, count: usize, least: f64) {
        self.list.clear();
        (self.count, self.least, self.passed_over) = (count, least, f64::NEG_INFINITY);
    }

    /// Whether it may be among the best.
    fn wants(&mut self, score: f64) -> bool {
        if score < self.least {
            self.passed_over = self.passed_over.max(score);
        }
        score >= self.least
    }

    fn push(&mut self, candidate: Candidate) -> Result<()> {
        if self.list.len() >= self.count.saturating_mul(2) {
            self.cut();
            self.least = self.list.last().map_or(self.least, |worst| worst.score);
        }
        try_reserve(&mut self.list, 1, "candidates")?;
        self.list.push(candidate);
        Ok(())
    }

    /// Leaves the best `count`, the worst of them last.
    fn cut(&mut self) {
        if self.count > 0 && self.list.len() > self.count {
            self.list.select_nth_unstable_by(self.count - 1, order);
        }
        self.list.truncate(self.count);
    }

    /// The best, in order.
    pub fn best(&mut self) -> &[Candidate] {
        self.cut();
        self.list.sort_unstable_by(order);
        &self.list
    }

    /// All that were not passed over.
    pub fn all(&self) -> &[Candidate] {
        &self.list
    }
}

/// Adds the candidate that stays as it is, `gain` later, unless that is forbidden.
pub(super) fn stay(hyp: &Hyp, from: u32, gain: f32, candidates: &mut Candidates) -> Result<()> {
    let score = hyp.score + f64::from(gain);
    if gain == f32::NEG_INFINITY || !candidates.wants(score) {
        return Ok(());
    }
    candidates.push(Candidate {
        score,
        best: hyp.best + f64::from(gain),
        from,
        label: STAYS,
        log_prob: gain,
        lm: 0.0,
        bias: 0.0,
        bias_state: hyp.bias,
    })
}

/// Adds the extensions of `hyp` by the best labels of `row`, which is about `frame`; with phrases
/// also those by the labels that they wish for. What `allowed` does not like is left out.
pub(super) fn extend(
    base: &Base,
    hyp: &Hyp,
    from: u32,
    row: &ScoreRow<'_>,
    frame: u64,
    candidates: &mut Candidates,
    allowed: impl Fn(&Base, i32) -> bool,
) -> Result<()> {
    let mut add = |label: i32, log_prob: f32| -> Result<bool> {
        let Some(made) = candidate(base, hyp, from, log_prob, frame, label)? else { return Ok(true) };
        let wanted = candidates.wants(made.score);
        if wanted && allowed(base, label) {
            candidates.push(made)?;
        }
        Ok(wanted)
    };
    // Where only the network counts, each is worse than the one before.
    let falling = !base.uses_lm && base.phrases.is_none();
    for top in row.tops {
        if !add(top.label, row.log_prob_of(top.value))? && falling {
            return Ok(());
        }
    }
    let Some(phrases) = &base.phrases else { return Ok(()) };
    for label in phrases.wanted(hyp.bias) {
        if row.tops.iter().all(|top| top.label != label) {
            add(label, row.log_prob(label))?;
        }
    }
    Ok(())
}

/// The extension by one label; `None` if it is forbidden.
fn candidate(base: &Base, hyp: &Hyp, from: u32, log_prob: f32, frame: u64, label: i32) -> Result<Option<Candidate>> {
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

#[cfg(test)]
mod tests {
    use super::super::bias;
    use super::super::config::TransducerConfig;
    use super::super::model::{ScoreKind, Shape};
    use super::super::score_row::{Norm, Top};
    use super::*;
    use crate::search::Phrase;

    /// Labels and scores of what is kept of the labels 1, 3 and 2, each worse than the one before, above -1.5.
    fn kept(phrase: &[i32], count: usize) -> (Vec<(i32, f64)>, f64) {
        let scores = ScoreKind::LogProbs;
        let shape = Shape { vocab_size: 5, blank: 0, encoder_dim: 1, output_dim: 1, scores, has_lm: false };
        let phrases = (!phrase.is_empty())
            .then(|| std::sync::Arc::new(bias::phrases(&[Phrase { labels: phrase, bonus: 10.0 }], 5, 0).unwrap()));
        let base = Base::new(shape, TransducerConfig::default(), phrases).unwrap();
        let values = [-9.0, -1.0, -5.0, -2.0, -7.0];
        let tops = [1, 3, 2].map(|label| Top { label, value: values[label as usize] });
        let row = ScoreRow { values: &values, norm: Norm::default(), tops: &tops };
        let mut candidates = Candidates::default();
        candidates.begin(count, -1.5);
        extend(&base, &base.empty(), 0, &row, 0, &mut candidates, |_, _| true).unwrap();
        let passed_over = candidates.passed_over;
        (candidates.best().iter().map(|made| (made.label, made.score)).collect(), passed_over)
    }

    #[test]
    fn what_is_below_the_least_is_passed_over() {
        assert_eq!(kept(&[], 9), (vec![(1, -1.0)], -2.0));
        assert_eq!(kept(&[2], 9), (vec![(2, 5.0), (1, -1.0)], -2.0), "a label may be better by its phrase");
        assert_eq!(kept(&[4], 9), (vec![(4, 3.0), (1, -1.0)], -2.0), "or be none of the best");
        assert_eq!(kept(&[2], 1), (vec![(2, 5.0)], -2.0));
    }

    #[test]
    fn the_best_are_those_of_a_sorted_list() {
        for count in [1, 2, 7, 40] {
            let mut candidates = Candidates::default();
            candidates.begin(count, f64::NEG_INFINITY);
            let mut all = Vec::new();
            for at in 0..100u32 {
                let score = f64::from(at * 37 % 50);
                let (log_prob, lm, bias, bias_state) = Default::default();
                let label = (at * 13 % 7) as i32;
                let made = Candidate { score, best: score, from: at, label, log_prob, lm, bias, bias_state };
                all.push(made);
                if candidates.wants(score) {
                    candidates.push(made).unwrap();
                }
            }
            all.sort_by(order);
            let from = |list: &[Candidate]| list.iter().map(|made| made.from).collect::<Vec<_>>();
            assert_eq!(from(candidates.best()), from(&all[..count]));
        }
    }
}
