//! What all searches stand on: hypotheses with their histories and traces, the encoder rows that
//! have come, and the list of what a search wants scored next.

use std::sync::Arc;

use super::config::TransducerConfig;
use super::extend::Candidate;
use super::histories::{Histories, NONE};
use super::model::Shape;
use super::row_scan::{RowScan, Wanted};
use super::score_row::{Norm, ScoreRow, Top, unusable};
use super::traces::{EMPTY, Emission, Traces};
use crate::error::{Error, Result, try_reserve};
use crate::search::{Phrases, Rows};

/// A hypothesis. It holds its history and its trace until [`Base::drop`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Hyp {
    /// Its labels, as a node of the tree; [`NONE`] if it only waits for the end.
    pub node: u32,
    /// Where its labels came from, in the best of the alignments that were merged.
    pub trace: u32,
    /// Number of labels.
    pub labels: u32,
    /// Labels of the frame that it stands in, where the search counts them.
    pub frame_labels: u32,
    /// State of the phrases.
    pub bias: u32,
    /// Log-probability of all its alignments together, with language model and phrases.
    pub score: f64,
    /// The same of the alignment that `trace` tells.
    pub best: f64,
}

/// A pair of encoder row and history that is to be scored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub frame: u64,
    pub node: u32,
    /// The labels to be found there. Where they are for extensions the language model is asked too.
    pub wanted: Wanted,
}

/// A way to search. One utterance, one object.
pub(super) trait Search: Send + Sync {
    /// Lists in `base.asks` what is to be scored next; false where more rows have to come first
    /// or, once they have ended, nothing is left to do.
    fn plan(&mut self, base: &mut Base) -> Result<bool>;

    /// Goes on with the scores of what was asked for.
    fn take(&mut self, base: &mut Base, scores: &Scores<'_>) -> Result<()>;

    /// The hypotheses of now, in the order of the search.
    fn hyps(&self) -> &[Hyp];

    /// The first frame that may be asked for again.
    fn first_frame(&self) -> u64;

    /// Whether they have consumed all rows.
    fn finished(&self, base: &Base) -> bool {
        self.first_frame() >= base.num_frames()
    }

    /// The score of `hyp` with all blanks, where that is not its score.
    fn full_score(&self, hyp: &Hyp) -> f64 {
        hyp.score
    }
}

/// The rows that answer [`Base::asks`].
pub(super) struct Scores<'a> {
    pub rows: &'a [f32],
    pub vocab_size: usize,
    pub found: &'a Found,
}

impl<'a> Scores<'a> {
    /// The row for ask `at`.
    pub fn row(&self, at: usize) -> ScoreRow<'a> {
        let values = self.rows.get(at * self.vocab_size..(at + 1) * self.vocab_size).unwrap_or(&[]);
        let (norm, start, end) = self.found.rows.get(at).copied().unwrap_or_default();
        ScoreRow { values, norm, tops: self.found.tops.get(start..end).unwrap_or(&[]) }
    }
}

/// What was found in rows of scores.
pub(super) struct Found {
    scan: RowScan,
    /// For each row its normaliser, and where its best labels begin and end.
    rows: Vec<(Norm, usize, usize)>,
    tops: Vec<Top>,
}

impl Found {
    pub fn new(shape: &Shape) -> Result<Found> {
        Ok(Found { scan: RowScan::new(shape)?, rows: Vec::new(), tops: Vec::new() })
    }

    /// Looks through the rows for `asks`. NaN and `+inf` are refused.
    pub fn fill(&mut self, shape: &Shape, asks: &[Ask], rows: &[f32]) -> Result<()> {
        self.rows.clear();
        self.tops.clear();
        try_reserve(&mut self.rows, asks.len(), "scores")?;
        for (ask, row) in asks.iter().zip(rows.chunks_exact(shape.vocab_size)) {
            let start = self.tops.len();
            try_reserve(&mut self.tops, ask.wanted.most(), "best labels")?;
            let norm = self.scan.scan(row, ask.wanted, &mut self.tops).ok_or_else(|| unusable(row, ask.frame))?;
            self.rows.push((norm, start, self.tops.len()));
        }
        Ok(())
    }
}

/// Encoder rows that may still be asked for.
#[derive(Default)]
pub(super) struct EncoderRows {
    data: Vec<f32>,
    dim: usize,
    first: u64,
    end: u64,
}

impl EncoderRows {
    fn push(&mut self, rows: &Rows<'_>) -> Result<()> {
        let end = self.end.checked_add(rows.frames() as u64).filter(|end| *end <= u64::from(u32::MAX));
        let end = end.ok_or_else(|| Error::Limit(format!("an utterance has {} frames at most", u32::MAX)))?;
        try_reserve(&mut self.data, rows.frames().saturating_mul(self.dim), "encoder rows")?;
        (0..rows.frames()).for_each(|frame| self.data.extend_from_slice(rows.row(frame)));
        self.end = end;
        Ok(())
    }

