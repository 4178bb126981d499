//! Results: n-best lists.

use super::base::{Base, Hyp, Search};
use crate::error::{Result, try_reserve};

/// One entry of an n-best list. All scores are natural logs, and are about the whole utterance; labels that
/// [`super::Stream::commit`] handed out are not told again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hypothesis {
    /// The labels, without start symbol, blanks, and what was committed before.
    pub labels: Vec<i32>,
    /// For each label the frame at which it was taken, in the best of the alignments that were merged.
    pub frames: Vec<u32>,
    /// For each label its log-probability by the transducer, in that alignment.
    pub log_probs: Vec<f32>,
    /// For each label what the language model added, weighted.
    pub lm_scores: Vec<f32>,
    /// For each label what biasing phrases added or took back.
    pub bias_scores: Vec<f32>,
    /// The score of the search, without what phrases only held at the end.
    pub score: f64,
    /// The score by the length with start symbol.
    pub normalised_score: f64,
    /// The score with all blanks. Differs from `score` in greedy search, which counts labels alone.
    pub full_score: f64,
    /// Share of the probability of the returned list; the sum over the list is 1.
    pub posterior: f64,
    /// Whether all rows of a finished stream were consumed.
    pub finished: bool,
}

/// An n-best list, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hypotheses {
    /// The entries.
    pub list: Vec<Hypothesis>,
    /// Whether a bound struck on the way (`max_expansions_per_frame`), or a finished stream has only
    /// unfinished hypotheses: a larger bound might give better ones.
    pub partial: bool,
}

impl Hypotheses {
    /// The hypotheses of now, in the order of the options.
    pub(super) fn of(base: &Base, search: &dyn Search) -> Result<Hypotheses> {
        let finished = base.ended && search.finished(base);
        let mut order: Vec<(f64, &Hyp)> = Vec::new();
        try_reserve(&mut order, search.hyps().len(), "results")?;
        order.extend(search.hyps().iter().map(|hyp| (base.rank(hyp), hyp)));
        // Where nothing could be finished the search's own order stays.
        if finished || !base.ended {
            order.sort_by(|one, two| two.0.total_cmp(&one.0));
        }
        order.truncate(base.config.nbest as usize);
        let mut list = Vec::new();
        try_reserve(&mut list, order.len(), "results")?;
        for (_, hyp) in order {
            list.push(Hypothesis { finished, ..entry(base, search, hyp)? });
        }
        set_posteriors(&mut list);
        Ok(Hypotheses { list, partial: base.cut_short || (base.ended && !finished) })
    }
}

/// The labels that all hypotheses of `search` share and that were not taken out yet: their trace, how many
/// they are with those that were, and what is told of them.
pub(super) fn shared(base: &Base, search: &dyn Search) -> Result<(u32, u32, Hypothesis)> {
    let (trace, labels) = base.shared(search.hyps());
    let mut made = unrolled(base, trace, labels)?;
    let parts = made.log_probs.iter().zip(&made.lm_scores).zip(&made.bias_scores);
    made.score = parts.map(|((one, two), three)| f64::from(*one) + f64::from(*two) + f64::from(*three)).sum();
    made.full_score = made.score;
    made.normalised_score = made.score / (made.labels.len() as f64 + 1.0);
    made.posterior = 1.0;
    Ok((trace, labels, made))
}

fn entry(base: &Base, search: &dyn Search, hyp: &Hyp) -> Result<Hypothesis> {
    let mut made = unrolled(base, hyp.trace, hyp.labels)?;
    made.score = base.end_score(hyp);
    made.normalised_score = made.score / (f64::from(hyp.labels) + 1.0);
    made.full_score = search.full_score(hyp) + (made.score - hyp.score);
    Ok(made)
}

/// The labels of a trace of `labels`, without those that were taken out.
fn unrolled(base: &Base, trace: u32, labels: u32) -> Result<Hypothesis> {
    let mut made = Hypothesis::default();
    let count = labels.saturating_sub(base.committed) as usize;
    try_reserve(&mut made.labels, count, "results")?;
    try_reserve(&mut made.frames, count, "results")?;
    for list in [&mut made.log_probs, &mut made.lm_scores, &mut made.bias_scores] {
        try_reserve(list, count, "results")?;
    }
    for emission in base.traces.backwards(trace) {
        made.labels.push(emission.label);
        made.frames.push(emission.frame);
        made.log_probs.push(emission.log_prob);
        made.lm_scores.push(emission.lm);
        made.bias_scores.push(emission.bias);
    }
    made.labels.reverse();
    made.frames.reverse();
    for list in [&mut made.log_probs, &mut made.lm_scores, &mut made.bias_scores] {
        list.reverse();
    }
    Ok(made)
}

fn set_posteriors(list: &mut [Hypothesis]) {
    let best = list.iter().map(|hyp| hyp.score).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = list.iter().map(|hyp| (hyp.score - best).exp()).sum();
    for hyp in list {
        hyp.posterior = (hyp.score - best).exp() / total;
    }
}