    /// Row `frame`.
    pub fn row(&self, frame: u64) -> &[f32] {
        let start = frame.saturating_sub(self.first) as usize * self.dim;
        self.data.get(start..start + self.dim).unwrap_or(&[])
    }

    /// Rows that are kept.
    #[cfg(test)]
    pub fn len(&self) -> u64 {
        self.end - self.first
    }

    fn drop_before(&mut self, frame: u64) {
        let gone = frame.min(self.end).saturating_sub(self.first);
        self.data.drain(..gone as usize * self.dim);
        self.first += gone;
    }
}

/// The common part of a stream's search.
pub(super) struct Base {
    pub config: TransducerConfig,
    pub shape: Shape,
    /// Hypotheses that are kept.
    pub beam: usize,
    /// Labels that a hypothesis is extended by.
    pub width: usize,
    pub uses_lm: bool,
    pub histories: Histories,
    pub traces: Traces,
    /// Labels of all hypotheses that were taken out.
    pub committed: u32,
    pub phrases: Option<Arc<Phrases>>,
    pub rows: EncoderRows,
    /// Whether no more rows will come.
    pub ended: bool,
    pub asks: Vec<Ask>,
    /// Whether a bound on the work struck.
    pub cut_short: bool,
}

impl Base {
    pub fn new(shape: Shape, config: TransducerConfig, phrases: Option<Arc<Phrases>>) -> Result<Base> {
        let uses_lm = config.uses_lm(&shape);
        let lm_dim = uses_lm.then_some(shape.vocab_size);
        let beam = config.effective_beam(&shape);
        let histories = Histories::new(shape.blank, shape.output_dim, lm_dim, config.max_cached as usize)?;
        Ok(Base {
            config,
            shape,
            beam,
            width: beam.min(shape.vocab_size - 1),
            uses_lm,
            histories,
            traces: Traces::default(),
            committed: 0,
            phrases,
            rows: EncoderRows { dim: shape.encoder_dim, ..EncoderRows::default() },
            ended: false,
            asks: Vec::new(),
            cut_short: false,
        })
    }

    /// The empty hypothesis, which has the hold that the tree begins with.
    pub fn empty(&self) -> Hyp {
        let (node, bias) = (self.histories.root(), Phrases::START);
        Hyp { node, trace: EMPTY, labels: 0, frame_labels: 0, bias, score: 0.0, best: 0.0 }
    }

    /// What a search begins with.
    pub fn first_beam(&self) -> Result<Vec<Hyp>> {
        let mut beam = Vec::new();
        try_reserve(&mut beam, 1, "hypotheses")?;
        beam.push(self.empty());
        Ok(beam)
    }

    /// Frames that have come.
    pub fn num_frames(&self) -> u64 {
        self.rows.end
    }

    /// Takes further rows.
    pub fn push(&mut self, rows: &Rows<'_>) -> Result<()> {
        if rows.frames() > 0 && rows.dim() != self.shape.encoder_dim {
            let wanted = self.shape.encoder_dim;
            return Err(Error::Shape(format!("rows have {} columns, the model takes {wanted}", rows.dim())));
        }
        self.rows.push(rows)
    }

    /// Forgets rows before `frame`.
    pub fn drop_rows_before(&mut self, frame: u64) {
        self.rows.drop_before(frame);
    }

    /// Adds to what is to be scored next.
    pub fn ask(&mut self, frame: u64, node: u32, wanted: Wanted) -> Result<()> {
        try_reserve(&mut self.asks, 1, "pairs to be scored")?;
        self.asks.push(Ask { frame, node, wanted });
        Ok(())
    }

    /// What is wanted where hypotheses are extended, or only closed.
    pub fn labels(&self, extends: bool) -> Wanted {
        if extends { Wanted::Best(self.width) } else { Wanted::Nothing }
    }

    /// The same labels, `gain` later.
    pub fn again(&mut self, hyp: &Hyp, gain: f32) -> Hyp {
        self.histories.hold(hyp.node);
        self.traces.keep(hyp.trace);
        Hyp { score: hyp.score + f64::from(gain), best: hyp.best + f64::from(gain), ..*hyp }
    }

    /// The same labels, standing nowhere any more.
    pub fn detached(&mut self, hyp: &Hyp, gain: f32) -> Hyp {
        self.traces.keep(hyp.trace);
        Hyp { node: NONE, score: hyp.score + f64::from(gain), best: hyp.best + f64::from(gain), ..*hyp }
    }

    /// A label more.
    pub fn extended(&mut self, hyp: &Hyp, with: &Candidate, frame: u64) -> Result<Hyp> {
        let Candidate { label, log_prob, lm, bias, .. } = *with;
        let trace = self.traces.push(hyp.trace, Emission { label, frame: frame as u32, log_prob, lm, bias })?;
        let node = self.histories.child(hyp.node, label)?;
        let (labels, frame_labels) = (hyp.labels + 1, hyp.frame_labels + 1);
        Ok(Hyp { node, trace, labels, frame_labels, bias: with.bias_state, score: with.score, best: with.best })
    }

    /// Lets a hypothesis go.
    pub fn drop(&mut self, hyp: Hyp) {
        if hyp.node != NONE {
            self.histories.let_go(hyp.node);
        }
        self.traces.give_back(hyp.trace);
    }

    /// Lets all hypotheses of a list go.
    pub fn drop_all(&mut self, hyps: &mut Vec<Hyp>) {
        hyps.drain(..).for_each(|hyp| self.drop(hyp));
    }

    /// Lets those beyond the first `count` go.
    pub fn cut(&mut self, hyps: &mut Vec<Hyp>, count: usize) {
        hyps.drain(count.min(hyps.len())..).for_each(|hyp| self.drop(hyp));
    }

    /// Adds the alignments of `other` to those of `hyp`, which has the same labels; its times are
    /// those of the best alignment.
    pub fn merge(&mut self, hyp: &mut Hyp, other: Hyp) {
        hyp.score = super::score_row::log_add(hyp.score, other.score);
        if other.best > hyp.best {
            let before = std::mem::replace(&mut hyp.trace, other.trace);
            hyp.best = other.best;
            self.drop(Hyp { trace: before, ..other });
        } else {
            self.drop(other);
        }
    }

    /// The longest history that all of `hyps` go on from.
    pub fn common(&self, hyps: &[Hyp]) -> u32 {
        let mut nodes = hyps.iter().map(|hyp| hyp.node).filter(|node| *node != NONE);
        let first = nodes.next().unwrap_or(self.histories.root());
        let root = self.histories.root();
        nodes.fold(first, |one, two| if one == root { one } else { self.histories.common(one, two) })
    }

    /// Forgets what none of `hyps`, which are all there are, can reach any more.
    pub fn settle(&mut self, hyps: &[Hyp]) {
        let stem = self.common(hyps);
        self.histories.move_root(stem);
    }

    /// The longest trace that all of `hyps` go on from, with its number of labels.
    pub fn shared(&self, hyps: &[Hyp]) -> (u32, u32) {
        let mut traces = hyps.iter().map(|hyp| (hyp.trace, hyp.labels));
        let first = traces.next().unwrap_or((EMPTY, 0));
        traces.fold(first, |one, two| self.traces.common(one, two))
    }

    /// Decides old labels, where the options say so: lets those of `hyps` go that do not share with the
    /// first of the list what it took `commit_frames` before the last of `frames` consumed ones. `clock` counts
    /// the calls; most do nothing, since looking back costs as much as labels are undecided.
    pub fn decide(&mut self, hyps: &mut Vec<Hyp>, clock: u64, frames: u64) {
        let period = u64::from(self.config.commit_frames);
        if period == 0 || !clock.is_multiple_of(period) {
            return;
        }
        let better = |one: Hyp, two: &Hyp| if self.rank(two) > self.rank(&one) { *two } else { one };
        let Some(best) = hyps.iter().copied().reduce(|one, two| better(one, &two)) else { return };
        let open = |emission: &&Emission| u64::from(emission.frame) + period >= frames;
        let count = self.traces.backwards(best.trace).take_while(open).count() as u32;
        let (decided, labels) = (self.traces.shortened(best.trace, count), best.labels - count);
        hyps.retain(|hyp| {
            let longer = hyp.labels.checked_sub(labels);
            let shares = longer.is_some_and(|longer| self.traces.shortened(hyp.trace, longer) == decided);
            if !shares {
                self.drop(*hyp);
            }
            shares
        });
    }

    /// What n-best lists are ordered by.
    pub fn rank(&self, hyp: &Hyp) -> f64 {
        let score = self.end_score(hyp);
        if self.config.score_norm { score / (f64::from(hyp.labels) + 1.0) } else { score }
    }

    /// The score at the end: without what phrases only hold.
    pub fn end_score(&self, hyp: &Hyp) -> f64 {
        let held = self.phrases.as_ref().map_or(0.0, |phrases| phrases.held(hyp.bias));
        hyp.score - f64::from(held)
    }
}

/// Best first; equal ones stay in their order. By insertion: the lists are short and nearly sorted,
/// and a stable sort of the standard library may take memory.
pub(super) fn sort_by_score(hyps: &mut [Hyp]) {
    for at in 1..hyps.len() {
        let place = hyps[..at].partition_point(|hyp| hyp.score >= hyps[at].score);
        hyps[place..=at].rotate_right(1);
    }
}
